"""Independent check of a step schedule: places, what is held when, delivery, double counting, cost, claims.

Shares no code with the generators, nor with `schedules.steps.step_cost`: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Unpack

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_kind
from treadle.verification.loads import algbw_of
from treadle.verification.steps.step_flow import FlowCheck
from treadle.verification.steps.step_operations import StepOperations
from treadle.verification.steps.walks import seconds_and_loads
from treadle.verification.violations import Findings, Report, ViolationKind


def verify_steps(
    topology: Topology,
    collective: Collective,
    schedule: StepSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that steps perform the collective on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its shards must be equal.
    schedule : StepSchedule
    **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        With `n_steps` and `pipelined_algbw`; `height_max` is None.

    Notes
    -----
    Places. Every send uses a link, or a way that is a walk, between two different ranks or forwarders;
    switches cannot hold data, and what a way passes holds nothing. Where a switch copies or adds up on a way,
    it can do so, and works for a rank that asks with both ends in its group.
    Each rank is the home of one shard (allgather, reduce-scatter, allreduce of whole buffers), the root of
    all shards (broadcast, reduce), or shards lie anywhere (allreduce in two phases).

    Broadcasting (Definition 4). A send carries chunks that its tail holds at the beginning of the step: its
    own, or received in an earlier step. At the end every rank holds every chunk. Receiving a chunk twice is
    allowed; it only costs time.

    Reducing. A rank's partial sum begins as its own contribution, a forwarder's with the first arrival:
    before, it has nothing that it could send. A send adds the tail's partial sum, as it is at the beginning
    of the step, to the head's. Every rank's contribution must be in the sum at home exactly once. Let
    w(u) be how often what u holds before step t gets into the final sum: 1 at home and 0 elsewhere at the
    end, and back over step t it grows by w(head) for each send out of u. The weights never shrink on the way
    back, so that a weight of 2 is a violation wherever it appears: at a rank by itself, at a forwarder
    because what it sends twice came from some rank. Hence sets (bit masks) of weights 1 and a check that no
    two of them overlap count exactly. A send with w(head) = 0 is allowed; it only costs time. Where a sum
    begins anew, what the head held before does not count: back over that step its weight is what it sends.

    Several homes. Where a sum is due at more ranks than one, each of these is followed by itself, with the
    same sends: what is read is the one partial sum that a rank has, and it has to be right for all of them.

    Cost. Per step the largest of chunks / bandwidth over the links and, for nodes with an injection cap, over
    what leaves and enters the host; algbw = size / (sum over the steps of all phases). Sends of one operation
    of a switch cross the link that they share once, and the group's other links, whether they are served by
    them or not (`treadle.verification.steps.step_operations`).

    Messages cut into S slices. Each slice is the same schedule on a part of the data, and needs no other. Let
    step d of slice s run in window s + d. In a window a link carries step after step of some slice each, at
    most one slice's bytes of all steps together, so it lasts no longer than the busiest link needs for 1/S of
    the size: pipelined_algbw = size / (that link's time for all steps of all phases), reached within
    (D - 1)/S for D steps. No link allows more.

    Linear in the sends, about 50 ns each; one to eight bytes for every node, shard, and up to 64 chunks (in
    between which some send begins or ends).

    Examples
    --------
    >>> from treadle.schedules.collective import on_all_ranks
    >>> from treadle.schedules.trees.forest import Direction
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> steps = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)])
    >>> schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    >>> print(*verify_steps(pair, on_all_ranks(pair, CollectiveKind.ALLGATHER), schedule).violations)
    delivery: broadcast steps, shard 1: rank 0 (n0) never gets chunk 0
    """
    judge = Verifier(topology, collective, **claims)
    if judge.is_sound and _check_shape(collective, schedule, judge.found):
        for steps in schedule.phases:
            FlowCheck(topology, collective, steps, judge.found).run()
    if not judge.is_sound:
        return judge.report()
    algbw, pipelined = step_rates(topology, collective, schedule)
    return judge.report(algbw, pipelined_algbw=pipelined, n_steps=schedule.n_steps)


def _check_shape(collective: Collective, schedule: StepSchedule, found: Findings) -> bool:
    before = found.total
    if not check_kind(collective, schedule, found):
        return False
    if collective.weights is not None and len(set(collective.weights)) > 1:
        found.add(ViolationKind.SHAPE, "steps have equal shards, but those of the collective differ")
    for steps in schedule.phases:
        if steps.n_ranks != collective.n_ranks:
            found.add(
                ViolationKind.SHAPE,
                f"{steps.direction} steps have {steps.n_ranks} ranks, the collective {collective.n_ranks}",
            )
            return False
        if not steps.n_shards:
            found.add(ViolationKind.SHAPE, f"{steps.direction} steps have no shard, expected at least one")
            return False
    twins = [steps.twins for steps in schedule.phases]
    several = (
        schedule.kind is CollectiveKind.ALLREDUCE and len(twins) == 2 and np.array_equal(twins[0], twins[1])
    )
    if any(found_there.size for found_there in twins) and not several:
        found.add(
            ViolationKind.SHAPE, "shards have several homes, expected only between the phases of an allreduce"
        )
        return False
    homes = np.bincount(schedule.phases[0].homes, minlength=collective.n_ranks)  # phases agree in homes
    if collective.root is not None:
        for rank in np.flatnonzero(homes):
            if rank != collective.root:
                found.add(
                    ViolationKind.SHAPE,
                    f"rank {rank} is home of {homes[rank]} shards, expected all at root {collective.root}",
                )
    elif collective.kind is not CollectiveKind.ALLREDUCE or schedule.has_full_shards:
        found.add_all(
            ViolationKind.SHAPE,
            np.flatnonzero(homes != 1),
            lambda i: f"rank {i} is home of {homes[i]} shards, expected 1",
        )
    return found.total == before


def step_rates(
    topology: Topology, collective: Collective, schedule: StepSchedule
) -> tuple[Fraction, Fraction]:
    """Size over time, bytes/s, as latencies vanish: of steps one after another, and of sliced messages."""
    time, parts = Fraction(0), []
    for steps in schedule.phases:
        units = steps.n_chunks * (1 if schedule.has_full_shards else steps.n_shards)
        more = StepOperations(topology, collective, steps).more if steps.has_operations else None
        chunks = steps.high.astype(np.int64) - steps.low
        seconds, loads = seconds_and_loads(topology, steps, chunks, more)
        time += seconds / units
        parts.append((units, loads.astype(object)))
    whole = lcm(*(units for units, _ in parts))
    loads = np.sum([whole // units * loads for units, loads in parts], axis=0)
    return 1 / time, algbw_of(topology, loads, whole)
