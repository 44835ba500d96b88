"""Independent check of an all-to-all's steps: pairs, places, what is where when, delivery, cost, claims.

Shares no code with the generators, nor with `exchange_cost`: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.witness import Witness
from treadle.topologies.topology import Topology
from treadle.verification.alltoall.exchange_flow import follow_chunks
from treadle.verification.claims import check_algbw, check_bound, check_kind, check_members
from treadle.verification.steps.walks import crossings
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62


def verify_exchange(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    *,
    claimed_algbw: Fraction | None = None,
    claimed_optimal_algbw: Fraction | None = None,
    witness: Witness | None = None,
    limit: int = 1000,
) -> Report:
    """Check that steps perform the all-to-all on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : ExchangeSchedule
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
    Pairs. Just the pairs of different ranks with a positive demand have a shard, and one each.

    Places. Every send uses a link, or a way that is a walk, between two different compute nodes, ranks or
    forwarders; switches cannot hold data.

    Flow. A chunk is at one place at a time, first at the source of its shard. A send carries chunks that are
    at its tail at the beginning of the step, and takes them to its head. At the end every chunk is at its
    target, and it has come there once: it has not left again. So nothing is forwarded before it has come,
    nothing is lost, and nothing arrives twice. Going round in circles on the way is allowed; it only costs
    time.

    Cost. Per step the largest of amount / bandwidth over the links and, for nodes with an injection cap,
    over what leaves and enters the host; a chunk of the shard of pair (i, j) is 1/P of demand (i, j), and
    `size` is as many units of demand as the largest per-rank buffer has.

    Linear in the sends but for sorting them, about 0.5 us each.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.trees.forest import Direction
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> sends = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)], homes=[0, 1])
    >>> schedule = ExchangeSchedule(sends, targets=[1, 0])
    >>> print(*verify_exchange(pair, on_all_ranks(pair, CollectiveKind.ALLTOALL), schedule).violations)
    delivery: shard 1, rank 1 to 0: chunk 0 ends at n1, expected n0
    """
    found = Findings(limit)
    check_members(topology, collective, found)
    if found.total:
        return found.report()
    if not check_kind(collective, schedule, found):
        return found.report()
    bound = check_bound(topology, collective, claimed_optimal_algbw, witness, found)
    n_claims = found.total
    if _check_pairs(collective, schedule, found):
        follow_chunks(topology, collective, schedule, found)
    if found.total > n_claims:
        return found.report(bound=bound)
    algbw = 1 / _time_per_byte(topology, collective, schedule)
    check_algbw(algbw, claimed=claimed_algbw, bound=bound, found=found)
    return found.report(algbw=algbw, bound=bound, n_steps=schedule.n_steps)


def _check_pairs(collective: Collective, schedule: ExchangeSchedule, found: Findings) -> bool:
    n = collective.n_ranks
    if schedule.n_ranks != n:
        found.add(
            ViolationKind.SHAPE,
            f"the steps have {schedule.n_ranks} ranks, the collective {collective.n_ranks}",
        )
        return False
    demands = collective.pair_demands.matrix.copy()
    np.fill_diagonal(demands, 0)
    pairs = schedule.sources.astype(np.int64) * n + schedule.targets
    shards = np.bincount(pairs, minlength=n * n)
    expected = (demands > 0).reshape(-1).astype(np.int64)
    wrong = np.flatnonzero(shards != expected)
    found.add_all(
        ViolationKind.SHAPE,
        len(wrong),
        lambda i: (
            f"rank {wrong[i] // n} to {wrong[i] % n}: {shards[wrong[i]]} shards, expected "
            f"{expected[wrong[i]]}, as the demand is {demands.reshape(-1)[wrong[i]]}"
        ),
    )
    return not wrong.size


def _time_per_byte(topology: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """Seconds per byte of the collective's size, as latencies vanish."""
    sends, demands = schedule.sends, collective.pair_demands
    weight = demands.matrix[schedule.sources, schedule.targets][sends.shard]
    size = (sends.high - sends.low).astype(np.int64)
    if float((size.astype(np.float64) * weight).sum()) >= _SAFE:
        weight, size = weight.astype(object), size.astype(object)  # integers without bound
    amount = weight * size
    total = Fraction(0)
    for start, stop in zip(sends.step_offset[:-1].tolist(), sends.step_offset[1:].tolist(), strict=True):
        load = np.zeros(topology.n_links, dtype=amount.dtype)
        link, send = crossings(sends, slice(start, stop))
        np.add.at(load, link, amount[start:stop][send])
        total += _slowest(topology, load)
    return total / (schedule.n_chunks * demands.buffer_units)


def _slowest(topology: Topology, load: Int64Array) -> Fraction:
    """The largest of load / capacity over links and capped hosts."""
    heaviest: dict[int, int] = {}
    caps = topology.injection_bytes_per_s
    parts = [(topology.bandwidths, load)]
    if caps.any():
        for ends in (topology.tails, topology.heads):
            through = np.zeros(topology.n_nodes, dtype=load.dtype)
            np.add.at(through, ends, load)
            parts.append((caps[caps > 0], through[caps > 0]))
    for capacities, loads in parts:
        used = np.flatnonzero(loads)
        for capacity in np.unique(capacities[used]).tolist():
            most = int(loads[used][capacities[used] == capacity].max())
            heaviest[capacity] = max(heaviest.get(capacity, 0), most)
    return max((Fraction(most, capacity) for capacity, most in heaviest.items()), default=Fraction(0))
