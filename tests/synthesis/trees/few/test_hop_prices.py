"""Cheapest paths from rank to rank through relays, against all paths one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.few.hop_prices import HopPrices
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import TopologyBuilder


def random_problem(seed: int) -> Instance:
    """Three ranks, out of order, a forwarder and three switches; links of all sorts, parallel and looped."""
    chance, builder = np.random.default_rng(seed), TopologyBuilder("odd")
    names = [
        builder.switch("s0"),
        *map(builder.compute, ("a", "b", "f", "c")),
        *map(builder.switch, ("s1", "s2")),
    ]
    for tail, head in chance.integers(0, 7, (22, 2)).tolist():
        builder.link(names[tail], names[head], 5)
    return instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, (4, 1, 2), forwarders=(3,)))


def paths_between(problem: Instance, start: int, goal: int) -> Iterator[list[int]]:
    """All paths through relays that visit none twice."""
    links = list(zip(problem.tails.tolist(), problem.heads.tolist(), strict=True))
    relays = set(problem.relays.tolist())

    def further(node: int, path: list[int], seen: set[int]) -> Iterator[list[int]]:
        for link, (tail, head) in enumerate(links):
            if tail != node or head in seen:
                continue
            if head == goal:
                yield [*path, link]
            elif head in relays:
                yield from further(head, [*path, link], seen | {head})

    return further(start, [], {start})


@pytest.mark.parametrize("seed", range(8))
def test_random_fabrics(seed: int) -> None:
    problem = random_problem(seed)
    places = np.random.default_rng(seed).permutation(len(problem.tails))
    prices = np.array([1.9**place for place in places.tolist()])  # no two sums alike
    hops = HopPrices(problem)
    cost, by_link = hops.at(prices)
    assert cost.shape == (3, 3)
    for sender, one in enumerate(problem.terminals.tolist()):
        for target, other in enumerate(problem.terminals.tolist()):
            paths = list(paths_between(problem, one, other)) if one != other else []
            if not paths:
                assert cost[sender, target] == np.inf
                continue
            best = min(paths, key=lambda path: float(prices[path].sum()))
            assert cost[sender, target] == pytest.approx(prices[best].sum(), rel=1e-12)
            assert hops.path(by_link, sender, target) == tuple(best)


def test_ranks_do_not_pass_on() -> None:
    """a -> b -> c has no hop from a to c, but a link to itself is none either."""
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for tail, head in ("aa", "ab", "ab", "bc", "ca"):
        builder.link(tail, head, 1)
    problem = instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, (0, 1, 2)))
    cost, by_link = HopPrices(problem).at(np.array([1.0, 7.0, 7.0, 4.0, 0.0]))
    none = np.inf
    assert cost.tolist() == [[none, 7, none], [none, none, 4], [0, none, none]]
    assert by_link.tolist() == [[-1, 1, -1], [-1, -1, 3], [4, -1, -1]]  # of equal links the first
