"""Pipelined double binary trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import unsupported_reason
from treadle.synthesis.steps.baselines.bidirectional import (
    MAX_SENDS,
    check_collective,
    gathered,
)
from treadle.topologies.catalogue.rings import two_trees
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

DEFAULT_CHUNKS = 16


def links_of_two_binary_trees(topology: Topology, _: Collective) -> Unsupported | None:
    """Both trees have links of their own."""
    return unsupported_reason(_links, topology, two_trees(topology.n_nodes))


def double_binary_tree_steps(
    topology: Topology, collective: Collective, *, chunks: int = DEFAULT_CHUNKS
) -> StepSchedule:
    """Allreduce over two binary trees: each reduces half of the buffer to its root, then broadcasts it.

    Parameters
    ----------
    topology : Topology
        Has the links of `double_binary_tree(n)` for its number of nodes; others stay idle.
    collective : Collective
        Allreduce.
    chunks : int
        Pipelining: each half goes in so many pieces.

    Raises
    ------
    ScheduleError
        If a link is missing or the number of chunks is out of range.

    Notes
    -----
    A node has links of its own to parent and children, so all of them work at once: h + chunks - 1 steps each
    way for trees of depth h = floor(log2 N), a chunk on every used link. The broadcast starts when the
    reduction is over. Source: Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast,
    reduction and scan (Parallel Computing 35, 2009).

    Examples
    --------
    >>> from treadle.schedules.collective import on_all_ranks
    >>> from treadle.topologies import parse
    >>> fabric = parse("double_binary_tree(8)")
    >>> double_binary_tree_steps(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE), chunks=4).n_steps
    12
    """
    check_collective("double-binary-tree-steps", topology, collective, (CollectiveKind.ALLREDUCE,))
    most = min(MAX_CHUNKS, MAX_SENDS // (2 * topology.n_nodes))
    if not 1 <= chunks <= most:
        raise ScheduleError(f"double-binary-tree-steps: chunks must be from 1 to {most}, found {chunks}")
    return StepSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=gathered(topology, lambda upside_down: _broadcast(upside_down, chunks)),
        broadcast=_broadcast(topology, chunks),
    )


def _broadcast(topology: Topology, chunks: int) -> Steps:
    n = topology.n_nodes
    parents = two_trees(n)
    tree, child = np.nonzero(parents >= 0)
    links = _links(topology, parents)
    begin = np.concatenate([_depths(parent) for parent in parents])[tree * n + child] - 1
    piece = np.arange(chunks)
    low = np.tile(piece, len(tree))
    sends = [
        np.repeat(tree, chunks),
        np.repeat(links, chunks),
        (begin[:, None] + piece).ravel(),
        low,
        low + 1,
    ]
    homes = [int(np.flatnonzero(parent < 0)[0]) for parent in parents]
    return steps_from_sends(Direction.BROADCAST, n, chunks, sends, homes=homes)


def _links(topology: Topology, parents: NDArray[np.int32]) -> Int64Array:
    """The first link for every arc. All arcs differ: no node has children in both trees."""
    n = topology.n_nodes
    tree, heads = np.nonzero(parents >= 0)
    tails = parents[tree, heads].astype(np.int64)
    present = topology.tails.astype(np.int64) * n + topology.heads
    order = np.argsort(present, kind="stable")
    present = present[order]
    wanted = tails * n + heads
    place = np.searchsorted(present, wanted)
    is_there = np.append(present, -1)[place] == wanted
    if not is_there.all():
        arc = int(np.argmin(is_there))
        ends = "->".join(topology.node_names[int(end[arc])] for end in (tails, heads))
        raise ScheduleError(
            f"double-binary-tree-steps: {topology.name} has no link {ends}; it needs those of "
            f"double_binary_tree({n})"
        )
    links: Int64Array = order[place]
    return links


def _depths(parent: NDArray[np.int32]) -> Int64Array:
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.astype(np.int64)
    while (above >= 0).any():
        depth[above >= 0] += 1
        above = np.where(above >= 0, parent[np.maximum(above, 0)], -1)
    return depth
