"""Step schedules to programs: sends and receives that wait for the chunks they need, and for no step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.program import MAX_CHUNKS, Program
from treadle.program.steps.step_chunks import Holdings, Moves, moves_of, useful
from treadle.program.steps.step_program import Frame, assemble
from treadle.program.trees.send_order import positions_within
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.steps.steps import PathKind, Steps, StepSchedule
from treadle.topologies.topology import Topology

# Whose turn it is at the first rank that a way passes, so that messages seldom meet there


def relay_turns(topology: Topology, paths: Sequence[Sequence[int]]) -> Int64Array:
    """Turn of each path among those of its sender that have as many links, shape (paths,).

    Parameters
    ----------
    topology : Topology
    paths : sequence of sequences of int
        Links of each.

    Notes
    -----
    Ranks that pass data on through one rank all begin at once. Were each to begin with the same link out of
    there, that link would have their first messages one after another, and the others none. As in a Latin
    square, who comes in by link i begins with link i, and goes on with i - 1, i - 2, ... Paths that pass no
    rank first have turn 0.
    """
    turns = np.zeros(len(paths), dtype=np.int64)
    rows = np.array([row for row, path in enumerate(paths) if len(path) > 1], dtype=np.int64)
    if not rows.size:
        return turns
    first, second = (np.array([paths[row][place] for row in rows.tolist()]) for place in (0, 1))
    passed = topology.heads[first]
    degree = np.bincount(topology.tails, minlength=topology.n_nodes)[passed]
    comes, goes = (positions_within(nodes, [nodes]) for nodes in (topology.heads, topology.tails))
    ahead = comes[first] - goes[second]
    turns[rows] = np.where(topology.is_compute[passed], ahead % degree, 0)
    return turns


# Operations of switches in the moves of steps: one move of each takes the whole way


def in_operations(steps: Steps, moves: Moves, n_ranks: int) -> tuple[Moves, list[tuple[int, ...]]]:
    """Moves whose path is a number of the list that comes with them: the steps' ways, and parts of these.

    Parameters
    ----------
    steps : Steps
        With ways.
    moves : Moves
        By way, those that have no effect left out.
    n_ranks : int
        N.

    Notes
    -----
    Of the moves that are one operation for a piece that of the next rank after the asker goes all of the way,
    so that every rank has about as many such. The path of the others begins at the switch that copies, or
    ends at the one that adds up.
    """
    paths = [tuple(steps.path(number).tolist()) for number in range(steps.n_paths)]
    if not steps.has_operations:
        return moves, paths
    kinds = steps.way_kinds[moves.path]
    rows = np.flatnonzero(kinds)
    way = moves.path[rows]
    copies = kinds[rows] == PathKind.COPY
    shared = steps.way_links[steps.way_offset[way] + ~copies].astype(np.int64)
    ahead = moves.receiver[rows] - moves.sender[rows]
    turn = np.where(copies, ahead, -ahead) % n_ranks
    order = np.lexsort((turn, moves.piece[rows], shared, moves.step[rows]))
    keys = np.stack([moves.piece[rows], shared, moves.step[rows], kinds[rows]])[:, order]
    again = order[1:][(keys[:, 1:] == keys[:, :-1]).all(axis=0)]
    path = moves.path.copy()
    path[rows[again]] += steps.n_paths
    parts = [
        links[1:] if kind == PathKind.COPY else links[:1]
        for links, kind in zip(paths, steps.way_kinds.tolist(), strict=True)
    ]
    return replace(moves, path=path), paths + parts


def lower_steps(
    topology: Topology,
    collective: Collective,
    schedule: StepSchedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Turn a step schedule into a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`; of the schedule's kind and number of ranks, shards of one size.
    schedule : StepSchedule
        Verified by the caller; what lowering finds missing on its way it refuses.
    channels : int
        Independent streams of each link: the shards are assigned to so many in turn.
    in_place : bool
        INPUT and OUTPUT are one memory.
    merge : bool
        Send adjacent chunks of different sends as one message where step, link, channel and buffers agree.

    Returns
    -------
    Program
        Shards are ordered by their homes. n_chunks is the smallest number of equal chunks whose bounds
        include those of all sends of both phases.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective or leaves something out.
    InfeasibleError
        If programs cannot express it: sends that end at forwarders or switches; an allreduce of whole
        buffers that passes sums on, or in place.

    Notes
    -----
    Steps become dataflow: a send waits for the receives that brought its chunks (reducing: for the last sum),
    a sum for the sum before it, a broadcast receive for the reducing send out of the memory that it
    overwrites. Where a sum begins anew, the first message of the step is stored, the others are added to it.
    Nothing waits for a step to end. Sends that have no effect (of chunks that the head has already, or of
    sums that never get home) are left out; a step schedule may have them.

    What is left has one order of all messages, by step and by turn (at the rank that it passes first, then
    target - sender mod N), that every rank's list follows: in a reduction a rank sends a chunk once, after
    all sums of it; in a broadcast it receives it once, before it sends it. So the program runs even where a
    send waits for its receive. Parallel links have streams of their own, in the links' order: channel =
    (place among the parallel links) * channels + stream.

    Of an operation of a switch one send takes the whole way, the others only the link that they do not share:
    for a program they are sends all the same (`treadle.program.in_network`).

    Sums are kept in OUTPUT where the rank has one for the chunk, else in SCRATCH. O(n log n) for n sends cut
    where others begin or end: 0.3 s of CPU time for the 66 560 of an allgather on a torus of 16x16.
    """
    _check_fit(topology, collective, schedule)
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")
    frame, position, cuts = _cut(collective, schedule, in_place=in_place)
    holdings = frame.holdings
    phases: list[Moves] = []
    paths: list[tuple[int, ...]] = []
    rank_of = positions_of(topology.n_nodes, list(collective.ranks))
    first_step = 0
    for steps in schedule.phases:
        # both bounds are cuts, so that these are exact
        bounds = (ends.astype(np.int64) * int(cuts[-1]) // steps.n_chunks for ends in (steps.low, steps.high))
        low, high = (np.searchsorted(cuts, ends) for ends in bounds)
        place = position[steps.shard]
        first = place * (len(cuts) - 1) + low
        moves = moves_of(topology, steps, rank_of, first, high - low, place, channels)
        kept = moves.part(useful(steps.direction, moves, holdings))
        if steps.has_paths:
            kept, ways = in_operations(steps, kept, collective.n_ranks)
            kept = replace(kept, path=-1 - len(paths) - kept.path)
            paths += ways
        if len(kept) or not phases:  # sums that are exchanged in full leave nothing to broadcast
            phases.append(replace(kept, step=kept.step + first_step))
        first_step += steps.n_steps
    if schedule.has_full_shards:
        _check_direct(phases[0], holdings, in_place=in_place)
    turns = relay_turns(topology, paths)
    return assemble(frame, phases, merge=merge, longer_paths=paths, turns=turns)


def _check_fit(topology: Topology, collective: Collective, schedule: StepSchedule) -> None:
    check_membership(topology, collective)
    if schedule.kind is not collective.kind:
        raise ScheduleError(f"the schedule is for {schedule.kind}, the collective is {collective.kind}")
    if schedule.n_ranks != collective.n_ranks:
        raise ScheduleError(f"the schedule has {schedule.n_ranks} ranks, the collective {collective.n_ranks}")
    if collective.weights is not None and len(set(collective.weights)) > 1:
        raise ScheduleError("the shards of step schedules are of one size, those of the collective differ")
    homes = np.bincount(schedule.phases[0].homes, minlength=collective.n_ranks)
    if not homes.any():
        raise ScheduleError("the schedule has no shards")
    one_each = collective.kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    for rank in range(collective.n_ranks):
        at_root = collective.root is None or rank == collective.root
        if (homes[rank] and not at_root) or ((one_each or schedule.has_full_shards) and homes[rank] != 1):
            expected = int(at_root)
            raise ScheduleError(
                f"{schedule.kind}: rank {rank} is the home of {homes[rank]} shards, expected {expected}"
            )
    for steps in schedule.phases:
        links = steps.crossed
        if links.size and int(links.max()) >= topology.n_links:
            raise ScheduleError(f"steps: link {links.max()}, expected links from 0 to {topology.n_links - 1}")


def _cut(
    collective: Collective, schedule: StepSchedule, *, in_place: bool
) -> tuple[Frame, Int64Array, Int64Array]:
    """The frame of the pieces, the place of each shard among all by home, and where sends begin or end.

    The last are in chunks of the program, from 0 to the end of a shard; between two of them is a piece.
    """
    n_ranks, homes = collective.n_ranks, schedule.phases[0].homes.astype(np.int64)
    order = np.argsort(homes, kind="stable")
    fine = lcm(*(steps.n_chunks for steps in schedule.phases))
    ends = [
        np.unique(column).astype(np.int64) * (fine // steps.n_chunks)
        for steps in schedule.phases
        for column in (steps.low, steps.high)
    ]
    cuts = np.unique(np.concatenate([[0, fine], *ends]))
    cuts //= gcd(*cuts.tolist())
    is_whole = schedule.has_full_shards  # all shards are the whole buffer and share its chunks
    n_chunks = int(cuts[-1]) * (1 if is_whole else len(homes))
    if n_chunks > MAX_CHUNKS:
        raise InfeasibleError(
            f"the sends' bounds need {n_chunks} equal chunks of the data, programs have up to "
            f"{MAX_CHUNKS}; use a schedule with fewer chunks per shard"
        )
    home, *twins = (
        np.repeat(more.astype(np.int64)[order], len(cuts) - 1) for more in schedule.phases[0].all_owners
    )
    starts = np.arange(len(homes)) * (0 if is_whole else cuts[-1])
    # shards that share all chunks are counted to rank 0
    counted = np.zeros(1, dtype=np.int64) if is_whole else homes[order]
    frame = Frame(
        collective,
        Holdings(n_ranks, home, tuple(twins)),
        n_chunks=n_chunks,
        shard_offset=(np.searchsorted(counted, np.arange(n_ranks + 1)) * cuts[-1]).astype(np.int64),
        bounds=np.stack([starts[:, None] + ends for ends in (cuts[:-1], cuts[1:])]).reshape(2, -1),
        in_place=in_place,
    )
    return frame, positions_of(len(homes), order), cuts


def _check_direct(moves: Moves, holdings: Holdings, *, in_place: bool) -> None:
    """Whole buffers: a rank has memory for one sum of the buffer, its own."""
    if not bool(np.all(holdings.is_owner(moves.receiver, moves.piece))):
        raise InfeasibleError(
            "this allreduce sums the whole buffer towards every rank at once and passes sums on, for which "
            "programs have no memory; it can be lowered only where every rank is linked to every other"
        )
    if in_place:
        raise InfeasibleError(
            "this allreduce reads every rank's whole input until its end, so that it cannot run in place"
        )
