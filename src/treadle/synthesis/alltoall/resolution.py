"""Resolution of linear programs in floats: bandwidths too far apart, and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.math.lp import WIDE
from treadle.schedules.collective import Collective
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

_PLENTY = 1e5
"""Resolution of steps, each of which takes as long as its fullest link: one over the acceptable loss."""


@dataclass(frozen=True)
class Resolution:
    """The unit in which linear programs are given bandwidths.

    Parameters
    ----------
    unit : float
        Bytes/s.
    most : float
        Wider ones count as this many units.
    """

    unit: float
    most: float = inf

    @property
    def is_wide(self) -> bool:
        """Bandwidths are so far apart that not all of them matter."""
        return self.most < inf

    def of(self, bandwidths: Int64Array) -> Float64Array:
        """Bandwidths in the unit."""
        return np.minimum(bandwidths / self.unit, self.most)


def resolution(
    topology: Topology, collective: Collective, *, n_steps: int | None = None, wide: float = WIDE
) -> Resolution:
    """Return a unit in which floats distinguish the relevant bandwidths.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all that the fabric can carry.
    n_steps : int, optional
        Of data that hosts store and forward: most hops of a path. Default: links alone, any number of hops.
    wide : float
        Ratio of bandwidths up to which all of them count.

    Notes
    -----
    The widest bandwidth, as long as none is much narrower. Else what the neediest pair has: the
    width of its widest path over its demand, times the largest demand. The links that are not wider than that
    path hold a cut between the pair; at the optimal rate, what crosses it is at most their sum. A link that
    could carry all data at more than that rate is never full and has no price: it counts as narrower.
    What is much narrower than the unit is below what solvers take for 0: by routing what it would have
    carried over the widest paths, no more is lost than its part of their width.
    """
    widths = np.where(topology.tails != topology.heads, topology.bandwidths, 0)
    largest = int(topology.bandwidths.max(initial=1))
    if n_steps is not None:
        largest = max(largest, int(topology.injection_bytes_per_s.max()))
        caps = np.where(topology.injection_bytes_per_s > 0, topology.injection_bytes_per_s, MAX_BANDWIDTH)
        caps = np.where(topology.is_compute, caps, 0)
        widths = np.minimum(widths, np.minimum(caps[topology.tails], caps[topology.heads]))
    if int(widths.max(initial=0)) == 0 or largest <= wide * int(widths[widths > 0].min()):
        return Resolution(float(largest))
    ranks, demands = np.array(collective.ranks), collective.pair_demands.between
    *_, joined = _widest_paths(topology, widths, ranks, n_steps)
    width = joined[:, ranks].astype(np.float64)
    share = np.divide(width, demands, out=np.full(width.shape, inf), where=demands > 0)
    source, target = np.unravel_index(int(share.argmin()), share.shape)
    if not width[source, target]:  # no way, or none of so few hops: others say so
        return Resolution(float(largest))
    unit = float(share[source, target]) * float(demands.max())
    spread = _widest_paths(topology, widths, ranks[[source]], n_steps)
    layers = [row[0] > width[source, target] for row in spread]
    if n_steps is None:
        layers = [layers[-1]] * 2
    narrow = max(
        widths[inside[topology.tails] & ~after[topology.heads]].sum() for inside, after in pairwise(layers)
    )
    crossing = demands[source, ~layers[-1][ranks]].sum()
    # at a rate of narrow / crossing all demands together would not fill a link of this width
    most = (1 + 1e-9) * float(narrow) / unit * float(demands.sum()) / float(crossing)
    return Resolution(unit, most if n_steps is None else _PLENTY * n_steps * most)


def _widest_paths(
    topology: Topology, widths: Int64Array, nodes: Int64Array, hops: int | None
) -> Iterator[Int64Array]:
    """Width of the widest path from some nodes to every node, 0 without one: of 0, 1, ... hops at most."""
    order = np.argsort(topology.heads, kind="stable")
    tails = topology.tails[order]
    heads, starts = np.unique(topology.heads[order], return_index=True)
    found = np.zeros((len(nodes), topology.n_nodes), dtype=np.int64)
    found[np.arange(len(nodes)), nodes] = MAX_BANDWIDTH + 1  # wider than any link
    yield found
    for _ in range(topology.n_nodes if hops is None else hops):
        wider = found.copy()
        best = np.maximum.reduceat(np.minimum(found[:, tails], widths[order]), starts, axis=1)
        wider[:, heads] = np.maximum(wider[:, heads], best)
        yield wider
        if np.array_equal(wider, found):
            return
        found = wider
