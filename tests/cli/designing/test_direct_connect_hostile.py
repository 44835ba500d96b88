"""Hostile questions to the commands for direct-connect fabrics: one line, status, no endless work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import main

ALLREDUCE = '[[collectives]]\nkind = "allreduce"\nsize = "1MB"\n'
ALLTOALL = '[[collectives]]\nkind = "alltoall"\nsize = "1MB"\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def design(tmp_path: Path, job: str, *arguments: str) -> int:
    file = tmp_path / "job.toml"
    file.write_text(job)
    return main(["design", "--workload", str(file), *arguments])


@pytest.mark.parametrize("job", [ALLTOALL, ALLREDUCE + "group_size = 4\n"])
def test_what_is_too_large_to_measure_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    """No distances of 10**10 pairs, and no crash where no fabric's time is known."""
    arguments = ["--nodes", "100000", "--degree", "3"]
    assert design(tmp_path, job, *arguments, "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert all("workload_s" not in row for row in values["frontier"])
    if job == ALLTOALL:
        assert design(tmp_path, job, *arguments, "--reconfiguration-delay", "1s") == 0
        assert "reconfigured  not known" in capsys.readouterr().out


def test_groups_for_which_no_fabric_is_known_use_the_whole_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three nodes cannot have three bidirectional links each; the groups still can share the frontier."""
    arguments = ["--nodes", "18", "--degree", "3", "--bidirectional", "--reconfiguration-delay", "1ms"]
    assert design(tmp_path, ALLREDUCE + "group_size = 3\n", *arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reconfiguration"]["changes"] == 0


def test_cache_that_cannot_be_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name too long, a file in place of the directory, and a user without a home."""
    plan = tmp_path / "x.plan"
    command = ["design", "--nodes", "6", "--degree", "2", "-o", str(plan)]
    (tmp_path / "file").write_text("")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for place in (str(tmp_path / ("x" * 5000)), str(tmp_path / "file"), ""):
        monkeypatch.setenv("TREADLE_CACHE_DIR", place)
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert main(command) == 0
        assert plan.exists()
        plan.unlink()
