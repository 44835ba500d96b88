"""Whether shares serve the sinks of a group: maximum flows in integers, without the linear program."""

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
"""Family, representative and place."""


def instance_on(topology: Topology, group: Representative, turned: bool, weights: Int64Array) -> Instance:
    """The flow problem of a group, with its places as nodes; of links turned round if `turned`."""
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
    """A member that integer shares do not serve, None if all are served; without tolerance.

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


def supply_others(every: EveryGroup, families: Sequence[bool], found: RationalAllocation) -> bool:
    """Whether groups that are no representatives are served: equal colours do not make it certain."""
    return all(
        first_unserved(
            every.union.topology,
            one,
            turned,
            found.shares[family][number],
            every.in_order_of(one.kind, found.roots[number]),
        )
        is None
        for number, one in every.others()
        for family, turned in enumerate(families)
    )


def missed_sinks(every: EveryGroup, families: Sequence[bool], found: RationalAllocation) -> Iterator[Sink]:
    """A member of each representative in each family that shares do not serve.

    Families say whether links are turned round.
    """
    for number, group in enumerate(every.groups):
        for family, turned in enumerate(families):
            shares, supplies = found.shares[family][number], found.roots[number]
            sink = first_unserved(every.union.topology, group, turned, shares, supplies)
            if sink is not None:
                yield family, number, sink
