"""Large fabrics: one exemplar of each subproblem class, and their number.

Subproblems are boxes, then what the nearest switches of the network join, up to the fabric. They have
one kind if they hold as many ranks, switches and links of each bandwidth, within and out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array, mask_of
from treadle.math.graphs import components, hops
from treadle.topologies.named_boxes import NETWORK, Boxes
from treadle.topologies.topology import Topology
from treadle.viz.box_rows import boxed
from treadle.viz.drawing_layout import BoxFrame, DrawingLayout, Line, Mark, Shape
from treadle.viz.drawn_network import Item, box_name, network_of, node_item

_SHOWN = 8
"""Subproblems of a class drawn side by side: the first ones, dots, and the last."""
_GAP = 14.0
_TITLE = 26.0


@dataclass(frozen=True)
class Tier:
    """Subproblems of one size.

    Parameters
    ----------
    of_node : array of int64, shape (nodes,)
        Subproblem of each node; -1 for nodes above.
    count : int
    level : int
        Of the switches that join them; 0: boxes.
    """

    of_node: Int64Array
    count: int
    level: int

    def nodes(self, piece: int) -> tuple[int, ...]:
        """Return the nodes of a subproblem, ascending."""
        return tuple(np.flatnonzero(self.of_node == piece).tolist())


def kinds_layout(topology: Topology, boxes: Boxes) -> DrawingLayout:
    """Return the panels from the whole down to a box of each kind."""
    levels = switch_levels(topology, boxes)
    tiers = tiers_of(topology, boxes, levels)
    panels = [
        _joined(topology, tier, lower, first, count, levels)
        for lower, tier in reversed(list(pairwise(tiers)))
        for first, count in exemplars(topology, tier)
    ]
    panels += [_box(topology, tiers[0], first, count) for first, count in exemplars(topology, tiers[0])]
    return _stacked(panels)


def switch_levels(topology: Topology, boxes: Boxes) -> Int64Array:
    """Return the distance of each of the network's switches from the nearest box; 0 for nodes of boxes."""
    n = topology.n_nodes
    node = np.where(boxes.of_node == NETWORK, np.arange(n), n)  # all boxes as one node
    tails, heads = node[topology.tails], node[topology.heads]
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    level: Int64Array = hops(n + 1, *ends, np.array([n]))[0, node]
    level[level < 0] = level.max() + 1
    return level


def tiers_of(topology: Topology, boxes: Boxes, levels: Int64Array) -> list[Tier]:
    """Return boxes, then what switches up to each level join; the last level is one subproblem."""
    found = [Tier(boxes.of_node, boxes.count, 0)]
    for level in range(1, int(levels.max(initial=0)) + 1):
        kept = levels <= level
        inner = kept[topology.tails] & kept[topology.heads]
        label = components(topology.n_nodes, topology.tails[inner], topology.heads[inner])
        names, numbers = np.unique(label[kept], return_inverse=True)
        if len(names) < found[-1].count or level == int(levels.max()):
            of_node = np.full(topology.n_nodes, -1, dtype=np.int64)
            of_node[kept] = numbers
            found.append(Tier(of_node, len(names), level))
    return found


def exemplars(topology: Topology, tier: Tier) -> list[tuple[int, int]]:
    """Return the first subproblem of each class and their number; the most frequent class first."""
    widths, width = np.unique(topology.bandwidths, return_inverse=True)
    ends = tier.of_node[topology.tails], tier.of_node[topology.heads]
    counts = np.zeros((tier.count, 2 * len(widths) + 2), dtype=np.int64)
    for own, other in (ends, ends[::-1]):
        known = own >= 0
        np.add.at(counts, (own[known], (2 * width + (own == other))[known]), 1)
    inside = tier.of_node >= 0
    np.add.at(counts, (tier.of_node[inside], 2 * len(widths) + topology.is_compute[inside]), 1)
    _, firsts, many = np.unique(counts, axis=0, return_index=True, return_counts=True)
    return sorted(zip(firsts.tolist(), many.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))


def few(values: Sequence[int]) -> list[int | None]:
    """Return all values, or the first ones, None for those between, and the last."""
    if len(values) <= _SHOWN:
        return list(values)
    return [*values[: _SHOWN - 2], None, values[-1]]


