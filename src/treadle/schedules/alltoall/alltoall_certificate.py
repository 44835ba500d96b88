"""Dual certificate of an all-to-all bound: link lengths for which demands are far apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from operator import mul
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import FrozenArrays, Int64Array, frozen, positions_of
from treadle.brief import brief
from treadle.errors import FormatError, ScheduleError, TopologyError
from treadle.math.graphs import shortest_lengths
from treadle.math.symmetry import orbits
from treadle.schedules.collective import Collective
from treadle.topologies.isomorphism import LinkMaps
from treadle.topologies.topology import Topology

MAX_LENGTH = 2**40
"""Largest length of a link; a path of 2**20 links still fits 64 bits."""

_FAR = np.int64(2**62)

_SOURCES = 128
_CELLS = 2**22
"""Most sources, and distances, that are computed together."""

_FEW_SOURCES = 4
"""Most sources for which a search each is faster than a table."""

_FEW_ROWS = 8
"""Smallest number of nodes with a k-th incoming link for which a pass over these links is faster."""


@brief("lengths", "hosts")
@dataclass(frozen=True, eq=False)
class FlowDualCertificate(FrozenArrays):
    """Link lengths l that bound an all-to-all: strong duality of the maximum concurrent flow.

    Parameters
    ----------
    lengths : array of int64, shape (m,)
        From 0 to 2**40, in any common unit.
    hosts : array of int64, shape (h, 2), optional
        Lengths of the paths into and out of each host with an injection cap, in the order of nodes. None:
        the bound counts links only, so it also holds with caps, but may be loose.
    cards_forward : bool
        Scope of the bound. False: forwarded data goes into the host and out again. True: network cards
        forward by themselves, and only data that starts or ends at a host goes there. A bound of the latter
        kind, or one that counts links only, holds for both.

    Notes
    -----
    At rate F per unit of demand, pair (i, j) uses links of total length F * w_ij * dist_l(i, j) or more, so F
    * sum(w_ij * dist_l(i, j)) <= sum(b_e * l_e). Any node may forward. A cap counts as two more links, one
    into the host and one out of it. Source: Shahrokhi and Matula, The maximum concurrent flow problem (JACM
    37, 1990), where optimal lengths attain the maximum. Hosts as in figure 2 of Efficient all-to-all
    Collective Communication Schedules for Direct-connect Topologies.
    """

    kind: ClassVar[str] = "distances"

    lengths: Int64Array
    hosts: Int64Array = field(default_factory=lambda: frozen(np.zeros((0, 2)), np.int64))
    cards_forward: bool = False

    def __post_init__(self) -> None:
        for key, shape in (("lengths", "one integer length per link"), ("hosts", "two per capped host")):
            raw = np.asarray(getattr(self, key))
            is_shaped = raw.ndim == 1 if key == "lengths" else raw.ndim == 2 and raw.shape[1] == 2
            if not is_shaped or raw.dtype.kind not in "iu":
                raise ScheduleError(f"distance certificate: {key}: expected {shape}")
            if raw.size and (int(raw.min()) < 0 or int(raw.max()) > MAX_LENGTH):
                raise ScheduleError("distance certificate: lengths must be from 0 to 2**40")
            object.__setattr__(self, key, frozen(raw, np.int64))

    @property
    def binds_forwarding_hosts(self) -> bool:
        """Whether the bound counts data that hosts forward, and so is invalid where network cards forward."""
        return bool(self.hosts.any()) and not self.cards_forward

    def pair_rate_bound(
        self,
        topology: Topology,
        collective: Collective,
        *,
        automorphisms: Sequence[NDArray[np.integer]] = (),
    ) -> Fraction:
        """Return the upper bound on F, bytes/s per unit of demand; ScheduleError if the lengths prove none.

        Parameters
        ----------
        topology : Topology
        collective : Collective
        automorphisms : sequence of arrays of int, shape (n,)
            Maps of nodes. Ranks that they map to each other are equivalent if a map preserves links, their
            lengths, hosts, ranks and demands, which is checked; others are ignored. Distances are computed
            from one rank of each class.
        """
        into, out = self._at_hosts(topology)
        carries = topology.tails != topology.heads
        volume = _product(topology.bandwidths[carries], self.lengths[carries])
        volume += _product(topology.injection_bytes_per_s, into)
        volume += _product(topology.injection_bytes_per_s, out)
        longest = max(int(lengths.max(initial=0)) for lengths in (self.lengths, into, out))
        if 3 * longest * (topology.n_nodes + 1) >= _FAR:
            raise ScheduleError("distance certificate: paths may be longer than 2**62; use smaller lengths")
        lengths = self.lengths
        if not self.cards_forward:
            lengths = lengths + out[topology.tails] + into[topology.heads]
        demands = collective.pair_demands
        needed = 0
        ranks = np.array(collective.ranks)
        distances = _Distances(topology, lengths)
        firsts, counts = self._classes(topology, collective, automorphisms)
        rows = max(1, min(_SOURCES, _CELLS // topology.n_nodes))
        for first in range(0, len(firsts), rows):
            part = firsts[first : first + rows]
            wanted, sources = demands.rows(part), ranks[part]
            distance = distances.between(sources, ranks)
            distance[wanted == 0] = 0
            if (distance < 0).any():
                raise ScheduleError("distance certificate: a rank cannot be reached, so nothing is proved")
            if self.cards_forward:
                distance = distance + out[sources][:, None] + into[ranks]
            needed += _total(wanted, distance, counts[first : first + rows])
        if not needed:
            raise ScheduleError("distance certificate: all demands are at distance 0, so nothing is proved")
        return Fraction(volume, needed)

    def _classes(
        self, topology: Topology, collective: Collective, automorphisms: Sequence[NDArray[np.integer]]
    ) -> tuple[Int64Array, Int64Array]:
        """Return the first rank of each class of equivalent ranks, and the size of the class."""
        ranks, demands = np.array(collective.ranks), collective.pair_demands
        if not len(automorphisms):
            return np.arange(len(ranks)), np.ones(len(ranks), dtype=np.int64)
        rank_of = positions_of(topology.n_nodes, ranks)
        at_hosts = np.stack(self._at_hosts(topology))
        link_maps = LinkMaps(topology, topology)
        valid = []
        for node_map in automorphisms:
            try:
                links = link_maps(node_map)
            except TopologyError:
                continue
            images = rank_of[np.asarray(node_map)[ranks]]
            is_valid = np.array_equal(self.lengths[links], self.lengths)
            is_valid = is_valid and np.array_equal(at_hosts[:, node_map], at_hosts)
            if is_valid and demands.is_invariant_under(images):
                valid.append(images)
        firsts, counts = np.unique(orbits(len(ranks), valid), return_counts=True)
        return firsts, counts

    def _at_hosts(self, topology: Topology) -> tuple[Int64Array, Int64Array]:
        """Return the lengths into and out of the host of every node, each shape (n,)."""
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"distance certificate: {len(self.lengths)} lengths, expected {topology.n_links}, one for "
                f"each link"
            )
        capped = np.flatnonzero(topology.injection_bytes_per_s)
        if len(self.hosts) not in (0, len(capped)):
            raise ScheduleError(
                f"distance certificate: lengths of {len(self.hosts)} hosts, expected {len(capped)}, one for "
                f"each host with an injection cap"
            )
        into, out = np.zeros((2, topology.n_nodes), dtype=np.int64)
        if len(self.hosts):
            into[capped], out[capped] = self.hosts.T
        return into, out

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw, bytes/s; ScheduleError if the lengths prove none."""
        return collective.pair_demands.buffer_units * self.pair_rate_bound(topology, collective)

    def to_json(self) -> dict[str, object]:
        """Return kind and lengths, and those of hosts if there are any."""
        value: dict[str, object] = {"kind": self.kind, "lengths": self.lengths.tolist()}
        if len(self.hosts):
            value |= {"hosts": self.hosts.tolist(), "cards_forward": self.cards_forward}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> FlowDualCertificate:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        lengths, hosts = value.get("lengths"), value.get("hosts", [])
        cards_forward = value.get("cards_forward", False)
        if not {"kind", "lengths"} <= set(value) <= {"kind", "lengths", "hosts", "cards_forward"} or not (
            isinstance(lengths, list) and isinstance(hosts, list) and isinstance(cards_forward, bool)
        ):
            raise FormatError(
                "distance certificate: expected the keys kind and lengths, a list; optional: hosts, a list, "
                "and cards_forward, true or false"
            )
        if any(not isinstance(host, list) or len(host) != 2 for host in hosts):
            raise FormatError("distance certificate: hosts: expected two lengths for each")
        if any(type(length) is not int or not 0 <= length <= MAX_LENGTH for length in chain(lengths, *hosts)):
            raise FormatError("distance certificate: lengths must be integers from 0 to 2**40")
        pairs = np.array(hosts, dtype=np.int64).reshape(-1, 2)
        return cls(np.array(lengths, dtype=np.int64), pairs, cards_forward)


