"""What linear programs in floats resolve: bandwidths that are too far apart, and failures to be told."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, distinct
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.paths import Float64Array
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

_WIDE = 1e6
"""Ratio of bandwidths up to which a solver's tolerances, about 1e-9, are left to themselves."""

_PLENTY = 1e6
"""Times the width that every pair has: wider links are never full."""


@dataclass(frozen=True)
class Resolution:
    """The unit in which linear programs are given bandwidths.

    Parameters
    ----------
    unit : float
        Bytes/s.
    most : float
        Wider ones count as so many units.
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


def resolution(topology: Topology, collective: Collective, *, n_steps: int | None = None) -> Resolution:
    """A unit in which floats tell bandwidths that matter from each other.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all that the fabric can carry.
    n_steps : int, optional
        Of data that hosts store and forward: most hops of a path. Default: links alone, any number of hops.

    Notes
    -----
    The widest bandwidth, as long as none is below a millionth of it. Else a width that every pair has on some
    path (the widest such): then what is much wider counts as 10^6 of it, and what is much narrower is below
    what solvers take for 0, so that it carries nothing. By routing what it would have carried over those
    paths, no more is lost than its part of that width.
    """
    widths = np.where(topology.tails != topology.heads, topology.bandwidths, 0)
    largest = int(topology.bandwidths.max())
    if n_steps is not None:
        largest = max(largest, int(topology.injection_bytes_per_s.max()))
        caps = np.where(topology.injection_bytes_per_s > 0, topology.injection_bytes_per_s, MAX_BANDWIDTH)
        caps = np.where(topology.is_compute, caps, 0)
        widths = np.minimum(widths, np.minimum(caps[topology.tails], caps[topology.heads]))
    if int(widths.max()) == 0 or largest <= _WIDE * int(widths[widths > 0].min()):
        return Resolution(float(largest))
    common = _common_width(topology, collective, widths, n_steps or topology.n_nodes)
    return Resolution(float(common), _PLENTY)


def _common_width(topology: Topology, collective: Collective, widths: Int64Array, hops: int) -> int:
    """The largest width that every pair has on a path of so many hops; 1 if some pair has no path."""
    choices = distinct(widths[widths > 0])
    low, high = -1, len(choices)
    while high - low > 1:  # binary search: the first is wide enough, or there is no path
        middle = (low + high) // 2
        if _all_joined(topology, collective, widths >= choices[middle], hops):
            low = middle
        else:
            high = middle
    return int(choices[low]) if low >= 0 else 1


def _all_joined(topology: Topology, collective: Collective, usable: BoolArray, hops: int) -> bool:
    """Whether these links join all pairs that have something for each other."""
    wanted = collective.pair_demands.between > 0
    ranks = np.array(collective.ranks)
    order = np.flatnonzero(usable)
    order = order[np.argsort(topology.heads[order], kind="stable")]
    heads, starts = np.unique(topology.heads[order], return_index=True)
    seen = np.zeros((len(ranks), topology.n_nodes), dtype=np.bool_)
    seen[np.arange(len(ranks)), ranks] = True
    for _ in range(hops):
        reached = np.logical_or.reduceat(seen[:, topology.tails[order]], starts, axis=1)
        if not (reached & ~seen[:, heads]).any():
            break
        seen[:, heads] |= reached
    return bool(seen[:, ranks][wanted].all())


def no_optimum(what: str, status: str, bandwidths: NDArray[np.integer]) -> InfeasibleError:
    """The error for a program that has an optimum, which the solver did not find.

    Parameters
    ----------
    what : str
        The linear program.
    status : str
        How the solver ended.
    bandwidths : array of int, shape (m,)
        Of the links, bytes/s.
    """
    message = f"{what}: solver ended with {status}, expected an optimum"
    ratio = float(np.max(bandwidths, initial=1)) / float(np.min(bandwidths, initial=2**50))
    if ratio >= _WIDE:
        message += (
            f"; the widest link has {ratio:.3g} times the bandwidth of the narrowest: more than "
            "floating point resolves; leave the narrowest links out, or widen them"
        )
    return InfeasibleError(message)
