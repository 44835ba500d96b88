"""Resolution of linear programs in floats, where bandwidths are too far apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.math.graphs import InArcs
from treadle.math.lp import WIDE
from treadle.schedules.collective import Collective
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

_PLENTY = 1e5
"""Resolution of steps, each of which takes as long as its fullest link: 1 / acceptable loss."""


@dataclass(frozen=True)
class Resolution:
    """Unit of the bandwidths in a linear program.

    Parameters
    ----------
    unit : float
        Bytes/s.
    most : float
        Larger bandwidths count as this many units.
    """

    unit: float
    most: float = inf

    @property
    def is_wide(self) -> bool:
        """Whether bandwidths are so far apart that not all of them matter."""
        return self.most < inf

    def of(self, bandwidths: Int64Array) -> Float64Array:
        """Return bandwidths in the unit."""
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
        Most hops of a path, where hosts store and forward. Default: any number, and hosts have no caps.
    wide : float
        Ratio of bandwidths up to which all of them count.

    Notes
    -----
    The unit is the largest bandwidth if none is much smaller. Else the pair with the least width of its
    widest path over its demand sets it: that quotient times the largest demand. The links no wider than that
    path hold a cut between the pair, whose load at the optimal rate is at most their sum. A link that could
    carry all data at a higher rate is never full and has no price: it counts as narrower. Links much narrower
    than the unit are below what solvers take for 0: their load, moved to the widest paths, costs no more than
    its part of their width.
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
    if not width[source, target]:  # no path of so few hops: callers report that
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
    # At a rate of narrow / crossing, all demands together would not fill a link of this width.
    most = (1 + 1e-9) * float(narrow) / unit * float(demands.sum()) / float(crossing)
    return Resolution(unit, most if n_steps is None else _PLENTY * n_steps * most)


def _widest_paths(
    topology: Topology, widths: Int64Array, nodes: Int64Array, hops: int | None
) -> Iterator[Int64Array]:
    """Yield the width of the widest path of at most 0, 1, ... hops from some nodes to each, 0 if none."""
    arcs = InArcs.of(topology.tails, topology.heads)
    found = np.zeros((len(nodes), topology.n_nodes), dtype=np.int64)
    found[np.arange(len(nodes)), nodes] = MAX_BANDWIDTH + 1  # wider than any link
    yield found
    for _ in range(topology.n_nodes if hops is None else hops):
        wider = found.copy()
        through = np.minimum(found[:, arcs.tails], widths[arcs.order])
        best = np.maximum.reduceat(through, arcs.starts, axis=1)
        wider[:, arcs.heads] = np.maximum(wider[:, arcs.heads], best)
        yield wider
        if np.array_equal(wider, found):
            return
        found = wider
