"""What a checker of bounds knows of a fabric, found once: links, classes, latencies, boxes, rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import TypeVar

from treadle.errors import ScheduleError
from treadle.simulation.costs.cost_model import ClassCost, LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.size_bounds.size_certificate import ReachClass
from treadle.topologies.topology import Topology

Link = tuple[int, int, LinkClass, int]
"""Tail, head, class, and latency in ns."""
Hop = tuple[int, int, int, Fraction]
"""Tail, head, latency in ns, and bytes/s that are left to data."""
Figures = TypeVar("Figures")


def least_prices(
    arcs: Iterable[tuple[int, int, int]], many_starts: Iterable[Collection[int]]
) -> list[dict[int, int]]:
    """Least price of a way from any of some nodes to each node that is reached, for each set of starts."""
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


class CheckedFabric:
    """A fabric and a protocol.

    Parameters
    ----------
    topology : Topology
    protocol : Protocol
    """

    def __init__(self, topology: Topology, protocol: Protocol) -> None:
        self.topology, self.protocol = topology, protocol
        classes = [CLASSES[number] for number in link_classes(topology).tolist()]
        ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
        self.links: list[Link] = [
            (tail, head, kind, int(own) + protocol.of(kind).hop_ns)
            for (tail, head), kind, own in zip(ends, classes, topology.latencies_ns.tolist(), strict=True)
        ]
        self.known = {kind for tail, head, kind, _ in self.links if tail != head}
        self.copying: set[LinkClass] = set()
        self.mixes = self._mixes()

    def _mixes(self) -> bool:
        """Whether switches that copy or add up may be passed by data over links of several classes."""
        topology = self.topology
        able = [
            node for node in range(topology.n_nodes) if topology.multicast[node] or topology.aggregation[node]
        ]
        mixed = False
        for start in able:
            group, todo = {start}, [start]
            while todo:
                node = todo.pop()
                for tail, head, _, _ in self.links:
                    for one, other in ((tail, head), (head, tail)):
                        if one == node and other not in group and not topology.is_compute[other]:
                            group.add(other)
                            todo.append(other)
            kinds = {kind for tail, head, kind, _ in self.links if tail != head and {tail, head} & group}
            mixed |= len(kinds) > 1
            if any(topology.multicast[node] for node in group):
                self.copying |= kinds
        return mixed

    def cost(self, kind: LinkClass) -> ClassCost:
        """Least figures of a message that has a link of a class."""
        if not self.mixes:
            return self.protocol.of(kind)
        figures = [self.protocol.of(one) for one in self.known]
        return ClassCost(min(one.alpha_ns for one in figures), min(one.occupancy_ns for one in figures))

    def latencies(
        self, starts: Collection[int], kinds: Collection[LinkClass], *, backwards: bool = False
    ) -> dict[int, int]:
        """Least latency from any of some nodes to every other over links of some classes, or back."""
        arcs = [
            (head, tail, latency) if backwards else (tail, head, latency)
            for tail, head, kind, latency in self.links
            if kind in kinds
        ]
        return least_prices(arcs, [starts])[0]

    def least_between(self, nodes: Collection[int]) -> int:
        """Least latency from one of some nodes to another of them: every node keeps its two nearest."""
        leaving: dict[int, list[tuple[int, int]]] = {}
        for tail, head, _, latency in self.links:
            leaving.setdefault(tail, []).append((head, latency))
        near = {node: {node: 0} for node in nodes}
        todo = set(nodes)
        while todo:
            reached: set[int] = set()
            for node in todo:
                for other, latency in leaving.get(node, ()):
                    mine = near.setdefault(other, {})
                    for source, way in list(near[node].items()):
                        way += latency
                        if way >= mine.get(source, way + 1):
                            continue
                        if source not in mine and len(mine) == 2:
                            farthest = max(mine, key=mine.__getitem__)
                            if way >= mine[farthest]:
                                continue
                            del mine[farthest]
                        mine[source] = way
                        reached.add(other)
            todo = reached
        return min(way for node in nodes for source, way in near[node].items() if source != node)

    def of_one_class(self) -> tuple[ClassCost, list[Hop]]:
        """The costs of the only class of links, and all links but self-loops."""
        if len(self.known) != 1:
            raise ScheduleError("size bound: pairs are counted where all links are of one class")
        (kind,) = self.known
        return self.protocol.of(kind), [
            (tail, head, latency, self.data_fraction(number, kind) * int(self.topology.bandwidths[number]))
            for number, (tail, head, _, latency) in enumerate(self.links)
            if tail != head
        ]

    def spreading(
        self, box_ranks: int, near: Figures | None, far: Figures | None
    ) -> list[tuple[str, Figures | None, list[Link], list[Link]]]:
        """Kinds of messages: name, figures, links on which they begin, and those of which they need one.

        Raises ScheduleError if messages within boxes reach more than so many ranks.
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
        """A number for each node, equal for those that links within boxes join."""
        beside: list[list[int]] = [[] for _ in range(self.topology.n_nodes)]
        for tail, head, kind, _ in self.links:
            if kind is LinkClass.BOX:
                beside[tail].append(head)
                beside[head].append(tail)
        number = [-1] * len(beside)
        for node in range(len(beside)):
            todo = [node] if number[node] < 0 else []
            while todo:
                one = todo.pop()
                if number[one] < 0:
                    number[one] = node
                    todo += beside[one]
        return number

    def check_class(
        self, name: str, figures: ReachClass | None, first: list[Link], needed: list[Link]
    ) -> None:
        """Messages that begin on some links, and need one of others, are no cheaper."""
        if not needed:
            return
        if figures is None:
            raise ScheduleError(f"size bound: there are {name} messages, the witness has none")
        is_compute = self.topology.is_compute
        costs = [self.cost(kind) for _, _, kind, _ in needed]
        least_way = min(latency for _, _, _, latency in needed)
        direct = [one[3] for one in first if is_compute[one[0]] and is_compute[one[1]]]
        out = [one[3] for one in first if is_compute[one[0]] and not is_compute[one[1]]]
        into = [one[3] for one in first if is_compute[one[1]] and not is_compute[one[0]]]
        if out and into:
            direct.append(min(out) + min(into))
        way = max(least_way, min(direct, default=0))
        links = max(Counter(tail for tail, _, _, _ in first if is_compute[tail]).values(), default=0)
        copies = any(kind in self.copying for _, _, kind, _ in needed)
        if (
            figures.gap_ns > min(one.occupancy_ns for one in costs)
            or figures.delay_ns > way + min(one.alpha_ns for one in costs)
            or figures.links < links
            or (copies and not figures.copies)
        ):
            raise ScheduleError(f"size bound: {name} messages may cost less than {figures}")

    def data_fraction(self, number: int, kind: LinkClass) -> Fraction:
        """Part of a link's bandwidth that is left to data."""
        bandwidth = int(self.topology.bandwidths[number])
        rate = max(1, int(bandwidth * self.protocol.of(kind).efficiency))
        ceiling = self.protocol.ceiling_bytes_per_s
        if ceiling and self.topology.is_compute[self.topology.tails[number]]:
            rate = min(rate, ceiling)
        return Fraction(rate, bandwidth)

    def rate(self, number: int) -> int:
        """Bytes/s that a link leaves to data."""
        return int(self.data_fraction(number, self.links[number][2]) * int(self.topology.bandwidths[number]))
