"""Allreduces of a limited number of unit trees, against partitions, an outside linear program and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.allreduce_lp import allreduce_rate
from samples.allreduce_fabrics import GB, allreduce
from samples.strategies import digraphs, eulerian_topologies, symmetric_topologies
from treadle.synthesis.trees import TreeBudget, pack_forest, synthesise
from treadle.synthesis.trees.allreduce import (
    AllreduceSolution,
    Construction,
    UnitLimits,
    solve_allreduce,
)
from treadle.synthesis.trees.allreduce.integral_trees import Goal, IntegralTreeProgram, find_integral_trees
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.two_family_lp import solve_two_family_lp
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


def whole_rate(topology: Topology, goal: Goal) -> Fraction | None:
    """Bytes/s of the whole trees that meet the goal."""
    network = network_of(topology, allreduce(topology))
    optimum = solve_two_family_lp(network).rate
    found = find_integral_trees(
        topology, network, replace(goal, least=goal.least / network.unit), optimum=optimum
    )
    return None if found is None else found.rate * network.unit


def limited(topology: Topology, limits: UnitLimits) -> AllreduceSolution:
    """An allreduce within limits, verified, without two phases to fall back on."""
    solution = solve_allreduce(topology, allreduce(topology), pack=pack_forest, limits=limits)
    report = verify(
        topology,
        allreduce(topology),
        solution.schedule,
        claimed_algbw=solution.algbw,
        claimed_optimal_algbw=solution.bound.algbw,
        certificate=solution.bound.certificate,
    )
    assert not report.violations, report.violations
    return solution


def partitions(n: int) -> Iterator[list[int]]:
    """The part of every element, for all partitions of n elements."""
    part = [0] * n

    def grow(place: int, parts: int) -> Iterator[list[int]]:
        if place == n:
            yield part
            return
        for choice in range(parts + 1):
            part[place] = choice
            yield from grow(place + 1, max(parts, choice + 1))

    yield from grow(1, 1)


def scales(topology: Topology, most: Fraction) -> list[Fraction]:
    """Trees per byte/s at which the floor of some link grows, rising."""
    widths = set(topology.bandwidths.tolist())
    return sorted({Fraction(j, b) for b in widths for j in range(1, ceil(most * b) + 1)})


def rate_by_partitions(topology: Topology, trees: int) -> Fraction:
    """The best rate of so many edge-disjoint spanning trees, by Tutte and Nash-Williams."""
    cuts = [
        (max(part), [e for e, (u, v) in enumerate(ends) if part[u] < part[v]])
        for ends in [list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))]
        for part in map(list, partitions(topology.n_nodes))
        if max(part)
    ]
    for scale in scales(topology, Fraction(trees)):
        floors = [int(b * scale) for b in topology.bandwidths.tolist()]
        if all(sum(floors[e] for e in crossing) >= trees * parts for parts, crossing in cuts):
            return trees / scale
    raise AssertionError("one tree crosses a link of 1 byte/s at most once")


@settings(max_examples=15)
@given(symmetric_topologies(compute=(2, 5), switches=(0, 0), max_bandwidth=7), st.integers(1, 12))
def test_between_hosts_partitions_tell_the_best_rate_of_so_many_trees(topology: Topology, trees: int) -> None:
    best = rate_by_partitions(topology, trees)
    assert whole_rate(topology, Goal([trees])) == best
    assert limited(topology, UnitLimits(trees, is_fixed=True)).algbw == best


@settings(max_examples=12)
@given(symmetric_topologies(compute=(2, 4), switches=(0, 0), max_bandwidth=7), st.integers(2, 9))
def test_a_limit_takes_the_best_of_all_numbers_below(topology: Topology, most: int) -> None:
    rates = [rate_by_partitions(topology, trees) for trees in range(1, most + 1)]
    solution = limited(topology, UnitLimits(most))
    assert solution.algbw == max(rates)
    assert solution.schedule.total_units <= most


FABRICS = st.one_of(
    symmetric_topologies(compute=(2, 4), switches=(1, 3), max_bandwidth=7),
    eulerian_topologies(compute=(2, 4), switches=(0, 2), max_bandwidth=7),
    digraphs(compute=(2, 4), max_bandwidth=7, extra_links=6),
)


@settings(max_examples=20)
@given(FABRICS, st.integers(1, 12))
def test_no_lower_scale_holds_so_many_trees(topology: Topology, trees: int) -> None:
    """Not even in fractions, says the flow program of the dissertation on the floors just below."""
    solution = limited(topology, UnitLimits(trees, is_fixed=True))
    assert solution.schedule.total_units == trees
    taken = trees / solution.algbw
    below = [scale for scale in scales(topology, taken) if scale < taken]
    if not below:
        return
    floors = np.array([int(b * below[-1]) for b in topology.bandwidths.tolist()])
    rest = replace(topology, bandwidths=np.maximum(floors * 10**6, 1))  # no link has no bandwidth
    assert allreduce_rate(rest, tuple(topology.compute_nodes.tolist())) < (trees - 0.001) * 10**6


@pytest.mark.parametrize(
    ("fabric", "trees", "gb_per_s"),
    [
        ("mi250(2, 8)", 8, "128"),
        ("mi250(2)", 177, "177"),
        ("mi250(2)", 256, "12800/73"),
        ("mi250(2)", 512, "25600/145"),
        ("dgx_a100(2)", 104, "520/3"),
        ("dgx_a100(2)", 64, "6400/37"),
        ("dgx_h100(3)", 64, "9600/37"),
    ],
)
def test_so_many_trees_reach_so_much(fabric: str, trees: int, gb_per_s: str) -> None:
    topology = parse(fabric)
    assert whole_rate(topology, Goal([trees])) == Fraction(gb_per_s) * GB


@pytest.mark.parametrize(
    ("fabric", "most", "trees", "gb_per_s"),
    [("mi250(2, 8)", 160, 8, "128"), ("mi250(2)", 320, 177, "177"), ("dgx_a100(2)", 1024, 104, "520/3")],
)
def test_the_best_number_up_to_a_limit_is_the_fewest_of_its_rate(
    fabric: str, most: int, trees: int, gb_per_s: str
) -> None:
    solution = limited(parse(fabric), UnitLimits(most))
    assert (solution.schedule.total_units, solution.algbw) == (trees, Fraction(gb_per_s) * GB)


def test_a_goal_out_of_reach_is_not_met() -> None:
    topology = parse("ring(4)")
    assert whole_rate(topology, Goal([1, 2, 3])) == 1
    assert whole_rate(topology, Goal([1, 2, 3], Fraction(1))) is None
    assert whole_rate(topology, Goal(range(1, 5), Fraction(1))) == Fraction(4, 3)
    assert whole_rate(topology, Goal([1, 2, 4, 8], Fraction(9, 10), is_fewest=True)) == 1


def test_what_the_solver_does_not_find_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def nothing(self: IntegralTreeProgram, trees: int) -> None:
        asked.append((trees, *self._free))

    monkeypatch.setattr(IntegralTreeProgram, "integral", nothing)
    assert whole_rate(parse("ring:4"), Goal((3, 5))) is None
    assert len(asked) == len(set(asked))
    assert {trees for trees, *_ in asked} == {3, 5}


def test_roots_are_spread_and_links_shared_evenly() -> None:
    """Vertices of the linear program have all roots at few ranks, and trees twice as high."""
    topology = parse("dgx_a100(2)")
    schedule = limited(topology, UnitLimits(64, is_fixed=True)).schedule
    assert schedule.root_multiplicity.tolist() == [4] * 16
    heights = {
        sum(1 for _ in path_to_root(tree.parent, rank))
        for forest in schedule.forests
        for root in range(16)
        for tree in forest.trees(root)
        for rank in range(16)
    }
    assert max(heights) == 2


def path_to_root(parent: np.ndarray, rank: int) -> Iterator[int]:
    while parent[rank] >= 0:
        rank = int(parent[rank])
        yield rank


def test_a_power_of_two_of_trees_where_that_loses_little() -> None:
    topology = parse("dgx_h100(3)")
    phases = synthesise(topology, allreduce(topology), budget=TreeBudget())
    assert phases.schedule.total_units == 240  # 10 per root attain the optimum, 6000/23 GB/s

    def preferred(loss: Fraction) -> AllreduceSolution:
        limits = UnitLimits(64 * 24, dyadic=16 * 24, dyadic_loss=loss)
        return solve_allreduce(
            topology, allreduce(topology), rs_ag=phases.schedule, pack=pack_forest, limits=limits
        )

    taken = preferred(Fraction(1, 100))
    assert (taken.schedule.total_units, taken.algbw) == (64, Fraction(9600, 37) * GB)
    assert taken.construction is Construction.WHOLE_TREES
    closer = preferred(Fraction(1, 200))
    assert closer.schedule.total_units == 256
    assert closer.algbw > taken.algbw
    kept = preferred(Fraction(1, 10**6))
    assert kept.schedule == phases.schedule
