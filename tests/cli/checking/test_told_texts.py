"""What lower and verify say of texts, line by line, of results by hand; and what lower asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treadle
from treadle import planning
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.options.checking import Lower
from treadle.planning import Profile

GB = 10**9
RING = treadle.solve('ring(4, bandwidth="3GB/s")', "allgather").plan


def test_sizes_of_slices(capsys: pytest.CaptureFixture[str]) -> None:
    assert Lower.rows["pipeline_bytes"].read("1MB") == 2**20
    assert main(["lower", "x.plan", "--pipeline", "0B"]) == 2
    expected = "--pipeline 0B: expected at least 1 byte"
    assert capsys.readouterr().err == f"treadle: {expected}\n"


def test_options_of_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def answer(plan: Any, **options: Any) -> Any:
        asked.clear()
        asked.update(options)
        raise ScheduleError("enough")

    monkeypatch.setattr(planning, "lower_groups", answer)
    monkeypatch.setattr(planning, "lower", answer)
    plan, path = str(tmp_path / "ring.plan"), str(tmp_path / "x.xml")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", plan]) == 0
    assert main(["lower", plan]) == 2
    plain = {
        "to": "msccl-xml",
        "profile": None,
        "paths": [""],
        "in_own_folder": False,
    }
    assert asked == plain
    words = (
        "--profile rccl --in-place --channels 3 --instances 4 --pipeline 2KB --name me --size 4KB "
        "--consolidate --rank 2 --chunks 12 --accept-any-root --protocol LL --min-size 1KB --max-size 8KB"
    )
    assert main(["lower", plan, *words.split(), "-o", path]) == 2
    assert asked == plain | {
        "profile": Profile.RCCL,
        "paths": [path],
        "in_place": True,
        "channels": 3,
        "instances": 4,
        "pipeline_bytes": 2048,
        "name": "me",
        "size_bytes": 4096,
        "consolidate": True,
        "rank": 2,
        "chunks": 12,
        "accept_any_root": True,
        "protocol": "LL",
        "min_size_bytes": 1024,
        "max_size_bytes": 8192,
    }
    assert main(["lower", plan, "--group", "1", "-o", path]) == 2
    assert (asked["group"], asked["path"], asked["in_own_folder"]) == (1, path, False)
    assert capsys.readouterr().err == "treadle: enough\n" * 3
