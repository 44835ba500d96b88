"""NVLink SHARP as NCCL uses it: every rank initiates the sum of its part in the switches, and copies of it.

A rank's part goes up from all ranks, is summed on the way and comes down to that rank (a load that sums);
the sum goes up once and comes down to all (a store that is copied). Of N ranks, each link carries (N + 1) / N
of the buffer in an allreduce, where rings carry 2 (N - 1) / N of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.in_network import inputs_of
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported
from treadle.synthesis.trees.tree_parts import schedule_of
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_LEAST = 3
"""Ranks."""
_Lane = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Bandwidth of a channel through a switch, its link up from each rank, and its link down to each."""


def a_switch_of_all_ranks_that_copies_and_adds(
    topology: Topology, collective: Collective
) -> Unsupported | None:
    """One switch with GPU-initiated operations joins all ranks."""
    if _lanes(topology, collective, _able(topology, collective.kind)):
        return None
    what = {
        CollectiveKind.ALLGATHER: "copies",
        CollectiveKind.REDUCE_SCATTER: "adds up",
    }.get(collective.kind, "copies and adds up")
    example = "as in 'dgx_h100(1, nvls=True)'"
    return Unsupported(f"expected a GPU-initiated switch that {what} and joins all ranks, {example}")


def three_ranks(_: Topology, collective: Collective) -> Unsupported | None:
    """Two ranks need no switch operations: a copy or a sum of two is one path."""
    n = collective.n_ranks
    return Unsupported(f"expected at least 3 ranks, found {n}; use ring instead") if n < _LEAST else None


def nvls(topology: Topology, collective: Collective) -> ForestSchedule:
    """Sums and copies in the switches of one box, each rank asking for its own part.

    Parameters
    ----------
    topology : Topology
        Several switches around all ranks, and parallel links to them, share each part by their bandwidths.
    collective : Collective
        Allgather, reduce-scatter or allreduce.

    Returns
    -------
    ForestSchedule
        A star per root and channel through a switch: one path from the initiating rank, and copies to the
        others.

    Raises
    ------
    ScheduleError
        If there are two ranks only, or no switch with these operations joins all ranks.
    """
    kind = collective.kind
    requirements = (three_ranks, a_switch_of_all_ranks_that_copies_and_adds)
    check_supported("nvls", topology, collective, GATHERING, requirements)
    lanes = _lanes(topology, collective, _able(topology, kind))
    directions = [Direction.REDUCE] * kind.reduces + [Direction.BROADCAST] * kind.broadcasts
    return schedule_of(kind, *(_stars(each, lanes, collective.shard_weights) for each in directions))


def _able(topology: Topology, kind: CollectiveKind) -> BoolArray:
    """Return the switches with the operations of a collective."""
    able = ~topology.is_compute & ~topology.turns_round & (topology.multicast | (not kind.broadcasts))
    return np.asarray(able & (topology.aggregation | (not kind.reduces)), dtype=np.bool_)


def _lanes(topology: Topology, collective: Collective, able: BoolArray) -> list[_Lane]:
    """Return channels through switches of all ranks; channel i has the i-th parallel link of each rank."""
    links, found = inputs_of(topology), []
    for switch in np.flatnonzero(able).tolist():
        up = [links.get((node, switch), ()) for node in collective.ranks]
        down = [links.get((switch, node), ()) for node in collective.ranks]
        for place in range(min(map(len, (*up, *down)))):
            chosen = tuple(one[place] for one in up), tuple(one[place] for one in down)
            width = min(int(topology.bandwidths[link]) for side in chosen for link in side)
            found.append((width, *chosen))
    return found


def _stars(direction: Direction, lanes: Sequence[_Lane], weights: Sequence[int]) -> Forest:
    """Return a star per root and channel, with units in proportion to bandwidth."""
    n, unit = len(weights), gcd(*(width for width, *_ in lanes))
    outward = direction is Direction.BROADCAST
    trees = []
    for root, weight in enumerate(weights):
        if not weight:
            continue
        parent = [-1 if rank == root else root for rank in range(n)]
        others = [rank for rank in range(n) if rank != root]
        for width, up, down in lanes:
            units = weight * width // unit
            own = {rank: (down[rank] if outward else up[rank],) for rank in others}
            # the first rank's path has the root's call as well
            first = (up[root], *own[others[0]]) if outward else (*own[others[0]], down[root])
            paths = {rank: [(links, units)] for rank, links in {**own, others[0]: first}.items()}
            trees.append(TreeSpec(root, units, parent, paths))
    return forest_from_trees(direction, n, trees)
