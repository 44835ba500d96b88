"""Explicit breadth-first-broadcast schedules with the least bandwidth time and the fewest chunks.

With U(t) the exact load of step t, P = lcm of their denominators is a number of chunks for which integer
flows exist; with equal links no smaller number will do, since a load is an integral number of chunks.
Reduce-scatter is the allgather of the transpose, run backwards. Source: dissertation, section 3.6, appendix
A.5, Corollary 1.1; docs/how-it-works/direct-connect.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.arrays import Int64Array, frozen, offsets_of
from treadle.engine import core, run_core
from treadle.errors import ScheduleError
from treadle.math.graphs import hops
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_transforms import with_sends
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.step_values import Sends
from treadle.synthesis.steps.bfb.in_links import OK, STUCK, VIOLATED, InLinkRows, link_rows, unreachable
from treadle.synthesis.steps.bfb.integral_loads import (
    DEFAULT_CHUNKS,
    MOST_COUNTS,
    StepProblem,
    balance,
    check_chunks,
)
from treadle.synthesis.steps.bfb.value import BfbValue, value_of
from treadle.topologies.topology import Topology


def chunk_count(value: BfbValue) -> int:
    """P: least common multiple of the denominators of the step loads.

    Notes
    -----
    On a fabric with equal links this is the smallest number of equal chunks with which any
    breadth-first-broadcast schedule attains T_B: the sum of the steps' largest loads is least only if each is
    U(t), and it is an integral number of chunks, so P U(t) is an integer. That P suffices is the integrality
    of flows: capacities P U(t) of the links and P units of a job. Where links differ it suffices as well, but
    a smaller one may do.
    """
    return lcm(*(load.denominator for load in value.loads))


def bfb_allgather(topology: Topology, *, max_chunks: int | None = None) -> Steps:
    """Breadth-first-broadcast allgather with the least T_B, each shard cut into the fewest chunks.

    Parameters
    ----------
    topology : Topology
        Compute nodes only; need not be regular, bandwidths may differ (latencies play no part; see
        `treadle.synthesis.steps.bfb.heterogeneous`).
    max_chunks : int, optional
        Most chunks per shard. If the optimum needs more, the number up to this (and 4096) with the least T_B
        is taken (section A.5.2). Default: as many as the optimum needs; where these are more than a schedule
        may have, the smallest number up to 1024 that loses at most 0.1%.

    Returns
    -------
    Steps
        One step per unit of distance. Sends of a step are ordered by receiver, then source.

    Raises
    ------
    TopologyError
        If the fabric has switches, fewer than 2 nodes or more than 65,535.
    InfeasibleError
        If some node cannot reach another.
    ScheduleError
        If `max_chunks` is out of range.

    Notes
    -----
    Dissertation, section 3.6 and appendix A.5. Only a step's critical nodes need the exact fractions: other
    nodes may load their links up to the same U(t), and shards are cut only where whole ones do not fit. Jobs
    are laid one after the other over the shares of the links (McNaughton's wrap-around rule), so a group of
    jobs with the same links has at most one cut less than it has links.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> bfb_allgather(parse("ring(5)"))
    <Steps broadcast: 5 ranks, 5 shards of 1 chunks, 2 steps, 20 sends>
    """
    check_chunks(max_chunks)
    instance = link_rows(topology)
    value = value_of(instance)
    chunks = chunk_count(value)
    if chunks > (max_chunks or MAX_CHUNKS):
        if not instance.is_uniform:
            return _balanced(instance, value, max_chunks)
        chunks = best_chunk_count(value, max_chunks or DEFAULT_CHUNKS)
    return split(instance, value, chunks)


def _balanced(instance: InLinkRows, value: BfbValue, max_chunks: int | None) -> Steps:
    """Steps of the best number of chunks on unequal links, for the largest sizes."""
    problem = StepProblem(
        instance=instance,
        latency_ns=[0] * len(instance.link),
        bandwidth=instance.weight.tolist(),
        shard_bytes=Fraction(1),
        n_steps=value.diameter,
    )
    chunks, capacity = balance(problem, max_chunks)
    return split_by_capacity(instance, capacity, value.diameter, chunks)


def best_chunk_count(value: BfbValue, limit: int) -> int:
    """The number of chunks up to `limit` (and 4096) with the least T_B on equal links; the smallest such."""
    counts = range(1, min(limit, MOST_COUNTS) + 1)
    return min(counts, key=lambda chunks: (Fraction(sum(step_chunks(value, chunks)), chunks), chunks))


def step_chunks(value: BfbValue, chunks: int) -> list[int]:
    """Chunks that the fullest link of each step carries when shards have `chunks` of them, on equal links.

    The integer program (A.11) is a flow problem with P units of a job and capacity W, feasible if and only if
    W >= P U(u,t): its optimum is ceil(P U(t)).
    """
    return [-(-load.numerator * chunks // load.denominator) for load in value.loads]


def split(instance: InLinkRows, value: BfbValue, chunks: int) -> Steps:
    """The schedule with `chunks` chunks per shard: step t loads a link with at most ceil(P U(t)) of them.

    Where links differ, `chunks` must be a multiple of `chunk_count(value)`.
    """
    if instance.is_uniform:
        capacity = np.array(step_chunks(value, chunks), dtype=np.int64)
    else:
        per_unit = [load * chunks for load in value.loads]
        assert all(amount.denominator == 1 for amount in per_unit)
        enough = instance.n * chunks  # more than any link can carry, so that products stay small
        rows = [[min(enough, int(amount) * int(weight)) for weight in instance.weight] for amount in per_unit]
        capacity = np.array(rows, dtype=np.int64).ravel()
    return split_by_capacity(instance, capacity, value.diameter, chunks)


def split_by_capacity(instance: InLinkRows, capacity: Int64Array, n_steps: int, chunks: int) -> Steps:
    """Steps within given capacities in chunks: one per step, or one per step and in-link (row-major)."""
    status, found, failure = run_core(
        "bfb schedule",
        lambda control: core.bfb_split(instance.in_links, instance.link, capacity, n_steps, chunks, control),
    )
    if status == VIOLATED:
        raise unreachable(instance.topology, *failure)
    assert status != STUCK, f"capacities too small at node {failure[0]} in step {failure[1]}"
    assert status == OK, status
    sends = Sends(*found)
    for array in sends:
        array.setflags(write=False)  # adopted by Steps without a copy
    return Steps(
        direction=Direction.BROADCAST,
        n_ranks=instance.n,
        homes=frozen(np.arange(instance.n), np.int32),
        n_chunks=chunks,
        **sends._asdict(),
    )


def bfb_reduce_scatter(topology: Topology) -> Steps:
    """Reduce-scatter: the allgather of the transpose, run backwards (Definition 5, Corollary 1.1).

    Errors as for `bfb_allgather`.
    """
    return backwards(bfb_allgather(topology.transpose()))


def backwards(steps: Steps) -> Steps:
    """Return broadcasting steps of the transposed fabric as reducing steps of the fabric; link numbers stay.

    Unlike `reverse` it keeps the order of the sends of a step.
    """
    order = np.concatenate(
        [np.arange(steps.n_sends)[steps.span(step)] for step in range(steps.n_steps)][::-1]
    )
    columns = [column[order] for column in (steps.shard, steps.link, steps.low, steps.high)]
    offset = offsets_of(np.diff(steps.step_offset)[::-1])
    return replace(with_sends(steps, offset, columns), direction=Direction.REDUCE)


def bfb_broadcast(topology: Topology, root: int) -> Steps:
    """Broadcast of one shard from `root`, breadth first, with the least T_B among such schedules.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, links of one bandwidth.
    root : int
        Rank of the root.

    Returns
    -------
    Steps
        One shard, as many steps as the root's eccentricity.

    Raises
    ------
    TopologyError
        If the fabric has switches, fewer than 2 nodes, or links of different bandwidths.
    InfeasibleError
        If the root does not reach every node.
    ScheduleError
        If `root` is not a rank.

    Notes
    -----
    A node at distance t has one job in step t, and spreads it over the links from distance t - 1. The node
    with the fewest of them, q(t), sets the step's load, so every node uses q(t) links; P = lcm of the q(t).
    """
    instance = link_rows(topology)
    if not 0 <= root < instance.n:
        raise ScheduleError(f"root {root}: expected a rank from 0 to {instance.n - 1}")
    if not instance.is_uniform:
        raise ScheduleError(f"{topology.name}: breadth-first broadcast from one root needs equal links")
    distance = distances_from(topology, root)
    head = np.repeat(np.arange(instance.n), np.diff(instance.offset))
    usable = np.flatnonzero(distance[instance.tail] + 1 == distance[head])
    head, link = head[usable], instance.link[usable]
    counts = np.bincount(head, minlength=instance.n)
    place = np.arange(len(head)) - (np.cumsum(counts) - counts)[head]
    step = distance[head] - 1
    n_steps = int(distance.max())
    fewest = np.full(n_steps, instance.n, dtype=np.int64)
    reached = np.flatnonzero(distance > 0)
    np.minimum.at(fewest, distance[reached] - 1, counts[reached])
    chunks = lcm(*(int(q) for q in fewest))
    if chunks > MAX_CHUNKS:
        raise ScheduleError(f"{topology.name}: the broadcast needs {chunks} chunks, at most {MAX_CHUNKS}")
    # more links would not make the step shorter: its slowest node has no more than these
    used = np.flatnonzero(place < fewest[step])
    used = used[np.argsort(step[used], kind="stable")]
    share = chunks // fewest[step[used]]
    return Steps(
        direction=Direction.BROADCAST,
        n_ranks=instance.n,
        homes=frozen([root], np.int32),
        n_chunks=chunks,
        step_offset=frozen(offsets_of(np.bincount(step[used], minlength=n_steps)), np.int64),
        shard=frozen(np.zeros(len(used)), np.int32),
        link=frozen(link[used], np.int32),
        low=frozen(place[used] * share, np.int32),
        high=frozen((place[used] + 1) * share, np.int32),
    )


def distances_from(topology: Topology, root: int) -> Int64Array:
    """Distance from `root` to every node, shape (N,); InfeasibleError if it does not reach one."""
    distance: Int64Array = hops(topology.n_nodes, topology.tails, topology.heads, np.array([root]))[0]
    missed = np.flatnonzero(distance < 0)
    if missed.size:
        raise unreachable(topology, root, int(missed[0]))
    return distance


def bfb_schedule(
    topology: Topology, kind: CollectiveKind, *, root: int | None = None, max_chunks: int | None = None
) -> StepSchedule:
    """Breadth-first-broadcast schedule of any collective of this package.

    Parameters
    ----------
    topology : Topology
    kind : CollectiveKind
        Allreduce is reduce-scatter, then allgather (Corollary 1.2).
    root : int, optional
        Rank of the root of broadcast and reduce; None for the others.
    max_chunks : int, optional
        As for `bfb_allgather`.

    Raises
    ------
    TopologyError, InfeasibleError, ScheduleError
        As for `bfb_allgather` and `bfb_broadcast`; ScheduleError if a root is missing or of no use.
    """
    if kind.is_rooted != (root is not None):
        raise ScheduleError(f"{kind} {'needs a root' if kind.is_rooted else 'has no root'}")
    if root is None:
        return both_phases(topology, kind, lambda fabric: bfb_allgather(fabric, max_chunks=max_chunks))
    if kind is CollectiveKind.REDUCE:
        return StepSchedule(kind, reduce=backwards(bfb_broadcast(topology.transpose(), root)))
    return StepSchedule(kind, broadcast=bfb_broadcast(topology, root))


def both_phases(
    topology: Topology,
    kind: CollectiveKind,
    gather: Callable[[Topology], Steps],
    turned: Callable[[Steps], Steps] = backwards,
) -> StepSchedule:
    """The collective by an allgather on the fabric, and one on its transpose turned round."""
    return StepSchedule(
        kind,
        reduce=turned(gather(topology.transpose())) if kind.reduces else None,
        broadcast=gather(topology) if kind.broadcasts else None,
    )
