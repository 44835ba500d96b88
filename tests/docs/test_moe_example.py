"""The mixture-of-experts example: right numbers, an honest comparison, one line for bad input."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import pytest

import places

MOE = places.ROOT / "examples" / "moe_alltoall.py"


@pytest.fixture
def moe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("moe_alltoall", MOE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "moe_alltoall", module)
    spec.loader.exec_module(module)
    return module


def values_of(moe: ModuleType, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert moe.main([*options, "--json"]) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values
