"""Expanded schedules: against the definitions written out tuple by tuple, and the verifier's judgement."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reference.step_times import t_b
from samples.step_samples import (
    complete_allgather,
    k22_allgather,
    ring_allgather,
    schedule_of,
    sends_of,
    with_sends,
)
from treadle.errors import ScheduleError, TopologyError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.synthesis.steps.schedule_expansions import (
    cartesian_power_schedule,
    degree_expansion_schedule,
    line_graph_schedule,
)
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import (
    cartesian_power,
    degree_expansion,
    line_graph,
)
from treadle.verification.steps.step_check import verify_steps

Case = tuple[Topology, Steps]

PARALLEL = from_arcs("parallel", [0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 0, 0], n=3)
LOOPS = from_arcs("loops", [0, 0, 1, 1, 2, 2], [1, 0, 2, 1, 0, 2], n=3)


def _detour() -> Case:
    """An allgather that is not breadth-first: K3, where every shard goes round the ring."""
    topology, _ = complete_allgather(3)
    ring = {
        int(u): e
        for e, (u, w) in enumerate(zip(topology.tails, topology.heads, strict=True))
        if w == (u + 1) % 3
    }
    sends = [(v, ring[(v + t) % 3], t, 0, 1) for v in range(3) for t in range(2)]
    return topology, steps_from_sends(Direction.BROADCAST, 3, 1, sends)


def _bfb(topology: Topology) -> Case:
    return topology, bfb_allgather(topology)


CASES: dict[str, Case] = {
    "ring 4": ring_allgather(4),
    "K2,2": k22_allgather(),
    "K3, detour": _detour(),
    "parallel links": _bfb(PARALLEL),
    "self-loops": _bfb(LOOPS),
    "C8{1,3}": _bfb(parse("directed_circulant(8, 1, 3)")),
    "Pi2,5": _bfb(parse("generalized_kautz(2, 5)")),
    "diamond": _bfb(parse("diamond()")),
}
WITHOUT_LOOPS = [name for name in CASES if not np.any(CASES[name][0].tails == CASES[name][0].heads)]


def _kind(steps: Steps) -> CollectiveKind:
    if steps.direction is Direction.BROADCAST:
        return CollectiveKind.ALLGATHER
    return CollectiveKind.REDUCE_SCATTER


def _cost(topology: Topology, steps: Steps) -> Fraction:
    return t_b(topology, schedule_of(_kind(steps), steps))


def _assert_valid(topology: Topology, steps: Steps) -> None:
    kind = _kind(steps)
    report = verify_steps(topology, on_all_ranks(topology, kind), schedule_of(kind, steps))
    assert report.is_ok, report.violations[:3]


# --- the definitions ---------------------------------------------------------------------------------------


# --- validity, in both directions --------------------------------------------------------------------------


def _turned(case: Case) -> Case:
    return case[0].transpose(), reverse(case[1])


@pytest.mark.parametrize("name", CASES)
def test_expanded_schedules_are_valid_both_ways(name: str) -> None:
    """Corollary 1.2 for reduce-scatter; the cost is that of the allgather of the transpose."""
    forth, back = CASES[name], _turned(CASES[name])
    for n in (1, 2):
        ways = [line_graph_schedule(*case, n) for case in (forth, back)]
        ways += [cartesian_power_schedule(*case, 2) for case in (forth, back)]
        if name in WITHOUT_LOOPS:
            ways += [degree_expansion_schedule(*case, n) for case in (forth, back)]
        for topology, steps in ways:
            _assert_valid(topology, steps)
        costs = [_cost(*case) for case in ways]
        assert costs[0::2] == costs[1::2]
        assert [steps.direction for _, steps in ways[0::2]] == [Direction.BROADCAST] * (len(ways) // 2)


@pytest.mark.parametrize("expand", [line_graph_schedule, degree_expansion_schedule, cartesian_power_schedule])
def test_reducing_topologies_are_those_of_the_catalogue(expand) -> None:
    base, steps = _turned(CASES["C8{1,3}"])
    catalogue = {
        line_graph_schedule: line_graph,
        degree_expansion_schedule: degree_expansion,
        cartesian_power_schedule: cartesian_power,
    }
    assert expand(base, steps, 2)[0] == catalogue[expand](base, 2)


def test_a_broken_base_gives_a_broken_schedule() -> None:
    """The verifier's acceptance above means something: leave one send out and it objects."""
    base, steps = CASES["C8{1,3}"]
    broken = with_sends(steps, sends_of(steps)[:-1])
    kind = CollectiveKind.ALLGATHER
    for topology, found in (
        line_graph_schedule(base, broken),
        degree_expansion_schedule(base, broken, 2),
        cartesian_power_schedule(base, broken, 2),
    ):
        assert not verify_steps(topology, on_all_ranks(topology, kind), schedule_of(kind, found)).is_ok


def test_a_ring_stays_a_ring() -> None:
    """L of a unidirectional ring is the ring; the step added at the front makes the last one superfluous."""
    topology, steps = line_graph_schedule(*ring_allgather(5))
    assert steps.n_steps == 4
    assert _cost(topology, steps) == Fraction(4, 5)


# --- refusals ----------------------------------------------------------------------------------------------


def test_refusals() -> None:
    base, steps = CASES["ring 4"]
    for expand in (line_graph_schedule, degree_expansion_schedule, cartesian_power_schedule):
        with pytest.raises(ScheduleError, match=r"has 5 nodes; expected steps with shard v owned by rank v"):
            expand(ring_allgather(5)[0], steps, 2)
    elsewhere = steps_from_sends(Direction.BROADCAST, 4, 1, sends_of(steps), homes=[1, 0, 2, 3])
    with pytest.raises(ScheduleError, match="shard v owned by rank v"):
        line_graph_schedule(base, elsewhere)
    with pytest.raises(ScheduleError, match=r"use link 4; sample has 4"):
        line_graph_schedule(base, with_sends(steps, [(0, 4, 0, 0, 1)]))
    with pytest.raises(ScheduleError, match="send nothing"):
        line_graph_schedule(base, with_sends(steps, []))
    with pytest.raises(TopologyError, match="self-loop"):
        degree_expansion_schedule(*CASES["self-loops"], 2)
    fine = steps_from_sends(Direction.BROADCAST, 4, 2**23, [(0, 0, 0, 0, 1)])
    with pytest.raises(ScheduleError, match="needs 25165824 chunks per shard"):
        cartesian_power_schedule(base, fine, 3)
    irregular = from_arcs("irregular", [0, 0, 1], [1, 1, 0], n=2)
    with pytest.raises(TopologyError, match="nodes differ in degree"):
        line_graph_schedule(irregular, steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)]))
