"""Groups at once by the linear program as it stands: a flow for every group, family and sink, in rationals.

Nothing is reduced: no symmetry, no lazy sinks, no cuts. Good for a few hundred flow variables per link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import lcm

import numpy as np

from treadle.math.columns import RestrictedMaster
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class GroupLp:
    """The optimum, and shares that attain it; in place of a `GroupOptimum`."""

    rate: Fraction
    families: tuple[bool, ...]
    all_shares: tuple[tuple[GroupAllocation, ...], ...]

    def shares(self, group: int, *, reducing: bool | None = None) -> GroupAllocation:
        """Of one group."""
        return self.all_shares[group][0 if reducing is None else self.families.index(reducing)]


def own_links(topology: Topology, collective: Collective, group: int) -> list[int]:
    """Links of the group's own subgraph: nodes of other groups are absent unless they forward."""
    member = collective.member(group)
    present = {*member.ranks, *member.forwarders, *topology.switches.tolist()}
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    return [e for e, (tail, head) in enumerate(ends) if tail != head and {tail, head} <= present]


class _Program:
    """Columns of shares and root rates; rows for balance, flows and capacities."""

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self.topology, self.collective = topology, collective
        self.lp = RestrictedMaster(int(topology.bandwidths.max()))
        self.rate = self.lp.add_column(1)
        self.used: dict[int, dict[int, int]] = defaultdict(dict)
        self.shares: list[dict[bool, dict[int, int]]] = []
        self.roots: list[dict[int, tuple[int, int]]] = []

    def add_group(self, group: int) -> None:
        """Its roots, and a share of each link for each family."""
        lp, kind = self.lp, self.collective.kind
        members = self.collective.member(group).ranks
        if kind is CollectiveKind.ALLREDUCE:
            columns = {v: lp.add_column(0) for v in members}
            lp.add_row(dict.fromkeys(columns.values(), 1) | {self.rate: -1}, equality=True)
            roots = {v: (column, 1) for v, column in columns.items()}
        elif self.collective.root is not None:
            roots = {members[self.collective.root]: (self.rate, len(members))}
        else:
            roots = dict.fromkeys(members, (self.rate, 1))  # the column is then the rate of one shard
        # all rows below are multiplied by the group's size, so that a shard's rate is whole
        shares: dict[bool, dict[int, int]] = {}
        for outward, wanted in ((True, kind.broadcasts), (False, kind.reduces)):
            if wanted:
                shares[outward] = self._family(group, members, roots, outward)
        self.shares.append(shares)
        self.roots.append(roots)

    def _family(
        self, group: int, members: tuple[int, ...], roots: dict[int, tuple[int, int]], outward: bool
    ) -> dict[int, int]:
        lp, topology = self.lp, self.topology
        free = self.collective.kind is CollectiveKind.ALLREDUCE
        size = 1 if free else len(members)
        columns = {e: lp.add_column(0) for e in own_links(topology, self.collective, group)}
        for e, column in columns.items():
            self.used[e][column] = 1
        ends = {e: (int(topology.tails[e]), int(topology.heads[e])) for e in columns}
        if not outward:
            ends = {e: (head, tail) for e, (tail, head) in ends.items()}
        relays = {node for pair in ends.values() for node in pair} - set(members)
        for node in sorted(relays):
            lp.add_row(_balance(columns, ends, node), equality=True)
        for sink in members:
            flow = {e: lp.add_column(0) for e in columns}
            for e, column in flow.items():
                lp.add_row({column: 1, columns[e]: -1})
            for node in sorted({*relays, *members} - {sink}):
                row = {column: a * size for column, a in _balance(flow, ends, node).items()}
                if node in roots:
                    column, factor = roots[node]
                    row[column] = -factor
                lp.add_row(row, equality=True)
        return columns


def _balance(columns: dict[int, int], ends: dict[int, tuple[int, int]], node: int) -> dict[int, int]:
    """What leaves the node, less what enters it."""
    row = {columns[e]: 1 for e, (tail, _) in ends.items() if tail == node}
    return row | {columns[e]: -1 for e, (_, head) in ends.items() if head == node}


def solve_groups(topology: Topology, collective: Collective) -> GroupLp:
    """The most that all groups reach together, bytes/s each, and shares that do."""
    assert collective.groups is not None
    program = _Program(topology, collective)
    for group in range(len(collective.groups)):
        program.add_group(group)
    for e, row in program.used.items():
        program.lp.add_row(row, int(topology.bandwidths[e]))
    program.lp.near_optimum()
    vertex = program.lp.exact_optimum()
    assert vertex is not None
    primal = vertex.primal
    size = 1 if collective.kind is CollectiveKind.ALLREDUCE else collective.group_size
    found = []
    for group, (shares, roots) in enumerate(zip(program.shares, program.roots, strict=True)):
        fed = {v: primal[column] * Fraction(factor, size) for v, (column, factor) in roots.items()}
        rates = [fed.get(v, Fraction(0)) for v in collective.member(group).ranks]
        values = [{e: primal[column] for e, column in columns.items()} for columns in shares.values()]
        found.append(over_one_denominator(rates, values))
    return GroupLp(primal[program.rate], tuple(not outward for outward in program.shares[0]), tuple(found))


def over_one_denominator(
    roots: Sequence[Fraction], families: Sequence[Mapping[int, Fraction]]
) -> tuple[GroupAllocation, ...]:
    """Rates of members, and of links in each family, as whole numbers."""
    scale = lcm(*(rate.denominator for rate in (*roots, *chain(*(one.values() for one in families)))))
    found = []
    for one in families:
        used = {e: int(rate * scale) for e, rate in sorted(one.items()) if rate}
        links, bandwidths = np.array(list(used), dtype=np.int64), np.array(list(used.values()), dtype=object)
        found.append(GroupAllocation(links, bandwidths, tuple(int(rate * scale) for rate in roots), scale))
    return tuple(found)
