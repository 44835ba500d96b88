"""What each rank's sum of each chunk is made of, counted send by send; and allreduces with a fault."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.topologies.topology import Topology


def all_right(fabric: Topology, schedule: StepSchedule) -> bool:
    """Whether all ranks end with every contribution once, of an allreduce of two phases."""
    ranks = on_all_ranks(fabric, CollectiveKind.ALLREDUCE).ranks
    rank_of = {node: rank for rank, node in enumerate(ranks)}
    reduce, broadcast = schedule.reduce, schedule.broadcast
    assert reduce is not None
    assert broadcast is not None
    n, chunks = len(ranks), max(reduce.n_chunks, broadcast.n_chunks)
    assert not chunks % reduce.n_chunks
    assert not chunks % broadcast.n_chunks

    def sends(steps: Steps, step: int) -> Iterator[tuple[int, int, int, slice, bool]]:
        for send in range(*steps.span(step).indices(steps.n_sends)):
            links = steps.links_of(send).tolist()
            for one, following in pairwise(links):
                assert fabric.heads[one] == fabric.tails[following]
            ends = rank_of[int(fabric.tails[links[0]])], rank_of[int(fabric.heads[links[-1]])]
            unit = chunks // steps.n_chunks
            part = slice(int(steps.low[send]) * unit, int(steps.high[send]) * unit)
            yield *ends, int(steps.shard[send]), part, bool(steps.restarts and steps.fresh[send])

    sums = np.zeros((n, reduce.n_shards, chunks, n), dtype=np.int64)
    sums[np.arange(n), :, :, np.arange(n)] = 1
    for step in range(reduce.n_steps):
        before = sums.copy()
        for _, head, shard, part, fresh in sends(reduce, step):
            if fresh:
                sums[head, shard, part] = 0
        for tail, head, shard, part, _ in sends(reduce, step):
            sums[head, shard, part] += before[tail, shard, part]
    held = np.zeros((n, reduce.n_shards, chunks), dtype=np.bool_)
    for homes in broadcast.all_owners:
        for shard, home in enumerate(homes.tolist()):
            if not np.all(sums[home, shard] == 1):
                return False
            held[home, shard] = True
    for step in range(broadcast.n_steps):
        held_before = held.copy()
        for tail, head, shard, part, _ in sends(broadcast, step):
            if not held_before[tail, shard, part].all():
                return False
            held[head, shard, part] = True
    return bool(held.all())
