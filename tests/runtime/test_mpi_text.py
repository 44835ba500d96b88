"""Emitted XMLs, parsed again and executed by Open MPI with data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from child_processes import finished, search_path
from engines import missing_engines, mpirun
from treadle import planning
from treadle.errors import FormatError
from treadle.runtime.mpi_run import execute_file

KINDS = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce")


def execute(files: list[Path], n: int) -> subprocess.CompletedProcess[str]:
    """mpirun of the executor of texts; skips with the reason where there is no MPI."""
    reason = missing_engines().get("MPI")
    launcher = mpirun()
    if reason is not None or launcher is None:
        pytest.skip(f"MPI: {reason}")
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    command = [launcher, "-n", str(n), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    command += [sys.executable, "-m", "mpi4py", "-m", "treadle.runtime.mpi_run", *map(str, files)]
    return finished(command, environment=environment)


def write(folder: Path, fabric: str, target: str) -> list[Path]:
    """A text of every collective."""
    files = []
    for kind in KINDS:
        options = {"root": 0} if kind in ("broadcast", "reduce") else {}
        plan = planning.solve(fabric, kind, **options).plan
        for in_place in (False, True):
            if in_place and kind == "alltoall":
                continue
            # 5040 elements, the default, are for chunks that divide them
            asked = {} if target == "cpu-xml" else {"chunks": "plan", "accept_any_root": bool(options)}
            result = planning.lower(plan, to=target, in_place=in_place, **asked)
            assert result.faults == ()
            assert 5040 % result.n_chunks == 0
            files.append(folder / f"{kind}-{target}-{in_place}.xml")
            files[-1].write_text(result.text, encoding="utf-8")
    return files


def test_open_mpi_executes_parsed_texts(tmp_path: Path) -> None:
    """Also one of which, on a ring, two messages of three are left."""
    files = [*write(tmp_path, "hypercube(2)", "msccl-xml"), *write(tmp_path, "hypercube(2)", "cpu-xml")]
    plan = planning.solve("ring(4)", "alltoall").plan
    scattered, gathered = (planning.lower(plan, consolidate=way) for way in (False, True))
    assert (dict(scattered.counts)["message"], dict(gathered.counts)["message"]) == (24, 16)
    files.append(tmp_path / "gathered.xml")
    files[-1].write_text(gathered.text, encoding="utf-8")
    done = execute(files, 4)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report) == len(files) == 23
    assert {name: wrong for name, wrong in report.items() if any(wrong)} == {}


def test_open_mpi_notices_wrong_texts(tmp_path: Path) -> None:
    """A shifted chunk comes out wrong; a text for other ranks is refused."""
    right = write(tmp_path, "hypercube(2)", "cpu-xml")[2]
    assert right.name.startswith("reduce-scatter")
    text = right.read_text(encoding="utf-8")
    mutant = tmp_path / "mutant.xml"
    mutant.write_text(text.replace('<reduce slot="1"', '<reduce slot="0"', 1), encoding="utf-8")
    assert mutant.read_text(encoding="utf-8") != text
    done = execute([right, mutant], 4)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout.splitlines()[0])
    assert not any(report[right.name])
    assert any(report["mutant.xml"])
    refused = execute([right], 2)
    assert refused.returncode != 0
    assert "is for 4 ranks, found 2 processes" in refused.stderr


def test_slots_that_take_too_much_memory_are_refused() -> None:
    """Chunks may be more than elements; each slot has room for one element all the same."""
    text = (
        '<cpu name="x" collective="broadcast" ranks="1" chunks="1000" root="0" inplace="0" minBytes="0" '
        'maxBytes="0"><rank id="0" i="0-999" o="0-999" s="" slots="{}">'
        '<copy buf="i" dbuf="o" chunk="0" cnt="1000"/></rank></cpu>'
    )
    world = SimpleNamespace(
        Get_rank=lambda: 0, Get_size=lambda: 1, Barrier=lambda: None, Iprobe=lambda: False, allreduce=int
    )
    assert execute_file(text.format(2**10), world, 8) == [0]
    with pytest.raises(FormatError, match="slots take 1099511625776 elements, expected at most 134217728"):
        execute_file(text.format(2**40 - 2000), world, 8)
