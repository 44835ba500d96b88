"""Boxes of a fabric, and Hamiltonian cycles inside boxes without a switch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.math.graphs import components
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology, TopologyBuilder

Arcs = Mapping[int, Mapping[int, int]]
"""Bandwidth of the direct links from a rank to each neighbouring rank, parallel links together."""

SEARCH_LIMIT = 5000
"""Steps of one Hamiltonian search; MI250's 16 GPUs need fewer than 100 at the loosest threshold."""


def find_boxes(topology: Topology, collective: Collective) -> tuple[tuple[int, ...], ...]:
    """Return the ranks in groups that are joined better inside than to one another.

    Take links from the widest downwards: the boxes are the groups just before the bandwidth at which all
    ranks become connected. Groups with a direct link between their ranks count as one box, and if every rank
    is alone, all ranks are one box.

    Boxes with faster network cards than others would be joined before those. So where the sizes differ, the
    groups at a wider bandwidth are taken if their sizes differ less, and they are joined by a switch that
    leads to the other groups too: the network, and no part of a box.

    Returns
    -------
    tuple of tuples of int
        Ranks of each box, rising; boxes by their first rank.
    """
    widths = Counter[tuple[int, int]]()
    for tail, head, bandwidth in _links(topology):
        widths[tail, head] += bandwidth
    arcs, n = direct_arcs(topology, collective), collective.n_ranks
    # by falling bandwidth: the groups of ranks, and the group of every node
    levels = [(_merge_neighbours([[rank] for rank in range(n)], arcs), list(range(topology.n_nodes)))]
    for least in sorted(set(widths.values()), reverse=True):
        leaders = _leaders(topology.n_nodes, [ends for ends, width in widths.items() if width >= least])
        joined = _parts([leaders[node] for node in collective.ranks])
        if len(joined) == 1:
            break
        levels.append((_merge_neighbours(joined, arcs), leaders))
    # an earlier level than the last where a network joins only some of the boxes
    best, last_leaders = levels[-1]
    for earlier, leaders in reversed(levels[:-1]):
        is_even = _spread(earlier) < _spread(best) and min(map(len, earlier)) > 1
        if is_even and _is_joined_by_network(leaders, last_leaders, list(widths), collective.ranks):
            best = earlier
    return (tuple(range(n)),) if len(best) == n else tuple(map(tuple, best))


def _spread(boxes: list[list[int]]) -> int:
    """Return the difference between the largest and the smallest number of ranks."""
    sizes = [len(box) for box in boxes]
    return max(sizes) - min(sizes)


def _is_joined_by_network(
    fine: list[int], coarse: list[int], links: Sequence[tuple[int, int]], ranks: Sequence[int]
) -> bool:
    """Whether every coarse group of several fine ones has a switch of none of them that leads out of it."""
    holding = {fine[node] for node in ranks}
    parts = defaultdict[int, set[int]](set)
    for node in ranks:
        parts[coarse[node]].add(fine[node])
    leading_out = {
        coarse[end]
        for tail, head in links
        if coarse[tail] != coarse[head]
        for end in (tail, head)
        if fine[end] not in holding
    }
    return all(len(groups) == 1 or leader in leading_out for leader, groups in parts.items())


def _links(topology: Topology) -> list[tuple[int, int, int]]:
    rows = zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    return [row for row in rows if row[0] != row[1]]


def _merge_neighbours(boxes: list[list[int]], arcs: Arcs) -> list[list[int]]:
    joined = [(rank, box[0]) for box in boxes for rank in box]
    links = [(tail, head) for tail, heads in arcs.items() for head in heads]
    return _parts(_leaders(len(joined), joined + links))


