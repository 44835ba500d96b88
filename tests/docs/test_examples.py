"""The example programs do what they say, over both runtimes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

import places
from child_processes import finished
from engines import missing_engines, mpirun
from treadle.program.program import Buffer

FFT3D = places.ROOT / "examples" / "fft3d.py"


@pytest.fixture
def fft3d(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fft3d", FFT3D)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fft3d", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("grid", "fabric", "algorithm"),
    [
        (8, "ring(4)", "pipelined"),
        (8, "hypercube(3)", "tsmcf"),
        (9, "generalized_kautz(4, 9)", "shortest-paths"),
        (13, "torus(2, 3)", "pipelined"),
        (5, "uni_ring(1, 2)", "pipelined"),
        (27, "torus(3, 3, 3)", "shortest-paths"),
    ],
)
def test_fft3d_agrees_with_numpy(
    fft3d: ModuleType, capsys: pytest.CaptureFixture[str], grid: int, fabric: str, algorithm: str
) -> None:
    options = ["--grid", str(grid), "--fabric", fabric, "--algorithm", algorithm, "--repeats", "1", "--json"]
    assert fft3d.main(options) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["is_right"]
    assert 0 <= values["error"] < 1e-14
    assert set(values["seconds"]) == {"FFT", "pack", "all-to-all"}
    assert all(seconds > 0 for seconds in values["seconds"].values())


def test_fft3d_prints_the_time_split(fft3d: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert fft3d.main(["--grid", "8", "--repeats", "1"]) == 0
    shown = capsys.readouterr().out
    assert "4 ranks on ring(4" in shown
    assert all(f"  {stage} " in shown for stage in ("FFT", "pack", "all-to-all", "total"))


def test_fft3d_notices_one_wrong_number(
    fft3d: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carry = fft3d.InProcess.exchange

    def damaged(self: object) -> None:
        carry(self)
        words = self.memories[2][Buffer.OUTPUT]
        words.view(np.float64)[7] += 1e-3

    monkeypatch.setattr(fft3d.InProcess, "exchange", damaged)
    assert fft3d.main(["--grid", "8", "--repeats", "1"]) == 1
    assert "the transform is wrong by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grid", "3"], "grid 3: expected at least one plane for each of 4 ranks"),
        (["--ranks", "5", "--fabric", "torus(2, 3)"], "has 6 compute nodes"),
        (["--fabric", "dgx_h100(2)"], "expected a direct-connect fabric"),
        (["--fabric", "tours(3, 3)"], "tours"),
        (["--algorithm", "sieve"], "sieve"),
    ],
)
def test_fft3d_refuses_in_one_line(
    fft3d: ModuleType, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert fft3d.main(options) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def _under_mpirun(processes: int, *options: str) -> subprocess.CompletedProcess[str]:
    launcher = mpirun()
    assert launcher is not None
    command = [launcher, "-n", str(processes), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return finished(
        [*command, sys.executable, FFT3D, *options],
        environment={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    )


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_fft3d_over_mpi() -> None:
    done = _under_mpirun(3, "--runtime", "mpi", "--grid", "10", "--ranks", "3", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["is_right"]
    assert values["runtime"] == "mpi"
    assert values["error"] < 1e-14


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_fft3d_uses_mpi_where_a_launcher_started_it(
    fft3d: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert fft3d.arguments_of([]).runtime == "in-process"
    monkeypatch.setenv(name, "1")
    assert fft3d.arguments_of([]).runtime == "in-process"
    monkeypatch.setenv(name, "4")
    assert fft3d.arguments_of([]).runtime == "mpi"
    assert fft3d.arguments_of(["--runtime", "in-process"]).runtime == "in-process"


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_fft3d_says_once_that_processes_are_missing() -> None:
    done = _under_mpirun(2, "--ranks", "3")
    assert done.returncode == 2
    assert done.stderr.count("fft3d: ") == 1
    assert "2 MPI processes, expected 3" in done.stderr
