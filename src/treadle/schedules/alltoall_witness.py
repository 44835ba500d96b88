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

_BLOCK = 2**24
"""Distances computed at once."""


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
        needed = 0
        ranks = np.array(collective.ranks)
        rows = max(1, _BLOCK // max(1, topology.n_links))
        for first in range(0, len(ranks), rows):
            block = slice(first, first + rows)
            distance = _distances(topology, self.lengths, ranks[block])[:, ranks]
            wanted = demands[block] > 0
            if (distance[wanted] < 0).any():
                raise ScheduleError("distance witness: some rank cannot be reached, so nothing is proved")
            needed += sum((demands[block] * distance.astype(object))[wanted].tolist())
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


def _distances(topology: Topology, lengths: Int64Array, sources: Int64Array) -> Int64Array:
    """Shortest length from each source to every node, -1 where there is no way, shape (len(sources), n).

    Bellman and Ford's rounds over all links at once, until nothing changes.
    """
    carries = np.flatnonzero(topology.tails != topology.heads)
    order = carries[np.argsort(topology.heads[carries], kind="stable")]
    tails, lengths = topology.tails[order], lengths[order]
    heads, starts = np.unique(topology.heads[order], return_index=True)
    far = np.int64(2**62)
    distance = np.full((len(sources), topology.n_nodes), far)
    distance[np.arange(len(sources)), sources] = 0
    while order.size:
        reached = np.minimum.reduceat(np.minimum(distance[:, tails] + lengths, far), starts, axis=1)
        nearer = np.minimum(distance[:, heads], reached)
        if np.array_equal(nearer, distance[:, heads]):
            break
        distance[:, heads] = nearer
    distance[distance == far] = -1
    return distance
