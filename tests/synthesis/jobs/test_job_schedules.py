"""Schedules of whole numbers of ways: trees, routes, and how many there may be."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.routes import MAX_UNITS, RouteSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.synthesis.jobs.job_network import SpanningTree
from treadle.synthesis.jobs.job_paths import JobPath, JobPaths
from treadle.synthesis.jobs.job_schedules import schedule_of
from treadle.topologies import parse

HALF = Fraction(1, 2)


def way_of(kind: CollectiveKind, root: int, *, reduce: SpanningTree, broadcast: SpanningTree) -> JobPath:
    return JobPath(
        root, None, HALF, {}, reduce if kind.reduces else None, broadcast if kind.broadcasts else None
    )


def trees(kind: CollectiveKind) -> JobPaths:
    """Two ways on ranks 0, 1, 2 of a ring; links 0, 1: 0 to 1, 1 to 0; the numbers matter to nobody here."""
    out = SpanningTree((-1, 0, 1), {1: (0,), 2: (2, 4)})
    back = SpanningTree((-1, 0, 0), {1: (1,), 2: (5,)})
    other = SpanningTree((2, 2, -1), {0: (3,), 1: (1, 3)})
    ways = (
        way_of(kind, 2, reduce=other, broadcast=other),
        way_of(kind, 0, reduce=back, broadcast=out),
        JobPath(1, None, Fraction(0), {}),
    )
    return JobPaths(Collective(kind, (0, 1, 2)), ways, {None: 3}, 3)


def rows(forest: object) -> list[object]:
    assert isinstance(forest, Forest)
    return [forest.direction, forest.tree_root.tolist(), forest.tree_multiplicity.tolist(),
            forest.parent.tolist(), forest.entry_units.tolist()]  # fmt: skip


def test_trees_have_their_roots_parents_and_units() -> None:
    ring = parse("ring(3)")
    made = schedule_of(ring, trees(CollectiveKind.ALLREDUCE), [2, 5, 0], Fraction(7, 3))
    assert isinstance(made, ForestSchedule)
    assert made.kind is CollectiveKind.ALLREDUCE
    units = [5, 5, 2, 2]
    assert rows(made.reduce) == [Direction.REDUCE, [0, 2], [5, 2], [[-1, 0, 0], [2, 2, -1]], units]
    assert rows(made.broadcast) == [Direction.BROADCAST, [0, 2], [5, 2], [[-1, 0, 1], [2, 2, -1]], units]
    only = schedule_of(ring, trees(CollectiveKind.ALLGATHER), [2, 0, 0], Fraction(1))
    assert isinstance(only, ForestSchedule)
    assert only.reduce is None
    assert rows(only.broadcast)[1:4] == [[2], [2], [[2, 2, -1]]]
    other = schedule_of(ring, trees(CollectiveKind.REDUCE_SCATTER), [0, 1, 0], Fraction(1))
    assert isinstance(other, ForestSchedule)
    assert other.broadcast is None
    assert rows(other.reduce)[1:4] == [[0], [1], [[-1, 0, 0]]]


def test_up_to_so_many_trees_are_scheduled() -> None:
    ring, job = parse("ring(3)"), trees(CollectiveKind.ALLGATHER)
    made = schedule_of(ring, job, [2**50 - 1, 1, 0], Fraction(1))
    assert isinstance(made, ForestSchedule)
    message = "the exact schedule needs more than 2**50 trees in all; without --exact it is rounded"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        schedule_of(ring, job, [2**50 - 1, 2, 0], Fraction(1))


def routes() -> JobPaths:
    """On a bidirectional ring of 4: from 0 to 2 both ways round, and from 3 to 0."""
    ring = parse("ring(4)")
    link = {(int(t), int(h)): i for i, (t, h) in enumerate(zip(ring.tails, ring.heads, strict=True))}
    one, other, back = ((link[0, 1], link[1, 2]), (link[0, 3], link[3, 2]), (link[3, 0],))
    ways = (
        JobPath(3, 12, Fraction(1), {}, path=back, target=0),
        JobPath(0, 2, HALF, {}, path=other, target=2),
        JobPath(0, 2, HALF, {}, path=one, target=2),
        JobPath(0, 1, HALF, {}, path=one[:1], target=1),
    )
    return JobPaths(Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3)), ways, {}, 4)


def test_routes_keep_pairs_units_and_links() -> None:
    ring = parse("ring(4)")
    made = schedule_of(ring, routes(), [7, 4, 3, 0], Fraction(7))
    assert isinstance(made, RouteSchedule)
    assert made.n_chunks == 7
    found = {
        (int(s), int(t), tuple(made.path(p).tolist())): int(u)
        for p, (s, t, u) in enumerate(zip(made.source, made.target, made.units, strict=True))
    }
    ways = routes().ways
    assert found == {
        (way.root, way.target, way.path): units for way, units in zip(ways[:3], (7, 4, 3), strict=True)
    }
    assert np.array_equal(made.layer, np.zeros(3))  # nothing waits in a circle


def test_up_to_so_many_chunks_are_scheduled() -> None:
    ring = parse("ring(4)")
    made = schedule_of(ring, routes(), [MAX_UNITS, 0, MAX_UNITS, 0], Fraction(MAX_UNITS))
    assert isinstance(made, RouteSchedule)
    assert made.n_chunks == MAX_UNITS
    message = (
        f"the exact routes need {MAX_UNITS + 1} chunks for each unit of demand, schedules have up to "
        f"{MAX_UNITS}; without --exact they are rounded"
    )
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        schedule_of(ring, routes(), [1, 0, 1, 0], Fraction(MAX_UNITS + 1))
