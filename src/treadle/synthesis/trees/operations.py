"""Operations of switches that work for ranks which ask, in place of sends from rank to rank through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.in_network import Lanes, inputs_of, members_at, unnamed_crossings
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import link_loads
from treadle.synthesis.trees.tree_parts import breadth_first, single_path_trees
from treadle.topologies.topology import Topology


def use_operations(topology: Topology, schedule: ForestSchedule, loads: Sequence[int]) -> ForestSchedule:
    """Let one rank ask a switch for what several ranks send each other through it, where that costs nothing.

    Parameters
    ----------
    topology : Topology
    schedule : ForestSchedule
    loads : sequence of int, length m
        Units that links may carry, as a schedule of the same units has it; in proportion more where they have
        more bandwidth for a unit than the most loaded one.

    Notes
    -----
    The sends of a tree that go from rank to rank over a switch and nothing else become one operation of the
    sender that is nearest to the root, if it crosses fewer links than they do: 1 and one for each rank at the
    switch, against 2 for each send. It also crosses links that the sends do not
    (`treadle.schedules.in_network`): it is used for as many of the tree's units as these have room
    for. Where the links into ranks are full, as
    an allgather's in one box, they have none.
    """
    able = (topology.multicast | topology.aggregation) & ~topology.turns_round
    if not able.any():
        return schedule
    room = _Room(topology, loads, link_loads(topology, schedule).tolist())
    return replace(
        schedule,
        reduce=schedule.reduce and _ask(topology, schedule.reduce, able & topology.aggregation, room),
        broadcast=schedule.broadcast and _ask(topology, schedule.broadcast, able & topology.multicast, room),
    )


class _Room:
    """Units that links and hosts have left at a given throughput."""

    def __init__(self, topology: Topology, allowed: Sequence[int], loads: Sequence[int]) -> None:
        self._topology = topology
        caps = topology.injection_bytes_per_s.tolist()
        capacity = [*topology.bandwidths.tolist(), *caps, *caps]  # a cap of 0 is none
        before = self._with_sides(allowed)
        unit = min(Fraction(b, load) for b, load in zip(capacity, before, strict=True) if b and load)
        self._left = [
            b // unit - load if b else 2**62
            for b, load in zip(capacity, self._with_sides(loads), strict=True)
        ]

    def _with_sides(self, links: Sequence[int]) -> list[int]:
        """Loads of links, then out of and into nodes."""
        n = self._topology.n_nodes
        sides = [0] * (2 * n)
        ends = zip(self._topology.tails.tolist(), self._topology.heads.tolist(), links, strict=True)
        for tail, head, load in ends:
            sides[tail] += load
            sides[n + head] += load
        return [*links, *sides]

    def take(self, more: Sequence[int], fewer: Sequence[int], units: int) -> int:
        """Cross links more and fewer times for so many units, or for as many as there is room for."""
        topology, change = self._topology, Counter[int]()
        for links, step in ((more, 1), (fewer, -1)):
            for link in links:
                out_of = topology.n_links + int(topology.tails[link])
                into = topology.n_links + topology.n_nodes + int(topology.heads[link])
                for place in (link, out_of, into):
                    change[place] += step
        taken = max(0, min([units, *(self._left[p] // step for p, step in change.items() if step > 0)]))
        for place, step in change.items():
            self._left[place] -= step * taken
        return taken


def _ask(topology: Topology, forest: Forest, able: BoolArray, room: _Room) -> Forest:
    lanes, nodes = inputs_of(topology), _rank_nodes(topology, forest)
    switches = [_Switch(switch, members_at(lanes, switch, nodes)) for switch in np.flatnonzero(able).tolist()]
    outward = forest.direction is Direction.BROADCAST
    trees = [
        part
        for spec in single_path_trees(forest)
        for part in _parts(_Oriented(topology, lanes, nodes, outward=outward), spec, switches, room)
    ]
    return forest_from_trees(forest.direction, forest.n_ranks, trees)


def _rank_nodes(topology: Topology, forest: Forest) -> list[int]:
    """The node of each rank: where the paths of its own edges, or those of its children, end."""
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
    """A fabric as trees of one direction see it, from the root outwards."""

    topology: Topology
    lanes: Lanes
    nodes: Sequence[int]
    outward: bool

    def sends(self, spec: TreeSpec, switch: _Switch) -> dict[int, tuple[int, int]]:
        """For each rank that has its data over the switch and nothing else: the links from its parent."""
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


def _parts(fabric: _Oriented, spec: TreeSpec, switches: Sequence[_Switch], room: _Room) -> Iterator[TreeSpec]:
    """The tree with operations at the switches, in parts where these serve some units only."""
    for place, switch in enumerate(switches):
        sends = fabric.sends(spec, switch)
        # an operation crosses a link of each member and the asker's; sends cross two links each
        if 2 * len(sends) <= len(switch.members) + 1:
            continue
        order = {rank: i for i, rank in enumerate((spec.root, *breadth_first(spec)))}
        asker = min((spec.parent[rank] for rank in sends), key=order.__getitem__)
        caller = next(rank for rank in sends if spec.parent[rank] == asker)
        call = fabric.nodes[asker], switch.node, sends[caller][0]
        served = [fabric.nodes[rank] for rank in sends]
        more = unnamed_crossings(fabric.lanes, switch.members, served, call, outward=fabric.outward)
        fewer = [first for rank, (first, _) in sends.items() if rank != caller]
        taken = room.take(more, fewer, spec.multiplicity)
        if not taken:
            continue
        left = spec.multiplicity - taken
        if left:
            yield from _parts(fabric, _of_units(spec, left), switches[place + 1 :], room)
        parent = list(spec.parent)
        paths = dict(_of_units(spec, taken).paths)
        for rank, (_, last) in sends.items():
            parent[rank] = asker
            if rank != caller:
                paths[rank] = [((last,), taken)]
        spec = TreeSpec(spec.root, taken, parent, paths)
    yield spec


def _of_units(spec: TreeSpec, units: int) -> TreeSpec:
    paths = {rank: [(links, units)] for rank, ((links, _),) in spec.paths.items()}
    return TreeSpec(spec.root, units, spec.parent, paths)
