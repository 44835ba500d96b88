"""The flow problem, its cuts and its optimum on small odd fabrics, against all cuts one by one."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.trees.instance import (
    UNIT_LIMIT,
    WIDE_LIMIT,
    Instance,
    check_units,
    cut_capacity,
    cut_weight,
    find_violated_cut,
    instance_of,
)
from treadle.synthesis.trees.optimality import instance_optimum, optimum
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def random_fabric(seed: int) -> Topology:
    """Five nodes, the second and the fourth switches; loops and parallel links; a ring makes it connected."""
    chance, builder = np.random.default_rng(seed), TopologyBuilder("odd")
    names = ["a", "s", "b", "t", "c"]
    for name in names:
        if name in "st":
            builder.switch(name)
        else:
            builder.compute(name)
    for i in range(5):
        builder.link(names[i], names[(i + 1) % 5], int(chance.integers(1, 20)))
    for _ in range(8):
        i, j = chance.integers(0, 5, 2).tolist()
        builder.link(names[i], names[j], int(chance.integers(1, 20)))
    return builder.build()


def cuts(problem: Instance) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Every set that leaves out some terminal: nodes, capacity out of it, weight inside."""
    weight_of = dict(zip(problem.terminals.tolist(), problem.weights.tolist(), strict=True))
    for size in range(1, problem.n_nodes):
        for nodes in combinations(range(problem.n_nodes), size):
            if not set(weight_of) <= set(nodes):
                rows = zip(
                    problem.tails.tolist(), problem.heads.tolist(), problem.bandwidths.tolist(), strict=True
                )
                out = sum(b for tail, head, b in rows if tail in nodes and head not in nodes)
                yield nodes, out, sum(weight_of.get(node, 0) for node in nodes)


CASES = [
    Collective(K.ALLGATHER, (4, 0, 2)),
    Collective(K.ALLGATHER, (4, 0, 2), weights=(1, 5, 2)),
    Collective(K.REDUCE_SCATTER, (2, 4, 0), weights=(3, 0, 1)),
    Collective(K.BROADCAST, (0, 2, 4), root=1),
    Collective(K.REDUCE, (0, 2, 4), root=2),
    Collective(K.ALLREDUCE, (4, 2, 0)),
]


@pytest.mark.parametrize("collective", CASES, ids=lambda one: str(one.kind))
@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_of_all_cuts(seed: int, collective: Collective) -> None:
    fabric = random_fabric(seed)
    problem = instance_of(fabric, collective)
    found = optimum(fabric, collective)
    least = min(Fraction(out, weight) for _, out, weight in cuts(problem) if weight)
    assert (found.rate, found.algbw) == (least, least * int(problem.weights.sum()))
    attaining = [nodes for nodes, out, weight in cuts(problem) if weight and out == least * weight]
    assert found.certificate.nodes in attaining
    certificate = np.array(found.certificate.nodes, dtype=np.int32)
    assert (
        Fraction(cut_capacity(problem, certificate, problem.bandwidths), cut_weight(problem, certificate))
        == least
    )


@pytest.mark.parametrize("collective", CASES, ids=lambda one: str(one.kind))
def test_a_violated_cut_is_found_just_above_the_optimum(collective: Collective) -> None:
    problem = instance_of(random_fabric(3), collective)
    rate = instance_optimum(problem).rate
    assert find_violated_cut(problem, problem.bandwidths, rate=rate) is None
    # the same with the rate's numerator as a number of trees
    assert (
        find_violated_cut(
            problem,
            problem.bandwidths * rate.denominator,
            multiplicity=rate.numerator,
        )
        is None
    )
    higher = rate * (1 + Fraction(1, 10**9))
    found = find_violated_cut(problem, problem.bandwidths, rate=higher)
    assert found is not None
    nodes = tuple(sorted(found[1].tolist()))
    assert cut_capacity(problem, found[1], problem.bandwidths) < higher * cut_weight(problem, found[1])
    assert (
        nodes,
        cut_capacity(problem, found[1], problem.bandwidths),
        cut_weight(problem, found[1]),
    ) in list(cuts(problem))
    again = find_violated_cut(problem, problem.bandwidths, rate=higher, first=found[0])
    assert again is not None
    assert again[0] == found[0]


def test_the_fields_of_a_problem() -> None:
    """Reducing turns links round; an allreduce counts as an allgather of equal shards."""
    fabric = random_fabric(1)
    for collective in CASES:
        problem = instance_of(fabric, collective)
        reduces = collective.kind in (K.REDUCE_SCATTER, K.REDUCE)
        assert problem.direction is (Direction.REDUCE if reduces else Direction.BROADCAST)
        tails, heads = (problem.heads, problem.tails) if reduces else (problem.tails, problem.heads)
        assert (tails.tolist(), heads.tolist()) == (fabric.tails.tolist(), fabric.heads.tolist())
        assert problem.bandwidths.tolist() == fabric.bandwidths.tolist()
        assert problem.terminals.tolist() == list(collective.ranks)
        assert (problem.n_nodes, problem.relays.tolist()) == (5, [1, 3])
    weights = [instance_of(fabric, one).weights.tolist() for one in CASES]
    assert weights == [[1, 1, 1], [1, 5, 2], [3, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 1]]


