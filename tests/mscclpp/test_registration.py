"""Registration against a stand-in written from MSCCL++'s Python sources (1f5f065d); no GPU ever saw it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from treadle import planning
from treadle.errors import MissingDependencyError
from treadle.mscclpp import register


def lowered(folder: Path, fabric: str, collective: str, name: str = "plan.json", **asked: Any) -> Path:
    root = {"root": 1, "accept_any_root": True} if collective == "broadcast" else {}
    plan = planning.solve(fabric, collective, **{key: root[key] for key in root if key == "root"}).plan
    accepted = {key: value for key, value in root.items() if key != "root"}
    result = planning.lower(plan, to="mscclpp-json", path=name, **asked, **accepted)
    (folder / name).write_text(result.text, encoding="utf-8")
    return folder / name


def test_its_module_is_missing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mscclpp", None)
    with pytest.raises(MissingDependencyError, match="build it from the sources of microsoft/mscclpp"):
        register([lowered(tmp_path, "ring:4", "allgather")], rank=0)
