"""Ways of jobs in whole numbers: grids, units, and rates where links overflow, reckoned by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.jobs import job_paths as module
from treadle.synthesis.jobs.job_paths import JobPath, JobPaths, exact_paths, integral_paths

PAIR = Collective(CollectiveKind.ALLGATHER, (0, 1))


def whole(*values: int | Fraction) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, values))


def split(first: int, second: int, least: Fraction) -> JobPaths:
    """A job whose only part goes `least` of it over one link and the rest over another."""
    ways = (JobPath(0, None, least, {first: 1}), JobPath(0, None, 1 - least, {second: 1}))
    return JobPaths(PAIR, ways, {None: 1}, 1)


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


def test_what_weighs_most_chooses_first() -> None:
    """A unit of 4 takes the link of 5 rather than that of 4; one of 2, though named first, what is left."""
    light, heavy = split(0, 1, Fraction(1, 2)), split(0, 1, Fraction(1, 2))
    exact = exact_paths([light, heavy], [Fraction(2), Fraction(4)])
    found = integral_paths([light, heavy], exact, [4, 5], max_trees=1)
    assert found.units == ([1, 0], [0, 1])
    assert found.rates == whole(2, 4)
    assert found.loss == 0


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
