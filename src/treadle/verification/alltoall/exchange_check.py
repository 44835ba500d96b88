"""Independent check of an all-to-all's steps: pairs, places, what is where when, delivery, cost, claims.

Shares no code with the generators, nor with `exchange_cost`: everything is recomputed here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

import numpy as np

from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.alltoall.exchange_flow import follow_chunks
from treadle.verification.claims import Claims, Verifier, check_kind, check_members
from treadle.verification.loads import algbw_of
from treadle.verification.steps.walks import seconds_and_loads
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62


def verify_exchange(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that steps perform the all-to-all on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : ExchangeSchedule
    **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        With `n_steps` and `pipelined_algbw`, as `verify_steps`; `height_max` is None.

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

    def check(topology: Topology, collective: Collective, found: Findings) -> None:
        check_members(topology, collective, found)
        if not found.total:
            check_kind(collective, schedule, found)

    judge = Verifier(topology, collective, check=check, **claims)
    if judge.is_sound and _check_pairs(collective, schedule, judge.found):
        follow_chunks(topology, collective, schedule, judge.found)
    if not judge.is_sound:
        return judge.report()
    algbw, pipelined = exchange_rates(topology, collective, schedule)
    return judge.report(algbw, pipelined_algbw=pipelined, n_steps=schedule.n_steps)


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
        wrong,
        lambda i: (
            f"rank {i // n} to {i % n}: {shards[i]} shards, expected "
            f"{expected[i]}, as the demand is {demands.reshape(-1)[i]}"
        ),
    )
    return not wrong.size


def exchange_rates(
    topology: Topology, collective: Collective, schedule: ExchangeSchedule
) -> tuple[Fraction, Fraction]:
    """Size over time, bytes/s, as latencies vanish: of steps one after another, and of sliced messages."""
    sends, demands = schedule.sends, collective.pair_demands
    weight = demands.matrix[schedule.sources, schedule.targets][sends.shard]
    size = (sends.high - sends.low).astype(np.int64)
    if float((size.astype(np.float64) * weight).sum()) >= _SAFE:
        weight, size = weight.astype(object), size.astype(object)  # integers without bound
    units = schedule.n_chunks * demands.buffer_units
    seconds, loads = seconds_and_loads(topology, sends, weight * size)
    return units / seconds, algbw_of(topology, loads, units)
