"""Runs and simulations as rows, of figures that are made up, and what is refused before anything moves."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle import planning
from treadle.api import run as execution
from treadle.api.run import RunResult, _after, _check_device_options, _check_memory
from treadle.errors import FormatError, MemoryLimitError, ScheduleError
from treadle.planning import RuntimeName, make_problem, run, simulate, solve
from treadle.runtime.measured_sizes import SweepRow
from treadle.simulation.calibration.cross_check import _MOST_BYTES, CrossCheckRow
from treadle.simulation.costs.cost_model import ClassCost, Protocol
from treadle.simulation.simulated_plans import SimulatedSubject, SimulationRun, _formula, _row
from treadle.simulation.simulation_options import SimulationOptions


def test_runtimes_that_this_process_starts() -> None:
    started = {one: one.is_started_here for one in RuntimeName}
    assert started == {one: one is not RuntimeName.MPI for one in RuntimeName}
    for one in ("in-process", "libfabric"):
        assert execution.is_reporter(one)
        assert execution.has_process_per_rank(solve("ring:3", "allgather").plan, one)


def sweep_row(**values: Any) -> SweepRow:
    """Every field of another value."""
    base = {field.name: place + 1 for place, field in enumerate(fields(SweepRow))}
    return SweepRow(**cast(Any, {**base, **values}))


def test_rows_of_runs() -> None:
    found = RunResult((sweep_row(wrong=3), sweep_row(wrong=4)), True)
    assert found.wrong == 7
    assert found.measured_on == "this host"
    names = [field.name for field in fields(SweepRow)]
    assert [list(row) for row in found.records()] == [names, names]
    assert found.records()[0] == {name: getattr(found.rows[0], name) for name in names}


def test_rows_are_told_after_they_are_completed() -> None:
    told: list[int] = []
    _after(lambda row: cast(Any, row + 1), lambda row: told.append(cast(Any, row)))(cast(Any, 4))
    assert told == [5]


def test_memory_for_all_buffers() -> None:
    """Input and output of three ranks: six times the size."""
    plan = solve("ring:3", "allgather").plan
    _check_memory(plan, 1024, 6 * 1024)
    _check_memory(plan, 2**60, None)
    with pytest.raises(MemoryLimitError) as caught:
        _check_memory(plan, 1024, 6 * 1024 - 1)
    assert str(caught.value) == (
        "size 1KB: the buffers of 3 ranks need 6KB on this host, and 6KB are free; choose smaller sizes "
        "(--size)"
    )


def test_memory_that_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "MemTotal: 9 kB\nMemAvailable:    123 kB\nMemAvailable: 7 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: text)
    assert execution.available_bytes() == 123 * 1024
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: "MemTotal: 9 kB\n")
    assert execution.available_bytes() is None

    def missing(self: Path, encoding: str) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", missing)
    assert execution.available_bytes() is None


def test_what_only_lanes_have() -> None:
    options: Any = {"threads": 3, "lanes": 2, "device_protocols": (), "seed": 1}
    for runtime in (RuntimeName.DEVICE_EMULATED, RuntimeName.DEVICE_GPU):
        _check_device_options(runtime, options)
    _check_device_options(RuntimeName.MPI, cast(Any, {"seed": 1}))
    with pytest.raises(ScheduleError) as caught:
        _check_device_options(RuntimeName.IN_PROCESS, options)
    assert str(caught.value) == (
        "run: --protocol, --lanes, --threads: for --runtime device-emulated and device-gpu only, found "
        "in-process"
    )


def test_busbw_of_runs_is_that_of_a_group() -> None:
    """Of two ranks a half, of three two thirds, of an allreduce twice that."""
    for kind, words, factor in (
        ("allgather", {}, 3 / 4),
        ("allreduce", {}, 3 / 2),
        ("allgather", {"mesh": "2,2", "axes": "1"}, 1 / 2),
        ("alltoall", {"mesh": "2,2", "axes": "1"}, 1 / 2),
    ):
        told: list[SweepRow] = []
        plan = solve("ring:4", kind, **cast(Any, words)).plan
        found = run(plan, [0, "1K"], iterations=1, warmup=0, on_row=told.append)
        assert list(found.rows) == told
        assert found.shortfall is None
        for row in found.rows:
            assert row.busbw_bytes_per_s == pytest.approx(row.algbw_bytes_per_s * factor)


def test_referees_beside_ours() -> None:
    assert CrossCheckRow(8, 2.0, 3.0, 0, 5).difference == 0.5
    assert CrossCheckRow(8, 2.0, 1.5, 0, 5).difference == -0.25
    assert CrossCheckRow(8, 0.0, 0.0, 0, 5).difference == 0.0
    assert _MOST_BYTES == 2**30


def row_of(**values: Any) -> Any:
    base: dict[str, Any] = {
        "size_bytes": 64,
        "algbw_bytes_per_s": 8.0,
        "busy": np.array([3, 9, 9]),
        "utilisation": np.array([0.25, 0.75, 0.5]),
        "options": SimulationOptions(slices=5),
        "time": Fraction(4),
        "is_exact": False,
        "n_transfers": 77,
        "graph": SimpleNamespace(resource_name=lambda place: f"link {place}"),
    }
    simulation = SimpleNamespace(**{**base, **values})
    subject: Any = SimpleNamespace(problem=make_problem("ring:4", "allgather"))
    sized: Any = SimpleNamespace(simulation=simulation, limit=None)
    return subject, sized


def test_rows_of_simulations() -> None:
    subject, sized = row_of()
    bound: Any = SimpleNamespace(time=Fraction(3))
    found = _row(subject, sized, bound, lambda size: Fraction(size, 2))
    assert (found.size_bytes, found.slices, found.time, found.is_exact) == (64, 5, 4, False)
    assert (found.algbw_bytes_per_s, found.busbw_bytes_per_s) == (8.0, 6.0)
    assert (found.efficiency, found.alpha_beta, found.bound) == (0.75, 32, bound)
    assert (found.busiest, found.utilisation, found.transfers) == ("link 1", 0.75, 77)
    assert (found.slice_limit, found.protocol) == (None, "")
    costs = Protocol("ll")
    subject, sized = row_of(
        busy=np.array([], dtype=np.int64), time=Fraction(0), options=SimulationOptions(costs=costs)
    )
    idle = _row(subject, sized, bound, None)
    assert (idle.busiest, idle.utilisation, idle.efficiency, idle.alpha_beta) == ("", 0.0, 1.0, None)
    assert idle.protocol == "ll"
    assert _row(subject, sized, None, None).efficiency is None
    table = SimulationRun((found, idle), cast(Any, None)).records()
    assert table[0] == {
        "size_bytes": 64,
        "slices": 5,
        "time_s": 4.0,
        "algbw_bytes_per_s": 8.0,
        "busbw_bytes_per_s": 6.0,
        "share_of_bound": 0.75,
        "busiest": "link 1",
        "utilisation": 0.75,
    }
    assert table[1] == {**table[0], "time_s": 0.0, "slices": 1, "share_of_bound": 1.0} | {
        "busiest": "",
        "utilisation": 0.0,
        "protocol": "ll",
    }


def test_formulas_count_a_launch_once() -> None:
    """A ring of three at 1 GB/s: a message of alpha and two thirds over two links; the launch beside it."""
    problem = make_problem("ring(3, bandwidth='1GB/s')", "allgather")
    schedule = solve(problem.topology, problem.collective).plan.entries[0].schedule
    subject = SimulatedSubject(problem, cast(Any, None), schedule)
    alpha = _formula(subject, SimulationOptions(alpha_ns=5000))
    assert alpha is not None
    hop = ClassCost(5000)
    costs = Protocol("p", hop, hop, hop, launch_ns=11_000)
    priced = _formula(subject, SimulationOptions(costs=costs))
    assert priced is not None
    for size in (0, 3 * 10**9):
        assert priced(size) - alpha(size) == Fraction(11_000, 10**9)
    assert alpha(3 * 10**9) - alpha(0) == 1
    assert alpha(0) == Fraction(5, 10**6), "neighbours tell each other"
    assert _formula(SimulatedSubject(problem, cast(Any, None)), SimulationOptions()) is None


def test_what_cannot_be_simulated(tmp_path: Path) -> None:
    solved = solve("ring:4", "allgather")
    for plan in (solved, solved.plan):
        with pytest.raises(FormatError) as caught:
            simulate(plan, "1K", topology="ring:4")
        assert str(caught.value) == (
            "simulate: topology: only for a third-party schedule; a plan has its own fabric"
        )
    text = tmp_path / "text"
    text.write_text(planning.lower(solved).text)
    with pytest.raises(FormatError) as caught:
        simulate(text, "1K")
    assert str(caught.value) == f"{text}: a third-party schedule does not name its fabric; give topology="
    with pytest.raises(FormatError) as caught:
        simulate(solved, [])
    assert str(caught.value) == "simulate: sizes: expected at least one, found none"
    found = simulate(text, [2048, 1024], topology="ring:4")
    assert [row.size_bytes for row in found.rows] == [2048, 1024]
    assert found.last.size_bytes == 1024
    assert all(row.efficiency is not None and row.alpha_beta is None for row in found.rows)
    own = simulate(solved, [2048, 1024])
    assert [row.size_bytes for row in own.rows] == [2048, 1024]
    assert own.last.size_bytes == 1024
