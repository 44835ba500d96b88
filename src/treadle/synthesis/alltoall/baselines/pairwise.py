"""The pairwise exchange: N - 1 rounds in which every rank sends to one rank and receives from one."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.store_forward import Round, run_rounds
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs
from treadle.topologies.topology import Topology


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
    return run_rounds("pairwise", topology, collective, _rounds(collective))


def _rounds(collective: Collective) -> Iterator[Round]:
    source, target, _ = demanded_pairs(collective)
    apart = (target - source) % collective.n_ranks
    for number in range(1, collective.n_ranks):
        yield apart == number, target
