"""Threads and clusters for whole commands: the same answers, one-line errors, nothing left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from joblib.parallel import get_active_backend

from harness.dask_cluster import dask_cluster
from treadle import planning
from treadle import workers as workers_module
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, TreadleError
from treadle.workers import workers


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a scheduler with two workers, processes of their own."""
    with dask_cluster(tmp_path_factory.mktemp("dask"), n_workers=2) as address:
        yield address


def rows_of(result: planning.Comparison) -> set[object]:
    return {(row.algorithm, row.algbw, row.refusal, row.report, row.trees) for row in result.rows}


def test_comparisons_are_the_same_on_a_cluster(scheduler: str) -> None:
    problems = (("torus(3,3)", "alltoall"), ("dgx_a100(1)", "allreduce"))
    expected = [rows_of(planning.compare(*problem)) for problem in problems]
    with workers(cluster=scheduler):
        found = [rows_of(planning.compare(*problem)) for problem in problems]
    assert found == expected
    with workers(threads=2):
        assert rows_of(planning.compare(*problems[0])) == expected[0]


def test_a_time_limit_reaches_the_workers(scheduler: str) -> None:
    names = ["pipelined", "tsmcf", "ewsp"]
    with workers(cluster=scheduler):
        result = planning.compare("torus(3,3)", "alltoall", algorithms=names, time_limit_s=0.0)
    rows = {row.algorithm: row for row in result.rows}
    assert rows["tsmcf"].is_late
    assert rows["tsmcf"].refusal == "the time limit was reached"
    assert rows["ewsp"].algbw is not None  # knows no limit


def test_commands_print_the_same_on_a_cluster(scheduler: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for extra in ([], ["--threads", "1"], ["--threads", "2"], ["--cluster", scheduler]):
        assert main(["solve", "torus(3,3)", "alltoall", "--json", *extra]) == 0
        values = json.loads(capsys.readouterr().out)
        values.pop("seconds")
        printed.append(values)
    assert all(values == printed[0] for values in printed)


def test_the_configuration_ends_with_the_context() -> None:
    before = get_active_backend()[0].__class__
    with workers(threads=3):
        assert get_active_backend()[1] == 3
    with workers():
        assert get_active_backend()[0].__class__ is before
    assert get_active_backend()[0].__class__ is before


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:1", "no scheduler answers"),
        ("127.0.0.1", "missing port"),
        ("foo://127.0.0.1:1", "unknown address scheme"),
        ("", "missing port"),
    ],
)
def test_wrong_addresses_are_one_line(address: str, reason: str) -> None:
    with (
        pytest.raises(TreadleError, match=reason) as caught,
        workers(cluster=address, connect_s=0.3),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_a_scheduler_without_workers_is_refused(tmp_path: Path) -> None:
    with (
        dask_cluster(tmp_path, n_workers=0) as address,
        pytest.raises(
            TreadleError, match=r"has no workers; start some with: dask worker tcp://127\.0\.0\.1:"
        ),
        workers(cluster=address),
    ):
        pass


def test_workers_of_another_version_are_refused(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "installed_version", lambda: "0.0.1")
    with (
        pytest.raises(TreadleError, match=r"workers have treadle 0\.0\.1, expected"),
        workers(cluster=scheduler),
    ):
        pass


def test_bad_options_have_the_right_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bound", "torus(3,3)", "alltoall"]
    assert main([*command, "--threads", "0"]) == 2
    assert capsys.readouterr().err == "treadle: --threads '0': expected at least 1\n"
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main([*command, "--cluster", "tcp://127.0.0.1:1"]) == 5
    assert "pip install 'treadle[cluster]'" in capsys.readouterr().err
    with pytest.raises(MissingDependencyError), workers(cluster="tcp://127.0.0.1:1"):
        pass
