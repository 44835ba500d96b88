"""Pipelined double binary trees."""

from __future__ import annotations

from math import isqrt

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.forest import Direction
from treadle.schedules.step_transforms import reverse
from treadle.schedules.steps import Steps, StepSchedule, steps_from_sends
from treadle.synthesis.step_baselines.both_ways import check_collective
from treadle.topologies.rings import two_trees
from treadle.topologies.topology import Topology

DEFAULT_CHUNKS = 16


def double_binary_tree_steps(
    topology: Topology, collective: Collective, *, chunks: int = DEFAULT_CHUNKS
) -> StepSchedule:
    """Allreduce over two binary trees: each reduces half of the buffer to its root, then broadcasts it.

    Parameters
    ----------
    topology : Topology
        Has the links of `double_binary_tree(n)` for its number of nodes.
    collective : Collective
        Allreduce.
    chunks : int
        Pipelining: each half goes in so many pieces.

    Raises
    ------
    ScheduleError
        If a link is missing.

    Notes
    -----
    A node has links of its own to parent and children, so all of them work at once: h + chunks - 1 steps each
    way for trees of depth h. Source: Sanders, Speck and Traff (Parallel Computing 35, 2009).
    """
    check_collective("double-binary-tree-steps", topology, collective, (CollectiveKind.ALLREDUCE,))
    down = _broadcast(topology, chunks)
    up = reverse(_broadcast(topology.transpose(), chunks))
    return StepSchedule(CollectiveKind.ALLREDUCE, reduce=up, broadcast=down)


def _broadcast(topology: Topology, chunks: int) -> Steps:
    n = topology.n_nodes
    parents = two_trees(n)
    free = _links_by_ends(topology)
    sends: list[tuple[int, int, int, int, int]] = []
    for tree, parent in enumerate(parents):
        depth = _depths(parent)
        for child in np.flatnonzero(parent >= 0).tolist():
            links = free.get((int(parent[child]), child))
            if not links:
                raise ScheduleError(
                    f"double-binary-tree-steps: {topology.name} has no link n{parent[child]}->n{child} for "
                    f"tree {tree}; it serves double_binary_tree({n})"
                )
            link = links.pop(0) if len(links) > 1 else links[0]
            sends += [(tree, link, int(depth[child]) - 1 + c, c, c + 1) for c in range(chunks)]
    homes = [int(np.flatnonzero(parent < 0)[0]) for parent in parents]
    return steps_from_sends(Direction.BROADCAST, n, chunks, sends, homes=homes)


def _links_by_ends(topology: Topology) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for link, ends in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        found.setdefault(ends, []).append(link)
    return found


def _depths(parent: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Int64Array:
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.astype(np.int64)
    while (above >= 0).any():
        depth[above >= 0] += 1
        above = np.where(above >= 0, parent[np.maximum(above, 0)], -1)
    return depth


def published_tree_time_s(n: int, alpha_s: float, transfer_s: float) -> float:
    """Allreduce time of double binary trees as the dissertation's tables and figure 3.7 have it.

    Parameters
    ----------
    n : int
        Nodes.
    alpha_s : float
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
    most = 2 * isqrt(round(2 * height * transfer_s / max(alpha_s, 1e-12))) + 2
    pieces = [2**i for i in range(most.bit_length() + 1)]
    times: list[float] = [2 * (2 * height - 1 + k) * (alpha_s + 2 * transfer_s / k) for k in pieces]
    return min(times)