def _joined(
    topology: Topology, tier: Tier, lower: Tier, piece: int, count: int, levels: Int64Array
) -> tuple[str, DrawingLayout]:
    """Return a subproblem with the smaller ones in it, the switches that join them, and those above."""
    inside = tier.of_node == piece
    children = np.unique(lower.of_node[inside & (lower.of_node >= 0)]).tolist()
    joining = np.flatnonzero(inside & (lower.of_node < 0))
    linked = topology.heads[inside[topology.tails]], topology.tails[inside[topology.heads]]
    near = np.flatnonzero(mask_of(topology.n_nodes, np.concatenate(linked)) & ~inside).tolist()
    items: list[Item] = []
    groups: list[list[int]] = []
    shown = few(children)
    if len(children) > _SHOWN:  # of one kind the first ones and the last, of others the first
        rare = [first for first, _ in exemplars(topology, lower)[1:4] if first in set(children)]
        shown += [child for child in rare if child not in shown]
    for child in shown:
        groups.append([len(items)])
        items.append(_MORE if child is None else _group(topology, lower, child))
    by_level = [joining[levels[joining] == level].tolist() for level in np.unique(levels[joining])]
    for switches in (*by_level, near):
        items += [_MORE if node is None else node_item(topology, node) for node in few(switches)]
    network = network_of(topology, items)
    ranks = int(topology.is_compute[inside].sum())
    what = "the whole" if count == 1 and tier.count == 1 else _times(count, _piece_name(tier))
    title = f"{what}: {len(children)} {_plural(lower, len(children))}, {ranks} ranks"
    return title, boxed(network, groups, [""] * len(groups))


def _box(topology: Topology, tier: Tier, piece: int, count: int) -> tuple[str, DrawingLayout]:
    nodes = tier.nodes(piece)
    inside = tier.of_node == piece
    ranks = [node for node in nodes if topology.is_compute[node]]
    shown = few(ranks)
    kept = {node for node in shown if node is not None}
    near = {
        node: {
            *topology.heads[topology.tails == node].tolist(),
            *topology.tails[topology.heads == node].tolist(),
        }
        for node in nodes
        if node in kept or node not in set(ranks)
    }
    hidden = set(ranks) - kept
    switches = [
        node
        for node in nodes
        if node in near and node not in kept and (near[node] & kept or not near[node] & hidden)
    ]
    items = [_MORE if node is None else node_item(topology, node) for node in shown]
    items += [node_item(topology, node) for node in switches]
    box = list(range(len(items)))
    outer = sorted({other for node in (*kept, *switches) for other in near[node] if not inside[other]})
    items += [_MORE if node is None else node_item(topology, node) for node in few(outer)]
    title = f"{_times(count, 'box')} of {len(ranks)} ranks" + ("" if count == 1 else ", here the first")
    return title, boxed(network_of(topology, items), [box], [box_name(topology, nodes)])


_MORE = Item("...", Shape.MORE, ())


def _group(topology: Topology, tier: Tier, piece: int) -> Item:
    nodes = tier.nodes(piece)
    name = box_name(topology, nodes) if tier.level == 0 else f"{_piece_name(tier)} {piece}"
    return Item(name or f"box {piece}", Shape.GROUP, nodes)


def _piece_name(tier: Tier) -> str:
    return "box" if tier.level == 0 else "pod" if tier.level == 1 else f"group of level {tier.level}"


def _plural(tier: Tier, count: int) -> str:
    name = _piece_name(tier)
    return name if count == 1 else {"box": "boxes", "pod": "pods"}.get(name, name.replace("group", "groups"))


def _times(count: int, name: str) -> str:
    return f"{count} x {name}" if count > 1 else f"1 {name}"


def _stacked(panels: Sequence[tuple[str, DrawingLayout]]) -> DrawingLayout:
    """Place panels below each other, each in a frame with its title."""
    width = max(panel.width for _, panel in panels) + 2 * _GAP
    marks: list[Mark] = []
    frames: list[BoxFrame] = []
    lines: list[Line] = []
    y = _GAP
    for title, panel in panels:
        frames.append(BoxFrame(title, _GAP, y, width - 2 * _GAP, panel.height + _TITLE))
        own = panel.moved((width - panel.width) / 2, y + _TITLE)
        before = len(marks)
        marks += own.marks
        frames += own.frames
        lines += [replace(line, ends=(line.ends[0] + before, line.ends[1] + before)) for line in own.lines]
        y += panel.height + _TITLE + _GAP
    note = "one piece of each kind is drawn"
    return DrawingLayout(width, y, tuple(marks), tuple(frames), tuple(lines), note)
