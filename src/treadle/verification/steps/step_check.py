"""Independent check of a step schedule: places, what is held when, delivery, double counting, cost, claims.

Shares no code with the generators, nor with `schedules.steps.step_cost`: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.witness import Witness
from treadle.topologies.topology import Topology
from treadle.verification.claims import check_algbw, check_bound, check_kind, check_members
from treadle.verification.steps.step_flow import FlowCheck
from treadle.verification.steps.step_operations import StepOperations
from treadle.verification.steps.walks import crossings
from treadle.verification.violations import Findings, Report, ViolationKind

_NEAR = 1 - 1e-12  # quotients of doubles err by less than this, so every exact maximum is a candidate


def verify_steps(
    topology: Topology,
    collective: Collective,
    schedule: StepSchedule,
    *,
    claimed_algbw: Fraction | None = None,
    claimed_optimal_algbw: Fraction | None = None,
    witness: Witness | None = None,
    limit: int = 1000,
) -> Report:
    """Check that steps perform the collective on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its shards must be equal.
    schedule : StepSchedule
    claimed_algbw : Fraction, optional
        Bytes/s; must be exactly what the loads give, neither more nor less.
    claimed_optimal_algbw : Fraction, optional
        Bytes/s; must be exactly what `witness` proves.
    witness : Witness, optional
        Without a claimed optimum its bound is still held against the schedule.
    limit : int
        Most violations to describe; all are counted.

    Returns
    -------
    Report
        With `n_steps`; `height_max` is None.

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
    found = Findings(limit)
    check_members(topology, collective, found)
    if found.total:
        return found.report()
    bound = check_bound(topology, collective, claimed_optimal_algbw, witness, found)
    n_claims = found.total
    if _check_shape(collective, schedule, found):
        for steps in schedule.phases:
            FlowCheck(topology, collective, steps, found).run()
    if found.total > n_claims:
        return found.report(bound=bound)
    algbw = 1 / _time_per_byte(topology, collective, schedule)
    check_algbw(algbw, claimed=claimed_algbw, bound=bound, found=found)
    return found.report(algbw=algbw, bound=bound, n_steps=schedule.n_steps)


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
    elif collective.kind is not CollectiveKind.ALLREDUCE or schedule.has_whole_shards:
        wrong = np.flatnonzero(homes != 1)
        found.add_all(
            ViolationKind.SHAPE,
            len(wrong),
            lambda i: f"rank {wrong[i]} is home of {homes[wrong[i]]} shards, expected 1",
        )
    return found.total == before


def _time_per_byte(topology: Topology, collective: Collective, schedule: StepSchedule) -> Fraction:
    """Seconds per byte of the collective's size, as latencies vanish."""
    total = Fraction(0)
    for steps in schedule.phases:
        shards = 1 if schedule.has_whole_shards else steps.n_shards
        total += _chunk_seconds(topology, collective, steps) / (shards * steps.n_chunks)
    return total


def _chunk_seconds(topology: Topology, collective: Collective, steps: Steps) -> Fraction:
    """Seconds of all steps if a chunk were a byte."""
    capacities, group = _capacity_groups(topology)
    operations = StepOperations(topology, collective, steps) if steps.has_operations else None
    total = Fraction(0)
    for step in range(steps.n_steps):
        span = steps.span(step)
        load = np.zeros(topology.n_links, dtype=np.int64)  # at most 2**31 sends of 2**24 chunks: no overflow
        link, send = crossings(steps, span)
        np.add.at(load, link, (steps.high[span] - steps.low[span]).astype(np.int64)[send])
        if operations is not None:
            load += operations.more(span)
        heaviest = np.zeros(len(capacities), dtype=np.int64)
        np.maximum.at(heaviest, group, np.concatenate([load, *_host_loads(topology, load)]))
        if heaviest.any():
            quotients = heaviest / capacities
            near = np.flatnonzero(quotients >= quotients.max() * _NEAR)
            total += max(Fraction(int(heaviest[i]), int(capacities[i])) for i in near)
    return total


def _capacity_groups(topology: Topology) -> tuple[Int64Array, Int64Array]:
    """Distinct capacities, bytes/s, and which one each link, capped egress and capped ingress has."""
    caps = topology.injection_bytes_per_s[topology.injection_bytes_per_s > 0]
    capacities, group = np.unique(np.concatenate([topology.bandwidths, caps, caps]), return_inverse=True)
    return capacities, group.astype(np.int64)


def _host_loads(topology: Topology, load: Int64Array) -> list[Int64Array]:
    """Chunks out of and into each capped host."""
    capped = np.flatnonzero(topology.injection_bytes_per_s)
    if not capped.size:
        return []
    loads = []
    for ends in (topology.tails, topology.heads):
        total = np.zeros(topology.n_nodes, dtype=np.int64)
        np.add.at(total, ends, load)
        loads.append(total[capped])
    return loads
