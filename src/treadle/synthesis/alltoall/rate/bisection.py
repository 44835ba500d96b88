"""Cuts that bound an all-to-all: what leaves a set of nodes has to cross the links out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Float64Array, mask_of, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective, check_membership
from treadle.topologies.topology import Topology

MAX_ENUMERATED = 16
"""Most nodes whose cuts are all tried."""

MAX_NODES = 2500
"""Most nodes that are searched: capacities and demands are dense matrices, and eigenvectors take n^3."""

_VECTORS = 6
_PASSES = 8
_RANDOM_STARTS = 8


@dataclass(frozen=True)
class CutBound:
    """A set of nodes and the bound that it proves.

    Parameters
    ----------
    nodes : tuple of int
        Node indices of the set, rising.
    pair_rate : Fraction
        Upper bound on F, bytes/s per unit of demand: capacity of the links out of the set over the demand of
        ranks inside for ranks outside.
    is_exact : bool
        True if all cuts (of the given kind) were tried, so that none proves less; the bound holds
        anyway.
    """

    nodes: tuple[int, ...]
    pair_rate: Fraction
    is_exact: bool

    def certificate(self, topology: Topology) -> FlowDualCertificate:
        """Return length 1 for the links out of the set: a weaker bound where paths cross twice."""
        return FlowDualCertificate(_egress_links(topology, self.nodes).astype(np.int64))


def cut_rate(topology: Topology, collective: Collective, nodes: tuple[int, ...]) -> Fraction:
    """Upper bound on F, bytes/s per unit of demand, that a set of nodes proves.

    Raises
    ------
    ScheduleError
        If nothing inside is meant for outside.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(6)
    >>> cut_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL), (0, 1, 2))
    Fraction(2, 9)
    """
    ranks = np.isin(collective.ranks, nodes)
    demand = int(collective.pair_demands.between[ranks][:, ~ranks].sum())
    if not demand:
        raise ScheduleError("cut: no rank inside has anything for one outside, so nothing is proved")
    return Fraction(sum(topology.bandwidths[_egress_links(topology, nodes)].tolist()), demand)


def _egress_links(topology: Topology, nodes: tuple[int, ...]) -> BoolArray:
    """Whether each link leads out of the set."""
    inside = mask_of(topology.n_nodes, list(nodes))
    return inside[topology.tails] & ~inside[topology.heads]


def best_cut(
    topology: Topology, collective: Collective, *, is_balanced: bool = False, seed: int = 0
) -> CutBound:
    """The cut with the least capacity for its demand: all of them on small fabrics, else by search.

    Parameters
    ----------
    topology : Topology
        At most 2500 nodes.
    collective : Collective
        An all-to-all.
    is_balanced : bool
        True: only bisections, with half of the ranks on either side (one more on one if N is odd).
    seed : int

    Returns
    -------
    CutBound

    Raises
    ------
    ScheduleError
        If the fabric is too large, or no such cut has demand across it.

    Notes
    -----
    Up to 16 nodes: enumeration. Beyond: sweeps along the eigenvectors of the Laplacian's smallest eigenvalues
    (capacities of both directions added) and along random directions, in both directions each, then passes of
    single moves after Fiduccia and Mattheyses (DAC 1982) on the ratio of capacity to demand. Any cut that is
    found bounds F; flows need not come up to the best cut, as on expanders.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> fabric = torus(8, 8)
    >>> best_cut(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL)).pair_rate
    Fraction(1, 64)
    """
    check_membership(topology, collective)
    n = topology.n_nodes
    if n > MAX_NODES:
        raise ScheduleError(f"cuts: {topology.name} has {n} nodes, at most {MAX_NODES} can be searched")
    search = _CutSearch(topology, collective, is_balanced)
    is_exact = n <= MAX_ENUMERATED
    if is_exact:
        candidates = search.enumerate()
    else:
        candidates = map(search.improve, search.starts(_RANDOM_STARTS, np.random.default_rng(seed)))
    sets = [tuple(np.flatnonzero(mask).tolist()) for mask in candidates if search.is_allowed(mask)]
    if not sets:
        raise ScheduleError(f"cuts: {topology.name}: no cut of this kind has demand across it")
    rates = [cut_rate(topology, collective, nodes) for nodes in sets]
    best = min(range(len(sets)), key=rates.__getitem__)
    return CutBound(sets[best], rates[best], is_exact)


class _CutSearch:
    """Capacities and demands between nodes, and searches over sets of nodes."""

    def __init__(self, topology: Topology, collective: Collective, is_balanced: bool) -> None:
        n, ranks = topology.n_nodes, np.array(collective.ranks)
        capacity = sums_of((n, n), (topology.tails, topology.heads), topology.bandwidths, dtype=float)
        np.fill_diagonal(capacity, 0)
        demand = np.zeros((n, n))
        demand[np.ix_(ranks, ranks)] = collective.pair_demands.between
        self._between = np.stack([capacity, demand])
        """[0]: capacity, [1]: demand, from each node to each."""
        self._is_rank = mask_of(n, ranks)
        self._is_balanced = is_balanced

    def _fits(self, ranks_inside: NDArray[np.integer] | int) -> BoolArray:
        """Whether sets with this many ranks are allowed: for bisections one half of them."""
        total = int(self._is_rank.sum())
        halves = np.isin(ranks_inside, [total // 2, total - total // 2])
        return halves | (not self._is_balanced)

    def is_allowed(self, mask: BoolArray) -> bool:
        """Whether the cut is of the given kind and has demand across it."""
        return bool(self._fits(self._is_rank[mask].sum()) and self._between[1][mask][:, ~mask].any())

    def enumerate(self) -> Iterator[BoolArray]:
        """Yield all cuts whose ratio is least to within rounding."""
        n = len(self._is_rank)
        sets = np.arange(1, 2**n - 1)
        bits = (sets[:, None] >> np.arange(n)) & 1 > 0
        egress = np.zeros((2, len(sets)))
        for kind, one, other in zip(*np.nonzero(self._between), strict=True):
            egress[kind] += np.where(bits[:, one] & ~bits[:, other], self._between[kind, one, other], 0)
        ratio = _ratio(egress)
        ratio[~self._fits(bits[:, self._is_rank].sum(axis=1))] = np.inf
        if np.isfinite(ratio).any():
            # Floats only select: `cut_rate` decides exactly between those that they cannot tell apart.
            yield from bits[ratio <= ratio.min() * (1 + 1e-9)][:64]

    def starts(self, count: int, rng: np.random.Generator) -> Iterator[BoolArray]:
        """Yield the best prefixes of orders by eigenvectors and by `count` random mixtures of them."""
        both = self._between[0] + self._between[0].T
        _, vectors = np.linalg.eigh(np.diag(both.sum(axis=0)) - both)
        low = vectors[:, 1 : 1 + _VECTORS]
        mixtures = low @ rng.standard_normal((low.shape[1], count))
        for vector in np.concatenate([low, mixtures], axis=1).T:
            # Rounded, so that equivalent nodes keep their order on any machine.
            order = np.argsort(np.round(vector, 9), kind="stable")
            yield self._best_prefix(order)
            yield self._best_prefix(order[::-1])

    def _best_prefix(self, order: NDArray[np.intp]) -> BoolArray:
        """Return the first nodes of the order that make the best cut."""
        ordered = self._between[:, order][:, :, order]
        inside = np.diagonal(ordered.cumsum(axis=1).cumsum(axis=2), axis1=1, axis2=2)
        egress = np.cumsum(ordered.sum(axis=2), axis=1) - inside
        ratio = _ratio(egress[:, :-1])
        ratio[~self._fits(np.cumsum(self._is_rank[order].astype(np.int64))[:-1])] = np.inf
        return mask_of(len(order), order[: int(np.argmin(ratio)) + 1])

    def improve(self, mask: BoolArray) -> BoolArray:
        """Run passes in which every node moves once; each ends at the best set that it met."""
        for _ in range(_PASSES):
            better = self._pass(mask)
            if better is None:
                break
            mask = better
        return mask

    def _pass(self, mask: BoolArray) -> BoolArray | None:
        inside, locked = mask.copy(), np.zeros(len(mask), dtype=np.bool_)
        # Of each node: to the nodes outside, and from those inside; updated as nodes change sides.
        out, into = self._between @ ~inside, inside @ self._between
        egress = out[:, inside].sum(axis=1)
        best, kept = float(_ratio(egress)), None
        for _ in range(len(mask)):
            # Take the best move even if the cut gets worse: a better set may lie behind worse ones.
            after = egress[:, None] + np.where(inside, into - out, out - into)
            ratio = _ratio(after)
            ratio[locked | ~self._movable(inside)] = np.inf
            node = int(np.argmin(ratio))
            if not np.isfinite(ratio[node]):
                break
            egress, sign = after[:, node], 1.0 if inside[node] else -1.0
            out += sign * self._between[:, :, node]
            into -= sign * self._between[:, node]
            inside[node], locked[node] = ~inside[node], True
            if ratio[node] < best * (1 - 1e-12) and self._fits(self._is_rank[inside].sum()):
                best, kept = float(ratio[node]), inside.copy()
        return kept

    def _movable(self, inside: BoolArray) -> BoolArray:
        """Nodes that may change sides: for bisections ranks of the larger side, and nodes without a rank."""
        total, within = int(self._is_rank.sum()), int(self._is_rank[inside].sum())
        if not self._is_balanced or 2 * within == total:
            return np.ones(len(inside), dtype=np.bool_)
        return ~self._is_rank | (inside if 2 * within > total else ~inside)


def _ratio(egress: Float64Array) -> Float64Array:
    """Capacity over demand of cuts, shape (2, ...); infinite without demand."""
    capacity, demand = egress
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(demand > 0.5, capacity / demand, np.inf)
