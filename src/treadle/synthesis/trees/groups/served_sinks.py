"""Whether shares serve the sinks of a group: maximum flows in integers, without the linear program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.trees.groups.representative import Representative
from treadle.synthesis.trees.groups.share_program import Floats
from treadle.synthesis.trees.instance import Instance, find_violated_cut
from treadle.topologies.topology import Topology
from treadle.watch import Watch

_GRID = 2**56
"""Sum of rounded shares and weights of one group: flows in it fit 64 bits."""

TOLERANCE = 1e-7
"""Part of a sink's due that may be missing in floats."""


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


def unserved(
    topology: Topology,
    group: Representative,
    turned: bool,
    shares: Floats,
    supplies: Floats,
    watch: Watch,
) -> Iterator[int]:
    """Places of members that shares in floats do not serve, but for a tolerance; one for each cut found.

    Parameters
    ----------
    shares : array of float, shape (classes,)
    supplies : array of float, shape (group size,)
        What each member feeds in.
    """
    scale = _GRID / max(float(shares[group.pair_class].sum()), float(supplies.sum()), 1e-300) / 4
    capacities = np.floor(np.maximum(shares, 0.0) * scale).astype(np.int64)[group.pair_class]
    weights = np.floor(np.maximum(supplies, 0.0) * scale * (1 - TOLERANCE)).astype(np.int64)
    problem, first = instance_on(topology, group, turned, weights), 0
    while first < len(group.members):
        found = find_violated_cut(problem, capacities, first=first, watch=watch)
        if found is None:
            return
        first, nodes = found[0] + 1, found[1]
        yield int(np.setdiff1d(group.members, nodes)[0])


def first_unserved(
    topology: Topology,
    group: Representative,
    turned: bool,
    shares: Sequence[int],
    supplies: Sequence[int],
    watch: Watch,
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
    found = find_violated_cut(problem, capacities, watch=watch)
    return None if found is None else int(np.setdiff1d(group.members, found[1])[0])
