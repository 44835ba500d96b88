"""The disjoint union of the groups' own subgraphs: links that a group may use, next to those of others.

A group may use links between its members, switches and forwarders; with ranks that forward, also those of all
other ranks. Groups with equivalent links to the rest, rank by rank, are copies of each other: one of them
stands for all (a type), and the union holds every type once. Relays that only one group's links lead to, like
the switch of a box that holds the group, are places of that group alone, and correspond in its copies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of, offsets_of, positions_of
from treadle.errors import InfeasibleError
from treadle.math.graphs import components, reached
from treadle.schedules.collective import Collective, CollectiveKind, check_declared
from treadle.synthesis.runs import extremes
from treadle.synthesis.trees.instance import check_uncapped
from treadle.topologies.topology import Topology

_MOST_PAIRS = 2**25
"""Links times groups that are not copies: some 4 GB."""


@dataclass(frozen=True, eq=False)
class GroupUnion:
    """Subgraphs of one group of each type, side by side; their nodes and links are called places and pairs.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    nodes : array of int64, shape (G, group size)
        Fabric nodes of each group's ranks.
    type_of : array of int64, shape (G,)
        Type of each group.
    first : array of int64, shape (T,)
        Group that stands for each type.
    copies : array of int64, shape (T,)
        Groups of each type.
    n_local : int
        Places of each type: nodes that all groups see, the group's own relays, and last, unless ranks
        forward, its members.
    node : array of int64, shape (T * n_local,)
        Fabric node of each place. Where a group has fewer relays than another, its first member once more for
        each: no pair ends at that place.
    tails, heads : arrays of int64, shape (P,)
        Places at the ends of each pair; pairs of a type follow each other, types in order.
    links : array of int64, shape (P,)
        Fabric link of each pair.
    is_own : array of bool, shape (P,)
        No other group uses that link, not even a copy.
    offsets : array of int64, shape (T + 1,)
        Pairs of type t are those from offsets[t] to offsets[t + 1].
    own_links : tuple of array of int64
        Links of each group alone, in an order in which those of copies correspond.
    """

    topology: Topology
    collective: Collective
    nodes: Int64Array
    type_of: Int64Array
    first: Int64Array
    copies: Int64Array
    n_local: int
    node: Int64Array
    tails: Int64Array
    heads: Int64Array
    links: Int64Array
    is_own: BoolArray
    offsets: Int64Array
    own_links: tuple[Int64Array, ...]

    @property
    def n_types(self) -> int:
        """Number of types T."""
        return len(self.first)

    @cached_property
    def members(self) -> Int64Array:
        """Places of each type's members in the order of the group, shape (T, group size)."""
        nodes = self.node.reshape(self.n_types, self.n_local)
        rows = zip(nodes, self.first.tolist(), strict=True)
        places = [positions_of(self.topology.n_nodes, own)[self.nodes[group]] for own, group in rows]
        return np.array(places) + np.arange(self.n_types)[:, None] * self.n_local

    @cached_property
    def kind_of_pair(self) -> Int64Array:
        """Type of each pair, shape (P,)."""
        return np.repeat(np.arange(self.n_types), np.diff(self.offsets))

    @cached_property
    def is_member(self) -> BoolArray:
        """Whether each position is a member, shape (T * n_local,)."""
        return mask_of(len(self.node), self.members.ravel())

    def pairs_of(self, kind: int) -> slice:
        """Positions of the pairs of a type."""
        return slice(int(self.offsets[kind]), int(self.offsets[kind + 1]))

    def links_of(self, group: int) -> Int64Array:
        """Fabric links of a group, one for each pair of its type, in the pairs' order."""
        kind = int(self.type_of[group])
        here = self.pairs_of(kind)
        links = self.links[here].copy()
        if group != self.first[kind]:
            own = self.own_links[int(self.first[kind])]
            order = np.argsort(own)
            mine = self.is_own[here]
            links[mine] = self.own_links[group][order[np.searchsorted(own[order], links[mine])]]
        return links


