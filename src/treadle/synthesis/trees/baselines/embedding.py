"""From logical trees to forests on the fabric, and from out-trees to every kind of collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter

import numpy as np

from treadle.arrays import Int32Array, offsets_of, sums_of
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.forest_transforms import equalised, reverse
from treadle.synthesis.scheduler import Need
from treadle.synthesis.trees.baselines.logical_hops import Route, Router
from treadle.topologies.topology import Topology

_UNKNOWN, _RELAYED = -2, -1

GATHERING = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
"""Kinds that gather shards from all ranks, or reduce them to all."""

OutForest = Callable[[Topology, Collective], Forest]
"""Builds out-trees; of the collective it reads ranks, forwarders and `shard_weights`."""


class ForestBuilder:
    """Collects out-trees, one path per edge, and builds the forest; routes are new or those of a router."""

    def __init__(self, topology: Topology, collective: Collective, router: Router | None = None) -> None:
        self.router = router or Router(topology, collective)
        self._n = collective.n_ranks
        self._numbers: dict[Route, int] = {}
        self._hops = np.full((self._n, self._n), _UNKNOWN, dtype=np.int32)
        self._trees: list[tuple[int, int, Int32Array, Int32Array]] = []

    def path_number(self, links: Route) -> int:
        """Return the number of a path, equal for equal paths."""
        return self._numbers.setdefault(links, len(self._numbers))

    def add_tree(self, root: int, multiplicity: int, parent: Int32Array, paths: Int32Array) -> None:
        """Add a tree: parent rank and path number of each rank's edge, -1 at the root; both shape (N,)."""
        self._trees.append((root, multiplicity, parent, paths))

    def add_logical(self, root: int, multiplicity: int, parent: Sequence[int] | Int32Array) -> None:
        """Add a tree of logical hops, routing each; equal hops take equal routes.

        Notes
        -----
        Where a hop has to pass other ranks, these keep what they pass on, so the tree added may have other
        parents than the one given and never loads a link twice where the given one would.
        """
        context().report("trees", len(self._trees), 0)
        above = np.array(parent, dtype=np.int32)
        ranks = np.flatnonzero(above >= 0)
        for v in ranks[self._hops[above[ranks], ranks] == _UNKNOWN]:
            links = self.router.route(int(above[v]), int(v))
            self._hops[above[v], v] = _RELAYED if links is None else self.path_number(links)
        paths = np.full(self._n, -1, dtype=np.int32)
        paths[ranks] = self._hops[above[ranks], ranks]
        if np.any(paths[ranks] == _RELAYED):
            self._add_relayed(root, multiplicity, above)
        else:
            self.add_tree(root, multiplicity, above, paths)

    def _add_relayed(self, root: int, multiplicity: int, logical: Int32Array) -> None:
        parent, paths = np.full((2, self._n), -1, dtype=np.int32)
        children = defaultdict[int, list[int]](list)
        for v, above in enumerate(logical.tolist()):
            children[above].append(v)
        reached, order = {root}, [root]
        for v in order:  # breadth first
            order += children[v]
        for v in order[1:]:
            if v in reached:
                continue
            at = int(logical[v])
            for rank, links in self.router.relay(at, v):
                if rank not in reached:
                    parent[rank], paths[rank] = at, self.path_number(links)
                    reached.add(rank)
                at = rank
        self.add_tree(root, multiplicity, parent, paths)

    def build(self) -> Forest:
        """Return the forest of all trees added."""
        columns = list(zip(*sorted(self._trees, key=itemgetter(0)), strict=True)) or [(), (), (), ()]
        roots, units = np.array(columns[0], dtype=np.int32), np.array(columns[1], dtype=np.int64)
        parent, paths = (np.array(rows, dtype=np.int32).reshape(-1, self._n) for rows in columns[2:])
        present = parent >= 0
        return Forest(
            direction=Direction.BROADCAST,
            root_multiplicity=sums_of(self._n, roots, units),
            tree_root=roots,
            tree_multiplicity=units,
            parent=parent,
            entry_offset=offsets_of(present.ravel()),
            entry_path=paths[present],
            entry_units=np.broadcast_to(units[:, None], parent.shape)[present],
            path_offset=offsets_of([len(p) for p in self._numbers]),
            path_links=np.array([link for p in self._numbers for link in p], dtype=np.int32),
        )


def compose(topology: Topology, collective: Collective, build: OutForest) -> ForestSchedule:
    """Return the schedule of any kind from a builder of out-trees.

    In-trees are the reversed out-trees of the transposed fabric; an allreduce has both.
    """
    kind = collective.kind
    broadcast = build(topology, collective) if kind.broadcasts else None
    reduce = reverse(build(topology.transpose(), collective)) if kind.reduces else None
    if broadcast is not None and reduce is not None:
        reduce, broadcast = equalised(reduce, broadcast)
    return ForestSchedule(kind, reduce=reduce, broadcast=broadcast)


def embedded(
    topology: Topology, collective: Collective, parents: Sequence[Sequence[int]] | Int32Array
) -> ForestSchedule:
    """Return the collective by a tree of logical hops for each root, given by the parents of the ranks."""

    def build(fabric: Topology, there: Collective) -> Forest:
        builder = ForestBuilder(fabric, there)
        for root, weight in enumerate(there.shard_weights):
            if weight:
                builder.add_logical(root, weight, parents[root])
        return builder.build()

    return compose(topology, collective, build)


def check_supported(
    name: str,
    topology: Topology,
    collective: Collective,
    kinds: Collection[CollectiveKind],
    requirements: Iterable[Need] = (),
) -> None:
    """Raise ScheduleError unless `name` supports the collective, ranks fit the fabric, and needs are met."""
    if collective.kind not in kinds:
        known = ", ".join(kinds)
        raise ScheduleError(f"{name}: {collective.kind} is not supported; it supports {known}")
    check_membership(topology, collective)
    for need in requirements:
        if (refusal := need(topology, collective)) is not None:
            raise ScheduleError(f"{name}: {refusal}")
