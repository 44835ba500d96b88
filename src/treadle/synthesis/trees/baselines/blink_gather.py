"""Blink's allgather: an allreduce without the sum, as its paper suggests.

Shards go up the trees of the reduction to the one root, and from there down the trees of the broadcast to
all. As spanning trees: from every rank a tree that begins with the way up to the root and goes on as the
broadcast's. What would go down to a rank that has passed the shard up is left out; it is there already.
Source: Wang et al., Blink (MLSys 2020); dissertation, 4.6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest
from treadle.schedules.trees.forest_transforms import equalised, reverse
from treadle.synthesis.trees.baselines.embedding import ForestBuilder
from treadle.topologies.topology import Topology

Packer = Callable[[Topology, Collective], Forest]
"""Packs out-trees for a broadcast from the collective's root."""

_MOST_TREES = 2**18

_Links = tuple[int, ...]


class _AlikeUnits(NamedTuple):
    """Unit trees that take the same paths: the last of them and one, parents, and each rank's path."""

    past: int
    parents: list[int]
    ways: list[_Links]


def gathered_through(topology: Topology, collective: Collective, root: int, pack: Packer) -> Forest:
    """The out-trees of an allgather whose shards all pass one rank.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of it ranks, forwarders and shard weights are read.
    root : int
        The rank.
    pack : Packer

    Raises
    ------
    ScheduleError
        If there would be too many trees.
    """
    broadcast = Collective(
        CollectiveKind.BROADCAST, collective.ranks, root=root, forwarders=collective.forwarders
    )
    back, out = equalised(reverse(pack(topology.transpose(), broadcast)), pack(topology, broadcast))
    builder = ForestBuilder(topology, collective)
    for number, (up, down, units) in enumerate(_pairs(back, out, root)):
        if (number + 1) * collective.n_ranks > _MOST_TREES:
            raise ScheduleError(f"blink: more than {_MOST_TREES} trees; expected a smaller fabric")
        for rank, weight in enumerate(collective.shard_weights):
            if weight:
                parents, ways = list(down.parents), list(down.ways)
                parents[rank], ways[rank] = -1, ()
                at = rank
                while at != root:
                    above = up.parents[at]
                    parents[above], ways[above] = at, up.ways[at]
                    at = above
                paths = [builder.path_number(way) if way else -1 for way in ways]
                builder.add_tree(
                    rank, units * weight, np.array(parents, dtype=np.int32), np.array(paths, dtype=np.int32)
                )
    return builder.build()


def _pairs(back: Forest, out: Forest, root: int) -> Iterator[tuple[_AlikeUnits, _AlikeUnits, int]]:
    """In-trees and out-trees of the same units, and how many units."""
    ups, downs = _alike(back, root), _alike(out, root)
    up, down, first = next(ups), next(downs), 0
    total = int(out.root_multiplicity[root])
    while True:
        past = min(up.past, down.past)
        yield up, down, past - first
        first = past
        if first == total:
            return
        up = next(ups) if up.past == first else up
        down = next(downs) if down.past == first else down


def _alike(forest: Forest, root: int) -> Iterator[_AlikeUnits]:
    """The trees of the root, cut wherever an edge changes its path."""
    before = 0
    for tree in forest.trees(root):
        ends = np.cumsum(tree.entry_units).tolist()
        starts = [0, *ends]
        entries = [
            range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
            for rank in range(forest.n_ranks)
        ]
        cuts = {tree.multiplicity}
        for own in entries:
            cuts.update(ends[entry] - starts[own.start] for entry in own)
        for past in sorted(cuts):
            ways: list[_Links] = []
            for own in entries:
                covers = (entry for entry in own if ends[entry] - starts[own.start] >= past)
                entry = next(covers, None)
                ways.append(() if entry is None else tuple(forest.path(int(tree.entry_path[entry])).tolist()))
            yield _AlikeUnits(before + past, tree.parent.tolist(), ways)
        before += tree.multiplicity