def test_trees_that_fit_tell_the_same_as_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of 12 ranks have links, so that trees of shortest paths are tried first."""
    builder = TopologyBuilder("dense")
    names = [builder.compute(f"r{rank}") for rank in range(12)]
    for one in names:
        for other in names:
            if one != other:
                builder.link(one, other, 2)
    weights = (3, *(1,) * 10, 0)
    problem = instance_of(builder.build(), Collective(K.ALLGATHER, tuple(range(12)), weights=weights))
    best = instance_optimum(problem).rate
    assert best == Fraction(22, 13)  # into the rank without a shard go 11 links
    for rate, holds in ((best, True), (best + Fraction(1, 10**6), False), (Fraction(1), True)):
        assert (find_violated_cut(problem, problem.bandwidths, rate=rate) is None) is holds
    equal = instance_of(problem.topology, Collective(K.ALLGATHER, tuple(range(12))))
    for rate, holds in ((Fraction(2), True), (Fraction(3), False), (Fraction(21, 10), False)):
        assert (find_violated_cut(equal, equal.bandwidths, rate=rate) is None) is holds
    assert find_violated_cut(problem, problem.bandwidths * 13, multiplicity=22) is None
    assert find_violated_cut(problem, problem.bandwidths * 13, multiplicity=23) is not None


def test_a_node_that_takes_no_part_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'c'"):
        instance_of(random_fabric(1), Collective(K.ALLGATHER, (0, 2)))


def test_a_capped_node_is_refused() -> None:
    builder = TopologyBuilder("capped")
    builder.compute("a")
    builder.compute("b", injection_bytes_per_s=5)
    builder.duplex("a", "b", 9)
    with pytest.raises(InfeasibleError) as refused:
        instance_of(builder.build(), Collective(K.ALLGATHER, (0, 1)))
    assert str(refused.value) == (
        "compute node 'b' has an injection cap, which tree schedules do not model; "
        "put a switch with links of that bandwidth between the node and its links"
    )


@pytest.mark.parametrize(
    ("kind", "weights", "words"),
    [
        (K.ALLGATHER, (1, 1, 1), "odd: rank 'a' cannot reach rank 'c'; connect them or drop a rank"),
        (K.ALLGATHER, (0, 1, 0), "odd: rank 'b' cannot reach rank 'c'; connect them or drop a rank"),
        (
            K.REDUCE_SCATTER,
            (1, 1, 2),
            "odd: rank 'c' cannot be reached from rank 'a'; connect them or drop a rank",
        ),
    ],
)
def test_ranks_that_are_cut_off(kind: CollectiveKind, weights: tuple[int, ...], words: str) -> None:
    """Links lead between a and b, and from c to a."""
    builder = TopologyBuilder("odd")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 4)
    builder.link("c", "a", 4)
    with pytest.raises(InfeasibleError) as refused:
        optimum(builder.build(), Collective(kind, (0, 1, 2), weights=weights))
    assert str(refused.value) == words


def test_the_only_shard_needs_nothing_to_come_in() -> None:
    builder = TopologyBuilder("one way")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "a", 100)
    builder.link("a", "b", 3)
    found = optimum(builder.build(), Collective(K.ALLGATHER, (0, 1), weights=(2, 0)))
    assert found.rate == found.algbw == 3
    assert found.certificate.nodes == (0,)


def test_numbers_of_too_many_digits() -> None:
    """What two sides of a cut come to is compared in 126 bits, the denominator in 63."""
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    builder.duplex("a", "b", 1)
    problem = instance_of(builder.build(), Collective(K.ALLGATHER, (0, 1)))
    capacities = np.array([2**60, 2**60])
    most = WIDE_LIMIT // 2 - 2**60  # of two terminals: 2**61 + 2 * most is the limit
    words = (
        "pair: bandwidths and weights have too many digits to compare cuts exactly; "
        "round them, say to whole GB/s"
    )
    assert find_violated_cut(problem, capacities, rate=Fraction(most - 1)) is not None
    for rate in (Fraction(most), Fraction(1, 2**63), Fraction(2**63 + 1, 2**63)):
        with pytest.raises(InfeasibleError) as refused:
            find_violated_cut(problem, np.ones(2, dtype=np.int64) if rate < 2 else capacities, rate=rate)
        assert str(refused.value) == words
    assert find_violated_cut(problem, np.ones(2, dtype=np.int64), rate=Fraction(1, 2**63 - 1)) is None


def test_units_at_the_limit() -> None:
    check_units([UNIT_LIMIT - 8, 3], [3, 1])
    with pytest.raises(InfeasibleError) as refused:
        check_units([UNIT_LIMIT - 8, 3], [3, 2])
    assert str(refused.value) == (
        "the schedule needs capacities of 2**61 units or more; limit the trees (--max-trees 10)"
    )
