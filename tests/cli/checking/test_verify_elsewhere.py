"""Plans held against other fabrics: what is missing there is told, and sound schedules from false claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main


@pytest.fixture
def repaired(tmp_path: Path) -> str:
    """A plan that leaves a link of the ring out."""
    path = str(tmp_path / "part.plan")
    assert main(["solve", "ring:4", "allreduce", "--without", "n0--n1", "-o", path, "-q"]) == 0
    return path


def test_a_sound_schedule_is_told_from_a_claim(repaired: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", repaired, "--topology", "ring:4"]) == 1
    out = capsys.readouterr().out
    assert "verified     NO: 1 violation\n             bound: the plan's optimum is claimed for" in out
    assert "\nnote         the schedule performs its collective here, " in out
    assert main(["verify", repaired, "--topology", "ring:4", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["verified"], told["sound"], told["n_violations"]) == (False, True, 1)


def test_nothing_is_sound_where_links_are_missing(repaired: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed = ["--topology", "ring:4", "--without", "n2--n3"]
    assert main(["verify", repaired, *failed, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["sound"] is False
    missing = [one for one in told["violations"] if "does not have" in one]
    assert len(missing) == 2
    assert main(["verify", repaired, "--topology", "ring:4", "--without", "n0--n1", "--json"]) == 0
    assert "sound" not in json.loads(capsys.readouterr().out)
