"""Cuts that bound an all-to-all: what leaves a set of nodes has to cross the links out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, mask_of
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective, check_membership
from treadle.topologies.topology import Topology

Float64Array = NDArray[np.float64]

MAX_ENUMERATED = 16
"""Most nodes whose cuts are all tried."""

MAX_NODES = 2500
"""Most nodes that are searched: capacities and demands are dense matrices, and eigenvectors take n^3."""

_VECTORS = 6
_PASSES = 8


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
        True if all cuts (of the kind asked for) were tried, so that none proves less; the bound holds
        anyway.
    """

    nodes: tuple[int, ...]
    pair_rate: Fraction
    is_exact: bool

    def certificate(self, topology: Topology) -> FlowDualCertificate:
        """Length 1 for the links out of the set: proves the cut's bound, or less where paths cross twice."""
        inside = mask_of(topology.n_nodes, list(self.nodes))
        leaving = inside[topology.tails] & ~inside[topology.heads]
        return FlowDualCertificate(leaving.astype(np.int64))


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
    inside = mask_of(topology.n_nodes, list(nodes))
    leaving = inside[topology.tails] & ~inside[topology.heads]
    ranks = inside[np.array(collective.ranks)]
    demand = int(collective.pair_demands.between[ranks][:, ~ranks].sum())
    if not demand:
        raise ScheduleError("cut: no rank inside has anything for one outside, so nothing is proved")
    return Fraction(sum(topology.bandwidths[leaving].tolist()), demand)


