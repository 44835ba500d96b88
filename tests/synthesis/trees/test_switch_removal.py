"""What is said of switches and forwarders that are not balanced; arcs of fabrics without any."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.switch_removal import (
    check_balance,
    has_balanced_relays,
    remove_switches,
    unbalanced_relay,
)
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def lopsided(*, loop: int = 0) -> Topology:
    """Switch s takes in 5 and lets out 4; forwarder f takes in 3 and lets out 3, but for its loop."""
    builder = TopologyBuilder("odd")
    builder.switch("s")
    for name in "afb":
        builder.compute(name)
    for tail, head, bandwidth in (("a", "s", 5), ("s", "b", 4), ("a", "f", 3), ("f", "b", 3), ("b", "a", 9)):
        builder.link(tail, head, bandwidth)
    if loop:
        builder.link("f", "f", loop)
    return builder.build()


@pytest.mark.parametrize(
    ("kind", "capacities", "words"),
    [
        (
            K.ALLGATHER,
            (5, 4, 3, 3, 9),
            "odd: switch 's' is not Eulerian: 5 in, 4 out; leave the surplus unused (--trim)",
        ),
        (
            K.REDUCE_SCATTER,  # turned round for the search, but told as it is
            (5, 4, 3, 3, 9),
            "odd: switch 's' is not Eulerian: 5 in, 4 out; leave the surplus unused (--trim)",
        ),
        (
            K.ALLGATHER,
            (4, 4, 3, 1, 9),
            "odd: 'f', no rank and a forwarder (--forward), is not Eulerian: 3 in, 1 out; "
            "leave the surplus unused (--trim), make it a rank, or drop --forward",
        ),
        (
            K.REDUCE_SCATTER,
            (2, 2, 2**61, 2**61 + 2**60, 2**62),  # sums beyond 64 bits
            f"odd: 'f', no rank and a forwarder (--forward), is not Eulerian: "
            f"{2**61} in, {2**61 + 2**60} out; "
            "leave the surplus unused (--trim), make it a rank, or drop --forward",
        ),
    ],
)
def test_relays_that_are_not_balanced(kind: CollectiveKind, capacities: tuple[int, ...], words: str) -> None:
    problem = instance_of(lopsided(), Collective(kind, (1, 3), forwarders=(2,)))
    with pytest.raises(InfeasibleError) as refused:
        check_balance(problem, np.array(capacities))
    assert str(refused.value) == words


@pytest.mark.parametrize("scale", [1, 2**58, 2**60])
def test_the_first_unbalanced_relay(scale: int) -> None:
    """Whether sums fit 64 bits or not; ranks need no balance, and a loop comes and goes."""
    problem = instance_of(lopsided(loop=7), Collective(K.ALLGATHER, (1, 3), forwarders=(2,)))

    def first(*capacities: int) -> int | None:
        return unbalanced_relay(problem, np.array(capacities) * scale)

    assert first(1, 1, 3, 3, 1, 1) is None
    assert first(1, 1, 3, 2, 1, 1) == 2
    assert first(2, 1, 3, 2, 1, 1) == 0
    assert first(1, 2, 3, 3, 1, 1) == 0


def test_whether_all_relays_are_balanced() -> None:
    fabric = lopsided()
    assert not has_balanced_relays(fabric, Collective(K.ALLGATHER, (1, 3), forwarders=(2,)))
    builder = TopologyBuilder("even")
    builder.compute("a")
    builder.compute("b")
    builder.switch("s")
    for tail, head in (("a", "s"), ("s", "b"), ("b", "a")):
        builder.link(tail, head, 2)
    assert has_balanced_relays(builder.build(), Collective(K.ALLGATHER, (0, 1)))


def test_without_relays_links_are_arcs() -> None:
    """Parallel links share one, loops and links without capacity have none; by tail, then by head."""
    builder = TopologyBuilder("direct")
    for name in "abc":
        builder.compute(name)
    for tail, head in ("cb", "ab", "bb", "ca", "ab", "bc", "ac"):
        builder.link(tail, head, 9)
    problem = instance_of(builder.build(), Collective(K.ALLGATHER, (0, 1, 2)))
    graph = remove_switches(problem, np.array([4, 2, 8, 1, 3, 0, 5]), np.ones(3, dtype=np.int64))
    assert graph.tails.tolist() == [0, 0, 2, 2]
    assert graph.heads.tolist() == [1, 2, 0, 1]
    assert graph.capacities.tolist() == [5, 5, 1, 4]
    assert graph.segment_offset.tolist() == [0, 2, 3, 4, 5]
    assert graph.segment_path.tolist() == [0, 1, 2, 3, 4]
    assert graph.segment_units.tolist() == [2, 3, 5, 1, 4]
    assert graph.path_offset.tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.path_links.tolist() == [1, 4, 6, 3, 0]
    empty = remove_switches(problem, np.zeros(7, dtype=np.int64), np.zeros(3, dtype=np.int64))
    assert len(empty.tails) == len(empty.capacities) == len(empty.path_links) == 0
    assert empty.segment_offset.tolist() == empty.path_offset.tolist() == [0]


def test_arcs_through_a_switch() -> None:
    """One way through: a -> s -> b; the capacity that ends at a rank is split by its segments."""
    builder = TopologyBuilder("through")
    builder.compute("a")
    builder.switch("s")
    builder.compute("b")
    for tail, head, bandwidth in (("a", "s", 6), ("s", "b", 6), ("a", "b", 5), ("b", "a", 11)):
        builder.link(tail, head, bandwidth)
    problem = instance_of(builder.build(), Collective(K.ALLGATHER, (0, 2)))
    graph = remove_switches(problem, np.array([6, 6, 5, 11]), np.array([11, 11]))
    arcs = zip(graph.tails.tolist(), graph.heads.tolist(), graph.capacities.tolist(), strict=True)
    assert sorted(arcs) == [(0, 2, 11), (2, 0, 11)]
    found = {
        tuple(graph.path_links[graph.path_offset[path] : graph.path_offset[path + 1]].tolist()): int(units)
        for path, units in zip(graph.segment_path, graph.segment_units, strict=True)
    }
    assert found == {(0, 1): 6, (2,): 5, (3,): 11}


def test_an_unbalanced_switch_is_not_removed() -> None:
    problem = instance_of(lopsided(), Collective(K.ALLGATHER, (1, 3), forwarders=(2,)))
    with pytest.raises(InfeasibleError, match="odd: switch 's' is not Eulerian: 5 in, 4 out"):
        remove_switches(problem, problem.bandwidths, np.ones(2, dtype=np.int64))
