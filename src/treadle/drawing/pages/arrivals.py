"""When each rank has each shard, of a simulated plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.program.operation_lists import OperationKind
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.result import Simulation

WORDS = {
    CollectiveKind.ALLGATHER: "when the rank of a row has all of the shard of a column",
    CollectiveKind.BROADCAST: "when the rank of a row has all of the part of a column",
    CollectiveKind.ALLTOALL: "when the rank of a row has what the rank of a column has for it",
    CollectiveKind.ALLREDUCE: "when the rank of a row has the sum of the part of a column",
    CollectiveKind.REDUCE_SCATTER: "when the rank of a row has sent what it adds to the shard of a column",
    CollectiveKind.REDUCE: "when the rank of a row has sent what it adds to the part of a column",
}
"""What a number of the matrix is."""


def arrivals(simulation: Simulation, program: Program) -> NDArray[np.float64]:
    """Seconds from the start of the first message, by rank and shard; -1 where nothing moves.

    Parameters
    ----------
    simulation : Simulation
        Of the program.
    program : Program

    Returns
    -------
    array of float, shape (N, N)
        Of an all-to-all by target and source, else by rank and the rank at home with the shard. See `WORDS`.
    """
    n = program.n_ranks
    _, end = simulation.operation_spans()
    is_summed = program.kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE)
    kinds = (OperationKind.SEND,) if is_summed else (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)
    chosen = np.flatnonzero(np.isin(program.operation_kind, kinds))
    bounds = np.asarray(program.shard_offset)
    ranks = program.operation_rank[chosen]
    first, past = program.first[chosen], program.first[chosen] + program.count[chosen]
    low = np.searchsorted(bounds, first, side="right") - 1
    high = np.searchsorted(bounds, past, side="left")
    latest = np.full((n, len(bounds) - 1), -1, dtype=np.int64)
    for step in range(int((high - low).max(initial=0))):
        inside = low + step < high
        np.maximum.at(latest, (ranks[inside], low[inside] + step), end[chosen[inside]])
    if program.kind is CollectiveKind.ALLTOALL:  # shards are of pairs, source first
        latest = np.stack([latest[target, target::n] for target in range(n)])
    return np.where(latest < 0, -1.0, latest * float(simulation.tick_s))
