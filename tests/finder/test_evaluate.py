"""Costs of workloads: closed forms, pruned trees, and the choice of a topology per call."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.groups.pruned_trees import pruned_tree_figures
from treadle.finder.construction import Base, ScheduleMethod
from treadle.finder.evaluate import GroupCosts, call_seconds, cheapest_sequence, group_costs
from treadle.finder.measure import FlowRate, Option, is_quick_breadth_first, measured_options
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.workload import Call, Exchange, Network
from treadle.topologies import parse

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
    whole = group_costs(ring, Call(Exchange.ALLREDUCE, 1).groups(8))
    assert whole.t_b >= Fraction(7, 8)
    assert (whole.steps, whole.distance_sum) == (4, 8 * 16)
    pairs = group_costs(ring, Call(Exchange.ALLREDUCE, 1, group_size=2).groups(8))
    assert (pairs.steps, pairs.distance_sum) == (1, 8)
    assert pairs.t_b == 1
    # opposite nodes: every shard takes 4 links, half of the 16 links times 8 shards at best
    far = group_costs(ring, Call(Exchange.ALLREDUCE, 1, group_size=2, stride=4).groups(8))
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


def odd(*, parts: int = 1, flow: FlowRate | None = None, distances: tuple[int, ...] | None) -> Option:
    """10 nodes of degree 3: the allgather takes 4 steps and 5/4, the reduce-scatter 7 steps and 11/8."""
    base = Base("x()", "X", ScheduleMethod.BFB, "test")
    gather = Performance(10, 3, 4, Fraction(5, 4), None, None, True, False, True, False, False)
    reduce = Performance(10, 3, 7, Fraction(11, 8), None, None, True, False, True, False, False)
    return Option(FabricCandidate(base, gather, reduce), distances, flow, parts)


SLOW = Network(alpha_s=3.0, bandwidth_bytes_per_s=16, gamma_s_per_byte=0.25)
"""With 64 bytes: 4 s to send them all, 16 s to add them up."""


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (Exchange.ALLGATHER, 7 * 3 + 5 / 4 * 4),
        (Exchange.REDUCE_SCATTER, 7 * 3 + 11 / 8 * (4 + 16)),
        (Exchange.ALLREDUCE, 7 * 3 * 2 + 5 / 4 * 4 + 11 / 8 * (4 + 16)),
        (Exchange.ALLTOALL, 2 * 3 + 4 * (60 + 60) / (10 * 10)),
    ],
)
def test_calls_over_all_nodes(kind: Exchange, seconds: float) -> None:
    whole = odd(distances=(10, 60, 30))
    assert call_seconds(Call(kind, 64), whole, SLOW) == pytest.approx(seconds)
    # a group size without figures of groups is that of a fabric made for it
    assert call_seconds(Call(kind, 64, group_size=5), whole, SLOW) == pytest.approx(seconds)
    in_parts = call_seconds(Call(kind, 64), odd(distances=(10, 60, 30), parts=2), SLOW)
    assert in_parts == (pytest.approx(seconds) if kind is Exchange.ALLTOALL else None)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (Exchange.ALLGATHER, 5 * 3 + 2 / 3 * 4),
        (Exchange.REDUCE_SCATTER, 5 * 3 + 3 / 4 * (4 + 16)),
        (Exchange.ALLREDUCE, 5 * 3 * 2 + 2 / 3 * 4 + 3 / 4 * (4 + 16)),
        (Exchange.ALLTOALL, 5 * 3 + 4 * 77 / (2 * 10)),
    ],
)
def test_calls_in_groups(kind: Exchange, seconds: float) -> None:
    groups = GroupCosts(5, Fraction(2, 3), Fraction(3, 4), 77)
    call = Call(kind, 64, group_size=2)
    flow = FlowRate(0.5, 0.0)
    for whole in (odd(distances=(10, 60, 30), flow=flow), odd(distances=None, parts=5)):
        assert call_seconds(call, whole, SLOW, groups) == pytest.approx(seconds)
    if kind is Exchange.ALLTOALL:
        spread = call_seconds(Call(kind, 64), odd(distances=None), SLOW, groups)
        assert spread == pytest.approx(5 * 3 + 4 * 77 / (10 * 10))


def test_an_all_to_all_by_its_flow_or_not_at_all() -> None:
    flow = FlowRate(0.5, 0.1)
    call = Call(Exchange.ALLTOALL, 64)
    told = call_seconds(call, odd(distances=(10, 60, 30), flow=flow), SLOW)
    assert told == pytest.approx(2 * 3 + 4 * 3 / (10 * 0.5))
    assert call_seconds(call, odd(distances=None, flow=flow), SLOW) is None


def test_figures_of_groups_have_no_least_unless_said() -> None:
    groups = GroupCosts(5, Fraction(2, 3), Fraction(3, 4), 77)
    assert groups.least == groups.least_reduce == 0


def test_groups_on_a_one_way_fabric_gather_and_reduce_differently() -> None:
    """Two groups of three on a ring of six, one way: the trees' slow account, both ways."""
    topology = parse("generalized_kautz(2, 6)")
    groups = ((0, 1, 2), (3, 4, 5))
    found = group_costs(option("generalized_kautz(2, 6)", 6, 2, 3), groups)
    members = [list(group) for group in groups]
    gather, steps, total = pruned_tree_figures(topology, members)
    reduce, _, _ = pruned_tree_figures(topology.transpose(), members)
    assert found == GroupCosts(steps, Fraction(2, 3) * gather, Fraction(2, 3) * reduce, total)


def test_an_option_tells_its_distances() -> None:
    whole = odd(distances=(10, 60, 30))
    assert (whole.expression, whole.notation, whole.degree, whole.nodes) == ("x()", "X", 3, 10)
    assert (whole.diameter, whole.distance_sum) == (2, 120)
    assert (whole.mean_distance, whole.pair_rate) == (Fraction(120, 90), Fraction(30, 120))
    far = odd(distances=None)
    assert (far.diameter, far.distance_sum, far.mean_distance, far.pair_rate) == (None,) * 4
    assert (Option(whole.candidate, None).parts, Option(whole.candidate, None).flow) == (1, None)


def test_how_large_a_fabric_is_measured() -> None:
    assert is_quick_breadth_first(5000, 4)  # exactly 5 * 10**8
    assert not is_quick_breadth_first(5000, 5)
    assert not is_quick_breadth_first(5001, 4)


def test_fabrics_change_only_where_that_pays() -> None:
    """Of equals the first stays: changing to and fro would cost as much as staying."""
    costs = [{"a": 1.0, "b": 2.0}, {"a": 6.0, "b": 1.0}, {"a": 1.0, "b": 2.0}]
    assert cheapest_sequence(costs, 2.5) == (("b", "b", "b"), 5.0)
    assert cheapest_sequence(costs, 0.5) == (("a", "b", "a"), 4.0)
    assert cheapest_sequence([{"a": 1.0, "b": 1.0}], 1.0) == (("a",), 1.0)
    assert cheapest_sequence([{"a": 1.0}, {"b": 1.0}], 3.0) == (("a", "b"), 8.0)
    tied = [{"a": 1.0, "b": 1.0}, {"a": 3.0, "b": 1.0}]
    assert cheapest_sequence(tied, 1.0) == (("b", "b"), 2.0)
