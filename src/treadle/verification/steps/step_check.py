"""Independent check of a step schedule: links, chunks held, delivery, double counting, cost, claims.

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
from treadle.verification.claims import Claims, Verifier, check_shape
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
    Links. Every send uses a link, or a way that is a walk, between two different ranks or forwarders;
    switches cannot hold data, and nodes inside a way hold nothing. If a switch multicasts or aggregates on a
    way, it supports that as a GPU-initiated operation, with both ends in its group.
    Each rank owns one shard (allgather, reduce-scatter, allreduce of whole buffers), the root owns all shards
    (broadcast, reduce), or shards have any owners (allreduce in two phases).

    Broadcasting (Definition 4). A send carries chunks that its tail holds at the beginning of the step: its
    own, or received in an earlier step. At the end every rank holds every chunk. Receiving a chunk twice is
    allowed; it only costs time.

    Reducing. The partial sum of a rank begins as its own contribution, that of a forwarder with the first
    arrival: before, it has nothing to send. A send adds the partial sum of the tail, as it is at the start of
    the step, to that of the head. The contribution of every rank must be in the sum of the owner exactly
    once. Let w(u) be how often the value held by u before step t enters the final sum: at the end, 1 at the
    owner and 0 elsewhere; backwards over step t, it grows by w(head) for each send out of u. Weights never
    shrink backwards, so that a weight of 2 is a violation wherever it appears: at a rank by itself, at a
    forwarder because the value that it sends twice came from some rank. Hence sets (bit masks) of weights 1
    and a check that no two of them overlap count exactly. A send with w(head) = 0 is allowed; it only costs
    time. If a sum is restarted, the value that the head held before does not count: backwards over that step
    its weight is that of its own sends.

    Several owners. If a sum is due at several ranks, each of these is followed by itself, with the same
    sends: they read the one partial sum that a rank has, and it must be right for all owners.

    Cost. Per step the largest of chunks / bandwidth over the links and, for nodes with an injection cap, over
    the egress and ingress of the host; algbw = size / (sum over the steps of all phases). Sends of one switch
    operation cross the link that they share once, and all other links of the group
    (`treadle.verification.steps.step_operations`).

    Messages cut into S slices. Each slice is the same schedule on a part of the data, and independent of the
    others. Let step d of slice s run in window s + d. In a window a link carries each step of some slice, at
    most the bytes of all steps of one slice, so the window lasts no longer than the busiest link needs for
    1/S of the size: pipelined_algbw = size / (time of that link for all steps of all phases), reached within
    (D - 1)/S for D steps. No link allows more.

    Time is linear in the sends, about 50 ns each. Memory is one to eight bytes for every node, shard, and up
    to 64 runs of chunks that no send divides.

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
    if judge.is_sound:
        _check_owners(collective, schedule, judge.found)
    for steps in schedule.phases if judge.is_sound else ():
        FlowCheck(topology, collective, steps, judge.found).run()
    if not judge.is_sound:
        return judge.report()
    algbw, pipelined = step_rates(topology, collective, schedule)
    return judge.report(algbw, pipelined_algbw=pipelined, n_steps=schedule.n_steps)


def _check_owners(collective: Collective, schedule: StepSchedule, found: Findings) -> None:
    """Check the kind, the number of ranks, and the owners of shards."""
    if not check_shape(collective, schedule, found):
        return
    if collective.weights is not None and len(set(collective.weights)) > 1:
        found.add(ViolationKind.SHAPE, "steps have equal shards, but those of the collective differ")
    first, *others = schedule.phases  # the owners are the same in all
    if not first.n_shards:
        found.add(ViolationKind.SHAPE, f"{first.direction} steps have no shard, expected at least one")
        return
    if first.twins.size and not others:
        found.add(
            ViolationKind.SHAPE,
            "shards have several owners, expected only between the phases of an allreduce",
        )
        return
    owned = np.bincount(first.homes, minlength=collective.n_ranks)
    if collective.root is not None:
        wrong, expected = owned.copy(), f"all at root {collective.root}"
        wrong[collective.root] = 0
    elif collective.kind is not CollectiveKind.ALLREDUCE or schedule.has_full_shards:
        wrong, expected = owned != 1, "1"
    else:
        return
    found.add_all(
        ViolationKind.SHAPE,
        np.flatnonzero(wrong),
        lambda rank: f"rank {rank} owns {owned[rank]} shards, expected {expected}",
    )


def step_rates(
    topology: Topology, collective: Collective, schedule: StepSchedule
) -> tuple[Fraction, Fraction]:
    """Return size / time without latencies, bytes/s: of steps one after another, and of sliced messages."""
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
