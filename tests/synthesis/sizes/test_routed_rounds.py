"""Direct exchange, Swing and Trivance over ways: verified, damaged ones refused, steps, loads, data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, log

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, on_a_switch
from treadle.errors import ScheduleError
from treadle.planning import run, solve
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.sizes.routed_rounds import routed_direct, swing, trivance
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies import parse
from treadle.verification.schedules import verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
def test_direct_among_any_number_of_ranks(n: int) -> None:
    fabrics = [on_a_switch(n)] if n % 4 else [on_a_switch(n), parse(f"ring({n})"), in_boxes(n // 2, n // 2)]
    for fabric in fabrics:
        for kind in GATHERING:
            found = solve(fabric, kind, algorithm="routed-direct")
            assert found.report.is_ok
            assert found.report.n_steps == (2 if kind is K.ALLREDUCE else 1)
            assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


@pytest.mark.parametrize("side", [2, 3, 4, 7, 9, 10, 14])
def test_trivance_trebles_on_a_ring_of_any_size(side: int) -> None:
    fabric = parse(f"torus({side})") if side > 2 else parse("ring(2)")
    for kind in GATHERING:
        found = solve(fabric, kind, algorithm="trivance")
        assert found.report.is_ok
        levels = ceil(log(side) / log(3) - 1e-9)
        assert found.report.n_steps == (2 if kind is K.ALLREDUCE else 1) * levels
        assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


@pytest.mark.parametrize("sides", ["4, 4", "8, 2", "5, 3", "4, 3, 2"])
@pytest.mark.parametrize("name", ["trivance", "swing"])
def test_tori(name: str, sides: str) -> None:
    fabric = parse(f"torus({sides})")
    dims = [int(side) for side in sides.split(",")]
    for kind in GATHERING:
        if name == "swing" and not all(side in (2, 4, 8) for side in dims):
            with pytest.raises(ScheduleError, match="expected sides that are powers of two, found"):
                solve(fabric, kind, algorithm=name)
            continue
        found = solve(fabric, kind, algorithm=name)
        assert found.report.is_ok
        assert found.algbw <= found.optimal_algbw
        radix = 2 if name == "swing" else 3
        levels = sum(ceil(log(side) / log(radix) - 1e-9) for side in dims)
        assert found.report.n_steps == (2 if kind is K.ALLREDUCE else 1) * levels
        assert not any(row.wrong for row in run(found.plan, ODD[2:], iterations=1).rows)


def test_distances_of_swing() -> None:
    """On a ring of 16 the last three partners of rank 0 are 3, 1 the other way, and 1."""
    fabric = parse("torus(16)")
    schedule = swing(fabric, on_all_ranks(fabric, K.ALLGATHER))
    assert schedule.broadcast is not None
    steps, found = schedule.broadcast, []
    for step in range(4):
        span = steps.span(step)
        of_first = [
            int(link) for link, low in zip(steps.link[span], steps.low[span], strict=True) if low == 0
        ]
        ways = [steps.path(link) for link in of_first if fabric.tails[steps.path(link)[0]] == 0]
        found.append({int(fabric.heads[way[-1]]) for way in ways})
    assert found == [{16 - 5}, {3}, {16 - 1}, {1}]


def test_loads_of_trivance_on_nine() -> None:
    """3 hops of one shard, then a hop of three, both ways: (3 + 3) / 9 of M over a link."""
    fabric = parse("torus(9)")
    report = solve(fabric, "allgather", algorithm="trivance").report
    assert report.algbw == 1 / (Fraction(6, 9))


@pytest.mark.parametrize("name", ["routed-direct", "swing", "trivance"])
def test_damaged_ones_are_refused(name: str) -> None:
    fabric = parse("torus(4, 4)")
    collective = on_all_ranks(fabric, K.REDUCE_SCATTER)
    (entry,) = solve(fabric, "reduce-scatter", algorithm=name).plan.entries
    steps, chance = entry.schedule.reduce, np.random.default_rng(4)  # type: ignore[union-attr]
    for _ in range(20):
        send = int(chance.integers(steps.n_sends))
        columns = {key: np.delete(getattr(steps, key), send) for key in ("shard", "link", "low", "high")}
        offset = steps.step_offset - (steps.step_offset > send)
        mutant = replace(entry.schedule, reduce=replace(steps, step_offset=offset, **columns))
        assert not verify(fabric, collective, mutant).is_ok
        link = steps.link.copy()
        link[send] = (link[send] + 1 + chance.integers(steps.n_paths - 1)) % steps.n_paths
        assert not verify(fabric, collective, replace(entry.schedule, reduce=replace(steps, link=link))).is_ok


def test_the_longest_ways_go_first() -> None:
    fabric = parse("torus(4, 4)")
    collective = on_all_ranks(fabric, K.ALLGATHER)
    program = lower(fabric, collective, routed_direct(fabric, collective))
    for rank in range(16):
        sends = [one for one in program.operations(rank) if program.operation_kind[one] == OperationKind.SEND]
        lengths = [len(program.links(int(program.path[one]))) for one in sends]
        assert lengths == [4] + [3] * 4 + [2] * 6 + [1] * 4


def test_what_they_need() -> None:
    for name in ("swing", "trivance"):
        with pytest.raises(ScheduleError, match="is not a torus in row-major order"):
            solve("kautz(2, 2)", "allgather", algorithm=name)
        with pytest.raises(ScheduleError, match="expected at most 512"):
            solve("torus(32, 32)", "allgather", algorithm=name)
    assert solve("kautz(2, 3)", "allreduce", algorithm="routed-direct").report.n_steps == 2
    torus = parse("torus(3, 3)")
    with pytest.raises(ScheduleError, match="trivance: broadcast is not supported"):
        trivance(torus, Collective(K.BROADCAST, tuple(range(9)), root=0))