def _leaders(n: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """Return a number for the group of every node that links join."""
    leaders: list[int] = components(n, *np.array(links, dtype=np.int64).reshape(-1, 2).T).tolist()
    return leaders


def _parts(leaders: Sequence[int]) -> list[list[int]]:
    """Return positions by group."""
    found = defaultdict[int, list[int]](list)
    for position, leader in enumerate(leaders):
        found[leader].append(position)
    return list(found.values())


def direct_arcs(topology: Topology, collective: Collective) -> dict[int, dict[int, int]]:
    """Return the links that join ranks without a switch, parallel links together."""
    rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
    arcs: dict[int, dict[int, int]] = {rank: {} for rank in range(collective.n_ranks)}
    for tail, head, bandwidth in _links(topology):
        if tail in rank_of and head in rank_of:
            row = arcs[rank_of[tail]]
            row[rank_of[head]] = row.get(rank_of[head], 0) + bandwidth
    return arcs


class CycleFinder:
    """Finds Hamiltonian cycles and paths of one box over direct links, avoiding loaded links.

    Parameters
    ----------
    box : sequence of int
        Ranks.
    arcs : Arcs
    variant : int
        Another one breaks ties in another order and so may find other cycles.
    """

    def __init__(self, box: Sequence[int], arcs: Arcs, *, variant: int = 0) -> None:
        members = set(box)
        place = {v: i * (2 * variant + 1) % (len(box) + 1) for i, v in enumerate(box)}
        self._arcs = {
            u: {v: arcs[u][v] for v in sorted(arcs[u].keys() & members, key=lambda v: (place[v], v))}
            for u in box
        }
        self._loads = {(u, v): 0 for u in box for v in self._arcs[u]}

    @property
    def degree(self) -> int:
        """Greatest number of neighbours."""
        return max(len(row) for row in self._arcs.values())

    @property
    def relative_load(self) -> Fraction:
        """Greatest load per bandwidth so far."""
        return max(Fraction(load, self._arcs[u][v]) for (u, v), load in self._loads.items())

    def next_order(self, start: int, end: int | None = None) -> tuple[int, ...] | None:
        """Return a path from `start` to `end`, or a cycle from `start` without `end`; None if none is found.

        Counts as load in both directions, because rings go in both directions. Links are added by rising
        relative load, so the result has the least greatest load that the search can reach.
        """
        thresholds = {Fraction(self._loads[u, v] + 1, self._arcs[u][v]) for u, v in self._loads}
        for threshold in sorted(thresholds):
            context().report("rings", 0, 0)
            most, unit = threshold.as_integer_ratio()  # products of integers are four times as fast
            allowed = {
                u: [v for v in row if (self._loads[u, v] + 1) * unit <= most * row[v]]
                for u, row in self._arcs.items()
            }
            order = hamiltonian_order(allowed, start, end)
            if order is not None:
                walk = order if end is not None else order + order[:1]
                for u, v in pairwise(walk):
                    self._loads[u, v] += 1
                    if (v, u) in self._loads and len(walk) > 2:
                        self._loads[v, u] += 1
                return order
        return None

    def is_reversible(self, cycle: Sequence[int]) -> bool:
        """Whether every arc of the cycle has its opposite and the opposite cycle is another one."""
        return len(cycle) > 2 and all(cycle[i - 1] in self._arcs[cycle[i]] for i in range(len(cycle)))


def hamiltonian_order(
    neighbours: Mapping[int, Sequence[int]], start: int, end: int | None = None
) -> tuple[int, ...] | None:
    """Return a path through all `neighbours` from `start` to `end`; without `end` one that closes to a cycle.

    Backtracking that visits neighbours with the fewest free neighbours first. It gives up after
    `SEARCH_LIMIT` steps, so None proves nothing.
    """
    n = len(neighbours)
    path, visited = [start], {start}

    def onward(node: int) -> list[int]:
        free = [v for v in neighbours[node] if v not in visited and (v != end or len(path) == n - 1)]
        # taken from the end: fewest free neighbours, then first in the neighbours' order
        return sorted(free, key=lambda v: sum(w not in visited for w in neighbours[v]))[::-1]

    choices = [onward(start)]
    for _ in range(SEARCH_LIMIT):
        if len(path) == n and (path[-1] == end if end is not None else start in neighbours[path[-1]]):
            return tuple(path)
        if choices[-1]:
            node = choices[-1].pop()
            path.append(node)
            visited.add(node)
            choices.append(onward(node))
        else:
            choices.pop()
            visited.discard(path.pop())
            if not choices:
                return None
    return None


def fabric_of_box(
    topology: Topology, nodes: Sequence[int], switches: Sequence[int] = ()
) -> tuple[Topology, Int64Array]:
    """Return a box with its own switches, and the numbers of its links; equal boxes have equal fabrics."""
    builder = TopologyBuilder("box")
    names = {node: builder.compute(f"gpu{i}") for i, node in enumerate(nodes)}
    names |= {node: builder.switch(f"switch{i}") for i, node in enumerate(switches)}
    numbers = []
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        if tail in names and head in names and tail != head:
            builder.link(names[tail], names[head], int(topology.bandwidths[link]))
            numbers.append(link)
    return builder.build(), np.array(numbers, dtype=np.int64)