def best_cut(
    topology: Topology, collective: Collective, *, is_balanced: bool = False, starts: int = 8, seed: int = 0
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
    starts : int
        Random starts of the search besides the spectral ones.
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
    if n <= MAX_ENUMERATED:
        candidates = search.enumerate()
    else:
        candidates = (search.improve(mask) for mask in search.starts(starts, np.random.default_rng(seed)))
    best: CutBound | None = None
    for mask in candidates:
        nodes = tuple(np.flatnonzero(mask).tolist())
        if not search.is_allowed(mask):
            continue
        rate = cut_rate(topology, collective, nodes)
        if best is None or rate < best.pair_rate:
            best = CutBound(nodes, rate, n <= MAX_ENUMERATED)
    if best is None:
        raise ScheduleError(f"cuts: {topology.name}: no cut of this kind has demand across it")
    return best


class _CutSearch:
    """Capacities and demands between nodes, and searches over sets of nodes."""

    def __init__(self, topology: Topology, collective: Collective, is_balanced: bool) -> None:
        n = topology.n_nodes
        ranks = np.array(collective.ranks)
        self._capacity = np.zeros((n, n))
        np.add.at(self._capacity, (topology.tails, topology.heads), topology.bandwidths.astype(np.float64))
        np.fill_diagonal(self._capacity, 0)
        self._demand = np.zeros((n, n))
        self._demand[np.ix_(ranks, ranks)] = collective.pair_demands.between
        self._is_rank = np.zeros(n, dtype=np.bool_)
        self._is_rank[ranks] = True
        self._is_balanced = is_balanced

    def _ratio(self, capacity: Float64Array, demand: Float64Array) -> Float64Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(demand > 0.5, capacity / demand, np.inf)

    def _has_halves(self, inside: NDArray[np.integer]) -> BoolArray:
        """Whether so many ranks inside make a bisection."""
        total = int(self._is_rank.sum())
        return np.isin(inside, [total // 2, total - total // 2])

    def _is_half(self, mask: BoolArray) -> bool:
        return bool(self._has_halves(np.array([self._is_rank[mask].sum()]))[0])

    def is_allowed(self, mask: BoolArray) -> bool:
        """Whether the cut is of the kind asked for and has demand across it."""
        balanced = not self._is_balanced or self._is_half(mask)
        return balanced and bool(self._demand[mask][:, ~mask].any())

    def enumerate(self) -> Iterator[BoolArray]:
        """All cuts whose ratio is least to within rounding."""
        n = len(self._capacity)
        sets = np.arange(1, 2**n - 1)
        bits = (sets[:, None] >> np.arange(n)) & 1 > 0
        capacity, demand = np.zeros(len(sets)), np.zeros(len(sets))
        for matrix, total in ((self._capacity, capacity), (self._demand, demand)):
            for one, other in zip(*np.nonzero(matrix), strict=True):
                total += np.where(bits[:, one] & ~bits[:, other], matrix[one, other], 0)
        ratio = self._ratio(capacity, demand)
        if self._is_balanced:
            ratio[~self._has_halves(bits[:, self._is_rank].sum(axis=1))] = np.inf
        if np.isfinite(ratio).any():
            # floats only choose: `cut_rate` decides exactly between those that they cannot tell apart
            yield from bits[ratio <= ratio.min() * (1 + 1e-9)][:64]

    def starts(self, count: int, rng: np.random.Generator) -> Iterator[BoolArray]:
        """The best prefix of each of some orders of the nodes."""
        both = self._capacity + self._capacity.T
        _, vectors = np.linalg.eigh(np.diag(both.sum(axis=0)) - both)
        low = vectors[:, 1 : 1 + _VECTORS]
        mixtures = low @ rng.standard_normal((low.shape[1], count))
        for vector in np.concatenate([low, mixtures], axis=1).T:
            # rounding, so that nodes alike by symmetry keep their order on any machine
            order = np.argsort(np.round(vector, 9), kind="stable")
            yield self._sweep(order)
            yield self._sweep(order[::-1])

    def _sweep(self, order: NDArray[np.intp]) -> BoolArray:
        n = len(order)
        capacity, demand = (
            np.cumsum(block.sum(axis=1) - block.sum(axis=0))[:-1]
            for block in (matrix[np.ix_(order, order)] for matrix in (self._capacity, self._demand))
        )
        # leaving a prefix less entering it; add what enters
        for matrix, total in ((self._capacity, capacity), (self._demand, demand)):
            total += _entering(matrix[np.ix_(order, order)])
        ratio = self._ratio(capacity, demand)
        if self._is_balanced:
            ratio[~self._has_halves(np.cumsum(self._is_rank[order].astype(np.int64))[:-1])] = np.inf
        return mask_of(n, order[: int(np.argmin(ratio)) + 1])

    def improve(self, mask: BoolArray) -> BoolArray:
        """Passes in which every node moves once; each ends at the best set on the way."""
        for _ in range(_PASSES):
            better = self._pass(mask)
            if better is None:
                break
            mask = better
        return mask

    def _pass(self, mask: BoolArray) -> BoolArray | None:
        inside, locked = mask.copy(), np.zeros(len(mask), dtype=np.bool_)
        state = [_Leaving(matrix, inside) for matrix in (self._capacity, self._demand)]
        best = start = float(self._ratio(*(np.array(part.total) for part in state)))
        kept = None
        for _ in range(len(mask)):
            # the best move, even if it makes things worse: the way to a better set may lead through worse
            # ones
            ratio = self._ratio(*(part.after(inside) for part in state))
            ratio[locked | ~self._movable(inside)] = np.inf
            node = int(np.argmin(ratio))
            if not np.isfinite(ratio[node]):
                break
            for part in state:
                part.move(node, inside)
            inside[node], locked[node] = ~inside[node], True
            allowed = not self._is_balanced or self._is_half(inside)
            if allowed and ratio[node] < best * (1 - 1e-12):
                best, kept = float(ratio[node]), inside.copy()
        return kept if best < start else None

    def _movable(self, inside: BoolArray) -> BoolArray:
        """Nodes that may change sides: for bisections ranks of the larger side, and nodes without a rank."""
        total, within = int(self._is_rank.sum()), int(self._is_rank[inside].sum())
        if not self._is_balanced or 2 * within == total:
            return np.ones(len(inside), dtype=np.bool_)
        return ~self._is_rank | (inside if 2 * within > total else ~inside)


def _entering(matrix: Float64Array) -> Float64Array:
    """What enters each prefix 1, ..., n - 1 of the rows and columns."""
    n = len(matrix)
    change = np.zeros(n + 1)
    row, column = np.nonzero(np.tril(matrix, -1))
    np.add.at(change, column, matrix[row, column])
    np.subtract.at(change, row, matrix[row, column])
    return np.cumsum(change)[: n - 1]


class _Leaving:
    """What leaves a set of nodes, kept up to date as nodes change sides."""

    def __init__(self, matrix: Float64Array, inside: BoolArray) -> None:
        self._matrix = matrix
        self._out = matrix @ ~inside
        self._into = inside @ matrix
        self.total = float(self._out[inside].sum())

    def after(self, inside: BoolArray) -> Float64Array:
        """What would leave if just that node changed sides, for every node."""
        gain = self._out - self._into
        return self.total + np.where(inside, -gain, gain)

    def move(self, node: int, inside: BoolArray) -> None:
        """The node changes sides; `inside` is as before."""
        self.total = float(self.after(inside)[node])
        sign = 1.0 if inside[node] else -1.0
        self._out += sign * self._matrix[:, node]
        self._into -= sign * self._matrix[node]
