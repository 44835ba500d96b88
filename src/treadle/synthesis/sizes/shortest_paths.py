"""Ways between ranks, numbered as they are asked for, and steps that take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treadle.arrays import Int64Array, frozen, offsets_of
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.sizes.exchanges import Messages
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.logical_hops import Route, Router
from treadle.topologies.named_boxes import find_boxes as boxes_of_nodes
from treadle.topologies.topology import Topology


class ShortestPaths:
    """Shortest ways, spread over the links; what they pass, switches and nodes, stores nothing.

    Between ranks of a box they stay within it where they can, though more links may be passed than over the
    network: starting a message there costs several times as much.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self._router, self._n = Router(topology, collective), collective.n_ranks
        self._box, closed = _outside_boxes(topology, collective)
        self._within = [self._router.closed_to(nodes) for nodes in closed]
        self._names = topology.name, [topology.node_names[node] for node in collective.ranks]
        self._numbers: dict[tuple[int, int], int] = {}
        self._links: list[Route] = []

    def number(self, sender: int, target: int) -> int:
        """Number of the way between two ranks; InfeasibleError if there is none."""
        known = self._numbers.get((sender, target))
        if known is not None:
            return known
        links = None
        if self._within and self._box[sender] == self._box[target]:
            links = self._within[self._box[sender]].passing(sender, target)
        if links is None:
            links = self._router.passing(sender, target)
        if links is None:
            fabric, names = self._names
            raise InfeasibleError(f"{fabric}: no path leads from {names[sender]!r} to {names[target]!r}")
        self._links.append(links)
        return self._numbers.setdefault((sender, target), len(self._links) - 1)

    def over_link(self, link: int) -> int:
        """Number of the way that is one link."""
        key = (-1, link)  # no pair of ranks
        if key not in self._numbers:
            self._links.append((link,))
        return self._numbers.setdefault(key, len(self._links) - 1)

    def steps(
        self, direction: Direction, n_chunks: int, parts: Sequence[Int64Array], homes: Sequence[Int64Array]
    ) -> Steps:
        """Steps of sends that take these ways.

        Parameters
        ----------
        direction : Direction
        n_chunks : int
            Of each shard.
        parts : sequence of arrays of int64, shape (5, sends)
            Shard, way, step, low and high of sends, which go side by side.
        homes : sequence of arrays of int64, shape (S,)
            Of all shards; the first, then the others.
        """
        table = np.concatenate([np.zeros((5, 0), dtype=np.int64), *parts], axis=1)
        first, *others = homes
        found = steps_from_sends(direction, self._n, n_chunks, list(table), homes=first.tolist())
        twins = frozen(np.concatenate([np.zeros(0, dtype=np.int64), *others]), np.int32)
        if not self._links:
            return replace(found, twins=twins)
        offset = frozen(offsets_of([len(links) for links in self._links]), np.int64)
        links = frozen([link for links in self._links for link in links], np.int32)
        return replace(found, twins=twins, way_offset=offset, way_links=links)


def _outside_boxes(topology: Topology, collective: Collective) -> tuple[list[int], list[frozenset[int]]]:
    """Box of each rank, and the nodes outside each box; of a single box none."""
    boxes = find_boxes(topology, collective)
    of_rank = [0] * collective.n_ranks
    for number, box in enumerate(boxes):
        for rank in box:
            of_rank[rank] = number
    if len(boxes) == 1 or collective.n_ranks < len(topology.compute_nodes):
        return of_rank, []
    place = {node: rank for rank, node in enumerate(collective.ranks)}
    of_node = boxes_of_nodes(topology, [of_rank[place[node]] for node in topology.compute_nodes.tolist()])
    outside = [np.flatnonzero(of_node.of_node != number) for number in range(len(boxes))]
    return of_rank, [frozenset(nodes.tolist()) for nodes in outside]


def steps_over_paths(
    topology: Topology,
    collective: Collective,
    direction: Direction,
    parts: Sequence[Sequence[Messages]],
    homes: Sequence[Int64Array],
) -> Steps:
    """Steps of messages that take shortest ways.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    direction : Direction
    parts : sequence of sequences of (sender, target, shard) arrays
        For equal parts of every shard, in order, the steps; the parts go side by side.
    homes : sequence of arrays of int64, shape (S,)
        Of all shards; the first, then the others.

    Raises
    ------
    InfeasibleError
        If a rank does not reach another.
    """
    ways, n = ShortestPaths(topology, collective), collective.n_ranks
    columns = []
    for low, steps in enumerate(parts):
        for step, (sender, target, shard) in enumerate(steps):
            pairs, place = np.unique(sender * n + target, return_inverse=True)
            numbers = [ways.number(*divmod(pair, n)) for pair in pairs.tolist()]
            link = np.array(numbers, dtype=np.int64)[place.reshape(-1)]
            rest = [np.full(len(shard), value) for value in (step, low, low + 1)]
            columns.append(np.stack([shard, link, *rest]))
    return ways.steps(direction, len(parts), columns, homes)
