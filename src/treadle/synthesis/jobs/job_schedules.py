"""The schedule of a job from the ways in which it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import gcd, lcm

from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.routes import MAX_UNITS, RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.alltoall.routes.path_sets import from_lists
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.synthesis.jobs.job_network import Column, Path, SpanningTree
from treadle.topologies.topology import Topology

Parts = Sequence[tuple[Column, Fraction]]

_MOST_UNITS = 2**50
"""Of trees in all."""


def schedule_of(topology: Topology, collective: Collective, parts: Parts) -> ForestSchedule | RouteSchedule:
    """Trees, or routes of an all-to-all, in the proportions of the parts.

    Parameters
    ----------
    topology : Topology
        Whose links the parts name.
    collective : Collective
    parts : sequence of (Column, Fraction)

    Raises
    ------
    InfeasibleError
        If the proportions need more trees or chunks than schedules can have.
    """
    if collective.kind is CollectiveKind.ALLTOALL:
        return _routes(topology, collective, parts)
    units = _whole([value for _, value in parts])
    if sum(units) > _MOST_UNITS:
        raise InfeasibleError(
            "the exact schedule needs more than 2**50 trees in all; bound --jobs has the rates"
        )
    columns = [column for column, _ in parts]
    return ForestSchedule(
        collective.kind,
        reduce=_forest(collective, columns, units, Direction.REDUCE, lambda one: one.reduce),
        broadcast=_forest(collective, columns, units, Direction.BROADCAST, lambda one: one.broadcast),
    )


def _whole(values: Sequence[Fraction]) -> list[int]:
    """The least integers in these proportions."""
    scale = lcm(*(value.denominator for value in values))
    whole = [int(value * scale) for value in values]
    divisor = gcd(*whole)
    return [value // divisor for value in whole]


def _forest(
    collective: Collective,
    columns: Sequence[Column],
    units: Sequence[int],
    direction: Direction,
    tree_of: Callable[[Column], SpanningTree | None],
) -> Forest | None:
    """The trees of one direction; None where the collective has none. Both come in the same order."""
    trees = []
    for column, multiplicity in zip(columns, units, strict=True):
        tree = tree_of(column)
        if tree is None:
            return None
        paths = {rank: [(path, multiplicity)] for rank, path in tree.paths.items()}
        trees.append(TreeSpec(column.root, multiplicity, tree.parent, paths))
    return forest_from_trees(direction, collective.n_ranks, trees)


def _routes(topology: Topology, collective: Collective, parts: Parts) -> RouteSchedule:
    """A source's ways are what each of its targets gets by in the same proportions."""
    by_source: dict[int, list[tuple[Column, Fraction]]] = defaultdict(list)
    for column, value in parts:
        by_source[column.root].append((column, value))
    shares: dict[tuple[int, int, Path], Fraction] = defaultdict(Fraction)
    for source, ways in by_source.items():
        total = sum((value for _, value in ways), Fraction(0))
        for column, value in ways:
            for target, path in column.routes:
                shares[source, target, path] += value / total
    demand = collective.pair_demands.between
    chunks = lcm(*((share * int(demand[key[:2]])).denominator for key, share in shares.items()))
    if chunks > MAX_UNITS:
        raise InfeasibleError(
            f"the exact routes need {chunks} chunks for each unit of demand, schedules have up to "
            f"{MAX_UNITS}; bound --jobs has the rates"
        )
    paths = from_lists((source, target, path) for source, target, path in shares)
    layers = lash_layers(paths, topology.n_links)
    layer_of = {
        (source, target, tuple(links)): int(layer)
        for source, target, links, layer in zip(
            paths.source.tolist(),
            paths.target.tolist(),
            (paths.links_of(number).tolist() for number in range(paths.n_paths)),
            layers,
            strict=True,
        )
    }
    return routes_from_paths(
        collective.n_ranks,
        chunks,
        (
            (
                source,
                target,
                int(share * int(demand[source, target]) * chunks),
                layer_of[source, target, path],
                path,
            )
            for (source, target, path), share in shares.items()
        ),
    )
