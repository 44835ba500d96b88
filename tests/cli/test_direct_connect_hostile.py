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


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (f"{ALLREDUCE}count = 1{'0' * 900}", "expected a positive number"),
        (f"{ALLREDUCE}count = 1{'0' * 5000}", "a line is longer than"),
        ("a." * 100_000 + "b = 1\n" + ALLREDUCE, "a line is longer than"),
        ("x = " + "[\n" * 2000 + ALLREDUCE, "nested too deep"),
        ('[[collectives]]\nkind = ["allreduce"]\nsize = "1MB"\n', "expected one of allgather"),
        ('[network]\nalpha = "999999999s"\n' + ALLREDUCE, "latency must be from 0 to less than"),
    ],
)
def test_workload_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str, message: str
) -> None:
    assert design(tmp_path, job, "--nodes", "16", "--degree", "2") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


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
        assert "changing    not known" in capsys.readouterr().out


def test_groups_for_which_no_fabric_is_known_use_the_whole_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three nodes cannot have three bidirectional links each; the groups still can share the frontier."""
    arguments = ["--nodes", "18", "--degree", "3", "--bidirectional", "--reconfiguration-delay", "1ms"]
    assert design(tmp_path, ALLREDUCE + "group_size = 3\n", *arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reconfiguration"]["changes"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bandwidth", "1B/s"], "leaves each of 2 links less than 1 byte/s"),
        (["--size", "0B"], "expected at least 1 byte"),
        (["-o", "{}/x", "--cabling", "{}/./x"], "expected two files"),
    ],
)
def test_option_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    filled = [text.format(tmp_path) for text in arguments]
    assert main(["design", "--nodes", "8", "--degree", "2", *filled]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()
