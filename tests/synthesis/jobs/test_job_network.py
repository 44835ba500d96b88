"""What a job may use of a fabric: cheapest trees and paths at uneven prices, and parts of roots."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.jobs import Job
from treadle.synthesis.jobs.job_network import Column, JobNetwork
from treadle.topologies.topology import Topology, TopologyBuilder

PRICES = np.array([1.0, 2, 4, 8, 16, 32, 2])
"""Up from a, down to b, up from b, down to c, up from c, down to a, and from a to b directly."""


def star() -> Topology:
    """Three ranks at a switch, and a link besides."""
    builder = TopologyBuilder("star")
    for name in "abc":
        builder.compute(name)
    builder.switch("s")
    for tail, head in ("as", "sb", "bs", "sc", "cs", "sa", "ab"):
        builder.link(tail, head, 10**9)
    return builder.build()


def network(collective: Collective, number: int = 5) -> JobNetwork:
    return JobNetwork(star(), number, Job("it", collective, Fraction(3)))


def found(one: JobNetwork, prices: np.ndarray = PRICES) -> list[tuple[int | None, float, Column]]:
    return list(one.cheapest(prices))


def test_nodes_that_are_no_members_are_absent() -> None:
    """b is neither a rank nor a forwarder; ranks stand in another order than nodes."""
    (zero, first, column), (one, second, other) = found(network(Collective(CollectiveKind.ALLGATHER, (2, 0))))
    assert (zero, one) == (0, 1)
    assert first == pytest.approx(16 + 32)  # from c to a
    assert second == pytest.approx(1 + 8)  # from a to c
    assert (column.job, column.root, dict(column.loads)) == (5, 0, {4: 1, 5: 1})
    assert (other.job, other.root, dict(other.loads)) == (5, 1, {0: 1, 3: 1})
    assert column.broadcast is not None
    assert other.broadcast is not None
    assert (column.broadcast.parent, column.broadcast.paths) == ((-1, 0), {1: (4, 5)})
    assert (other.broadcast.parent, other.broadcast.paths) == ((1, -1), {0: (0, 3)})
    assert column.reduce is None
    assert column.routes == ()


def test_trees_inward_have_the_paths_that_their_data_take() -> None:
    (zero, first, column), (one, second, _) = found(
        network(Collective(CollectiveKind.REDUCE_SCATTER, (2, 0)))
    )
    assert (zero, one) == (0, 1)
    assert first == pytest.approx(1 + 8)  # from a to c, the root
    assert second == pytest.approx(16 + 32)
    assert column.broadcast is None
    assert column.reduce is not None
    assert (column.reduce.parent, column.reduce.paths) == ((-1, 0), {1: (0, 3)})
    assert dict(column.loads) == {0: 1, 3: 1}


def test_an_allreduce_takes_the_root_whose_two_trees_cost_least() -> None:
    """Rank 1 is c: out of it 48 to a and 2 on to b; into it 12 from b and 2 from a to b before.

    Rooted at a: 2 + 9 out and 18 + 36 in; at b: 36 + 9 out and 2 + 18 in: 65 both.
    """
    ((root, length, column),) = found(network(Collective(CollectiveKind.ALLREDUCE, (1, 2, 0))))
    assert root is None
    assert length == pytest.approx(50 + 14)
    assert column.root == 1
    assert column.broadcast is not None
    assert column.reduce is not None
    assert column.broadcast.parent == (2, -1, 1)
    assert column.broadcast.paths == {2: (4, 5), 0: (6,)}
    assert column.reduce.parent == (1, -1, 0)
    assert column.reduce.paths == {0: (2, 3), 2: (6,)}
    assert dict(column.loads) == {4: 1, 5: 1, 6: 2, 2: 1, 3: 1}


def test_an_alltoall_has_a_bundle_for_each_sender_and_passes_through_ranks() -> None:
    demands = Demands(np.array([[9, 3, 2], [0, 0, 0], [0, 4, 1]]))
    one = network(Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands))
    prices = PRICES.copy()
    prices[0] = 50  # from a to the switch: by way of b now
    (zero, first, column), (two, second, other) = found(one, prices)
    assert (zero, two) == (0, 2)
    assert column.routes == ((1, (6,)), (2, (6, 2, 3)))
    assert first == pytest.approx(3 * 2 + 2 * (2 + 4 + 8))
    assert dict(column.loads) == {6: 5, 2: 2, 3: 2}
    assert (column.job, column.root) == (5, 0)
    assert other.routes == ((1, (4, 1)),)
    assert second == pytest.approx(4 * (16 + 2))
    assert dict(other.loads) == {4: 4, 1: 4}
    assert [one.root_fraction(root) for root in one.roots] == [Fraction(1, 14), Fraction(1, 14)]


def test_edges_of_trees_end_at_ranks_but_go_through_forwarders() -> None:
    prices = PRICES.copy()
    prices[0] = 50
    ranks = Collective(CollectiveKind.BROADCAST, (0, 1, 2), 0)
    ((_, length, column),) = found(network(ranks), prices)
    assert length == pytest.approx(2 + 12)
    assert column.broadcast is not None
    assert column.broadcast.paths == {1: (6,), 2: (2, 3)}
    two = Collective(CollectiveKind.BROADCAST, (0, 2), 0, forwarders=(1,))
    ((_, length, column),) = found(network(two), prices)
    assert length == pytest.approx(14)
    assert column.broadcast is not None
    assert column.broadcast.paths == {1: (6, 2, 3)}


def test_of_free_links_the_fewest_are_taken() -> None:
    ((root, length, column),) = found(
        network(Collective(CollectiveKind.BROADCAST, (0, 1, 2), 0)), np.zeros(7)
    )
    assert root == 0
    assert column.broadcast is not None
    assert column.broadcast.paths[1] == (6,)
    assert length == pytest.approx(3e-12, rel=1e-6)  # one link to b, two to c


@pytest.mark.parametrize(
    ("kind", "root", "weights", "roots", "shares"),
    [
        (CollectiveKind.ALLGATHER, None, (0, 2, 3), [1, 2], [Fraction(2, 5), Fraction(3, 5)]),
        (CollectiveKind.REDUCE_SCATTER, None, (1, 0, 3), [0, 2], [Fraction(1, 4), Fraction(3, 4)]),
        (CollectiveKind.BROADCAST, 2, None, [2], [Fraction(1)]),
        (CollectiveKind.REDUCE, 1, None, [1], [Fraction(1)]),
        (CollectiveKind.ALLREDUCE, None, None, [None], [Fraction(1)]),
    ],
)
def test_roots_and_what_each_has(
    kind: CollectiveKind,
    root: int | None,
    weights: tuple[int, ...] | None,
    roots: list[int | None],
    shares: list[Fraction],
) -> None:
    one = network(Collective(kind, (2, 0, 1), root, weights))
    assert one.roots == roots
    assert [one.root_fraction(root) for root in roots] == shares
    assert [root for root, _, _ in one.cheapest(PRICES)] == roots


@pytest.mark.parametrize(
    "kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL]
)
def test_a_rank_out_of_reach_is_told_with_the_job(kind: CollectiveKind) -> None:
    builder = TopologyBuilder("one way")
    for name in "abc":
        builder.compute(name)
    for tail, head in ("ab", "ba", "cb", "ca"):
        builder.link(tail, head, 10**9)
    one = JobNetwork(builder.build(), 0, Job("odd job", Collective(kind, (0, 1, 2)), Fraction(1)))
    message = (
        "job 'odd job': some of its ranks cannot reach others by links of its own; let the other compute "
        "nodes forward (forward = true)"
    )
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        list(one.cheapest(np.ones(4)))
