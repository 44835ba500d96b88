"""Bounds by cuts: how long data takes to cross links that carry none of it at the beginning and the end.

`windows` turns the certificate of an upper bound on algbw into weighted bandwidths by the time for which
links are idle. `cut_candidates` are cuts around boxes and single ranks, which may be the bottleneck at small
sizes.

`gathered_cuts` add the messages before and after a cut. For every byte that a cut divides, contributions
leave the node set in one message or in several. If in one, its sender has the contributions of the entire set
by a message before, and its receiver passes it on to all other ranks outside by a message after. If in
several, the links carry it at least twice. So either links are idle during these messages too, or they carry
more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.size_bounds.message_terms import (
    FAR_NS,
    MessageTerms,
    boxes_of,
    is_near,
    is_symmetric,
    time_to_carry,
)
from treadle.simulation.size_bounds.reach import shortest_ns
from treadle.simulation.size_bounds.size_certificate import GatheredCertificate

Window = tuple[int, Fraction]
"""Time for which links carry nothing that counts, ns, and the bytes of the buffer that they then move per
second."""

GatheredCut = tuple[GatheredCertificate, Fraction, tuple[Window, ...]]
"""A certificate, the part of the buffer that leaves its nodes, and the windows of its links."""

_GATHERED = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
_MOST_ALIKE = 2
"""Boxes, and ranks, of one bandwidth that are tried."""


def windows(terms: MessageTerms, collective: Collective, certificate: Certificate) -> tuple[Window, ...]:
    """Return weighted bandwidth by idle time of links, the shortest first.

    Every certificate's bound is linear in the bandwidths: a sum of bandwidths times weights, where each byte
    of the buffer takes weights of 1 in total. So the bound with another bandwidth for some links shows how
    much these links contribute.
    """
    topology = terms.topology
    # nodes where messages that cross begin, and where they end
    starts = ends = mask_of(topology.n_nodes, topology.compute_nodes)
    if isinstance(certificate, BottleneckCut):
        inside = mask_of(topology.n_nodes, list(certificate.nodes))
        starts, ends = starts & inside, ends & ~inside
        if collective.kind.reduces:
            starts, ends = ends, starts
    idle, rates = _idle_ns(terms, starts, ends), terms.rates
    equal_links: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for link in np.flatnonzero(terms.carries).tolist():
        equal_links[int(idle[link]), int(topology.bandwidths[link]), int(rates[link])].append(link)
    total = rest = certificate.bound(topology, collective)
    found: defaultdict[int, Fraction] = defaultdict(Fraction)
    for (pause, own, rate), links in equal_links.items():
        part = total
        if len(equal_links) > 1 or topology.injection_bytes_per_s.any():
            bandwidths = topology.bandwidths.copy()
            bandwidths[links] = other = 1 if own > 1 else 2  # every fabric may have these
            changed = certificate.bound(replace(topology, bandwidths=bandwidths), collective)
            part = (changed - total) * own / (other - own)
        rest -= part
        if part:
            found[pause] += part * Fraction(rate, own)
    if rest:  # the contribution of hosts' ports
        most = max(terms.protocol.of(CLASSES[one]).efficiency for one in terms.classes)
        found[int(idle[terms.carries].min())] += rest * most
    return tuple(sorted(found.items()))


def _idle_ns(terms: MessageTerms, starts: BoolArray, ends: BoolArray) -> Int64Array:
    """Return how long each link carries no data from `starts` to `ends`, ns."""
    before: Int64Array = terms.least_latencies(starts[None])[0][terms.topology.tails]
    after = terms.least_latencies(ends[None], reverse=True)[0][terms.topology.heads] + terms.latency_ns
    message = np.zeros(len(CLASSES), dtype=np.int64)
    for one in terms.classes:
        message[one] = terms.least_of("occupancy_ns", (one,)) + terms.least_of("alpha_ns", (one,))
    found: Int64Array = np.minimum(before + message[terms.link_class] + after, FAR_NS)
    return found


def crossing_time(found: Sequence[Window], size_bytes: Fraction | int) -> Fraction:
    """Return a lower bound on the time in which all bytes cross, seconds."""
    return time_to_carry(found, Fraction(size_bytes) * 10**9) / 10**9


def cut_candidates(terms: MessageTerms, collective: Collective) -> Iterator[Certificate]:
    """Yield certificates of cuts around boxes and ranks, and around all others, that prove something."""
    topology = terms.topology
    for inside in _node_sets(terms) if collective.groups is None else ():
        nodes, others = (tuple(np.flatnonzero(side).tolist()) for side in (inside, ~inside))
        if collective.kind is CollectiveKind.ALLREDUCE:  # the entire buffer leaves and enters
            one = Fraction(1)
            both: list[Certificate] = [
                CutCombinationCertificate(((nodes, one),), ((others, one),)),
                CutCombinationCertificate(((others, one),), ((nodes, one),)),
            ]
        elif collective.kind is CollectiveKind.ALLTOALL:
            here, there = inside[topology.tails], inside[topology.heads]
            both = [FlowDualCertificate(side.astype(np.int64)) for side in (here & ~there, ~here & there)]
        else:
            both = [BottleneckCut(nodes), BottleneckCut(others)]
        for certificate in both:
            try:
                proves = certificate.bound(topology, collective) > 0
            except ScheduleError:
                continue
            if proves:
                yield certificate


def _node_sets(terms: MessageTerms) -> Iterator[BoolArray]:
    """Yield the nodes of a box, or a single rank; of those with equal bandwidths a few."""
    topology = terms.topology
    numbers: list[Int32Array] = [np.arange(topology.n_nodes, dtype=np.int32)]
    if is_near(terms).any():
        numbers.append(boxes_of(terms))
    counts: defaultdict[tuple[int, int, int, int], int] = defaultdict(int)
    for place, number in enumerate(numbers):
        for group in np.unique(number[topology.compute_nodes]).tolist():
            inside: BoolArray = number == group
            here, there = inside[topology.tails], inside[topology.heads]
            leaving, entering = topology.bandwidths[here & ~there], topology.bandwidths[~here & there]
            ranks = int(topology.is_compute[inside].sum())
            key = (place, ranks, int(leaving.sum()), int(entering.sum()))
            counts[key] += 1
            if counts[key] <= _MOST_ALIKE and ranks < len(topology.compute_nodes):
                yield inside


def gathered_cuts(terms: MessageTerms, collective: Collective) -> Iterator[GatheredCut]:
    """Yield cuts around boxes and ranks over whose links nothing is copied or added."""
    topology, kind, n = terms.topology, collective.kind, collective.n_ranks
    if kind not in _GATHERED or not is_symmetric(terms, collective) or terms.is_blurred:
        return
    rates, able = terms.rates, topology.multicast | topology.aggregation
    message = shortest_ns(terms, terms.carries) + min(
        terms.least_of("occupancy_ns", (one,)) + terms.least_of("alpha_ns", (one,)) for one in terms.classes
    )
    for inside in (side for one in _node_sets(terms) for side in (one, ~one)):
        leaving = terms.carries & inside[topology.tails] & ~inside[topology.heads]
        if not leaving.any() or able[topology.tails[leaving]].any() or able[topology.heads[leaving]].any():
            continue
        here, there = topology.is_compute & inside, topology.is_compute & ~inside
        ranks = int(here.sum())
        part = Fraction(1)
        if kind is not CollectiveKind.ALLREDUCE:
            part = Fraction(ranks if kind is CollectiveKind.ALLGATHER else n - ranks, n)
        messages = int(kind.reduces and ranks > 1) + int(kind.broadcasts and n - ranks > 1)
        idle = _idle_ns(terms, here, there)
        found: defaultdict[int, Fraction] = defaultdict(Fraction)
        for link in np.flatnonzero(leaving).tolist():
            for pause in (int(idle[link]), int(idle[link]) + messages * message):
                found[pause] += int(rates[link])
        nodes = tuple(np.flatnonzero(inside).tolist())
        yield GatheredCertificate(nodes), part, tuple(sorted(found.items()))
