"""Data that leave a set of ranks once have been summed before, or are handed on after.

Of every byte of the buffer that a cut divides, contributions leave the set in one message or in several. In
one: then its sender has those of the whole set, by a message before, and whoever gets it tells all others
out there by a message after. In several: then the links carry it at least twice. So either the links carry
nothing for the time of these messages too, or they carry more.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.crossing import Window, crossing_time, idle_ns
from treadle.simulation.size_bounds.cut_candidates import node_sets
from treadle.simulation.size_bounds.message_terms import MessageTerms
from treadle.simulation.size_bounds.reach import shortest_ns
from treadle.simulation.size_bounds.size_certificate import GatheredCertificate

_KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)

GatheredCut = tuple[GatheredCertificate, Fraction, tuple[Window, ...]]
"""A witness, the part of the buffer that leaves its nodes, and when links carry it, and it once again."""


def gathered_cuts(terms: MessageTerms, collective: Collective) -> tuple[GatheredCut, ...]:
    """Cuts around boxes and ranks by whose links nothing is copied or summed on the way."""
    topology = terms.topology
    if (
        collective.kind not in _KINDS
        or collective.groups is not None
        or len(set(collective.shard_weights)) > 1
        or set(collective.ranks) != set(topology.compute_nodes.tolist())
        or terms.is_blurred
    ):
        return ()
    return tuple(_cuts(terms, collective))


def _cuts(terms: MessageTerms, collective: Collective) -> Iterator[GatheredCut]:
    topology, kind, n = terms.topology, collective.kind, collective.n_ranks
    rates, able = terms.rates(), topology.multicast | topology.aggregation
    classes = terms.classes
    message = shortest_ns(terms, terms.carries) + min(
        terms.least_of("occupancy_ns", (one,)) + terms.least_of("alpha_ns", (one,)) for one in classes
    )
    for one in node_sets(terms):
        for inside in (one, ~one):
            leaving = terms.carries & inside[topology.tails] & ~inside[topology.heads]
            if (
                not leaving.any()
                or able[topology.tails[leaving]].any()
                or able[topology.heads[leaving]].any()
            ):
                continue
            here = int((topology.is_compute & inside).sum())
            part = Fraction(1)
            if kind is not CollectiveKind.ALLREDUCE:
                part = Fraction(here if kind is CollectiveKind.ALLGATHER else n - here, n)
            others = int(kind.reduces and here > 1) + int(kind.broadcasts and n - here > 1)
            idle = idle_ns(terms, topology.is_compute & inside, topology.is_compute & ~inside)
            found: dict[int, Fraction] = {}
            for link in np.flatnonzero(leaving).tolist():
                for pause in (int(idle[link]), int(idle[link]) + others * message):
                    found[pause] = found.get(pause, Fraction(0)) + int(rates[link])
            nodes = tuple(np.flatnonzero(inside).tolist())
            yield GatheredCertificate(nodes), part, tuple(sorted(found.items()))


def gathered_time(cut: GatheredCut, size_bytes: int) -> Fraction:
    """Seconds until the links may have carried what leaves twice, once of it when it has been gathered."""
    _, part, found = cut
    return crossing_time(found, 2 * part * size_bytes)
