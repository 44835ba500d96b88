"""Pipelined double binary trees."""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import refusal_of, scheduler
from treadle.synthesis.steps.baselines.both_ways import (
    MAX_SENDS,
    WHOLE_FABRIC,
    check_collective,
    gathered,
)
from treadle.topologies.catalogue.rings import two_trees
from treadle.topologies.topology import Topology

DEFAULT_CHUNKS = 16


def links_of_two_binary_trees(topology: Topology, _: Collective) -> Refusal | None:
    """Both trees have links of their own."""
    parents = two_trees(topology.n_nodes)
    tree, child = np.nonzero(parents >= 0)
    return refusal_of(_links, topology, parents[tree, child].astype(np.int64), child)


@scheduler(
    "double-binary-tree-steps",
    form="steps",
    collectives=(CollectiveKind.ALLREDUCE,),
    needs=(*WHOLE_FABRIC, links_of_two_binary_trees),
    options=("chunks",),
    source="Sanders, Speck and Traeff, Parallel Computing 35 (2009)",
)
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
        Pipelining: each half goes in so many pieces; see `best_chunk_count`.

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
    links = _links(topology, parents[tree, child].astype(np.int64), child)
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


def _links(topology: Topology, tails: Int64Array, heads: Int64Array) -> Int64Array:
    """The first link for every arc. All arcs differ: no node has children in both trees."""
    n = topology.n_nodes
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


def double_binary_tree_time_s(
    n: int, chunks: int, *, size_bytes: float, alpha_s: float, bandwidth_bytes_per_s: float
) -> float:
    """Allreduce time of `double_binary_tree_steps` on `double_binary_tree(n)`.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    chunks : int
        Per half of the buffer.
    size_bytes : float
        The buffer M.
    alpha_s : float
        Per step.
    bandwidth_bytes_per_s : float
        Of one link.

    Examples
    --------
    >>> link = {"alpha_s": 10e-6, "bandwidth_bytes_per_s": 12.5e9 / 4}
    >>> round(double_binary_tree_time_s(1024, 12, size_bytes=2**20, **link) * 1e6)
    1007
    """
    steps = 2 * (n.bit_length() - 2 + chunks)
    return steps * (alpha_s + size_bytes / (2 * chunks * bandwidth_bytes_per_s))


def best_chunk_count(n: int, *, size_bytes: float, alpha_s: float, bandwidth_bytes_per_s: float) -> int:
    """The number of chunks with the least `double_binary_tree_time_s`; the smallest such.

    Raises
    ------
    ScheduleError
        If there are fewer than two nodes, or size, latency or bandwidth is not positive.

    Notes
    -----
    (h - 1 + k) (alpha + s / k), with s the time of half the buffer on a link, is convex in k and least at
    sqrt((h - 1) s / alpha); one of the two integers around it is best.

    Examples
    --------
    >>> best_chunk_count(1024, size_bytes=2**20, alpha_s=10e-6, bandwidth_bytes_per_s=12.5e9 / 4)
    12
    """
    if n < 2:
        raise ScheduleError(f"best_chunk_count: n must be at least 2, found {n}")
    for key, value in (
        ("size_bytes", size_bytes),
        ("alpha_s", alpha_s),
        ("bandwidth_bytes_per_s", bandwidth_bytes_per_s),
    ):
        if not value > 0:
            raise ScheduleError(f"best_chunk_count: {key} must be positive, found {value}")
    half_s = size_bytes / (2 * bandwidth_bytes_per_s)
    below = int(min(((n.bit_length() - 2) * half_s / alpha_s) ** 0.5, MAX_CHUNKS - 1))
    return min(
        (max(1, below), below + 1),
        key=lambda chunks: double_binary_tree_time_s(
            n,
            chunks,
            size_bytes=size_bytes,
            alpha_s=alpha_s,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        ),
    )


def published_tree_time_s(n: int, alpha_s: float, transfer_s: float) -> float:
    """Allreduce time of double binary trees as the dissertation's tables and figure 3.7 have it.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    alpha_s : float
        Per step, positive.
    transfer_s : float
        M/B, seconds.

    Notes
    -----
    Not stated there; 2 (2 h - 1 + k) (alpha + 2 M / (k B)) with h = floor(log2 N) and the best power of two k
    gives the caption of table 3.4, 1434 us at N = 1024 (k = 16): trees whose nodes serve one child at a time.

    Examples
    --------
    >>> round(published_tree_time_s(1024, 10e-6, 2**20 / 12.5e9) * 1e6)
    1434
    """
    height = n.bit_length() - 1
    # the best k is at most sqrt(2 h M / (B alpha)); a power of two up to twice that is enough
    most = 2 * isqrt(round(2 * height * transfer_s / alpha_s)) + 2
    pieces = [2**i for i in range(most.bit_length() + 1)]
    times: list[float] = [2 * (2 * height - 1 + k) * (alpha_s + 2 * transfer_s / k) for k in pieces]
    return min(times)
