"""TACOS's greedy: the fabric laid out over time, and links matched with chunks at random, time by time.

At each time every free link is offered a chunk that its tail holds and its head still lacks: what a rank
lacks is gone through in random order, and each chunk takes one of the free links from a holder, at random.
Nothing looks ahead. Source: Won et al., TACOS (MICRO 2024), and its public code.
"""

from __future__ import annotations

import random

import numpy as np

from treadle.context import context, under
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.baselines.bidirectional import (
    both_directions,
    check_connected,
)
from treadle.topologies.topology import Topology

DEFAULT_CHUNKS = 4
"""Default chunks per shard: more come nearer to the optimum, and take longer to schedule."""
TRIALS = 8
"""Random schedules, of which the one of the fewest steps is taken."""
MAX_PLACES = 2**22
"""Most pairs of a chunk and a rank that lacks it."""

_Send = tuple[int, int, int, int, int]


def tacos(
    topology: Topology, collective: Collective, *, chunks: int = DEFAULT_CHUNKS, seed: int = 0
) -> StepSchedule:
    """Random matching of links and chunks, the best of a few trials.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, any graph in which every node reaches every other.
    collective : Collective
        Allgather; reduce-scatter is that of the transposed fabric backwards, allreduce one after the other.
    chunks : int, optional
        Per shard; default 4.
    seed : int
        Of all choices.

    Raises
    ------
    InfeasibleError
        If a node does not reach another.
    ScheduleError
        If there are too many chunks.
    TimeLimitError
        If the deadline passed before the first trial was through.

    Notes
    -----
    Time goes in steps in which the slowest link carries one chunk; a link that is k times as fast carries the
    whole part of k. On links of one bandwidth that is TACOS's own, event by event; where they differ its
    events are finer. Its latency per link makes no difference to the matching where all are equal.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> ring = parse("ring(4)")
    >>> tacos(ring, on_all_ranks(ring, CollectiveKind.ALLGATHER), chunks=1).n_steps
    2
    """
    if not 1 <= chunks * topology.n_nodes**2 <= MAX_PLACES:
        most = MAX_PLACES // topology.n_nodes**2
        raise ScheduleError(f"tacos: {str(chunks)[:20]} chunks a shard, expected 1 to {most}")
    draw = random.Random(seed)

    def spread(fabric: Topology) -> Steps:
        check_connected(fabric)
        best: list[_Send] | None = None
        for trial in range(TRIALS):
            if best is not None and context().is_late:
                break
            with under(context() if best is None else context().unlimited):
                found = random_schedule(fabric, chunks, draw)
            if best is None or found[-1][2] < best[-1][2]:
                best = found
            context().unlimited.report("random schedules", trial + 1, TRIALS)
        assert best is not None
        return steps_from_sends(Direction.BROADCAST, fabric.n_nodes, chunks, best)

    return both_directions("tacos", topology, collective, spread)


def random_schedule(topology: Topology, chunks: int, draw: random.Random) -> list[_Send]:
    """One random schedule; sends of a step stand together, the last step's last."""
    n = topology.n_nodes
    slots = (topology.bandwidths // topology.bandwidths.min()).tolist()
    entering: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        if tail != head:
            entering[head].append((link, tail))
    holds = np.kron(np.eye(n, dtype=np.bool_), np.ones(chunks, dtype=np.bool_))  # [rank, chunk of all]
    lacking = [[chunk for chunk in range(n * chunks) if not holds[rank, chunk]] for rank in range(n)]
    sends: list[_Send] = []
    step = 0
    left = n * (n - 1) * chunks
    while left:
        context().report("random matching", len(sends), n * (n - 1) * chunks)
        arrived: list[tuple[int, int]] = []
        for rank in range(n):
            taken = _matched(lacking[rank], entering[rank], slots, holds, draw)
            for chunk, link in taken.items():
                sends.append((chunk // chunks, link, step, chunk % chunks, chunk % chunks + 1))
                arrived.append((rank, chunk))
            if taken:
                lacking[rank] = [chunk for chunk in lacking[rank] if chunk not in taken]
        for place in arrived:
            holds[place] = True
        left -= len(arrived)
        step += 1
    return sends


def _matched(
    lacking: list[int],
    entering: list[tuple[int, int]],
    slots: list[int],
    holds: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    draw: random.Random,
) -> dict[int, int]:
    """Match a rank's links to the chunks that they bring in a step."""
    free = {link: (tail, 0) for link, tail in entering}
    found: dict[int, int] = {}
    draw.shuffle(lacking)
    for chunk in lacking:
        if not free:
            break
        able = [link for link, (tail, _) in free.items() if holds[tail, chunk]]
        if not able:
            continue
        # a link that has slots left brings its next chunk earlier if it is faster, or has less to bring
        earliest = min((free[link][1] + 1) / slots[link] for link in able)
        link = draw.choice([link for link in able if (free[link][1] + 1) / slots[link] == earliest])
        tail, used = free[link]
        found[chunk] = link
        if used + 1 == slots[link]:
            del free[link]
        else:
            free[link] = (tail, used + 1)
    return found
