"""Plans on an emulated fabric whose network is a stand-in: what is run, what rows say, what is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.render.fitting import emulation_rows
from treadle.render.quantities import Rates
from treadle.render.rows import lines, values
from treadle.runtime.mpi_c import InterpreterTimes
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.calibration import INVERSE_BANDWIDTH
from treadle.testbed import testbed
from treadle.testbed.crossovers import Crossover
from treadle.testbed.layout import make_layout
from treadle.testbed.network_fit import NetworkModel
from treadle.testbed.testbed import (
    EmulationRow,
    LineStatistics,
    Skipped,
    Timing,
    dry_run,
    emulate,
)
from treadle.topologies import Topology, TopologyBuilder, parse

GATHER = CollectiveKind.ALLGATHER
RING = parse("ring:4")


def triangle() -> Topology:
    """Links of 2, 3 and 4 both ways: 6, 5 and 7 out of the nodes."""
    builder = TopologyBuilder("triangle")
    names = [builder.compute(name) for name in "abc"]
    for place, width in enumerate((2, 3, 4)):
        builder.duplex(names[place], names[(place + 1) % 3], width)
    return builder.build()


def case(**values: Any) -> Any:
    base = {"steps": 3, "t_b": 0.75, "free_bytes": 100.0, "program": None}
    plan = SimpleNamespace(collective=SimpleNamespace(kind=GATHER), algorithm="a")
    return SimpleNamespace(**{**base, "plan": plan, **values})


def test_rows_have_the_times_of_all_rounds() -> None:
    rounds = [InterpreterTimes(400, 2, (3.0, 5.0)), InterpreterTimes(400, 1, (2.0, 9.0, 4.0))]
    assert testbed._row(case(), *rounds) == EmulationRow(
        *(GATHER, "a", 400, 3, 0.75),
        *(0.5, 2.0, 4.0, 5, 3),
        *(False, 0.0),
    )
    # what a link sends at once is not less than nothing
    assert testbed._row(case(), replace(rounds[0], size_bytes=100)).bytes_factor == 0.0


def row(size: int, steps: int, time_s: float) -> EmulationRow:
    return EmulationRow(GATHER, "a", size, steps, 0.75, 0.5, time_s, time_s, 1, size // 1000)


def test_the_ends_are_fitted_and_those_between_are_predicted() -> None:
    """2 s a step, 3 s besides, and a byte/s of half the bytes; the size between took a tenth longer."""
    times = {(size, steps): 2 * steps + 3 + size / 2 for size in (8, 4000) for steps in (1, 4)}
    rows = [row(size, steps, time) for (size, steps), time in times.items()]
    rows.insert(2, row(1000, 5, 1.1 * 513))
    found, fit = testbed._fit(rows)
    assert [one.is_fitted for one in found] == [True, True, False, True, True]
    assert [one.predicted_s for one in found] == pytest.approx([9, 15, 513, 2005, 2011], rel=1e-6)
    assert found[2].error == pytest.approx(1 / 1.1 - 1)
    assert len(fit.measurements) == 4
    result = testbed.EmulationResult(RING, 1, Fraction(1), found, fit, ())
    assert (result.wrong, result.delay_ns, result.crossovers) == (9, None, ())
    assert result.max_error == pytest.approx(1 - 1 / 1.1)
    assert result.mean_error == pytest.approx((1 - 1 / 1.1) / 5, rel=1e-3)
    with pytest.raises(ScheduleError, match=r"^no size reaches one element; use larger sizes$"):
        testbed._fit([])


@pytest.mark.parametrize(
    ("rate", "delay_ns", "free"), [(10**6, None, 64_000), (7 * 10**7, None, 70_000), (10**6, 7, 0)]
)
def test_bursts_of_links_are_free(rate: int, delay_ns: int | None, free: float) -> None:
    """Of the two links of a node; each sends 32 KB at once, or half a millisecond's bytes."""
    plan = solve(RING, GATHER, algorithm="bfb").plan
    layout = make_layout(RING, rate, prefix="p", delay_ns=delay_ns)
    ((found,), _) = testbed._cases(RING, layout, 4096, rate, (), (), (plan,))
    assert (found.free_bytes, found.steps, found.t_b) == (free, 2, 0.75)


