"""TE-CCL's program of an all-to-all: a linear program over epochs, whose demands want to be met early.

Nothing is copied, so parts of chunks flow: what comes to a node goes on in the next epoch, waits, or is read
if the node demanded it. Reads count 1 / (k + 1) in epoch k. Source: Liu et al., Rethinking Machine Learning
Collective Communication as a Multi-Commodity Flow Problem (TE-CCL, SIGCOMM 2024).
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.context import context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.lp import Program
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.time_stepped import TimeSteppedFlow, conservation, least_steps
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology

MAX_VARIABLES = 2**18
"""Largest number of variables of one program; about a second of simplex for each 10,000."""
MAX_EPOCHS = 4096


def teccl_exchange(
    topology: Topology, collective: Collective, *, chunks: int = 1, steps: int | None = None
) -> ExchangeSchedule:
    """Flows that meet demands as early as possible, in whole chunks.

    Parameters
    ----------
    topology : Topology
        Compute nodes only.
    collective : Collective
        An all-to-all.
    chunks : int, optional
        Per shard: an epoch is as long as the slowest link takes for a chunk of the largest demand. Default 1.
        The schedule cuts chunks further where parts of them flow.
    steps : int, optional
        Epochs; default the fewest in which all demands can be met.

    Raises
    ------
    InfeasibleError
        If the epochs do not meet all demands, or a rank cannot be reached.
    ScheduleError
        If the program would be too large.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    As published but for these: all that comes from a source is one commodity, distinguished by where it is
    read, which leaves the optimum as it is; latencies and switches are left out.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> cube = parse("hypercube(3)")
    >>> teccl_exchange(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL)).n_steps
    4
    """
    least = max(least_steps(topology, collective), _least_epochs(topology, collective, chunks))
    if steps is not None and steps < least:
        raise InfeasibleError(f"te-ccl-alltoall: {steps} epochs, expected at least {least} (--steps)")
    epochs = least if steps is None else steps
    while True:
        if epochs > MAX_EPOCHS:
            raise ScheduleError(f"te-ccl-alltoall: more than {MAX_EPOCHS} epochs; expected fewer chunks")
        context().report("linear program", 0, 0)
        program = _ExchangeProgram(topology, collective, chunks, epochs)
        flow = program.solve()
        if flow is not None:
            return chunked_exchange(topology, collective, flow).schedule
        if steps is not None:
            raise InfeasibleError(f"te-ccl-alltoall: {steps} epochs do not meet all demands (--steps)")
        epochs += 1


def _least_epochs(topology: Topology, collective: Collective, chunks: int) -> int:
    """Epochs that the hops of all demands fill, were all links full all the time."""
    distance = distance_matrix(topology).astype(np.int64)
    demands = collective.pair_demands.between
    hops = int((distance * demands).sum()) * chunks
    slots = int(_slots(topology).sum()) * int(demands.max())
    return -(-hops // slots)


def _slots(topology: Topology) -> Int64Array:
    """Chunks that each link carries in an epoch; none for links from a node to itself."""
    slots = topology.bandwidths // topology.bandwidths.min()
    return np.asarray(np.where(topology.tails == topology.heads, 0, slots), dtype=np.int64)


class _ExchangeProgram:
    """Columns: flows (s, e, k), then what waits (s, n, k) to epoch k + 1, then reads (s, n, k)."""

    def __init__(self, topology: Topology, collective: Collective, chunks: int, epochs: int) -> None:
        self.topology, self.epochs = topology, epochs
        n = topology.n_nodes
        self.demands = collective.pair_demands.between
        self.unit = float(self.demands.max()) / chunks
        distance = distance_matrix(topology)
        step = np.arange(epochs)[:, None, None]
        usable = topology.tails != topology.heads
        into_source = topology.heads[None, :] == np.arange(n)[:, None]
        self.flows = np.nonzero((distance[:, topology.tails] <= step) & (usable & ~into_source))
        away = ~np.eye(n, dtype=np.bool_)
        self.places = (distance <= step + 1) & away  # where something of s can be at the end of an epoch
        self.reads = np.nonzero(self.places & (self.demands > 0)[None])
        counts = [len(self.flows[0]), int(self.places[:-1].sum()), len(self.reads[0])]
        self.first_wait, self.first_read, self.n_columns = np.cumsum(counts).tolist()
        if self.n_columns > MAX_VARIABLES:
            raise ScheduleError(
                f"te-ccl-alltoall: {topology.name} in {epochs} epochs has {self.n_columns} variables, at "
                f"most {MAX_VARIABLES} are practical; use fewer chunks, or --algorithm pipelined"
            )

    def solve(self) -> TimeSteppedFlow | None:
        """Return the flow; None if the epochs are too few."""
        lp = Program("linear program", maximise=True)
        self._load(lp)
        found = lp.optimum(least_s=0.0)
        if found is None:
            if lp.status in ("kInfeasible", "kUnboundedOrInfeasible"):
                return None
            raise ScheduleError(f"te-ccl-alltoall: the solver ended with {lp.status}, expected an optimum")
        values = np.maximum(found[0][: self.first_wait], 0.0)
        by_step = np.zeros((self.epochs, self.topology.n_nodes, self.topology.n_links))
        by_step[self.flows] = values * self.unit
        seconds = self.unit / float(self.topology.bandwidths.min())
        return TimeSteppedFlow(by_step, np.full(self.epochs, seconds), True)

    def _load(self, lp: Program) -> None:
        epoch, _, link = self.flows
        flow = np.arange(len(link))
        # what was at a node at the end of an epoch goes on in the next one, waits, or has been read
        entries = [conservation(self.topology, self.flows, self.places)[0]]
        number = positions_of(self.places.shape, self.places)
        read = self.first_read + np.arange(len(self.reads[0]))
        entries.append((number[self.reads], read, -np.ones(len(read))))
        n_places = int(self.places.sum())
        pairs, pair_row = np.unique(
            self.reads[1] * self.topology.n_nodes + self.reads[2], return_inverse=True
        )
        entries.append((n_places + pair_row, read, np.ones(len(read))))
        loads, load_row = np.unique(epoch * self.topology.n_links + link, return_inverse=True)
        entries.append((n_places + len(pairs) + load_row, flow, np.ones(len(flow))))
        wanted = self.demands.ravel()[pairs] / self.unit
        slots = _slots(self.topology)[loads % self.topology.n_links].astype(float)
        none = np.zeros(n_places)
        rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        order = np.argsort(rows, kind="stable")
        cost = np.zeros(self.n_columns)
        cost[read] = 1.0 / (self.reads[0] + 1)
        lower = np.concatenate([none, wanted, np.full(len(loads), -np.inf)])
        upper = np.concatenate([none, wanted, slots])
        lp.load(cost, lower, upper, [(rows[order], columns[order], values[order])])
