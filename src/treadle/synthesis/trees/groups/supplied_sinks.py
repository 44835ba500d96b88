"""Check that allocations supply the sinks of a group: maximum flows in integers, without the linear
program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation
from treadle.synthesis.trees.groups.representative import Representative
from treadle.synthesis.trees.instance import Instance, find_violated_cut
from treadle.topologies.topology import Topology

Sink = tuple[int, int, int]
"""Family, representative and position."""


def instance_on(topology: Topology, group: Representative, turned: bool, weights: Int64Array) -> Instance:
    """Return the flow problem of a group, with its positions as nodes; on reversed links if `turned`."""
    tails, heads = (group.heads, group.tails) if turned else (group.tails, group.heads)
    return Instance(
        topology=topology,
        direction=Direction.REDUCE if turned else Direction.BROADCAST,
        terminals=group.members.astype(np.int32),
        weights=weights,
        tails=tails.astype(np.int32),
        heads=heads.astype(np.int32),
        bandwidths=np.ones(len(tails), dtype=np.int64),
    )


def first_unserved(
    topology: Topology, group: Representative, turned: bool, shares: Sequence[int], supplies: Sequence[int]
) -> int | None:
    """Return a member that integral allocations do not supply, None if all are supplied; without tolerance.

    Raises
    ------
    InfeasibleError
        If the numbers are too long to compare cuts in 128 bits.
    """
    if max(shares, default=0) >= 2**62 or sum(supplies) >= 2**62:
        raise InfeasibleError(
            f"{topology.name}: shares of groups have too many digits to compare cuts exactly"
        )
    capacities = np.array(shares, dtype=np.int64)[group.pair_class]
    problem = instance_on(topology, group, turned, np.array(supplies, dtype=np.int64))
    found = find_violated_cut(problem, capacities)
    return None if found is None else int(np.setdiff1d(group.members, found[1])[0])


def missed_sinks(every: EveryGroup, families: Sequence[bool], found: RationalAllocation) -> Iterator[Sink]:
    """Yield a member of each representative in each family that allocations do not supply.

    Families say whether links are reversed.
    """
    for number, group in enumerate(every.groups):
        for family, turned in enumerate(families):
            shares, supplies = found.shares[family][number], found.roots[number]
            sink = first_unserved(every.union.topology, group, turned, shares, supplies)
            if sink is not None:
                yield family, number, sink


def find_unmet(
    every: EveryGroup, families: Sequence[bool], found: RationalAllocation
) -> tuple[bool, Sink | None]:
    """Whether allocations supply all members of all groups; and a sink that they do not supply.

    Groups that are not representatives are checked too: equal colours do not guarantee their supply.
    """
    missed = next(missed_sinks(every, families, found), None)
    is_met = missed is None and all(
        first_unserved(every.union.topology, group, turned, found.shares[family][number], supplies) is None
        for number, group in every.others()
        for supplies in [every.in_order_of(group.kind, found.roots[number])]
        for family, turned in enumerate(families)
    )
    return is_met, missed
