"""Check of factored forests, in their own form: each kind of piece once, each piece in its place, the gluing.

Why that is enough (docs/algorithms/decomposition.md has the proofs). In a piece, every unit tree spans the
children from its root. A child that is a piece is entered once by each tree that is not rooted in it, and
the units that enter are, one to one, those of its entrances, which are its unit trees beyond the native
ones; native ones are counted alike on both sides. So each of the R unit trees goes on as just one unit tree
in every piece, and the ranks, each in one piece, are all reached, without circles. An edge that leaves a
piece starts at the child that the exits name, which has the data, as its tree in that piece spans the
children. Paths are walks in each piece; where they meet at a border they share a link. Loads add up over
pieces, a crossing link counted outside.

Shares no code with the generators or the expansion; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredForest, FactoredSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_kind
from treadle.verification.factored.height import forest_height
from treadle.verification.factored.layer_check import LayerCheck, fabric_of
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64


def verify_factored(
    topology: Topology,
    collective: Collective,
    schedule: FactoredSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that factored forests perform the collective on the fabric and that their claims are true.

    Parameters
    ----------
    topology, collective, schedule, **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        `algbw` is exact, as of an explicit schedule; so is `height_max`, or it is a bound and
        `height_is_exact` false (`treadle.verification.factored.height`).

    Notes
    -----
    Time is linear in the stored arrays and in the pieces' links and borders, not in trees times ranks.
    """
    judge = Verifier(topology, collective, **claims)
    loads = np.zeros(topology.n_links, dtype=np.int64)
    if judge.is_sound and check_kind(collective, schedule, judge.found):
        for forest in schedule.forests:
            loads = _added(loads, _check_forest(topology, collective, forest, judge.found))
    if not judge.is_sound:
        return judge.report()
    height = forest_height(tuple(layer for forest in schedule.forests for layer in forest.layers))
    facts = {"height_max": height.hops, "height_is_exact": height.is_exact}
    return judge.report_loads(loads, sum(schedule.root_multiplicity.tolist()), **facts)


def factored_loads(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> Int64Array:
    """Units that cross each link, all forests together, shape (m,), of a schedule that is correct.

    Raises
    ------
    ScheduleError
        If it is not.
    """
    found = Findings(1)
    loads = np.zeros(topology.n_links, dtype=np.int64)
    for forest in schedule.forests:
        loads = _added(loads, _check_forest(topology, collective, forest, found))
    if found.total:
        raise ScheduleError("the plan is wrong: verify it")
    return loads


def _added(one: Int64Array, other: Int64Array) -> Int64Array:
    """The sum; of Python ints where 64 bits may not hold it."""
    if float(one.max(initial=0)) + float(other.max(initial=0)) < _SAFE:
        return one + other
    return one.astype(object) + other


def _check_forest(
    topology: Topology, collective: Collective, forest: FactoredForest, found: Findings
) -> Int64Array:
    """All layers of a forest; exact loads."""
    loads = np.zeros(topology.n_links, dtype=np.int64)
    if forest.n_ranks != collective.n_ranks:
        found.add(
            ViolationKind.SHAPE,
            f"{forest.direction} forest has {forest.n_ranks} ranks, the collective {collective.n_ranks}",
        )
        return loads
    _check_shares(collective, forest, found)
    fabric = fabric_of(topology, collective, turned=forest.direction is Direction.REDUCE)
    for number, layer in enumerate(forest.layers):
        part = LayerCheck(fabric, layer, f"{forest.direction} layer {number}", found).run()
        if part is not None:
            loads = _added(loads, part)
    return loads


def _check_shares(collective: Collective, forest: FactoredForest, found: Findings) -> None:
    """Trees per root are those of the layers, and in proportion to the shards."""
    declared = forest.root_multiplicity.astype(object)
    planted = np.zeros(forest.n_ranks, dtype=object)
    for layer in forest.layers:
        native = np.concatenate([layer.pieces[kind].native for kind in layer.kind.tolist()])
        is_rank = layer.children >= 0
        if is_rank.any() and layer.children.max() >= forest.n_ranks:
            found.add(ViolationKind.SHAPE, f"{forest.direction}: rank {layer.children.max()} in a layer")
            return
        np.add.at(planted, layer.children[is_rank], native[is_rank].astype(object))
    total = sum(declared.tolist())
    weights = np.array(collective.shard_weights, dtype=object)
    weight = sum(collective.shard_weights)
    is_wrong = (planted != declared) | (declared < 0)
    if collective.kind is not CollectiveKind.ALLREDUCE:
        is_wrong |= declared * weight != weights * total
    found.add_all(
        ViolationKind.SHARES,
        np.flatnonzero(is_wrong),
        lambda i: (
            f"{forest.direction} root {i}: {planted[i]} unit trees, {declared[i]} of "
            f"{total} declared, for {weights[i]} of {weight} shares"
        ),
    )
    if total <= 0:
        found.add(ViolationKind.SHARES, f"{forest.direction}: there is no tree")
