"""Items of a drawing: nodes or groups of them, and the links between these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.topologies.topology import Topology
from treadle.viz.drawing_layout import Shape


@dataclass(frozen=True)
class Item:
    """The nodes that one mark represents.

    Parameters
    ----------
    label : str
    shape : Shape
    nodes : tuple of int
    """

    label: str
    shape: Shape
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class DrawnNetwork:
    """Items, and for each linked pair its links in both directions.

    Parameters
    ----------
    items : tuple of Item
    links : mapping of (int, int) to (tuple of int, tuple of int)
        Pairs rising; links from the first item to the second, and back.
    """

    items: tuple[Item, ...]
    links: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]

    def neighbours(self) -> list[list[int]]:
        """Return the nodes of each item, ascending."""
        found: list[list[int]] = [[] for _ in self.items]
        for first, second in self.links:
            found[first].append(second)
            found[second].append(first)
        return [sorted(own) for own in found]


def network_of(topology: Topology, items: Sequence[Item]) -> DrawnNetwork:
    """Return the network of these items; links within an item and to nodes of none are left out."""
    of_node: Int64Array = np.full(topology.n_nodes, -1, dtype=np.int64)
    for number, item in enumerate(items):
        of_node[list(item.nodes)] = number
    ends = of_node[topology.tails], of_node[topology.heads]
    drawn = np.flatnonzero((ends[0] >= 0) & (ends[1] >= 0) & (ends[0] != ends[1]))
    links: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for link in drawn.tolist():
        tail, head = int(ends[0][link]), int(ends[1][link])
        ways = links.setdefault((min(tail, head), max(tail, head)), ([], []))
        ways[tail > head].append(link)
    return DrawnNetwork(tuple(items), {pair: (tuple(a), tuple(b)) for pair, (a, b) in sorted(links.items())})


def node_item(topology: Topology, node: int) -> Item:
    """Return a node by itself, labelled by the last part of its name; ranks by their number alone."""
    name = topology.node_names[node].rpartition(".")[2]
    is_rank = bool(topology.is_compute[node])
    if is_rank:
        name = ",".join(re.findall(r"\d+", name)) or name
    return Item(name, Shape.RANK if is_rank else Shape.SWITCH, (node,))


def box_name(topology: Topology, nodes: Sequence[int]) -> str:
    """Return the common part of the names of a box's ranks before the last dot."""
    for node in nodes:
        if topology.is_compute[node]:
            return topology.node_names[node].rpartition(".")[0]
    return ""
