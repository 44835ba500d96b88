"""The farthest pair of ranks of which one needs the other's data."""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms
from treadle.simulation.size_bounds.size_certificate import PairCertificate

_MOST_SOURCES = 64
"""From how many ranks distances are looked at; of more, some."""


def farthest_pair(terms: MessageTerms, collective: Collective) -> tuple[PairCertificate, int] | None:
    """The pair, and after how many nanoseconds data of the one may be with the other; None if there is none.

    A message that goes all the way is as quick as any: another on the way costs no less.
    """
    gathers = collective.kind is CollectiveKind.REDUCE
    nodes = np.array(collective.ranks)
    n = len(nodes)
    step = -(-n // _MOST_SOURCES)
    chosen = list(range(0, n, step))
    if collective.root is not None:
        groups = collective.groups or (tuple(range(n)),)
        chosen = [group[collective.root] for group in groups][:_MOST_SOURCES]
    starts = mask_of((len(chosen), terms.topology.n_nodes), (np.arange(len(chosen)), nodes[chosen]))
    found = np.full((len(chosen), n), FAR_NS, dtype=np.int64)
    for among in terms.subsets():
        cost = terms.most_of("occupancy_ns", among) + terms.most_of("alpha_ns", among)
        ways = terms.least_latencies(starts, among, reverse=gathers)[:, nodes]
        found = np.minimum(found, np.minimum(ways + cost, FAR_NS))
    found[~receives_from(collective, chosen)] = -1
    found[found >= FAR_NS] = -1
    place, rank = np.unravel_index(int(found.argmax()), found.shape)
    if found[place, rank] < 0:
        return None
    pair = (int(rank), chosen[place]) if gathers else (chosen[place], int(rank))
    return PairCertificate(*pair), int(found[place, rank])


def receives_from(collective: Collective, chosen: list[int]) -> BoolArray:
    """Whether each rank needs data of the chosen ones; of a reduce, whether those need its data."""
    n = collective.n_ranks
    rows: Int64Array = np.array(chosen)
    if collective.kind is CollectiveKind.ALLTOALL:
        return np.asarray(collective.pair_demands.rows(rows) > 0)
    wanted = ~mask_of((len(rows), n), (np.arange(len(rows)), rows))
    if collective.groups is not None:
        group = np.zeros(n, dtype=np.int64)
        for number, members in enumerate(collective.groups):
            group[list(members)] = number
        return np.asarray(wanted & (group[rows][:, None] == group))
    weights = np.array(collective.shard_weights)
    if collective.kind is CollectiveKind.ALLGATHER:
        wanted[weights[rows] == 0] = False
    if collective.kind is CollectiveKind.REDUCE_SCATTER:
        wanted[:, weights == 0] = False
    return wanted
