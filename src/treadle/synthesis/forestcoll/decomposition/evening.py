"""Spread what a child sends over its parallel links evenly, so that every link reaches every destination."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from treadle.arrays import Int32Array
from treadle.synthesis.forestcoll.switch_removal import LogicalGraph

_MOST_SEGMENTS = 2**15
_MOST_CELLS = 2**18

_Segment = tuple[int, tuple[int, ...], int]
"""Arc, links, units."""


def evened(graph: LogicalGraph, tails: Int32Array, heads: Int32Array) -> LogicalGraph:
    """The same arcs over paths whose first and last links are dealt out evenly.

    Parameters
    ----------
    graph : LogicalGraph
    tails, heads : arrays of int32, shape (l,)
        Ends of each link.

    Notes
    -----
    Paths that leave a node for the same relay may exchange their first links, and paths that come to a node
    from the same relay their last ones: no link's load and no arc's capacity changes. What an arc has there
    is spread over the links in proportion to what they carry.
    """
    if len(graph.segment_path) > _MOST_SEGMENTS:
        return graph
    segments = _segments(graph)
    for place in (0, -1):
        groups: dict[tuple[int, int], list[_Segment]] = defaultdict(list)
        for segment in segments:
            link = segment[1][place]
            groups[int(tails[link]), int(heads[link])].append(segment)
        segments = [part for group in groups.values() for part in _dealt(group, place)]
    return _packed(graph, segments)


def _segments(graph: LogicalGraph) -> list[_Segment]:
    arcs = np.repeat(np.arange(len(graph.tails)), np.diff(graph.segment_offset)).tolist()
    offset, links = graph.path_offset.tolist(), graph.path_links.tolist()
    columns = (arcs, graph.segment_path.tolist(), graph.segment_units.tolist())
    return [
        (arc, tuple(links[offset[path] : offset[path + 1]]), units)
        for arc, path, units in zip(*columns, strict=True)
    ]


def _dealt(group: list[_Segment], place: int) -> list[_Segment]:
    """Exchange the links at one place between segments that agree in both ends of that link."""
    columns: dict[int, int] = defaultdict(int)
    rows: dict[int, list[_Segment]] = defaultdict(list)
    for segment in group:
        columns[segment[1][place]] += segment[2]
        rows[segment[0]].append(segment)
    if len(columns) == 1 or len(columns) * len(rows) > _MOST_CELLS:
        return group
    left = dict(columns)
    total = sum(columns.values())
    shares: dict[int, dict[int, int]] = {}
    for arc, row in rows.items():
        units = sum(segment[2] for segment in row)
        shares[arc] = {link: units * capacity // total for link, capacity in columns.items()}
        for link, share in shares[arc].items():
            left[link] -= share
    parts: list[_Segment] = []
    for arc, row in rows.items():
        owed = sum(segment[2] for segment in row) - sum(shares[arc].values())
        while owed:
            link = max(left, key=lambda link: (left[link], -link))
            share = min(owed, left[link], max(1, left[link] // 2))
            shares[arc][link] += share
            left[link] -= share
            owed -= share
        parts += _filled(row, shares[arc], place)
    return parts


def _filled(row: list[_Segment], shares: dict[int, int], place: int) -> list[_Segment]:
    """An arc's segments with the links in turn, as many units of each as its share."""
    parts: list[_Segment] = []
    queue = [[link, share] for link, share in shares.items() if share]
    for arc, links, units in row:
        while units:
            link, share = queue[0]
            taken = min(units, share)
            parts.append((arc, (link, *links[1:]) if place == 0 else (*links[:-1], link), taken))
            units -= taken
            queue[0][1] -= taken
            if not queue[0][1]:
                queue.pop(0)
    return parts


def _packed(graph: LogicalGraph, segments: list[_Segment]) -> LogicalGraph:
    """Segments by arc, equal paths of an arc once, and paths by number."""
    merged: dict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
    for arc, links, units in segments:
        merged[arc, links] += units
    order = sorted(merged)
    numbers: dict[tuple[int, ...], int] = {}
    paths = [numbers.setdefault(links, len(numbers)) for _, links in order]
    counts = np.bincount([arc for arc, _ in order], minlength=len(graph.tails))
    return replace(
        graph,
        segment_offset=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        segment_path=np.array(paths, dtype=np.int32),
        segment_units=np.array([merged[key] for key in order], dtype=np.int64),
        path_offset=np.concatenate([[0], np.cumsum([len(links) for links in numbers])]).astype(np.int64),
        path_links=np.array([link for links in numbers for link in links], dtype=np.int32),
    )
