"""The schedule of a job from whole numbers of its ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.routes import MAX_UNITS, RouteSchedule, routes_from_paths
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.alltoall.routes.path_sets import from_lists
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.synthesis.jobs.job_network import SpanningTree
from treadle.synthesis.jobs.job_paths import JobPath, JobPaths
from treadle.topologies.topology import Topology

_MOST_UNITS = 2**50
"""Of trees in all."""

Used = Sequence[tuple[JobPath, int]]


def schedule_of(
    topology: Topology, job: JobPaths, units: Sequence[int], grid: Fraction
) -> ForestSchedule | RouteSchedule:
    """Trees, or routes of an all-to-all.

    Parameters
    ----------
    topology : Topology
        Whose links the ways name.
    job : JobPaths
    units : sequence of int
        Of each way; ways without any are left out.
    grid : Fraction
        Chunks of a unit of demand, or trees per root.

    Raises
    ------
    InfeasibleError
        If these are more trees or chunks than schedules can have.
    """
    used = [(way, count) for way, count in zip(job.ways, units, strict=True) if count]
    if job.collective.kind is CollectiveKind.ALLTOALL:
        return _routes(topology, job, used, int(grid))
    if sum(units) > _MOST_UNITS:
        raise InfeasibleError(
            "the exact schedule needs more than 2**50 trees in all; without --exact it is rounded"
        )
    n = job.collective.n_ranks
    return ForestSchedule(
        job.collective.kind,
        reduce=_forest(n, used, Direction.REDUCE, lambda way: way.reduce),
        broadcast=_forest(n, used, Direction.BROADCAST, lambda way: way.broadcast),
    )


def _forest(
    n_ranks: int, used: Used, direction: Direction, tree_of: Callable[[JobPath], SpanningTree | None]
) -> Forest | None:
    """The trees of one direction; None where the collective has none. Both come in the same order."""
    trees = []
    for way, multiplicity in used:
        tree = tree_of(way)
        if tree is None:
            return None
        paths = {rank: [(path, multiplicity)] for rank, path in tree.paths.items()}
        trees.append(TreeSpec(way.root, multiplicity, tree.parent, paths))
    return forest_from_trees(direction, n_ranks, trees)


def _routes(topology: Topology, job: JobPaths, used: Used, chunks: int) -> RouteSchedule:
    if chunks > MAX_UNITS:
        raise InfeasibleError(
            f"the exact routes need {chunks} chunks for each unit of demand, schedules have up to "
            f"{MAX_UNITS}; without --exact they are rounded"
        )
    paths = from_lists((way.root, way.target, way.path) for way, _ in used)
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
        job.collective.n_ranks,
        chunks,
        (
            (way.root, way.target, count, layer_of[way.root, way.target, way.path], way.path)
            for way, count in used
        ),
    )