def union_of(topology: Topology, collective: Collective) -> GroupUnion:
    """Return the union of the groups' own subgraphs, without links that no tree can use.

    Raises
    ------
    ScheduleError
        If ranks and forwarders are not exactly the compute nodes of the fabric.
    InfeasibleError
        If a compute node has an injection cap, which trees cannot express.
        If a member of a group cannot reach another by nodes that its group may use; names both.
    """
    check_declared(topology, collective)
    check_uncapped(topology)
    groups = collective.groups or (range(collective.n_ranks),)
    nodes = np.array(collective.ranks, dtype=np.int64)[np.array(groups)]
    return _between_members(_side_by_side(topology, collective, nodes))


def _side_by_side(topology: Topology, collective: Collective, nodes: Int64Array) -> GroupUnion:
    n = topology.n_nodes
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    owner, place = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    own_nodes = np.empty((len(nodes), 0), dtype=np.int64)
    if not collective.ranks_forward:
        owner[nodes] = np.arange(len(nodes))[:, None]
        own_nodes = np.concatenate([_own_relays(owner, tails, heads, nodes), nodes], axis=1)
    shared = np.flatnonzero(owner < 0)
    place[shared] = np.arange(len(shared))
    place[own_nodes] = len(shared) + np.arange(own_nodes.shape[1])
    pair_owner = np.maximum(owner[tails], owner[heads])
    usable = tails != heads
    for end in (owner[tails], owner[heads]):
        usable &= (end < 0) | (end == pair_owner)
    common = np.flatnonzero(usable & (pair_owner < 0))
    # links of each group alone, by the places of their ends within the group, then bandwidth
    mine = np.flatnonzero(usable & (pair_owner >= 0))
    keys = topology.bandwidths[mine], place[heads[mine]], place[tails[mine]], pair_owner[mine]
    mine = mine[np.lexsort(keys)]
    bounds = np.searchsorted(pair_owner[mine], np.arange(len(nodes) + 1)).tolist()
    own = tuple(mine[a:b] for a, b in pairwise(bounds))
    type_of, first, copies = _types(topology, own, place, nodes, collective)
    counts = len(common) + np.array([len(own[group]) for group in first.tolist()])
    if counts.sum() > _MOST_PAIRS:
        raise InfeasibleError(
            f"{topology.name}: {len(first)} groups that differ on {len(common)} links that all may use: "
            f"more than {_MOST_PAIRS} pairs; solve fewer groups or a smaller fabric"
        )
    node = np.concatenate([np.tile(shared, (len(first), 1)), own_nodes[first]], axis=1)
    links = np.concatenate([part for group in first.tolist() for part in (common, own[group])])
    shift = np.repeat(np.arange(len(first)) * node.shape[1], counts)
    return GroupUnion(
        topology=topology,
        collective=collective,
        nodes=nodes,
        type_of=type_of,
        first=first,
        copies=copies,
        n_local=node.shape[1],
        node=node.ravel(),
        tails=place[tails[links]] + shift,
        heads=place[heads[links]] + shift,
        links=links,
        is_own=pair_owner[links] >= 0,
        offsets=offsets_of(counts),
        own_links=own,
    )


def _own_relays(owner: Int64Array, tails: Int64Array, heads: Int64Array, nodes: Int64Array) -> Int64Array:
    """Return the relays of each group alone, one row per group, padded by its first member; set their owners.

    They are the parts of the fabric between ranks whose links to ranks all belong to one group.
    """
    free = (owner[tails] < 0) & (owner[heads] < 0)
    part = components(len(owner), tails[free], heads[free])
    ends = [np.flatnonzero((owner[a] >= 0) & (owner[b] < 0)) for a, b in ((tails, heads), (heads, tails))]
    touched = np.concatenate([part[heads[ends[0]]], part[tails[ends[1]]]])
    by = np.concatenate([owner[tails[ends[0]]], owner[heads[ends[1]]]])
    least, most = extremes(len(owner), touched, by)
    own = np.flatnonzero((owner < 0) & (least[part] == most[part]))
    group = most[part[own]]
    order = np.argsort(group, kind="stable")
    own, group = own[order], group[order]
    counts = np.bincount(group, minlength=len(nodes))
    found = np.repeat(nodes[:, :1], counts.max(initial=0), axis=1)
    found[group, np.arange(len(own)) - offsets_of(counts.tolist())[group]] = own
    owner[own] = group
    return found


