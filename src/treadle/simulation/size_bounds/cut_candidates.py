"""Cuts around boxes and single ranks: they may bind at small sizes, where the one of large sizes does not."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate
from treadle.simulation.size_bounds.message_terms import MessageTerms, boxes_of, is_near

_MOST_ALIKE = 2
"""Boxes, and ranks, of one bandwidth that are tried."""


def cut_candidates(terms: MessageTerms, collective: Collective) -> Iterator[Certificate]:
    """Witnesses of cuts around boxes and ranks, and of what is left; only those that prove something."""
    if collective.groups is not None:
        return
    topology = terms.topology
    for inside in node_sets(terms):
        for chosen in (inside, ~inside):
            witness = _witness(terms, collective, chosen)
            try:
                proves = witness.bound(topology, collective) > 0
            except ScheduleError:
                continue
            if proves:
                yield witness


def node_sets(terms: MessageTerms) -> Iterator[BoolArray]:
    """Nodes of a box, or a rank alone; of those with links of equal bandwidth a few."""
    topology = terms.topology
    numbers: list[Int32Array] = [np.arange(topology.n_nodes, dtype=np.int32)]
    if is_near(terms).any():
        numbers.append(boxes_of(terms))
    seen: dict[tuple[int, int, int, int], int] = {}
    for place, number in enumerate(numbers):
        for group in np.unique(number[topology.compute_nodes]).tolist():
            inside: BoolArray = number == group
            here, there = inside[topology.tails], inside[topology.heads]
            leaving, entering = topology.bandwidths[here & ~there], topology.bandwidths[~here & there]
            ranks = int(topology.is_compute[inside].sum())
            key = (place, ranks, int(leaving.sum()), int(entering.sum()))
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= _MOST_ALIKE and ranks < len(topology.compute_nodes):
                yield inside


def _witness(terms: MessageTerms, collective: Collective, inside: BoolArray) -> Certificate:
    """That what the nodes inside have for others, or of an allreduce the whole buffer, leaves them."""
    topology = terms.topology
    nodes = tuple(np.flatnonzero(inside).tolist())
    if collective.kind is CollectiveKind.ALLREDUCE:
        others = tuple(np.flatnonzero(~inside).tolist())
        one = Fraction(1)
        return CutCombinationCertificate(((nodes, one),), ((others, one),))
    if collective.kind is CollectiveKind.ALLTOALL:
        leaves = inside[topology.tails] & ~inside[topology.heads]
        return FlowDualCertificate(leaves.astype(np.int64))
    return BottleneckCut(nodes)
