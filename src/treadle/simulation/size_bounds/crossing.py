"""How long data takes to cross links which carry none at the beginning and at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms
from treadle.topologies.topology import Topology

Window = tuple[int, Fraction]
"""For how long, of all the time, links carry nothing that counts, ns; and how many bytes of the buffer per
second their weights are worth."""

_Key = tuple[int, int, int, bool]


def windows(terms: MessageTerms, collective: Collective, witness: Certificate) -> tuple[Window, ...]:
    """Weighted bandwidth by idle time of links, the shortest first.

    Whatever the witness is, the bound that it proves is linear in the links' bandwidths: a sum of bandwidths
    times weights, where each byte of the buffer takes weights of 1 in all. So what links of one kind count
    for follows from the bound with another bandwidth of theirs.
    """
    topology = terms.topology
    # nodes where messages that cross begin, and where they end
    starts = ends = mask_of(topology.n_nodes, topology.compute_nodes)
    if isinstance(witness, BottleneckCut):
        inside = mask_of(topology.n_nodes, list(witness.nodes))
        starts, ends = starts & inside, ends & ~inside
        if collective.kind.reduces:
            starts, ends = ends, starts
    idle = idle_ns(terms, starts, ends)
    kinds: dict[_Key, list[int]] = {}
    for link in np.flatnonzero(terms.carries).tolist():
        leaves = bool(topology.is_compute[topology.tails[link]])
        key = (int(idle[link]), int(terms.link_class[link]), int(topology.bandwidths[link]), leaves)
        kinds.setdefault(key, []).append(link)
    whole = witness.bound(topology, collective)
    found: dict[int, Fraction] = {}
    left = whole
    for (pause, link_class, bandwidth, leaves), links in kinds.items():
        worth = (
            whole
            if len(kinds) == 1 and not topology.injection_bytes_per_s.any()
            else _worth(topology, collective, witness, links, whole)
        )
        left -= worth
        if worth:
            share = Fraction(terms.rate(link_class, bandwidth, leaves), bandwidth)
            found[pause] = found.get(pause, Fraction(0)) + worth * share
    if left:  # ports of hosts
        most = max(terms.protocol.of(CLASSES[one]).efficiency for one in terms.classes)
        pause = int(idle[terms.carries].min())
        found[pause] = found.get(pause, Fraction(0)) + left * most
    return tuple(sorted(found.items()))


def _worth(
    topology: Topology, collective: Collective, witness: Certificate, links: Sequence[int], whole: Fraction
) -> Fraction:
    """The part of a bound that links of one bandwidth make; 1 or 2 bytes/s are what all fabrics may have."""
    own, bandwidths = int(topology.bandwidths[links[0]]), topology.bandwidths.copy()
    other = 1 if own > 1 else 2
    bandwidths[list(links)] = other
    changed = witness.bound(replace(topology, bandwidths=bandwidths), collective) - whole
    return changed * own / (other - own)


def idle_ns(terms: MessageTerms, starts: BoolArray, ends: BoolArray) -> Int64Array:
    """For how long each link carries nothing: before data of `starts` can be there, and on to `ends`."""
    before: Int64Array = terms.least_latencies(starts[None])[0][terms.topology.tails]
    after = terms.least_latencies(ends[None], reverse=True)[0][terms.topology.heads] + terms.latency_ns
    gap = np.zeros(terms.topology.n_links, dtype=np.int64)
    for one in terms.classes:
        of_class = terms.link_class == one
        gap[of_class] = terms.least_of("occupancy_ns", (one,)) + terms.least_of("alpha_ns", (one,))
    found: Int64Array = np.minimum(before + gap + after, FAR_NS)
    return found


def crossing_time(found: Sequence[Window], size_bytes: Fraction | int) -> Fraction:
    """The least seconds in which all bytes cross: sum over windows of rate x (time - pause) = size."""
    rate, moved = Fraction(0), Fraction(0)
    for place, (pause, worth) in enumerate(found):
        rate += worth
        moved += worth * pause
        time = (Fraction(size_bytes) * 10**9 + moved) / rate
        if place + 1 == len(found) or time <= found[place + 1][0]:
            return time / 10**9
    return Fraction(0)