def _types(
    topology: Topology,
    own: tuple[Int64Array, ...],
    place: Int64Array,
    nodes: Int64Array,
    collective: Collective,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the type of each group, and the first group and the number of groups of each type."""
    known: dict[bytes, int] = {}
    numbers = []
    for group, links in enumerate(own):
        ends = place[topology.tails[links]], place[topology.heads[links]]
        table = np.stack([*ends, topology.bandwidths[links]])
        # where ranks forward, groups differ by their nodes
        key = table.tobytes() + (nodes[group].tobytes() if collective.ranks_forward else b"")
        numbers.append(known.setdefault(key, len(known)))
    type_of = np.array(numbers, dtype=np.int64)
    return type_of, np.unique(type_of, return_index=True)[1], np.bincount(type_of)


def _between_members(union: GroupUnion) -> GroupUnion:
    """Remove pairs that no walk from a root to a sink takes; all sinks must be reached."""
    kind, centre = union.collective.kind, union.members[:, union.collective.root or 0]
    is_from_all, is_to_all = kind is CollectiveKind.REDUCE, kind is CollectiveKind.BROADCAST
    everyone = union.members.ravel()
    forward = reached(len(union.node), union.tails, union.heads, everyone if is_from_all else centre)
    backward = reached(len(union.node), union.heads, union.tails, everyone if is_to_all else centre)
    for seen, word, is_needed in (
        (forward, "reach", not is_from_all),
        (backward, "be reached from", not is_to_all),
    ):
        missed = np.argwhere(~seen[union.members])
        if is_needed and len(missed):
            raise _unreachable(union, int(missed[0][0]), int(missed[0][1]), word)
    kept = _without_dead_ends(union, forward[union.tails] & backward[union.heads])
    if kept.all():
        return union
    counts = np.add.reduceat(kept.astype(np.int64), union.offsets[:-1])
    return replace(
        union,
        tails=union.tails[kept],
        heads=union.heads[kept],
        links=union.links[kept],
        is_own=union.is_own[kept],
        offsets=offsets_of(counts),
    )


def _without_dead_ends(union: GroupUnion, kept: BoolArray) -> BoolArray:
    """Return the kept pairs without dead ends: relays with one neighbour only lead back."""
    n = len(union.node)
    while True:
        tails, heads = union.tails[kept], union.heads[kept]
        least, most = extremes(n, np.concatenate([tails, heads]), np.concatenate([heads, tails]))
        dead = ~union.is_member & (least == most)
        if not dead.any():
            return kept
        kept = kept & ~dead[union.tails] & ~dead[union.heads]


def _unreachable(union: GroupUnion, kind: int, missed: int, word: str) -> InfeasibleError:
    names = union.topology.node_names
    group = int(union.first[kind])
    members = union.nodes[group].tolist()
    shown = ", ".join(names[v] for v in members[:3]) + (", ..." if len(members) > 3 else "")
    centre = members[union.collective.root or 0]
    where, without, fix = f"group {group} ({shown})", "", "connect them"
    if union.collective.groups is None:
        where, fix = "its ranks", "connect them or drop a rank"
    elif not union.collective.ranks_forward:
        without, fix = " without ranks of other groups", "connect them or let ranks forward"
    return InfeasibleError(
        f"{union.topology.name}: {where}: {names[centre]!r} cannot {word} {names[members[missed]]!r}"
        f"{without}; {fix}"
    )