def stand_in(monkeypatch: pytest.MonkeyPatch, *, line: bool = False) -> list[Any]:
    """What is asked of the host; each run takes 1 s, and 1 s more for each byte of the program's size."""
    asked: list[Any] = []
    statistics = SimpleNamespace(statistics=lambda: "statistics")

    @contextmanager
    def network(layout: Any, prefix: str) -> Iterator[Any]:
        asked.append(("network", layout.namespaces[0], layout.delay_ns, prefix))
        yield SimpleNamespace(folder=Path("folder"), line=statistics if line else None)

    def run(program: Any, sizes: Any, *, layout: Any, timing: Timing, **more: Any) -> list[InterpreterTimes]:
        asked.append(("run", program.kind, tuple(sizes), more))
        return [InterpreterTimes(size // 4 * 4, 0, (1.0 + size,)) for size in sizes]

    for name, found in (
        ("require", lambda **given: asked.append(("require", given))),
        ("find_mpi", lambda: "mpi"),
        ("build_interpreter", lambda mpi: f"interpreter of {mpi}"),
        ("remove_leftovers", lambda: asked.append("leftovers")),
        ("new_prefix", lambda: "p"),
        ("network", network),
        ("run_program", run),
    ):
        monkeypatch.setattr(testbed, name, found)
    return asked


def test_plans_are_gone_through_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch, line=True)
    told: list[str] = []
    found = emulate(
        RING,
        [3, 4096, 2**20],
        rate_bytes_per_s=10**6,
        delay_ns=5,
        algorithms=("bfb", "rail"),
        timing=Timing(rounds=2),
        on_case=told.append,
    )
    names = ["allgather by bfb", "allreduce by bfb"]
    assert told == names * 2
    more = {
        "folder": Path("folder"),
        "mpi": "mpi",
        "interpreter": "interpreter of mpi",
        "slice_bytes": 131072,
    }
    kinds = [GATHER, CollectiveKind.ALLREDUCE]
    assert asked == [
        ("require", {"with_delay": True}),
        "leftovers",
        ("network", "p-0", 5, "p"),
        *(("run", kind, (3, 4096, 2**20), more) for kind in kinds * 2),
    ]
    assert [(one.collective, one.size_bytes, one.runs) for one in found.rows] == [
        (kind, size, 2) for kind in kinds for size in (4096, 2**20)
    ]
    assert all(one.is_fitted for one in found.rows)
    assert (found.line, found.delay_ns, found.crossovers) == ("statistics", 5, ())
    assert (found.rate_bytes_per_s, found.node_bandwidth_bytes_per_s) == (10**6, 2 * 10**6)
    assert [one.algorithm for one in found.skipped] == ["rail"] * 2


def test_plans_that_are_given_are_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch)
    plan = solve(RING, CollectiveKind.REDUCE_SCATTER, algorithm="bfb").plan
    found = emulate(RING, [4096, 8192], rate_bytes_per_s=10**6, plans=(plan,))
    assert asked[0] == ("require", {"with_delay": False})
    assert [one[1] for one in asked if one[0] == "run"] == [CollectiveKind.REDUCE_SCATTER]
    assert [(one.size_bytes, one.runs) for one in found.rows] == [(4096, 1), (8192, 1)]
    assert (found.line, found.delay_ns, found.skipped) == (None, None, ())


def test_a_plan_is_run_as_its_largest_size_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)

    def cases(_: Any, __: Any, size: int, rate: int, *more: Any) -> Any:
        raise ScheduleError(f"{size} at {rate}")

    monkeypatch.setattr(testbed, "_cases", cases)
    with pytest.raises(ScheduleError, match=r"^4096 at 1000$"):
        emulate(RING, [8, 4096, 16], rate_bytes_per_s=1000)


