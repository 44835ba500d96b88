"""What a fabric and a protocol leave to messages at best: rates, latencies, and figures of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.math.graphs import components
from treadle.simulation.costs.cost_model import LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.topologies.topology import Topology

FAR_NS = 2**60
"""Farther than anything: no way."""

_BOX = CLASSES.index(LinkClass.BOX)


@dataclass(frozen=True, eq=False)
class MessageTerms:
    """Costs of messages by link, and what switches do to them.

    Parameters
    ----------
    topology : Topology
    protocol : Protocol
    link_class, latency_ns : arrays of int64, shape (links,)
    carries : array of bool, shape (links,)
        Not a self-loop.
    is_blurred : bool
        Some switch that copies or adds joins links of different classes: a message may change its class
        there, and only the least figures hold.
    copies : frozenset of int
        Classes of links at switches that copy.
    """

    topology: Topology
    protocol: Protocol
    link_class: Int64Array
    latency_ns: Int64Array
    carries: BoolArray
    is_blurred: bool
    copies: frozenset[int]

    @property
    def classes(self) -> tuple[int, ...]:
        """Numbers of the classes that there are."""
        return tuple(np.unique(self.link_class[self.carries]).tolist())

    def least_of(self, figure: str, among: Iterable[int]) -> int:
        """Least figure of messages with links of any of these classes."""
        known = self.classes if self.is_blurred else among
        return min(int(getattr(self.protocol.of(CLASSES[one]), figure)) for one in known)

    def most_of(self, figure: str, among: Iterable[int]) -> int:
        """Figure of a message that has links of all these classes."""
        if self.is_blurred:
            return self.least_of(figure, ())
        return max(int(getattr(self.protocol.of(CLASSES[one]), figure)) for one in among)

    def rates(self) -> Int64Array:
        """Bytes/s that each link leaves to data."""
        leaves = self.topology.is_compute[self.topology.tails]
        figures = self.link_class.tolist(), self.topology.bandwidths.tolist(), leaves.tolist()
        return np.array(list(map(self.rate, *figures)), dtype=np.int64)

    def rate(self, link_class: int, bandwidth: int, leaves: bool) -> int:
        """Bytes/s that a link leaves to data; `leaves`: from a rank, whose channels have a ceiling."""
        share = self.protocol.of(CLASSES[link_class]).efficiency
        rate = max(1, bandwidth * share.numerator // share.denominator)
        return min(rate, self.protocol.ceiling_bytes_per_s or rate) if leaves else rate

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """All choices of classes that a message may have links of."""
        known = self.classes
        for size in range(1, len(known) + 1):
            yield from combinations(known, size)

    def least_latencies(
        self, starts: BoolArray, among: Iterable[int] | None = None, *, reverse: bool = False
    ) -> Int64Array:
        """Least latency from sets of nodes to every node, or to them; `FAR_NS` where no way leads.

        Parameters
        ----------
        starts : array of bool, shape (k, n)
        among : iterable of int, optional
            Classes of links; default all.
        reverse : bool

        Returns
        -------
        array of int64, shape (k, n)
        """
        allowed = self.carries.copy()
        if among is not None:
            allowed &= np.isin(self.link_class, list(among))
        tails, heads = self.topology.tails[allowed], self.topology.heads[allowed]
        if reverse:
            tails, heads = heads, tails
        order = np.argsort(heads, kind="stable")
        tails, heads, latency = tails[order], heads[order], self.latency_ns[allowed][order]
        found = np.where(starts, 0, FAR_NS).astype(np.int64)
        if not heads.size:
            return found
        first = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
        while True:
            arrived = np.minimum.reduceat(found[:, tails] + latency, first, axis=1)
            better = np.minimum(found[:, heads[first]], arrived)
            if np.array_equal(better, found[:, heads[first]]):
                return np.minimum(found, FAR_NS)
            found[:, heads[first]] = better


def message_terms(topology: Topology, protocol: Protocol) -> MessageTerms:
    """The terms of a fabric under a protocol."""
    link_class = link_classes(topology)
    hop_ns = np.array([protocol.of(one).hop_ns for one in CLASSES], dtype=np.int64)
    carries = topology.tails != topology.heads
    blurred, copies = _switches(topology, link_class, carries)
    return MessageTerms(
        topology,
        protocol,
        link_class,
        topology.latencies_ns + hop_ns[link_class],
        carries,
        blurred,
        copies,
    )


def _switches(topology: Topology, link_class: Int64Array, carries: BoolArray) -> tuple[bool, frozenset[int]]:
    """Whether a capable switch may change a message's class, and the classes that copies have.

    Between ranks a message passes switches that are joined to each other; where all links of theirs are of
    one class, so are all parts of a message that some of them copies or adds up.
    """
    able = topology.multicast | topology.aggregation
    if not able.any():
        return False, frozenset()
    joined = ~topology.is_compute
    between = joined[topology.tails] & joined[topology.heads]
    ends = topology.tails[between], topology.heads[between]
    label = np.where(joined, components(topology.n_nodes, *ends), -1)
    copies: set[int] = set()
    for group in np.unique(label[able]).tolist():
        at = carries & ((label[topology.tails] == group) | (label[topology.heads] == group))
        kinds = set(link_class[at].tolist())
        if len(kinds) > 1:
            return True, frozenset(kinds)
        if topology.multicast[label == group].any():
            copies |= kinds
    return False, frozenset(copies)


def is_near(terms: MessageTerms) -> BoolArray:
    """Links within boxes, shape (links,)."""
    near: BoolArray = terms.carries & (terms.link_class == _BOX)
    return near


def boxes_of(terms: MessageTerms) -> Int32Array:
    """The least node of each node's box, as links within boxes join them; shape (n,)."""
    near = is_near(terms)
    return components(terms.topology.n_nodes, terms.topology.tails[near], terms.topology.heads[near])
