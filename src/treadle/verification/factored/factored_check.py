"""Check of factored forests without expanding them: equivalence classes, positions, and the gluing.

This is sufficient (docs/proofs/decomposition.md has the proofs). In a subproblem, every unit tree spans
the children from its root. A child that is a subproblem is entered once by each tree that is not rooted in
it, and the units that enter are, one to one, those of its ingress rows, which are its unit trees other than
the native ones; native ones are counted equally on both sides. So each of the R unit trees continues as
exactly one unit tree in every subproblem, and the ranks, each in one subproblem, are all reached, without
cycles. An edge that leaves a subproblem starts at the child that the egress rows name, which has the data, as
its tree in that subproblem spans the children. Paths are walks in each subproblem; where they meet at a
boundary they share a link. Loads add up over subproblems, a crossing link counted outside.

Shares no code with the generators or the expansion. `treadle.verification.schedules.verify` is the entry
point.
"""

from __future__ import annotations

from functools import reduce
from typing import Unpack

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredForest, FactoredSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_shape
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
        `algbw` is exact, as for explicit trees; so is `height_max`, or it is an upper bound and
        `height_is_exact` is false (`treadle.verification.factored.height`).

    Notes
    -----
    Time is linear in the stored arrays and in the links and boundaries of subproblems, not in trees times
    ranks.
    """
    judge = Verifier(topology, collective, **claims)
    if judge.is_sound and check_shape(collective, schedule, judge.found):
        loads = _check_forests(topology, collective, schedule, judge.found)
    if not judge.is_sound:
        return judge.report()
    height = forest_height(tuple(layer for forest in schedule.forests for layer in forest.layers))
    facts = {"height_max": height.hops, "height_is_exact": height.is_exact}
    return judge.report_loads(loads, sum(schedule.root_multiplicity.tolist()), **facts)


def factored_loads(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> Int64Array:
    """Return the units that cross each link in all forests together, shape (m,).

    Raises
    ------
    ScheduleError
        If the schedule is not correct.
    """
    found = Findings(1)
    if check_shape(collective, schedule, found):
        loads = _check_forests(topology, collective, schedule, found)
    if found.total:
        raise ScheduleError("plan: it is not correct; run treadle verify on it")
    return loads


def _check_forests(
    topology: Topology, collective: Collective, schedule: FactoredSchedule, found: Findings
) -> Int64Array:
    """Check all forests; return their exact loads."""
    forests = [_check_forest(topology, collective, forest, found) for forest in schedule.forests]
    return reduce(_add_loads, forests)


def _add_loads(loads: Int64Array, more: Int64Array) -> Int64Array:
    """Return the sum, as Python ints if 64 bits may not hold it."""
    if float(loads.max(initial=0)) + float(more.max(initial=0)) < _SAFE:
        return loads + more
    return loads.astype(object) + more


def _check_forest(
    topology: Topology, collective: Collective, forest: FactoredForest, found: Findings
) -> Int64Array:
    """Check all layers of a forest; return its exact loads."""
    loads = np.zeros(topology.n_links, dtype=np.int64)
    _check_shares(collective, forest, found)
    fabric = fabric_of(topology, collective, turned=forest.direction is Direction.REDUCE)
    for number, layer in enumerate(forest.layers):
        part = LayerCheck(fabric, layer, f"{forest.direction} layer {number}", found).run()
        if part is not None:
            loads = _add_loads(loads, part)
    return loads


def _check_shares(collective: Collective, forest: FactoredForest, found: Findings) -> None:
    """Check that there are trees, in proportion to the shards."""
    declared = forest.root_multiplicity.astype(object)
    total, weight = sum(declared.tolist()), sum(collective.shard_weights)
    weights = np.array(collective.shard_weights, dtype=object)
    if collective.kind is not CollectiveKind.ALLREDUCE:
        found.add_all(
            ViolationKind.SHARES,
            np.flatnonzero(declared * weight != weights * total),
            lambda i: (
                f"{forest.direction} root {i}: {declared[i]} of {total} unit trees, for {weights[i]} of "
                f"{weight} shares"
            ),
        )
    if not total:
        found.add(ViolationKind.SHARES, f"{forest.direction}: the forest has no trees")
