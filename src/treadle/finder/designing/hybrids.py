"""Fabrics made for groups: products and disjoint unions whose factors carry the groups of a workload.

The strides and sizes of the groups lay the ranks out in a mesh. Its axes are gathered in blocks such that
every group is over whole blocks; each block gets some of the ports and the best graphs of its size for them,
and a block without ports makes copies that are not connected. A call in groups runs within its blocks'
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise, product
from math import prod
from operator import itemgetter

from treadle.finder.construction import Product, bfb_base, expression, is_breadth_first
from treadle.finder.designing.workload_costs import PricedFabric
from treadle.finder.evaluate import GroupCosts
from treadle.finder.measure import Option, measured_options
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.workload import Network, Workload

Frontier = Callable[[int, int], Sequence[Option]]
"""frontier(nodes, degree): the fabrics of a size that no known one beats."""

Block = tuple[int, ...]
"""Axes of the mesh that one factor spans."""

_MOST_AXES = 4
_MOST_HYBRIDS = 2
_MOST_FABRICS = 4000
"""Fabrics that are priced."""

_MOST_PRODUCT = 1024
"""Nodes up to which products of graphs that are not bandwidth-optimal are measured."""


def best_hybrids(
    nodes: int, degree: int, workload: Workload, network: Network, frontier: Frontier
) -> list[PricedFabric]:
    """Return the fastest products and unions for a workload in groups, the best first; none without groups.

    Parameters
    ----------
    nodes, degree : int
    workload : Workload
    network : Network
    frontier : callable
        Of the factors.
    """
    sizes = mesh_sizes(workload, nodes)
    if len(sizes) < 2:
        return []
    places = [(call.group_size or nodes, call.stride) for call in workload.calls]
    axes = {place: _axes(sizes, *place) for place in places}
    found: list[tuple[float, PricedFabric]] = []
    choices = _choices(sizes, degree, list(axes.values()), cache(frontier))
    for blocks, factors in islice(choices, _MOST_FABRICS):
        priced = _priced(sizes, degree, axes, blocks, factors)
        seconds = None if priced is None else priced.seconds(workload, network)
        if priced is not None and seconds is not None:
            found.append((seconds, priced))
    return [priced for _, priced in sorted(found, key=itemgetter(0))[:_MOST_HYBRIDS]]


def mesh_sizes(workload: Workload, nodes: int) -> tuple[int, ...]:
    """Return the axes of the mesh in which every group spans entire axes, the fastest last; else nothing.

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


def _axes(sizes: Sequence[int], size: int, stride: int) -> frozenset[int]:
    """Return the axes that a group is over."""
    if size == prod(sizes):
        return frozenset(range(len(sizes)))
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return frozenset(axis for axis, one in enumerate(strides) if stride <= one < stride * size)


def _choices(
    sizes: Sequence[int], degree: int, groups: Sequence[frozenset[int]], frontier: Frontier
) -> Iterator[tuple[Sequence[Block], Sequence[Option | None]]]:
    """Yield all ways to gather the axes in blocks, share out the ports, and choose graphs for the blocks.

    A block without ports has None for a graph.
    """
    for blocks in _partitions(tuple(range(len(sizes)))):
        if len(blocks) < 2 or not all(
            group.issuperset(block) or group.isdisjoint(block) for block in blocks for group in groups
        ):
            continue
        needed = [any(group.issuperset(block) for group in groups) for block in blocks]
        for shares in _shares(degree, len(blocks)):
            if any(need and not share for need, share in zip(needed, shares, strict=True)):
                continue
            graphs: list[list[Option | None]] = [[None] if share == 0 else [] for share in shares]
            for own, block, share in zip(graphs, blocks, shares, strict=True):
                if share:
                    size = prod(sizes[axis] for axis in block)
                    options = frontier(size, share)
                    own += [one for one in options if is_breadth_first(one.candidate.construction)]
            for factors in product(*graphs):
                yield blocks, factors


def _priced(
    sizes: Sequence[int],
    degree: int,
    axes: Mapping[tuple[int, int], frozenset[int]],
    blocks: Sequence[Block],
    factors: Sequence[Option | None],
) -> PricedFabric | None:
    """Return a fabric with the costs of groups within its factors; None where a product is too large."""
    shared = {}
    for place, own in axes.items():
        inside = [
            factor
            for block, factor in zip(blocks, factors, strict=True)
            if factor is not None and own.issuperset(block)
        ]
        costs = _group_figures(inside, degree, prod(sizes))
        if costs is None:
            return None
        shared[place] = costs
    option = _option(sizes, blocks, factors)
    return None if option is None else PricedFabric(option, shared)


def _option(sizes: Sequence[int], blocks: Sequence[Block], factors: Sequence[Option | None]) -> Option | None:
    """Return the whole fabric: copies first, then the factors; nodes are numbered as ranks of the mesh."""
    nodes = prod(sizes)
    order = sorted(range(len(blocks)), key=lambda at: (factors[at] is not None, blocks[at]))
    linked = tuple(factor for at in order if (factor := factors[at]) is not None)
    copies = nodes // prod(factor.nodes for factor in linked)
    inner = _measured_product(linked)
    if inner is None:
        return None
    text = expression(inner.construction)
    if copies > 1:
        text = f"disjoint_copies({text}, {copies})"
    placed = [axis for at in order for axis in blocks[at]]
    if placed != sorted(placed):
        own = "x".join(str(sizes[axis]) for axis in placed)
        back = ",".join(str(placed.index(axis)) for axis in range(len(placed)))
        text = f'with_axes_ordered({text}, "{own}", "{back}")'
    elif copies == 1:
        return measured_options([inner])[0]
    gather = replace(inner.gather, nodes=nodes)
    reduce = gather if inner.reduce is inner.gather else replace(inner.reduce, nodes=nodes)
    distances = measured_options([inner])[0].distances if copies == 1 else None
    return Option(FabricCandidate(bfb_base(text, "hybrid"), gather, reduce), distances, parts=copies)


def _group_figures(inside: Sequence[Option], degree: int, nodes: int) -> GroupCosts | None:
    """Return the costs of groups that each have a product of these factors to themselves."""
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
    """Return the exact costs of a product of factors; None without factors, or where it is too large."""
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


def _partitions(items: Block) -> Iterator[tuple[Block, ...]]:
    """Yield all ways to gather items in blocks."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for blocks in _partitions(rest):
        yield ((first,), *blocks)
        for place, block in enumerate(blocks):
            yield (*blocks[:place], (first, *block), *blocks[place + 1 :])


def _shares(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to share out ports; a part may have none."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _shares(total - first, parts - 1):
            yield (first, *rest)
