"""Schedules kept by one orbit: against explicit ones, their own checker, and mutants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError, TopologyError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import t_b
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import (
    OrbitSchedule,
    bfb_orbit,
    bfb_reduce_scatter_value,
    bfb_value,
    circulant_graph,
    find_orbit_faults,
    orbit_value,
    torus_graph,
)
from treadle.topologies import parse
from treadle.topologies.catalogue.cayley import CayleyGraph, cayley_graph
from treadle.verification.steps.step_check import verify_steps

GRAPHS = [
    torus_graph(4, 5),
    torus_graph(2, 2, 2),
    torus_graph(3, 1, 2),
    circulant_graph(15, 1, 4, 5),
    circulant_graph(9, 2, 3),
    cayley_graph("metacyclic_cayley(16, 2, 7, 28, 2, 20, 5)"),
    cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)"),
    cayley_graph("metacyclic_cayley(5, 4, 2, 1, 7)"),
    cayley_graph("dihedral_cayley(7, 1, 2)"),
]
PHASES = {Direction.BROADCAST: CollectiveKind.ALLGATHER, Direction.REDUCE: CollectiveKind.REDUCE_SCATTER}


def expanded(orbit: OrbitSchedule) -> StepSchedule:
    steps = orbit.expand()
    if orbit.direction is Direction.REDUCE:
        return StepSchedule(PHASES[orbit.direction], reduce=steps)
    return StepSchedule(PHASES[orbit.direction], broadcast=steps)


@pytest.mark.parametrize("direction", PHASES)
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.expression)
def test_orbits_stand_for_optimal_schedules(graph: CayleyGraph, direction: Direction) -> None:
    orbit = bfb_orbit(graph, direction=direction)
    topology = graph.topology()
    schedule = expanded(orbit)
    explicit = (bfb_value if direction is Direction.BROADCAST else bfb_reduce_scatter_value)(topology)
    assert find_orbit_faults(orbit) == []
    assert not verify_steps(topology, on_all_ranks(topology, schedule.kind), schedule).violations
    assert orbit.t_b == t_b(topology, schedule) == explicit.t_b
    assert orbit_value(graph, direction=direction).loads == explicit.loads
    assert orbit.n_steps == explicit.diameter


def mutants(orbit: OrbitSchedule) -> list[OrbitSchedule]:
    """One send dropped, doubled, changed, out of range or moved to another step; broken columns."""
    i = orbit.n_sends // 2
    columns = ("source", "generator", "low", "high")

    def changed(key: str, value: int) -> OrbitSchedule:
        array = getattr(orbit, key).copy()
        array[i] = value
        return replace(orbit, **{key: array})

    dropped = {key: np.delete(getattr(orbit, key), i) for key in columns}
    doubled = {key: np.insert(getattr(orbit, key), i, getattr(orbit, key)[i]) for key in columns}
    beyond = orbit.step_offset > i
    early = {key: np.concatenate([getattr(orbit, key)[-1:], getattr(orbit, key)[:-1]]) for key in columns}
    return [
        replace(orbit, step_offset=orbit.step_offset - beyond, **dropped),
        replace(orbit, step_offset=orbit.step_offset + beyond, **doubled),
        changed("source", 0),
        changed("high", int(orbit.high[i]) + 1),
        changed("low", int(orbit.high[i])),
        changed("generator", orbit.graph.degree),
        changed("source", -1),
        replace(orbit, step_offset=orbit.step_offset + 1),
        replace(orbit, low=orbit.low[:-1]),
        replace(
            orbit, step_offset=orbit.step_offset + np.eye(1, orbit.n_steps + 1, 1, dtype=int)[0], **early
        ),
    ]


@pytest.mark.parametrize("direction", PHASES)
@pytest.mark.parametrize("graph", GRAPHS[:4], ids=lambda graph: graph.expression)
def test_mutants_are_rejected(graph: CayleyGraph, direction: Direction) -> None:
    for number, mutant in enumerate(mutants(bfb_orbit(graph, direction=direction))):
        assert find_orbit_faults(mutant), number


def test_a_generator_that_does_not_hold_the_chunk_is_found() -> None:
    """On a ring of 7 the farthest shards come the other way round: each arrives, but its sender lacks it."""
    orbit = bfb_orbit(circulant_graph(7, 1))
    generator = orbit.generator.copy()
    last = orbit.step_offset[-2]
    generator[last:] = generator[last:][::-1]
    faults = find_orbit_faults(replace(orbit, generator=generator))
    assert any("before it is there" in fault for fault in faults)


def test_catalogue_graphs_have_the_same_value() -> None:
    for graph, name in (
        (torus_graph(4, 5), "torus(4, 5)"),
        (torus_graph(2, 2, 2, 2), "hypercube(4)"),
        (circulant_graph(15, 1, 4, 5), "circulant(15, 1, 4, 5)"),
    ):
        topology = parse(name)
        assert orbit_value(graph).loads == bfb_value(topology).loads
        links = sorted(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        own = graph.topology()
        assert sorted(zip(own.tails.tolist(), own.heads.tolist(), strict=True)) == links


def test_a_hundred_thousand_nodes() -> None:
    graph = torus_graph(316, 317)
    orbit = bfb_orbit(graph)
    assert graph.n_nodes > 10**5
    assert find_orbit_faults(orbit) == []
    assert orbit.t_b == Fraction(graph.n_nodes - 1, graph.n_nodes)
    assert orbit.n_steps == 316 // 2 + 317 // 2
    with pytest.raises(ScheduleError, match="too many to write out"):
        orbit.expand()


def test_found_graph_of_1024_nodes_meets_its_figures() -> None:
    """Measured: Z128 :15 Z8 with {251, 7, 788, 445} has T_L 7 and T_B .999 in both directions."""
    graph = cayley_graph("metacyclic_cayley(128, 8, 15, 251, 7, 788, 445)")
    for direction in PHASES:
        orbit = bfb_orbit(graph, direction=direction)
        assert find_orbit_faults(orbit) == []
        assert (orbit.n_steps, f"{float(orbit.t_b):.3f}") == (7, "0.999")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TopologyError, match="at least 2"):
        circulant_graph(1, 1)
    with pytest.raises(TopologyError, match="do not reach"):
        circulant_graph(8, 2)
    with pytest.raises(TopologyError):
        torus_graph(1)
