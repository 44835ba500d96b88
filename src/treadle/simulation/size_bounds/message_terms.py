"""Lower bounds on what a message costs on a fabric under a protocol, by the classes of its links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.math.graphs import components
from treadle.schedules.collective import Collective
from treadle.simulation.costs.cost_model import LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, data_rates, link_classes
from treadle.topologies.topology import Topology

FAR_NS = 2**60
"""Latency of unreachable nodes."""

BOX = CLASSES.index(LinkClass.BOX)


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
        Links of different classes meet at a switch with multicast or aggregation. A message may change its
        class there, so only the smallest costs of all classes are valid.
    copies : frozenset of int
        Classes of links at switches with multicast.
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
        """Classes of the links that are not self-loops."""
        return tuple(np.unique(self.link_class[self.carries]).tolist())

    def least_of(self, field: str, among: Iterable[int]) -> int:
        """Return the smallest cost of messages with links of any of these classes."""
        among = self.classes if self.is_blurred else among
        return min(int(getattr(self.protocol.of(CLASSES[one]), field)) for one in among)

    def most_of(self, field: str, among: Iterable[int]) -> int:
        """Return the cost of a message that has links of all these classes."""
        if self.is_blurred:
            return self.least_of(field, ())
        return max(int(getattr(self.protocol.of(CLASSES[one]), field)) for one in among)

    @cached_property
    def rates(self) -> Int64Array:
        """Rate of data on each link, bytes/s."""
        topology = self.topology
        leaves = topology.is_compute[topology.tails]
        return data_rates(self.protocol, topology.bandwidths, self.link_class, leaves)

    def least_latencies(
        self, starts: BoolArray, among: Iterable[int] | None = None, *, reverse: bool = False
    ) -> Int64Array:
        """Return the least latency from sets of nodes to every node (or back); `FAR_NS` if unreachable.

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
    """Return the terms of a fabric under a protocol."""
    link_class = link_classes(topology)
    hop_ns = np.array([protocol.of(one).hop_ns for one in CLASSES], dtype=np.int64)
    latency_ns = topology.latencies_ns + hop_ns[link_class]
    carries = topology.tails != topology.heads
    is_blurred, copies = _switches(topology, link_class, carries)
    return MessageTerms(topology, protocol, link_class, latency_ns, carries, is_blurred, copies)


def _switches(topology: Topology, link_class: Int64Array, carries: BoolArray) -> tuple[bool, frozenset[int]]:
    """Return whether a capable switch may change a message's class, and the classes that are copied.

    Between ranks a message passes switches that are joined to each other. If all their links are of one
    class, so are all parts of a message that one of them copies or adds.
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
    """Return whether each link is within a box, shape (links,)."""
    near: BoolArray = terms.carries & (terms.link_class == BOX)
    return near


def boxes_of(terms: MessageTerms) -> Int32Array:
    """Return the smallest node of each node's box, as links within boxes join them; shape (n,)."""
    near = is_near(terms)
    return components(terms.topology.n_nodes, terms.topology.tails[near], terms.topology.heads[near])


def is_symmetric(terms: MessageTerms, collective: Collective) -> bool:
    """Whether all compute nodes take part in one group, with equal shards."""
    everywhere = set(collective.ranks) == set(terms.topology.compute_nodes.tolist())
    return everywhere and collective.groups is None and len(set(collective.shard_weights)) == 1


def time_to_carry(windows: Sequence[tuple[int, Fraction | int]], amount: Fraction) -> Fraction:
    """Return the time t at which sum(rate * max(0, t - pause)) reaches an amount.

    Parameters
    ----------
    windows : sequence of (int, Fraction or int)
        Pause in ns and rate, pauses ascending; without any the time is 0.
    amount : Fraction
    """
    total, time = Fraction(0), Fraction(0)
    for number, (pause, rate) in enumerate(windows):
        if number and time <= pause:
            break
        total, amount = total + rate, amount + rate * pause
        time = amount / total
    return time
