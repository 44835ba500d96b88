"""Properties of a fabric that the checks of bounds share: links, classes, latencies, boxes and rates.

Distances are relaxed node by node in plain Python, because these checks share no code with the search for
bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from treadle.errors import ScheduleError
from treadle.simulation.costs.cost_model import ClassCost, LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.size_bounds.size_certificate import ReachClass
from treadle.topologies.topology import Topology

Link = tuple[int, int, LinkClass, int]
"""Tail, head, class, and latency in ns."""
Hop = tuple[int, int, int, int]
"""Tail, head, latency in ns, and the rate of data in bytes/s."""
Check = Callable[[Any, Fraction, int], None]
"""Raises ScheduleError unless a certificate proves a claimed time (ns after the launch) for a size."""
Figures = TypeVar("Figures")

FAR = 2**60
"""Latency (ns) or price of an unreachable node."""


def least_prices(
    arcs: Iterable[tuple[int, int, int]], many_starts: Iterable[Collection[int]]
) -> list[dict[int, int]]:
    """Return, for each set of start nodes, the least price of a path from it to each reachable node."""
    leaving: dict[int, list[tuple[int, int]]] = {}
    for tail, head, price in arcs:
        leaving.setdefault(tail, []).append((head, price))
    rows = []
    for starts in many_starts:
        found = dict.fromkeys(starts, 0)
        todo = set(starts)
        while todo:
            reached: set[int] = set()
            for node in todo:
                for other, price in leaving.get(node, ()):
                    if other not in found or found[node] + price < found[other]:
                        found[other] = found[node] + price
                        reached.add(other)
            todo = reached
        rows.append(found)
    return rows


def carried(windows: Iterable[tuple[int, Fraction | int]], claimed: Fraction) -> Fraction:
    """Return how much links carry by a time, from pairs of (idle ns, rate)."""
    return sum((rate * max(Fraction(0), claimed - pause) for pause, rate in windows), Fraction(0))


class CheckedFabric:
    """A fabric under a protocol.

    Attributes
    ----------
    links : list of Link
    classes : set of LinkClass
        Classes of the links that are not self-loops.
    copying : set of LinkClass
        Classes of the links at switches with multicast.
    mixes : bool
        Links of several classes meet at a switch with multicast or aggregation.
    """

    def __init__(self, topology: Topology, protocol: Protocol) -> None:
        self.topology, self.protocol = topology, protocol
        classes = [CLASSES[number] for number in link_classes(topology).tolist()]
        rows = zip(
            topology.tails.tolist(), topology.heads.tolist(), topology.latencies_ns.tolist(), strict=True
        )
        self.links: list[Link] = [
            (tail, head, kind, own + protocol.of(kind).hop_ns)
            for (tail, head, own), kind in zip(rows, classes, strict=True)
        ]
        self.classes = {kind for tail, head, kind, _ in self.links if tail != head}
        self.copying: set[LinkClass] = set()
        self.mixes = self._mixes()

    def _mixes(self) -> bool:
        topology, mixed = self.topology, False
        for start in np.flatnonzero(topology.multicast | topology.aggregation).tolist():
            group, todo = {start}, {start}  # grows to all switches joined to this one
            while todo:
                node = todo.pop()
                ends = {
                    end for tail, head, _, _ in self.links if node in (tail, head) for end in (tail, head)
                }
                todo |= (new := {end for end in ends - group if not topology.is_compute[end]})
                group |= new
            kinds = {kind for tail, head, kind, _ in self.links if tail != head and {tail, head} & group}
            mixed |= len(kinds) > 1
            if any(topology.multicast[node] for node in group):
                self.copying |= kinds
        return mixed

    def cost(self, kind: LinkClass) -> ClassCost:
        """Return the smallest costs that a message over a link of the class may have."""
        if not self.mixes:
            return self.protocol.of(kind)
        costs = [self.protocol.of(one) for one in self.classes]
        return ClassCost(min(one.alpha_ns for one in costs), min(one.occupancy_ns for one in costs))

    def latencies(
        self, starts: Collection[int], kinds: Collection[LinkClass], *, backwards: bool = False
    ) -> dict[int, int]:
        """Return the least latency from the start nodes to each node, or back, over links of some classes."""
        arcs = [
            (head, tail, latency) if backwards else (tail, head, latency)
            for tail, head, kind, latency in self.links
            if kind in kinds
        ]
        return least_prices(arcs, [starts])[0]

    def least_between(self, nodes: Collection[int]) -> int:
        """Return the least latency between two of the nodes."""
        leaving: dict[int, list[tuple[int, int]]] = {}
        for tail, head, _, latency in self.links:
            leaving.setdefault(tail, []).append((head, latency))
        # one relaxation suffices if every node remembers its two nearest sources
        near = {node: {node: 0} for node in nodes}
        todo = set(nodes)
        while todo:
            reached: set[int] = set()
            for node in todo:
                for other, latency in leaving.get(node, ()):
                    sources = near.setdefault(other, {})
                    for source, way in list(near[node].items()):
                        way += latency
                        if way >= sources.get(source, way + 1):
                            continue
                        if source not in sources and len(sources) == 2:
                            farthest = max(sources, key=sources.__getitem__)
                            if way >= sources[farthest]:
                                continue
                            del sources[farthest]
                        sources[source] = way
                        reached.add(other)
            todo = reached
        return min(way for node in nodes for source, way in near[node].items() if source != node)

    def of_one_class(self) -> tuple[ClassCost, list[Hop]]:
        """Return the costs of the only class of links, and all links but self-loops."""
        if len(self.classes) != 1:
            raise ScheduleError("size bound: pairs are counted only where all links are of one class")
        return self.protocol.of(*self.classes), [
            (tail, head, latency, self.rate(number))
            for number, (tail, head, _, latency) in enumerate(self.links)
            if tail != head
        ]

    def spreading(
        self, box_ranks: int, near: Figures | None, far: Figures | None
    ) -> list[tuple[str, Figures | None, list[Link], list[Link]]]:
        """Return the kinds of messages: name, claimed costs, first links, links of which one is used.

        Raises ScheduleError if a box has more than `box_ranks` ranks.
        """
        box = self.boxes()
        many = max(Counter(box[node] for node in self.topology.compute_nodes.tolist()).values())
        if many > box_ranks:
            raise ScheduleError(f"size bound: a box has {many} ranks, more than {box_ranks}")
        links = [link for link in self.links if link[0] != link[1]]
        inside = [link for link in links if link[2] is LinkClass.BOX]
        between = [link for link in links if link[2] is not LinkClass.BOX]
        kinds = [("near", near, inside, inside), ("far", far, links, between)]
        return kinds if box_ranks > 1 else kinds[1:]

    def boxes(self) -> list[int]:
        """Return a number for each node, equal for nodes that links within boxes join."""
        number = list(range(self.topology.n_nodes))
        ends = [(tail, head) for tail, head, kind, _ in self.links if kind is LinkClass.BOX]
        while any(number[tail] != number[head] for tail, head in ends):
            for tail, head in ends:
                number[tail] = number[head] = min(number[tail], number[head])
        return number

    def check_class(
        self, name: str, claimed: ReachClass | None, first: list[Link], needed: list[Link]
    ) -> None:
        """Raise if messages that start on `first` and use one of `needed` may cost less than claimed."""
        if not needed:
            return
        if claimed is None:
            raise ScheduleError(f"size bound: there are {name} messages, the certificate has none")
        is_compute = self.topology.is_compute
        costs = [self.cost(kind) for _, _, kind, _ in needed]
        direct = [one[3] for one in first if is_compute[one[0]] and is_compute[one[1]]]
        out = [one[3] for one in first if is_compute[one[0]] and not is_compute[one[1]]]
        into = [one[3] for one in first if is_compute[one[1]] and not is_compute[one[0]]]
        if out and into:
            direct.append(min(out) + min(into))
        way = max(min(latency for *_, latency in needed), min(direct, default=0))
        links = max(Counter(tail for tail, _, _, _ in first if is_compute[tail]).values(), default=0)
        copies = any(kind in self.copying for _, _, kind, _ in needed)
        if (
            claimed.gap_ns > min(one.occupancy_ns for one in costs)
            or claimed.delay_ns > way + min(one.alpha_ns for one in costs)
            or claimed.links < links
            or (copies and not claimed.copies)
        ):
            raise ScheduleError(f"size bound: {name} messages may cost less than {claimed}")

    def rate(self, number: int) -> int:
        """Return the rate of data on a link, bytes/s."""
        tail, _, kind, _ = self.links[number]
        rate = max(1, int(int(self.topology.bandwidths[number]) * self.protocol.of(kind).efficiency))
        ceiling = self.protocol.ceiling_bytes_per_s
        return min(rate, ceiling) if ceiling and self.topology.is_compute[tail] else rate
