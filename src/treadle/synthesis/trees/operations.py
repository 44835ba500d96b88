"""GPU-initiated in-network operations instead of sends from rank to rank through switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, sums_of
from treadle.schedules.in_network import Lanes, inputs_of, members_at, unnamed_crossings
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import link_loads
from treadle.synthesis.trees.tree_parts import breadth_first, single_path_trees
from treadle.topologies.topology import Topology


def use_operations(topology: Topology, schedule: ForestSchedule, loads: Sequence[int]) -> ForestSchedule:
    """Replace sends between ranks through a switch by operations that one rank initiates, if capacity is
    free.

    Parameters
    ----------
    topology : Topology
    schedule : ForestSchedule
    loads : sequence of int, length m
        Units that links may carry, as in a schedule of the same units; more in proportion where links have
        more bandwidth per unit than the most loaded one.

    Notes
    -----
    The sends of a tree that go from rank to rank over a switch and nothing else become one operation of the
    sender that is nearest to the root, if it crosses fewer links than they do: 1 and one for each rank at the
    switch, against 2 for each send. It also crosses links that the sends do not
    (`treadle.schedules.in_network`): it is used for as many of the tree's units as these have capacity
    for. Where the links into ranks are full, as
    an allgather's in one box, they have none.
    """
    able = (topology.multicast | topology.aggregation) & ~topology.turns_round
    if not able.any():
        return schedule
    free = _FreeUnits(topology, loads, link_loads(topology, schedule).tolist())
    return replace(
        schedule,
        reduce=schedule.reduce and _initiate(topology, schedule.reduce, able & topology.aggregation, free),
        broadcast=schedule.broadcast
        and _initiate(topology, schedule.broadcast, able & topology.multicast, free),
    )


class _FreeUnits:
    """Free units of links and hosts at a given throughput."""

    def __init__(self, topology: Topology, allowed: Sequence[int], loads: Sequence[int]) -> None:
        self._topology = topology
        caps = topology.injection_bytes_per_s.tolist()
        capacity = [*topology.bandwidths.tolist(), *caps, *caps]  # a cap of 0 is none
        before, after = self._with_sides(allowed), self._with_sides(loads)
        unit = min(Fraction(b, load) for b, load in zip(capacity, before, strict=True) if b and load)
        self._left = [b // unit - load if b else 2**62 for b, load in zip(capacity, after, strict=True)]

    def _with_sides(self, links: Sequence[int]) -> list[int]:
        """Return loads of links, then out of and into nodes."""
        units, n = np.array(links, dtype=object), self._topology.n_nodes
        sides = (sums_of(n, ends, units, object) for ends in (self._topology.tails, self._topology.heads))
        return [*links, *(load for side in sides for load in side.tolist())]

    def take(self, more: Sequence[int], fewer: Sequence[int], units: int) -> int:
        """Change the crossings of links for a number of units, or for as many as fit; return that number."""
        topology, change = self._topology, Counter[int]()
        for links, step in ((more, 1), (fewer, -1)):
            for link in links:
                out_of = topology.n_links + int(topology.tails[link])
                into = topology.n_links + topology.n_nodes + int(topology.heads[link])
                change.update(dict.fromkeys((link, out_of, into), step))
        taken = max(0, min([units, *(self._left[p] // step for p, step in change.items() if step > 0)]))
        for place, step in change.items():
            self._left[place] -= step * taken
        return taken


def _initiate(topology: Topology, forest: Forest, able: BoolArray, free: _FreeUnits) -> Forest:
    lanes, nodes = inputs_of(topology), _rank_nodes(topology, forest)
    switches = [_Switch(switch, members_at(lanes, switch, nodes)) for switch in np.flatnonzero(able).tolist()]
    fabric = _Oriented(topology, lanes, nodes, outward=forest.direction is Direction.BROADCAST)
    trees = [part for spec in single_path_trees(forest) for part in _parts(fabric, spec, switches, free)]
    return forest_from_trees(forest.direction, forest.n_ranks, trees)


def _rank_nodes(topology: Topology, forest: Forest) -> list[int]:
    """Return the node of each rank: where the paths of its own edges, or those of its children, end."""
    nodes = [-1] * forest.n_ranks
    outward = forest.direction is Direction.BROADCAST
    for spec in single_path_trees(forest):
        for rank, ((links, _),) in spec.paths.items():
            ends = int(topology.tails[links[0]]), int(topology.heads[links[-1]])
            near, far = ends if outward else ends[::-1]
            nodes[rank] = far
            if topology.is_compute[near]:
                nodes[spec.parent[rank]] = near
    return nodes


@dataclass(frozen=True)
class _Switch:
    node: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class _Oriented:
    """A fabric in the direction of trees, from the root outwards."""

    topology: Topology
    lanes: Lanes
    nodes: Sequence[int]
    outward: bool

    def sends(self, spec: TreeSpec, switch: _Switch) -> dict[int, tuple[int, int]]:
        """Return the links from the parent of each rank that gets its data over the switch alone."""
        found = {}
        for rank, ((links, _),) in spec.paths.items():
            if len(links) != 2:
                continue
            first, last = links if self.outward else links[::-1]
            from_parent = int(self.topology.tails[first]), int(self.topology.heads[first])
            near, middle = from_parent if self.outward else from_parent[::-1]
            ends = {self.nodes[rank], near}  # an edge may begin at another switch
            if middle == switch.node and ends.issubset(switch.members):
                found[rank] = first, last
        return found


def _parts(
    fabric: _Oriented, spec: TreeSpec, switches: Sequence[_Switch], free: _FreeUnits
) -> Iterator[TreeSpec]:
    """Yield the tree with operations at the switches, split where they apply to some units only."""
    for place, switch in enumerate(switches):
        sends = fabric.sends(spec, switch)
        # an operation crosses a link of each member and the initiator's; sends cross two links each
        if 2 * len(sends) <= len(switch.members) + 1:
            continue
        order = {rank: i for i, rank in enumerate((spec.root, *breadth_first(spec)))}
        initiator = min((spec.parent[rank] for rank in sends), key=order.__getitem__)
        caller = next(rank for rank in sends if spec.parent[rank] == initiator)
        call = fabric.nodes[initiator], switch.node, sends[caller][0]
        served = [fabric.nodes[rank] for rank in sends]
        more = unnamed_crossings(fabric.lanes, switch.members, served, call, outward=fabric.outward)
        fewer = [first for rank, (first, _) in sends.items() if rank != caller]
        taken = free.take(more, fewer, spec.multiplicity)
        if not taken:
            continue
        left = spec.multiplicity - taken
        if left:
            yield from _parts(fabric, _of_units(spec, left), switches[place + 1 :], free)
        parent = list(spec.parent)
        paths = dict(_of_units(spec, taken).paths)
        for rank, (_, last) in sends.items():
            parent[rank] = initiator
            if rank != caller:
                paths[rank] = [((last,), taken)]
        spec = TreeSpec(spec.root, taken, parent, paths)
    yield spec


def _of_units(spec: TreeSpec, units: int) -> TreeSpec:
    paths = {rank: [(links, units)] for rank, ((links, _),) in spec.paths.items()}
    return TreeSpec(spec.root, units, spec.parent, paths)