def test_crossovers_need_a_delay_and_three_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch)
    with pytest.raises(ScheduleError) as caught:
        emulate(RING, [4096], rate_bytes_per_s=10**6, with_crossovers=True)
    assert str(caught.value) == (
        "crossovers: without a delay small sizes are within the burst of a link, and cost what the host "
        "takes; give links a --delay"
    )
    assert asked == []
    with pytest.raises(ScheduleError, match="at least three algorithms, found bfb"):
        emulate(RING, [4096], rate_bytes_per_s=10**6, delay_ns=1, algorithms=("bfb",), with_crossovers=True)
    assert len(asked) == 2


def test_a_dry_run_shows_commands_and_their_input() -> None:
    lines = dry_run(parse("complete:2"), 10**6)
    assert lines[:3] == [
        "ip -batch -",
        "    netns add treadle-PID-START-ID-0",
        "    netns add treadle-PID-START-ID-1",
    ]
    delayed = dry_run(parse("complete:2"), 10**6, delay_ns=7)
    assert delayed[:3] == lines[:3]
    assert delayed != lines


def test_what_is_told_of_a_run() -> None:
    """Rows as they are; of links with a delay also how they kept it and where schedules cross."""
    rows = [row(size, steps, 2 * steps + 3 + size / 2) for size in (8, 4000) for steps in (1, 4)]
    found, fit = testbed._fit(rows)
    skip = Skipped(CollectiveKind.REDUCE, "b", "no")
    result = testbed.EmulationResult(triangle(), 7, Fraction(5, 2), found[:1], fit, (skip,))
    told = values(emulation_rows(result))
    figures = {name: told.pop(name) for name in ("alpha_s", "epsilon_s", "inverse_bandwidth_s_per_byte")}
    assert list(figures.values()) == pytest.approx([2, 3, 1], rel=1e-6)
    (first,) = found[:1]
    assert told == {
        "topology": "triangle",
        "ranks": 3,
        "measured_on": "an emulated network on this host",
        "rate_bytes_per_s": 7,
        "node_bandwidth_bytes_per_s": 2.5,
        "rows": [
            {
                **{"collective": "allgather", "algorithm": "a", "size_bytes": 8, "steps": 1, "t_b": 0.75},
                **{"bytes_factor": 0.5, "time_s": 9.0, "median_s": 9.0, "runs": 1, "wrong": 0},
                **{"is_fitted": True, "predicted_s": first.predicted_s, "error": first.error},
            }
        ],
        "mean_error": result.mean_error,
        "max_error": result.max_error,
        "wrong": 0,
        "skipped": [{"collective": "reduce", "algorithm": "b", "reason": "no"}],
    }
    crossing = Crossover(GATHER, "a", "b", 8.0, 4.0, ("c", "d"), NetworkModel(0.25, 0.5, 0.75))
    delayed = replace(
        result, delay_ns=9, line=LineStatistics(30, 2, 0.125), crossovers=(crossing,), rows=found
    )
    more = {
        key: value for key, value in values(emulation_rows(delayed)).items() if key not in {*told, *figures}
    }
    assert more == {
        **{"delay_ns": 9, "frames": 30, "frames_dropped": 2, "frames_latest_s": 0.125},
        "crossovers": [
            {
                **{"collective": "allgather", "small": "a", "large": "b", "predicted_bytes": 8.0},
                **{"measured_bytes": 4.0, "ratio": 2.0, "fitted_to": ["c", "d"], "alpha_s": 0.25},
                **{"epsilon_s": 0.5, "share_of_rate": 0.75},
            }
        ],
    }
    fitted = "alpha 2000000.0 us a step, epsilon 3000000.0 us, B"
    assert f"{fitted} 8 bit/s (nominal 20 bit/s)" in lines(list(emulation_rows(result, Rates("bit/s"))))
    shown = [line.split() for line in lines(list(emulation_rows(delayed)))]
    assert ["allgather", "a", "b", "8B", "4B", "2.00", "c,", "d"] in shown
    assert shown[-1] == ["skipped", "reduce", "by", "b:", "no"]
    estimates = {name: one for name, one in fit.fit.estimates.items() if name != INVERSE_BANDWIDTH}
    flat = replace(fit, fit=replace(fit.fit, estimates=estimates))
    told = lines(list(emulation_rows(replace(result, calibration=flat))))
    assert f"{fitted} not to be seen (nominal 2.5 B/s)" in told
