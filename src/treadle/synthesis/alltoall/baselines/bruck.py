"""Bruck's all-to-all, and the pairwise exchange, on the links that are there."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.store_forward import Round, run_rounds
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs
from treadle.topologies.topology import Topology


def bruck_exchange(topology: Topology, collective: Collective, *, radix: int = 2) -> ExchangeSchedule:
    """Shards hop by powers of the radix: few rounds of large messages that carry data of many pairs.

    Parameters
    ----------
    topology : Topology
        Of compute nodes, each rank reachable from each.
    collective : Collective
        An all-to-all.
    radix : int
        At least 2. 2 has fewest rounds, N the least data (it is the pairwise exchange).

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If the radix is below 2, the fabric has switches, or the schedule would be too large.

    Notes
    -----
    The shard of pair (i, j) goes from i to j = i + s by the digits of s, the lowest first: the round of digit
    k and value z moves all shards whose digit k is z by z * radix^k. On a complete graph these are
    ceil(log2 N) steps, and (N/2) log2 N units of demand in all cross the busiest link of each if N is a power
    of two. Elsewhere a message takes one shortest path, so rounds have as many steps as their longest path
    has links. Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all
    communications in multiport message-passing systems (IEEE TPDS 8, 1997), the index operation.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import complete
    >>> fabric = complete(8)
    >>> bruck_exchange(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL)).n_steps
    3
    """
    if radix < 2:
        raise ScheduleError(f"bruck: radix {radix}, expected at least 2")
    return run_rounds("bruck-exchange", topology, collective, _rounds(collective, radix))


def pairwise_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """In round r every rank i sends to rank i + r (mod N), hop by hop.

    Parameters
    ----------
    topology : Topology
        Of compute nodes.
    collective : Collective
        An all-to-all.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If the fabric has switches, or the schedule would be too large.

    Notes
    -----
    N - 1 steps of one unit of demand each on a complete graph. Elsewhere a message takes one shortest path,
    a round has as many steps as its longest path has links, and in a step only the links of one hop are
    busy. Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH
    (IJHPCA 19, 2005), section 4.3.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(5)
    >>> pairwise_exchange(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL)).n_steps
    6
    """
    return run_rounds("pairwise", topology, collective, _rounds(collective, collective.n_ranks))


def _rounds(collective: Collective, radix: int) -> Iterator[Round]:
    source, target, _ = demanded_pairs(collective)
    n = collective.n_ranks
    apart = (target.astype("int64") - source) % n
    power = 1
    while power < n:
        digit = apart // power % radix
        onward = (source + apart % (power * radix)) % n
        for value in range(1, radix):
            yield digit == value, onward
        power *= radix
