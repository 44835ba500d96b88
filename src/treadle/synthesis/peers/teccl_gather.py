"""TE-CCL's program of an allgather: flows with copies over a fabric laid out in epochs, integer and maximal.

A chunk of a source either crosses a link in an epoch or does not; a node sends what its buffer had at the
epoch's beginning, and copies as it likes; every demand that is met counts for all epochs that are left, by
1 / (k + 1) in epoch k, so that the program wants all of them met early. Source: Liu et al., Rethinking
Machine Learning Collective Communication as a Multi-Commodity Flow Problem (TE-CCL, SIGCOMM 2024).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from treadle.arrays import Int32Array, Int64Array, positions_of
from treadle.context import TimeLimitError, context
from treadle.errors import ScheduleError
from treadle.math.lp import Program
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.peers.tacos import random_schedule
from treadle.synthesis.steps.baselines.bidirectional import check_collective, check_connected
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology

MAX_FLOWS = 20_000
"""Most whole-numbered variables: beyond them HiGHS seldom finds anything in minutes."""
TIME_LIMIT_S = 60.0
"""Default chunks."""
GAP = 0.01
"""A schedule this close to the best value is as good."""
_HORIZONS = 8


class ProgramResult(NamedTuple):
    """A schedule by integer programs.

    Parameters
    ----------
    schedule : StepSchedule or ExchangeSchedule
    gap : float
        How far its value may be from the best, as a share.
    is_late : bool
        Time ran out before the gap was small.
    """

    schedule: StepSchedule | ExchangeSchedule
    gap: float
    is_late: bool


def teccl_gather(
    topology: Topology, collective: Collective, *, chunks: int = 1, seed: int = 0
) -> ProgramResult:
    """Solve the program by HiGHS.

    Parameters
    ----------
    topology : Topology
        Compute nodes only.
    collective : Collective
        An allgather of all nodes, in order.
    chunks : int
        Per shard.
    seed : int
        Of the greedy schedules that say how many epochs are enough.

    Raises
    ------
    ScheduleError
        If the program would be too large.
    TimeLimitError
        If time ran out before there was any schedule.

    Notes
    -----
    As published but for these: an epoch is as long as the slowest link takes for a chunk, and latencies are
    left out, so that every epoch is a step here; switches are left out; the number of epochs is what the best
    of eight of TACOS's random schedules takes, which is enough. Flows and buffers that no path reaches by
    then are left out, which changes nothing. Gurobi and its tuning are HiGHS's defaults here.
    """
    check_collective("te-ccl", topology, collective, (CollectiveKind.ALLGATHER,))
    check_connected(topology)
    n = topology.n_nodes
    least = n * (n - 1) * chunks  # each chunk crosses some link to each node
    if not chunks >= 1 or least > MAX_FLOWS:
        raise _refusal(topology, chunks)
    draw = random.Random(seed)
    deadline = context().deadline or monotonic() + TIME_LIMIT_S
    epochs = min(random_schedule(topology, chunks, draw)[-1][2] + 1 for _ in range(_HORIZONS))
    flows = _flows(topology, chunks, epochs)
    if len(flows.link) > MAX_FLOWS:
        raise _refusal(topology, chunks)
    context().announce("integer program")
    return _solved(topology, flows, chunks, epochs, deadline)


def _refusal(topology: Topology, chunks: int) -> ScheduleError:
    return ScheduleError(
        f"te-ccl: the program of {topology.name} with {str(chunks)[:20]} chunks a shard has more than "
        f"{MAX_FLOWS} whole-numbered variables; expected a smaller fabric"
    )


@dataclass(frozen=True, eq=False)
class _Flows:
    """Columns of flows: chunk (of all), link and epoch, and where buffers are known to be empty."""

    chunk: Int32Array
    link: Int32Array
    epoch: Int32Array
    distance: Int32Array


def _flows(topology: Topology, chunks: int, epochs: int) -> _Flows:
    """Every chunk over every link in every epoch, where it can be at the tail and is of use at the head."""
    distance = distance_matrix(topology)
    usable = np.flatnonzero(topology.tails != topology.heads)
    shape = epochs, topology.n_nodes * chunks, len(usable)
    epoch, chunk, place = np.indices(shape, dtype=np.int32)
    link, source = usable[place], chunk // chunks
    kept = (distance[source, topology.tails[link]] <= epoch) & (topology.heads[link] != source)
    return _Flows(chunk[kept], link[kept].astype(np.int32), epoch[kept], distance)


def _solved(topology: Topology, flows: _Flows, chunks: int, epochs: int, deadline: float) -> ProgramResult:
    n, n_flows = topology.n_nodes, len(flows.link)
    own = np.repeat(np.arange(n), chunks)
    # buffers of nodes at the beginning of epochs 1 .. K; a chunk's own node always has it
    near = (flows.distance[own] <= np.arange(epochs + 1)[:, None, None]) & (own[:, None] != np.arange(n))
    near[0] = False
    places = np.argwhere(near)
    buffer = positions_of(near.shape, near)
    buffer[near] += n_flows
    left = deadline - monotonic()
    if left <= 0:
        raise TimeLimitError("integer program")
    lp = Program("integer program", maximise=True, mip_rel_gap=GAP, time_limit=left)
    _load(lp, topology, flows, buffer, places, epochs)
    status = lp.run()
    if not lp.is_feasible:
        raise TimeLimitError("integer program")
    schedule = _schedule(topology, flows, lp.solution()[0][:n_flows] > 0.5, chunks)
    return ProgramResult(schedule, lp.integer_gap, status == "kTimeLimit")


def _load(
    lp: Program, topology: Topology, flows: _Flows, buffer: Int64Array, places: Int64Array, epochs: int
) -> None:
    """Rows: a node sends what it has; it has what it had and what has come; links carry what they can."""
    n_flows, n_columns = len(flows.link), len(flows.link) + len(places)
    tails, heads = topology.tails[flows.link], topology.heads[flows.link]
    column = np.arange(n_flows)
    at_tail = buffer[flows.epoch, flows.chunk, tails]
    sending = np.flatnonzero(at_tail >= 0)  # the chunk's own node needs no leave
    n_sends = len(sending)
    # what a node has at the beginning of epoch k: no more than before and what came in epoch k - 1
    row_of = np.where(buffer >= 0, buffer - n_flows + n_sends, -1)
    own = buffer[tuple(places.T)]
    before = buffer[places[:, 0] - 1, places[:, 1], places[:, 2]]
    held = np.flatnonzero(before >= 0)
    first_load = n_sends + len(places)
    loads = flows.epoch.astype(np.int64) * topology.n_links + flows.link
    used, load_row = np.unique(loads, return_inverse=True)
    entries = [
        (np.arange(n_sends), column[sending], np.ones(n_sends)),
        (np.arange(n_sends), at_tail[sending], -np.ones(n_sends)),
        (row_of[tuple(places.T)], own, np.ones(len(places))),
        (row_of[tuple(places[held].T)], before[held], -np.ones(len(held))),
        (row_of[flows.epoch + 1, flows.chunk, heads], column, -np.ones(n_flows)),
        (first_load + load_row, column, np.ones(n_flows)),
    ]
    slots = topology.bandwidths // topology.bandwidths.min()
    cost = np.zeros(n_columns)
    cost[own] = 1.0 / places[:, 0]  # a demand that is met by the end of epoch k - 1 counts 1 / k there
    lower = np.zeros(n_columns)
    lower[own[places[:, 0] == epochs]] = 1.0
    upper = np.concatenate([np.zeros(first_load), slots[used % topology.n_links].astype(float)])
    sides = np.full(len(upper), -np.inf), upper
    lp.load(cost, *sides, entries, columns_from=lower, columns_to=1.0)
    lp.make_integer(0, n_flows)


def _schedule(topology: Topology, flows: _Flows, chosen: np.ndarray[Any, Any], chunks: int) -> StepSchedule:
    """The flows that bring a chunk somewhere for the first time; the program may have more than it needs."""
    holds = np.kron(np.eye(topology.n_nodes, dtype=np.bool_), np.ones(chunks, dtype=np.bool_))
    sends: list[tuple[int, int, int, int, int]] = []
    columns = np.flatnonzero(chosen)
    for epoch in np.unique(flows.epoch[columns]).tolist():
        arrived: set[tuple[int, int]] = set()
        for column in columns[flows.epoch[columns] == epoch].tolist():
            chunk, link = int(flows.chunk[column]), int(flows.link[column])
            tail, head = int(topology.tails[link]), int(topology.heads[link])
            if holds[tail, chunk] and not holds[head, chunk] and (head, chunk) not in arrived:
                arrived.add((head, chunk))
                sends.append((chunk // chunks, link, epoch, chunk % chunks, chunk % chunks + 1))
        for place in arrived:
            holds[place] = True
    steps = steps_from_sends(Direction.BROADCAST, topology.n_nodes, chunks, sends)
    return StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
