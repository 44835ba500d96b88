"""Hostile questions to the commands for direct-connect fabrics: one line, status, no endless work."""

from __future__ import annotations

import json
import zipfile
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
        (f"{ALLREDUCE}count = 1{'0' * 5000}", "is longer than 1000 characters"),
        ("a." * 100_000 + "b = 1\n" + ALLREDUCE, "is longer than 1000 characters"),
        ("x = " + "[\n" * 2000 + ALLREDUCE, "nested too deep"),
        (
            '[[collectives]]\nkind = ["allreduce"]\nsize = "1MB"\n',
            "collectives[0].kind: expected a string, found a list",
        ),
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
        assert "reconfigured  not known" in capsys.readouterr().out


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


def test_plan_with_very_many_steps_is_refused_before_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a gigabyte of zeros packs into a small file; the declared number alone must be enough."""
    good, bad = tmp_path / "good.plan", tmp_path / "bad.plan"
    assert main(["solve", "ring(4)", "allgather", "--algorithm", "bfb", "-o", str(good)]) == 0
    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (536870912,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            counts = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
            new.writestr(name, counts if name == "steps/0/step_count.npy" else old.read(name))
    capsys.readouterr()
    assert main(["verify", str(bad)]) == 2
    error = capsys.readouterr().err
    assert "step_count.npy: 128 bytes do not hold shape (536870912,)" in error
    assert error.count("\n") == 1


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
