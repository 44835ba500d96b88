"""Data that two messages bring too late take one each, from everybody to everybody who is so far away.

Where ranks are linked to each other without switches, a pair of ranks may be so far apart that two messages
one after another end later than what is to be proved. Then nothing is joined on the way between them, not
even sums: the pair has a message of its own, with all of its bytes. Those of one rank hold the links by
which it sends one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.distance import receives_from
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms
from treadle.simulation.size_bounds.size_certificate import DirectCertificate

_KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
_MOST_NODES = 128
_MOST_SOURCES = 16


@dataclass(frozen=True)
class DirectPairs:
    """Pairs of a witness, and what does not depend on the size.

    Parameters
    ----------
    witness : DirectCertificate
    two_ns : int
        The least that two messages take for any of the pairs.
    free_ns : tuple of int
        Of each link that the messages hold: for how long it holds none of them, in the end or the beginning.
    held_ns : int
        For how long the messages hold the links in all, besides bytes.
    held_per_byte : Fraction
        ns for each byte of the buffer.
    """

    witness: DirectCertificate
    two_ns: int
    free_ns: tuple[int, ...]
    held_ns: int
    held_per_byte: Fraction

    def time_ns(self, size_bytes: int) -> Fraction:
        """The least time, ns."""
        held = self.held_ns + self.held_per_byte * size_bytes
        ordered = sorted(self.free_ns)
        for place, free in enumerate(ordered, 1):
            held += free
            time = held / place
            if place == len(ordered) or time <= ordered[place]:
                return min(Fraction(self.two_ns), time)
        return Fraction(0)


def direct_pairs(terms: MessageTerms, collective: Collective) -> tuple[DirectPairs, ...]:
    """Pairs worth a look: those of some ranks, at least so far apart."""
    topology = terms.topology
    # all shards are equal; of an all-to-all no bytes are counted
    if (
        collective.kind not in _KINDS
        or collective.groups is not None
        or len(terms.classes) != 1
        or not topology.is_compute.all()
        or topology.n_nodes > _MOST_NODES
        or not (collective.kind is CollectiveKind.ALLTOALL or len(set(collective.shard_weights)) == 1)
    ):
        return ()
    return tuple(_all_pairs(terms, collective))


def _all_pairs(terms: MessageTerms, collective: Collective) -> Iterator[DirectPairs]:
    nodes, n = np.array(collective.ranks), collective.n_ranks
    ways = terms.least_latencies(np.eye(terms.topology.n_nodes, dtype=np.bool_))
    gap, alpha = (terms.least_of(one, terms.classes) for one in ("occupancy_ns", "alpha_ns"))
    one = np.minimum(ways + gap + alpha, FAR_NS)
    lone = one + np.where(np.eye(len(one), dtype=np.bool_), FAR_NS, 0)  # nobody tells itself
    two = np.array([(lone[node][:, None] + lone).min(axis=0) for node in nodes.tolist()])[:, nodes]
    wanted = receives_from(collective, [*range(n)]) & (one[np.ix_(nodes, nodes)] < FAR_NS)
    between = one[np.ix_(nodes, nodes)]
    # of exchanges no bytes are counted
    parts = {CollectiveKind.ALLTOALL: Fraction(0), CollectiveKind.ALLREDUCE: Fraction(1)}
    part, rates = parts.get(collective.kind, Fraction(1, n)), terms.rates()
    for least in np.unique(between[wanted]).tolist():
        far: BoolArray = wanted & (between >= least)
        for source in range(0, n, -(-n // _MOST_SOURCES)):
            many = int(far[source].sum())
            if many:  # messages of one rank, which hold its links one after another
                links = np.flatnonzero(terms.carries & (terms.topology.tails == nodes[source]))
                after = ways[:, nodes[far[source]]].min(axis=1)
                free = after[terms.topology.heads[links]] + terms.latency_ns[links] + alpha
                yield DirectPairs(
                    DirectCertificate(source, least),
                    int(two[source, far[source]].min()),
                    tuple(free.tolist()),
                    many * gap,
                    many * part * Fraction(10**9, int(rates[links].max())),
                )
