"""Witness of an all-to-all bound: link lengths under which the demands are far apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from treadle.arrays import Int64Array, frozen
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

MAX_LENGTH = 2**40
"""Largest length of a link; a path of 2**20 links still fits 64 bits."""

_FAR = np.int64(2**62)

_SOURCES = 128
_CELLS = 2**22
"""Sources, and distances, computed at once."""

_FEW_ROWS = 8
"""Nodes that are worth a pass over the links of one place in the order into each."""


@dataclass(frozen=True, eq=False)
class DistanceWitness:
    """Link lengths l that bound an all-to-all: strong duality of the maximum concurrent flow.

    Parameters
    ----------
    lengths : array of int64, shape (m,)
        From 0 to 2**40, in any common unit.

    Notes
    -----
    At rate F per unit of demand, pair (i, j) keeps links of total length F * w_ij * dist_l(i, j) busy at
    least, so F * sum(w_ij * dist_l(i, j)) <= sum(b_e * l_e). Any node may forward. Source: Shahrokhi and
    Matula, The maximum concurrent flow problem (JACM 37, 1990); the right lengths close the gap.
    """

    kind: ClassVar[str] = "distances"

    lengths: Int64Array

    def __post_init__(self) -> None:
        raw = np.asarray(self.lengths)
        if raw.ndim != 1 or raw.dtype.kind not in "iu":
            raise ScheduleError("distance witness: expected one integer length per link")
        if raw.size and (int(raw.min()) < 0 or int(raw.max()) > MAX_LENGTH):
            raise ScheduleError("distance witness: lengths must be from 0 to 2**40")
        object.__setattr__(self, "lengths", frozen(raw, np.int64))

    def pair_rate_bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Upper bound on F, bytes/s per unit of demand; ScheduleError if the lengths prove none."""
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"distance witness: {len(self.lengths)} lengths, expected {topology.n_links}, one per link"
            )
        demands = collective.pair_demands.between
        carries = topology.tails != topology.heads
        volume = sum(
            bandwidth * length
            for bandwidth, length in zip(
                topology.bandwidths[carries].tolist(), self.lengths[carries].tolist(), strict=True
            )
        )
        if int(self.lengths.max(initial=0)) * topology.n_nodes >= _FAR:
            raise ScheduleError("distance witness: paths may be longer than 2**62; scale the lengths down")
        needed = 0
        ranks = np.array(collective.ranks)
        distances = _Distances(topology, self.lengths)
        rows = max(1, min(_SOURCES, _CELLS // topology.n_nodes))
        for first in range(0, len(ranks), rows):
            wanted = demands[first : first + rows]
            distance = distances.between(ranks[first : first + rows], ranks)
            distance[wanted == 0] = 0
            if (distance < 0).any():
                raise ScheduleError("distance witness: some rank cannot be reached, so nothing is proved")
            needed += _total(wanted, distance)
        if not needed:
            raise ScheduleError("distance witness: all demands are at distance 0, so nothing is proved")
        return Fraction(volume, needed)

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """The upper bound on algbw, bytes/s, that the lengths prove; ScheduleError if they prove none."""
        return collective.pair_demands.buffer_units * self.pair_rate_bound(topology, collective)

    def to_json(self) -> dict[str, object]:
        """Kind and lengths."""
        return {"kind": self.kind, "lengths": self.lengths.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> DistanceWitness:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        lengths = value.get("lengths")
        if set(value) != {"kind", "lengths"} or not isinstance(lengths, list):
            raise FormatError("distance witness: expected the keys kind and lengths, a list")
        if any(type(length) is not int or not 0 <= length <= MAX_LENGTH for length in lengths):
            raise FormatError("distance witness: lengths must be integers from 0 to 2**40")
        return cls(np.array(lengths, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DistanceWitness):
            return NotImplemented
        return np.array_equal(self.lengths, other.lengths)

    def __hash__(self) -> int:
        return hash(self.lengths.tobytes())


class _Distances:
    """Shortest lengths from a few sources at a time, by Bellman and Ford's rounds.

    A table of nodes by sources is relaxed in place: one pass over the k-th links into all nodes, for every
    k, where few nodes have so many links one pass for each of these. Nodes come by falling in-degree, so that
    the links of a pass enter the first rows. Rows are contiguous and the table fits the cache.
    """

    def __init__(self, topology: Topology, lengths: Int64Array) -> None:
        n = topology.n_nodes
        carries = np.flatnonzero(topology.tails != topology.heads)
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
        """From each source to each target, -1 where there is no way, shape (len(sources), len(targets))."""
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


def _total(demands: Int64Array, distances: Int64Array) -> int:
    """Sum of demand times distance, exactly: in parts of 16 bits, which do not overflow.

    A demand is at most 2**20; a sum of 2**27 parts would still fit 64 bits.
    """
    total, part = 0, 0
    while (distances >> part).any():
        total += int((demands * (distances >> part & 0xFFFF)).sum()) << part
        part += 16
    return total
