"""Fabrics made for groups: products and disjoint unions whose factors carry the groups of a workload.

The strides and sizes of the groups lay the ranks out in a mesh. Its axes are gathered in blocks such that
every group is over whole blocks; each block gets some of the ports and the best graphs of its size for them,
and a block without ports makes copies that are not connected. A call in groups runs within its blocks'
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise, product
from math import prod

from treadle.finder.construction import (
    Base,
    Product,
    ScheduleMethod,
    expression,
    is_breadth_first,
    join_name,
)
from treadle.finder.designing.workload_costs import costs_of, total_seconds
from treadle.finder.evaluate import GroupCosts
from treadle.finder.measure import Option, measured_options
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.workload import Network, Workload

Frontier = Callable[[int, int], Sequence[Option]]
"""frontier(nodes, degree): the fabrics of a size that no known one beats."""

_MOST_AXES = 4
_MOST_FABRICS = 4000
_MOST_PRODUCT = 1024
"""Nodes up to which products of graphs that are not bandwidth-optimal are measured."""


@dataclass(frozen=True)
class HybridOption:
    """A fabric for groups.

    Parameters
    ----------
    option : Option
    shared : mapping of (group size, stride) to GroupCosts
        Within the factors.
    seconds : float
        Of the workload.
    """

    option: Option
    shared: dict[tuple[int, int], GroupCosts]
    seconds: float


def best_hybrids(
    nodes: int, degree: int, workload: Workload, network: Network, frontier: Frontier, *, limit: int = 2
) -> tuple[HybridOption, ...]:
    """The fastest products and unions for a workload in groups, the best first; none without groups.

    Parameters
    ----------
    nodes, degree : int
    workload : Workload
    network : Network
    frontier : callable
        Of the factors.
    limit : int
        At most so many.
    """
    sizes = mesh_sizes(workload, nodes)
    if len(sizes) < 2:
        return ()
    search = _HybridSearch(nodes, degree, sizes, workload, network, cache(frontier))
    found = sorted(search.all(), key=lambda one: one.seconds)
    return tuple(found[:limit])


def mesh_sizes(workload: Workload, nodes: int) -> tuple[int, ...]:
    """Axes of the mesh in which every group is over some whole ones, the fastest last; none if there is none.

    Examples
    --------
    >>> from treadle.finder.workload import Call, Exchange
    >>> inner = Call(Exchange.ALLGATHER, 1, group_size=8)
    >>> outer = Call(Exchange.ALLGATHER, 1, group_size=4, stride=16)
    >>> mesh_sizes(Workload("mix", (inner, outer)), 64)
    (4, 2, 8)
    """
    edges = {1, nodes}
    for call in workload.calls:
        if call.group_size is not None:
            edges |= {call.stride, call.stride * call.group_size}
    rising = sorted(edges)
    if any(high % low for low, high in pairwise(rising)) or len(rising) > _MOST_AXES + 1:
        return ()
    return tuple(high // low for low, high in pairwise(rising))[::-1]


@dataclass(frozen=True)
class _HybridSearch:
    """One search: all ways to gather the axes in blocks and to share out the ports."""

    nodes: int
    degree: int
    sizes: tuple[int, ...]
    workload: Workload
    network: Network
    frontier: Frontier

    @cached_property
    def groups(self) -> dict[tuple[int, int], frozenset[int]]:
        """The axes that groups of each size and stride are over."""
        calls = [(call.group_size or self.nodes, call.stride) for call in self.workload.calls]
        return {place: self._axes(*place) for place in calls}

    def _axes(self, size: int, stride: int) -> frozenset[int]:
        """The axes that a group is over."""
        if size == self.nodes:
            return frozenset(range(len(self.sizes)))
        strides = [prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes))]
        return frozenset(axis for axis, one in enumerate(strides) if stride <= one < stride * size)

    def all(self) -> Iterator[HybridOption]:
        tried = 0
        for blocks in _partitions(tuple(range(len(self.sizes)))):
            fits = all(
                set(block) <= group or not set(block) & group
                for block in blocks
                for group in self.groups.values()
            )
            if len(blocks) < 2 or not fits:
                continue
            needed = [any(set(block) <= group for group in self.groups.values()) for block in blocks]
            for shares in _shares(self.degree, len(blocks)):
                if any(need and not share for need, share in zip(needed, shares, strict=True)):
                    continue
                for factors in product(*(self._factors(b, s) for b, s in zip(blocks, shares, strict=True))):
                    tried += 1
                    if tried > _MOST_FABRICS:
                        return
                    found = self._priced(blocks, factors)
                    if found is not None:
                        yield found

    def _factors(self, block: tuple[int, ...], share: int) -> Sequence[Option | None]:
        """Graphs for a block; None where it has no ports."""
        if share == 0:
            return (None,)
        size = prod(self.sizes[axis] for axis in block)
        return [one for one in self.frontier(size, share) if is_breadth_first(one.candidate.construction)]

    def _priced(
        self, blocks: Sequence[tuple[int, ...]], factors: Sequence[Option | None]
    ) -> HybridOption | None:
        shared = {}
        for place, axes in self.groups.items():
            inside = [
                factor
                for block, factor in zip(blocks, factors, strict=True)
                if factor is not None and set(block) <= axes
            ]
            figures = _group_figures(inside, self.degree, self.nodes)
            if figures is None:
                return None
            shared[place] = figures
        option = self._option(blocks, factors)
        if option is None:
            return None
        seconds = total_seconds(
            self.workload, costs_of(option, self.workload, self.network, self.nodes, shared)
        )
        return None if seconds is None else HybridOption(option, shared, seconds)

    def _option(self, blocks: Sequence[tuple[int, ...]], factors: Sequence[Option | None]) -> Option | None:
        """The whole fabric: copies first, then the factors; its nodes numbered as the mesh numbers ranks."""
        order = sorted(range(len(blocks)), key=lambda at: (factors[at] is not None, blocks[at]))
        linked = tuple(factor for at in order if (factor := factors[at]) is not None)
        copies = self.nodes // prod(factor.nodes for factor in linked)
        inner = _measured_product(linked)
        if inner is None:
            return None
        text = expression(inner.construction)
        if copies > 1:
            text = f"disjoint_copies({text}, {copies})"
        placed = [axis for at in order for axis in blocks[at]]
        if placed != sorted(placed):
            own = "x".join(str(self.sizes[axis]) for axis in placed)
            back = ",".join(str(placed.index(axis)) for axis in range(len(placed)))
            text = f'with_axes_ordered({text}, "{own}", "{back}")'
        if copies == 1 and placed == sorted(placed):
            return measured_options([inner])[0]
        base = Base(text, join_name(text), ScheduleMethod.BFB, "hybrid")
        gather = replace(inner.gather, nodes=self.nodes)
        reduce = gather if inner.reduce is inner.gather else replace(inner.reduce, nodes=self.nodes)
        distances = measured_options([inner])[0].distances if copies == 1 else None
        return Option(FabricCandidate(base, gather, reduce), distances, parts=copies)


def _group_figures(inside: Sequence[Option], degree: int, nodes: int) -> GroupCosts | None:
    """Of groups that each have a product of these factors to themselves."""
    whole = _measured_product(tuple(inside))
    if whole is None:
        return None
    share = Fraction(degree, whole.gather.degree)
    size = whole.gather.nodes
    # mean distances of factors add up; every pair counts in each of the groups
    distances = sum((Fraction(one.distance_sum or 0, one.nodes**2) for one in inside), Fraction(0))
    return GroupCosts(
        whole.steps,
        share * whole.gather.t_b,
        share * whole.reduce.t_b,
        share * distances * size * nodes,
    )


@cache
def _measured_product(factors: tuple[Option, ...]) -> FabricCandidate | None:
    """The product of some factors with its exact figures; None without factors, or where it is too large."""
    if not factors:
        return None
    if len(factors) == 1:
        return factors[0].candidate
    nodes = prod(one.nodes for one in factors)
    parts = [one.candidate.gather for one in factors]
    is_plain = all(one.candidate.is_bandwidth_optimal and one.candidate.gather.is_simple for one in factors)
    if not is_plain and nodes > _MOST_PRODUCT:
        return None
    steps = sum(one.candidate.steps for one in factors)
    figures = Performance(
        nodes=nodes,
        degree=sum(part.degree for part in parts),
        steps=steps,
        t_b=Fraction(nodes - 1, nodes),
        diameter=steps,
        is_breadth_first=True,
        has_loops=any(part.has_loops for part in parts),
        is_simple=all(part.is_simple for part in parts),
        is_bidirectional=all(part.is_bidirectional for part in parts),
        is_exact=is_plain,
    )
    made = Product(tuple(one.candidate.construction for one in factors))
    candidate = FabricCandidate(made, figures, figures)
    return candidate if is_plain else measured_options([candidate])[0].candidate


def _partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to gather items in blocks."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for blocks in _partitions(rest):
        yield ((first,), *blocks)
        for place, block in enumerate(blocks):
            yield (*blocks[:place], (first, *block), *blocks[place + 1 :])


def _shares(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to share out ports, none included."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _shares(total - first, parts - 1):
            yield (first, *rest)
