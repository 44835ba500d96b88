"""Ways of jobs in whole numbers: grids, units, and rates where links overflow, reckoned by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.jobs import job_paths as module
from treadle.synthesis.jobs.job_network import Column, SpanningTree
from treadle.synthesis.jobs.job_paths import JobPath, JobPaths, exact_paths, integral_paths, paths_of

PAIR = Collective(CollectiveKind.ALLGATHER, (0, 1))
TREE = SpanningTree((-1, 0, 0), {1: (0,), 2: (1,)})
BACK = SpanningTree((-1, 0, 1), {1: (2,), 2: (3,)})


def whole(*values: int | Fraction) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, values))


def split(first: int, second: int, least: Fraction) -> JobPaths:
    """A job whose only part goes `least` of it over one link and the rest over another."""
    ways = (JobPath(0, None, least, {first: 1}), JobPath(0, None, 1 - least, {second: 1}))
    return JobPaths(PAIR, ways, {None: 1}, 1)


def test_ways_of_shards_are_shares_of_their_root() -> None:
    collective = Collective(CollectiveKind.ALLGATHER, (4, 5, 6), weights=(1, 0, 2))
    columns = [
        (Column(0, 0, {0: 1}, broadcast=TREE), Fraction(3)),
        (Column(0, 2, {3: 1}, reduce=BACK), Fraction(8)),
        (Column(0, 0, {1: 2}), Fraction(1)),
    ]
    job = paths_of(collective, columns)
    assert job.collective is collective
    assert [(way.root, way.part, way.share, way.loads) for way in job.ways] == [
        (0, 0, Fraction(3, 4), {0: 1}),
        (2, 2, Fraction(1), {3: 1}),
        (0, 0, Fraction(1, 4), {1: 2}),
    ]
    assert [(way.reduce, way.broadcast) for way in job.ways] == [(None, TREE), (BACK, None), (None, None)]
    assert job.parts == {0: 1, 2: 2}
    assert job.buffer == 3
    assert job.exact_grid == 4
    assert job.exact_units(Fraction(4)) == [3, 8, 1]


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST])
def test_trees_of_free_roots_may_be_fewer_than_ranks(kind: CollectiveKind) -> None:
    root = 3 if kind is CollectiveKind.BROADCAST else None
    columns = [(Column(0, 3, {0: 1}), Fraction(5)), (Column(0, 3, {1: 1}), Fraction(5))]
    job = paths_of(Collective(kind, (0, 1, 2, 3), root), columns)
    assert [(way.root, way.part, way.share) for way in job.ways] == [(3, None, Fraction(1, 2))] * 2
    assert (job.parts, job.buffer) == ({None: 4}, 4)
    assert job.exact_grid == Fraction(1, 2)  # two trees for four ranks
    exact = exact_paths([job], [Fraction(7)])
    assert exact.units == ([1, 1],)
    assert (exact.grids, exact.rates) == (whole(Fraction(1, 2)), whole(7))
    assert exact.loss == 0


def test_paths_of_a_source_share_what_each_target_gets() -> None:
    demands = Demands(np.array([[0, 6, 4], [0, 5, 2], [0, 0, 0]]))
    columns = [
        (Column(0, 0, {}, routes=((1, (5,)), (2, (6, 7)))), Fraction(1)),
        (Column(0, 1, {}, routes=((2, (9,)),)), Fraction(4)),
        (Column(0, 0, {}, routes=((1, (5,)), (2, (8,)))), Fraction(2)),
    ]
    job = paths_of(Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands), columns)
    assert [(way.root, way.target, way.part, way.share, way.path, way.loads) for way in job.ways] == [
        (0, 1, 1, Fraction(1), (5,), {5: 1}),
        (0, 2, 2, Fraction(1, 3), (6, 7), {6: 1, 7: 1}),
        (1, 2, 5, Fraction(1), (9,), {9: 1}),
        (0, 2, 2, Fraction(2, 3), (8,), {8: 1}),
    ]
    assert job.parts == {1: 6, 2: 4, 5: 2}
    assert job.buffer == 11
    # chunks of a unit of demand are whole: 6, 4/3, 2, 8/3 would else be halved
    assert job.exact_grid == 3
    assert job.exact_units(Fraction(3)) == [18, 4, 6, 8]


def test_a_grid_is_used_only_beyond_the_most_trees() -> None:
    """A third over a link of 1, the rest over one of 2: whole on a grid of 3."""
    job = split(0, 1, Fraction(1, 3))
    exact = exact_paths([job], [Fraction(3)])
    assert exact.grids == whole(
        3,
    )
    assert integral_paths([job], exact, [1, 2], max_trees=3) is exact
    assert integral_paths([job], exact, [1, 2]) is exact
    two = integral_paths([job], exact, [1, 2], max_trees=2)
    # one tree of 3 over the link of 2: a third is lost; with two, 1.5 over that of 1: as much
    assert (two.grids, two.units, two.rates) == (whole(1), ([0, 1],), whole(2))
    assert two.loss == Fraction(1, 3)


def test_by_default_the_optimum_is_built_of_4096_trees_and_no_more() -> None:
    for count in (4096, 4097):
        job = split(0, 1, Fraction(1, count))
        exact = exact_paths([job], [Fraction(count)])
        found = integral_paths([job], exact, [1, count - 1])
        assert (found is exact) == (count == 4096)
    assert (found.grids, found.units) == (whole(1), ([0, 1],))


def test_the_first_grid_that_loses_little_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EXACT", 10)
    enough, short = split(0, 1, Fraction(1, 1000)), split(0, 1, Fraction(1, 999))
    found = integral_paths([enough], exact_paths([enough], [Fraction(1000)]), [1, 999])
    assert (found.grids, found.units, found.loss) == (whole(1), ([0, 1],), Fraction(1, 1000))
    found = integral_paths([short], exact_paths([short], [Fraction(999)]), [1, 998])
    # up to 512 trees all take the wide link, as on a grid of 1; 1024 leave it 1023 for 998 of 999
    assert (found.grids, found.units) == (whole(1024), ([1, 1023],))
    assert found.loss == 1 - Fraction(998, 999) / Fraction(1023, 1024)


def test_the_best_of_the_powers_of_two_and_the_most_itself() -> None:
    """A fifth over one link: grids of 1, 2 and 4 lose a fifth (4/5 of the fabric for all), 5 nothing."""
    job, other = split(0, 1, Fraction(1, 5)), split(2, 3, Fraction(1, 50))
    exact = exact_paths([job, other], [Fraction(5), Fraction(50)])
    found = integral_paths([job, other], exact, [1, 4, 1, 49], max_trees=6)
    assert found.grids == whole(5, 1)  # the one is within what is allowed, the other is on the grid
    assert found.units == ([1, 4], [0, 1])
    assert found.rates == whole(5, 49)
    assert found.loss == Fraction(1, 50)
    job = split(0, 1, Fraction(2, 11))
    five = integral_paths([job], exact_paths([job], [Fraction(11)]), [2, 9], max_trees=5)
    # on 5: one of 11/5 over the link of 2, four over that of 9; on 4: one of 11/4, three of 33/4 in all
    assert (five.grids, five.units) == (whole(5), ([1, 4],))
    assert five.rates == whole(
        10,
    )


def test_jobs_on_a_full_link_stop_and_others_go_on() -> None:
    """Five jobs: A and B fill link 1 first, C one of its own, E what B leaves of link 4, D nothing."""
    third, tenth = Fraction(1, 3), Fraction(1, 10)
    a, c, e = split(0, 1, third), split(5, 6, tenth), split(8, 4, tenth)
    b = JobPaths(PAIR, (JobPath(0, None, Fraction(1), {1: 1, 4: 1}),), {None: 2}, 2)
    d = JobPaths(PAIR, (JobPath(0, None, Fraction(1), {7: 3}),), {None: 1}, 1)
    jobs, rates = [a, b, c, d, e], [Fraction(rate) for rate in (3, 5, 10, 2, 10)]
    bandwidths = [1, 7, 1, 1, 14, 1, 9, 6, 1]
    exact = exact_paths(jobs, rates)
    assert exact.grids == whole(3, Fraction(1, 2), 10, 1, 10)
    found = integral_paths(jobs, exact, bandwidths, max_trees=1)
    assert found.grids == whole(1, Fraction(1, 2), 1, 1, 1)
    assert found.units == ([0, 1], [1], [0, 1], [1], [0, 1])
    # 3 + 5 on link 1 of 7; 10 on link 6 of 9; 7/8 of 5, and 14 - 35/8 for the 10 of E
    assert found.rates == whole(Fraction(21, 8), Fraction(35, 8), 9, 2, Fraction(77, 8))
    assert found.loss == Fraction(1, 8)


def test_what_weighs_most_chooses_first() -> None:
    """A unit of 4 takes the link of 5 rather than that of 4; one of 2, though named first, what is left."""
    light, heavy = split(0, 1, Fraction(1, 2)), split(0, 1, Fraction(1, 2))
    exact = exact_paths([light, heavy], [Fraction(2), Fraction(4)])
    found = integral_paths([light, heavy], exact, [4, 5], max_trees=1)
    assert found.units == ([1, 0], [0, 1])
    assert found.rates == whole(2, 4)
    assert found.loss == 0


def test_crossings_count_in_what_a_link_has_room_for() -> None:
    """Twice over a link of 5 is fuller than once over one of 3."""
    ways = (JobPath(0, 0, Fraction(1, 2), {0: 2}), JobPath(0, 0, Fraction(1, 2), {1: 1, 2: 1}))
    job = JobPaths(PAIR, ways, {0: 1}, 1)
    found = integral_paths([job], exact_paths([job], [Fraction(2)]), [5, 3, 100], max_trees=1)
    assert found.units == ([0, 1],)
    third = JobPath(1, 1, Fraction(1), {3: 1})
    job = JobPaths(PAIR, (*ways, third), {0: 3, 1: 1}, 4)
    found = integral_paths([job], exact_paths([job], [Fraction(8)]), [8, 3, 100, 2], max_trees=1)
    # one each of three is whole; the third unit of 2 fills links by 4/8 + 4/8, or by 2/3 + 2/3
    assert found.units == ([2, 1, 1],)
    assert found.rates == whole(8)


def test_units_weigh_what_the_buffer_has() -> None:
    """Each unit of a buffer of 6 is 2 bytes/s of 12; another job shares one of the links."""
    halves = [JobPath(0, 0, Fraction(1, 2), {link: 1}) for link in (0, 1)]
    job = JobPaths(PAIR, (*halves, JobPath(1, 1, Fraction(1), {2: 1})), {0: 3, 1: 2}, 6)
    other = JobPaths(PAIR, (JobPath(0, None, Fraction(1), {1: 1}),), {None: 2}, 2)
    exact = exact_paths([job, other], [Fraction(12), Fraction(1)])
    # one and one, then the third: 4/4 of the one link, or (4 + 1)/6 of the other
    found = integral_paths([job, other], exact, [4, 6, 6], max_trees=1)
    assert found.units == ([1, 2, 2], [1])
    # or (4 + 3)/6
    exact = exact_paths([job, other], [Fraction(12), Fraction(3)])
    found = integral_paths([job, other], exact, [4, 6, 6], max_trees=1)
    assert found.units == ([2, 1, 2], [1])