def _product(left: Int64Array, right: Int64Array) -> int:
    """Return the sum of products as an integer without overflow."""
    return sum(map(mul, left.tolist(), right.tolist()))


class _Distances:
    """Shortest lengths from some sources at a time, by rounds of Bellman and Ford.

    A table of nodes by sources is relaxed in place: for every k, one pass over the k-th links into all nodes;
    if few nodes have more than k links, one pass for each of these nodes. Nodes are sorted by falling
    in-degree, so that the links of a pass enter the first rows. Rows are contiguous and the table fits into
    the cache.
    """

    def __init__(self, topology: Topology, lengths: Int64Array) -> None:
        n = topology.n_nodes
        carries = np.flatnonzero(topology.tails != topology.heads)
        self._links = topology.tails[carries], topology.heads[carries], lengths[carries]
        degree = np.bincount(topology.heads[carries], minlength=n)
        self._row = np.empty(n, dtype=np.int64)
        self._row[np.argsort(-degree, kind="stable")] = np.arange(n)
        degree = -np.sort(-degree)
        order = carries[np.argsort(self._row[topology.heads[carries]], kind="stable")]
        tails, lengths = self._row[topology.tails[order]], lengths[order, None]
        first = np.cumsum(degree) - degree
        with_more = np.searchsorted(-degree, -np.arange(degree.max(initial=0)))  # nodes of in-degree above k
        n_passes = int((with_more >= _FEW_ROWS).sum())
        self._passes = [
            (count, tails[first[:count] + k], lengths[first[:count] + k])
            for k, count in enumerate(with_more[:n_passes].tolist())
        ]
        self._rest = []
        for row in range(int((degree > n_passes).sum())):
            links = slice(first[row] + n_passes, first[row] + degree[row])
            self._rest.append((row, tails[links], lengths[links]))

    def between(self, sources: Int64Array, targets: Int64Array) -> Int64Array:
        """Return lengths from each source to each target, shape (sources, targets); -1 without a path."""
        if len(sources) <= _FEW_SOURCES:
            return self._from_few(sources)[:, targets]
        table = np.full((len(self._row), len(sources)), _FAR)
        table[self._row[sources], np.arange(len(sources))] = 0
        while True:
            before = table.copy()
            for count, tails, lengths in self._passes:
                reached = table[tails]
                reached += lengths
                np.minimum(table[:count], reached, out=table[:count])
            for row, tails, lengths in self._rest:
                np.minimum(table[row], (table[tails] + lengths).min(axis=0), out=table[row])
            if np.array_equal(before, table):
                break
        distance = table[self._row[targets]].T
        return np.where(distance == _FAR, -1, distance)

    def _from_few(self, sources: Int64Array) -> Int64Array:
        """Return lengths from each source to each node, -1 without a path, by a search that is checked."""
        tails, heads, lengths = self._links
        found = shortest_lengths(len(self._row), self._links, sources, far=int(_FAR))
        # values that are 0 at the source, and rise along no link by more than its length, are lower bounds of
        # the distances, and a bound needs no more
        rises = np.minimum(found[:, tails] + lengths, _FAR) < found[:, heads]
        if found[np.arange(len(sources)), sources].any() or rises.any():
            raise ScheduleError("distance certificate: distances do not match the lengths of the links")
        return np.where(found == _FAR, -1, found)


def _total(demands: Int64Array, distances: Int64Array, counts: Int64Array) -> int:
    """Return the sum of demand times distance, with multiplicities of rows, in parts of 16 bits.

    A demand is at most 2**20, so a sum of 2**27 parts does not overflow 64 bits.
    """
    total, part = 0, 0
    while (distances >> part).any():
        rows = (demands * (distances >> part & 0xFFFF)).sum(axis=1)
        total += _product(rows, counts) << part
        part += 16
    return total
