"""Switches that work for ranks that ask: optima against brute force, schedules that attain them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.asked_switches import asked_allreduce_rate
from samples.allreduce_fabrics import allreduce
from treadle.schedules.trees.allreduce_certificate import DualCertificate
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce import AllreduceSolution, Construction, solve_allreduce
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.rooted_packing import pack_rooted_trees
from treadle.synthesis.trees.allreduce.tree_schedule import rooted_trees_to_schedule
from treadle.synthesis.trees.allreduce.undirected_packing import pack_fabric_trees
from treadle.topologies import Topology, TopologyBuilder
from treadle.verification.schedules import verify

BANDWIDTHS = st.integers(1, 12)


def star(
    up: Sequence[int],
    down: Sequence[int] | None = None,
    *,
    multicast: bool = True,
    aggregation: bool = True,
    lanes: int = 1,
) -> Topology:
    """GPUs around a switch that works for ranks that ask; each link is so many parallel ones."""
    builder = TopologyBuilder("star")
    names = [builder.compute(f"gpu{i}") for i in range(len(up))]
    builder.switch("switch", multicast=multicast, aggregation=aggregation)
    for name, there, back in zip(names, up, down or up, strict=True):
        for _ in range(lanes):
            builder.link(name, "switch", there)
            builder.link("switch", name, back)
    return builder.build()


def solved(topology: Topology, *, with_packer: bool = True) -> AllreduceSolution:
    """Solve, and verify schedule, claim and certificate."""
    collective = allreduce(topology)
    solution = solve_allreduce(topology, collective, pack=pack_forest if with_packer else None)
    report = verify(
        topology,
        collective,
        solution.schedule,
        claimed_algbw=solution.algbw,
        claimed_optimal_algbw=solution.bound.algbw,
        certificate=solution.bound.certificate,
    )
    assert not report.violations, report.violations
    return solution


@settings(max_examples=25)
@given(st.lists(st.tuples(BANDWIDTHS, BANDWIDTHS), min_size=2, max_size=4))
def test_one_way_unequal_stars_are_as_brute_force_says(bandwidths: list[tuple[int, int]]) -> None:
    up, down = ([pair[side] for pair in bandwidths] for side in (0, 1))
    topology = star(up, down)
    solution = solved(topology)
    assert solution.bound.is_attained
    assert solution.algbw == solution.bound.algbw
    assert float(solution.algbw) == pytest.approx(asked_allreduce_rate(topology), rel=1e-9)


def test_trees_that_ask_and_trees_that_do_not() -> None:
    """All trees by operations, or none, fall short: some of both."""
    topology = star([11, 11, 12], [4, 4, 6])
    solution = solved(topology)
    assert solution.construction is Construction.ROOTED
    assert solution.algbw == solution.bound.algbw == 4
    # two units carry it, one does not
    assert solution.schedule.total_units == 2
    network = network_of(topology, allreduce(topology))
    packing = pack_rooted_trees(network, target=Fraction(4))
    assert packing is not None
    assert packing.rate == 4
    assert rooted_trees_to_schedule(topology, network, packing, max_units=1) is None


def _join(builder: TopologyBuilder, one: str, other: str, there: int, back: int) -> None:
    builder.link(one, other, there)
    builder.link(other, one, back or there)


@st.composite
def two_switches(draw: st.DrawFn, *, one_way: bool = False) -> Topology:
    """Up to four GPUs at one or both of two joined switches, of which each works in a way of its own.

    With `one_way` links differ from those that lead back, and switches may have one capability alone.
    """
    builder = TopologyBuilder("two switches")
    names = [builder.compute(f"gpu{i}") for i in range(draw(st.integers(2, 4)))]
    for switch in ("one", "other"):
        able = draw(st.booleans())
        other = draw(st.booleans()) if one_way else able
        turns = (able or other) and draw(st.booleans())
        builder.switch(switch, multicast=able, aggregation=other, turns_round=turns)
    for name in names:
        for switch in draw(st.sampled_from([("one",), ("other",), ("one", "other")])):
            _join(builder, name, switch, draw(BANDWIDTHS), draw(BANDWIDTHS) if one_way else 0)
    _join(builder, "one", "other", draw(BANDWIDTHS), draw(BANDWIDTHS) if one_way else 0)
    return builder.build()


def test_equal_parallel_links_are_as_good_as_one() -> None:
    """Every rank's operations are dealt out to its links, and each crosses the like links of all."""
    solution = solved(star([420] * 8, lanes=2))
    assert solution.algbw == solution.bound.algbw == Fraction(840 * 8, 9)
    assert solution.bound.is_attained


def test_parallel_links_that_divide_unlike_leave_the_optimum_open() -> None:
    builder = TopologyBuilder("lanes")
    for i in range(5):
        builder.compute(f"gpu{i}")
    builder.switch("switch", multicast=True, aggregation=True)
    for i in range(5):
        for bandwidth in (30, 30) if i else (50, 10):
            builder.duplex(f"gpu{i}", "switch", bandwidth)
    solution = solved(builder.build())
    assert solution.bound.algbw == 50
    assert solution.bound.is_attained is None
    assert 30 <= solution.algbw <= 50


@settings(max_examples=12)
@given(two_switches(), st.data())
def test_any_lengths_bound_the_optimum(topology: Topology, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=topology.n_links, max_size=topology.n_links))
    certificate = DualCertificate(tuple(Fraction(length) + Fraction(1, 9) for length in lengths))
    optimum = solved(topology).algbw
    assert certificate.bound(topology, allreduce(topology)) >= optimum
    # and those of the packing prove it
    network = network_of(topology, allreduce(topology))
    packing = pack_fabric_trees(network)
    per_link = [Fraction(0)] * topology.n_links
    for pair, length in enumerate(packing.lengths):
        for link in network.links[pair]:
            per_link[link] = length
    assert DualCertificate(tuple(per_link)).bound(topology, allreduce(topology)) == optimum
