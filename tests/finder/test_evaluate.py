"""Costs of workloads: closed forms, pruned trees, and the choice of a topology per call."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.finder.construction import Base, ScheduleMethod
from treadle.finder.evaluate import call_seconds, cheapest_sequence, group_figures
from treadle.finder.measure import Option, measured_options
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.workload import Call, Exchange, Network

NETWORK = Network(alpha_s=10e-6, bandwidth_bytes_per_s=12_500_000_000)


def option(text: str, nodes: int, degree: int, steps: int) -> Option:
    base = Base(text, text, ScheduleMethod.BFB, "test")
    rough = Performance(nodes, degree, steps, Fraction(9), None, None, True, False, True, True, False, False)
    (found,) = measured_options([FabricCandidate(base, rough, rough)])
    return found


def test_all_to_all_of_table_3_4() -> None:
    """Table 3.4's row of theoretical bounds: with the ideal mean distance 382.3 us; here a torus by hand."""
    torus = option("torus(4, 4)", 16, 4, 4)
    assert torus.mean_distance == Fraction(32, 15)
    assert torus.pair_rate == Fraction(16 * 4, 16 * 32)
    seconds = call_seconds(Call(Exchange.ALLTOALL, 2**20), torus, Network(0.0, 12_500_000_000))
    # each node sends 1/16 MB to each other over 32/15 links on average, of 4 that it has
    assert seconds == pytest.approx(2**20 / 16 * 32 / 12_500_000_000)


def test_allreduce_is_both_phases_and_reduction_counts_once() -> None:
    """Section 3.3.2, and Corollary 6.1 for the time to add up."""
    cube = option("hypercube(4)", 16, 4, 4)
    size = 2**20
    transfer = size / 12_500_000_000 * 15 / 16
    plain = call_seconds(Call(Exchange.ALLREDUCE, size), cube, NETWORK)
    assert plain == pytest.approx(8 * 10e-6 + 2 * transfer)
    with_gamma = Network(10e-6, 12_500_000_000, gamma_s_per_byte=1e-11)
    assert call_seconds(Call(Exchange.ALLREDUCE, size), cube, with_gamma) == pytest.approx(
        8 * 10e-6 + 2 * transfer + 1e-11 * size * 15 / 16
    )
    gather = call_seconds(Call(Exchange.ALLGATHER, size), cube, with_gamma)
    assert gather == pytest.approx(4 * 10e-6 + transfer)


def test_one_group_of_all_costs_at_least_the_optimum_and_neighbours_cost_a_hop() -> None:
    ring = option("ring(8)", 8, 2, 4)
    whole = group_figures(ring, Call(Exchange.ALLREDUCE, 1).groups(8))
    assert whole.t_b >= Fraction(7, 8)
    assert (whole.steps, whole.distance_sum) == (4, 8 * 16)
    pairs = group_figures(ring, Call(Exchange.ALLREDUCE, 1, group_size=2).groups(8))
    assert (pairs.steps, pairs.t_b, pairs.distance_sum) == (1, 1, 8)
    # opposite nodes: every shard takes 4 links, half of the 16 links times 8 shards at best
    far = group_figures(ring, Call(Exchange.ALLREDUCE, 1, group_size=2, stride=4).groups(8))
    assert (far.steps, far.distance_sum) == (4, 32)
    assert 2 <= far.t_b <= 4


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 9).map(float), min_size=1),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 5).map(float),
)
def test_the_cheapest_sequence_is_that_of_all_sequences(costs: list[dict[str, float]], delay: float) -> None:
    def total(path: tuple[str, ...]) -> float:
        changes = sum(a != b for a, b in zip(path, (*path[1:], path[0]), strict=True))
        return sum(cost[fabric] for cost, fabric in zip(costs, path, strict=True)) + changes * delay

    path, seconds = cheapest_sequence(costs, delay)
    assert total(path) == pytest.approx(seconds)
    assert seconds == pytest.approx(min(total(p) for p in product(*costs)))
