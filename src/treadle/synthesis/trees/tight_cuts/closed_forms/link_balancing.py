"""Spread what a child sends over its parallel links evenly, so that every link reaches every destination.

Loads stay as they are; what changes is which arc uses which of the parallel links. Evenly spread, any rank of
a set can be left by its own link, which is what `alignment` needs for low trees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import Int32Array, offsets_of
from treadle.engine import core
from treadle.synthesis.core_values.tree_values import PathRows, Segments
from treadle.synthesis.trees.switch_removal import LogicalGraph

_MOST_SEGMENTS = 2**15
_MOST_CELLS = 2**18


def balanced_over_links(graph: LogicalGraph, tails: Int32Array, heads: Int32Array) -> LogicalGraph:
    """The same arcs over paths whose first and last links are spread evenly.

    Parameters
    ----------
    graph : LogicalGraph
    tails, heads : arrays of int32, shape (l,)
        Ends of each link.

    Notes
    -----
    Paths that leave a node for the same relay may swap their first links, and paths that come to a node
    from the same relay their last ones: no link's load and no arc's capacity changes. What an arc has there
    is spread over the links in proportion to what they carry.
    """
    if len(graph.segment_path) > _MOST_SEGMENTS:
        return graph
    arc = np.repeat(np.arange(len(graph.tails), dtype=np.int32), np.diff(graph.segment_offset))
    found = core.spread_paths(
        tails,
        heads,
        Segments(arc, graph.segment_path, graph.segment_units),
        PathRows(graph.path_offset, graph.path_links),
        _MOST_CELLS,
    )
    segments, paths = Segments(*found[0]), PathRows(*found[1])
    counts = np.bincount(segments.arc, minlength=len(graph.tails))
    return replace(
        graph,
        segment_offset=offsets_of(counts),
        segment_path=segments.path,
        segment_units=segments.units,
        path_offset=paths.offset,
        path_links=paths.links,
    )
