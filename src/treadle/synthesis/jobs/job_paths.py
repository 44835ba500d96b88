"""Integral paths of jobs: as in the optimum, or on a grid as coarse as desired.

On a grid of K trees per root every way has what it should, rounded down; what a root is short of then goes,
tree by tree, to the path whose links have the most free capacity. Loads and rates are exact whatever is
chosen: what rounding puts on a link above its bandwidth slows all jobs on that link down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from treadle.context import context
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.jobs.job_network import Column, Path, SpanningTree

MOST_EXACT = 2**12
"""Trees per root, or chunks of a unit of demand, up to which the optimum is built by default."""

MOST_LOSS = Fraction(1, 1000)
"""Else the coarsest grid of a power of two is taken that loses no more than this."""

MOST_TREES = 2**20
"""Per root, on any grid."""


@dataclass(frozen=True)
class JobPath:
    """A tree, an in-tree with an out-tree, or a path.

    Parameters
    ----------
    root : int
        Rank; of a path, where it begins.
    part : int, optional
        What it does some of: a root's data, or all there is; of a path, number of its pair of ranks.
    share : Fraction
        Of its part that it does.
    loads : mapping of link to int
        Crossings for each unit.
    reduce, broadcast : SpanningTree, optional
    path : tuple of int
    target : int
        Rank where the path ends.
    """

    root: int
    part: int | None
    share: Fraction
    loads: Mapping[int, int]
    reduce: SpanningTree | None = None
    broadcast: SpanningTree | None = None
    path: Path = ()
    target: int = -1


@dataclass(frozen=True)
class JobPaths:
    """Implementation of a job.

    Parameters
    ----------
    collective : Collective
    ways : tuple of JobPath
    parts : mapping of part to int
        Units of each on a grid of one tree per root, or one chunk of a unit of demand.
    buffer : int
        Units of the larger buffer on that grid.
    """

    collective: Collective
    ways: tuple[JobPath, ...]
    parts: Mapping[int | None, int]
    buffer: int

    @property
    def exact_grid(self) -> Fraction:
        """The coarsest grid on which all ways are whole; trees whose root is free may be fewer than ranks."""
        wanted = [way.share * self.parts[way.part] for way in self.ways]
        scale = lcm(*(value.denominator for value in wanted))
        is_routed = self.collective.kind is CollectiveKind.ALLTOALL
        return Fraction(scale, 1 if is_routed else gcd(*(int(value * scale) for value in wanted)))

    def exact_units(self, grid: Fraction) -> list[int]:
        """Units of each path on a grid on which all are integral."""
        return [int(way.share * self.parts[way.part] * grid) for way in self.ways]


def paths_of(collective: Collective, columns: Sequence[tuple[Column, Fraction]]) -> JobPaths:
    """The ways of a job from the columns of the program and bytes/s of each."""
    if collective.kind is CollectiveKind.ALLTOALL:
        return _paths(collective, columns)
    is_shared = not (collective.kind is CollectiveKind.ALLREDUCE or collective.kind.is_rooted)
    weights = collective.shard_weights
    buffer = sum(weights) if is_shared else collective.n_ranks
    roots = [column.root if is_shared else None for column, _ in columns]
    whole: dict[int | None, Fraction] = defaultdict(Fraction)
    for root, (_, rate) in zip(roots, columns, strict=True):
        whole[root] += rate
    ways = tuple(
        JobPath(column.root, root, rate / whole[root], column.loads, column.reduce, column.broadcast)
        for root, (column, rate) in zip(roots, columns, strict=True)
    )
    parts = {root: buffer if root is None else weights[root] for root in whole}
    return JobPaths(collective, ways, parts, buffer)


def _paths(collective: Collective, columns: Sequence[tuple[Column, Fraction]]) -> JobPaths:
    """A source's columns are what each of its targets gets by in the same proportions."""
    whole: dict[int, Fraction] = defaultdict(Fraction)
    for column, rate in columns:
        whole[column.root] += rate
    shares: dict[tuple[int, int, Path], Fraction] = defaultdict(Fraction)
    for column, rate in columns:
        for target, path in column.routes:
            shares[column.root, target, path] += rate / whole[column.root]
    demand = collective.pair_demands
    n = collective.n_ranks
    ways = tuple(
        JobPath(source, source * n + target, share, dict.fromkeys(path, 1), path=path, target=target)
        for (source, target, path), share in shares.items()
    )
    parts: dict[int | None, int] = {way.part: int(demand.between[way.root, way.target]) for way in ways}
    return JobPaths(collective, ways, parts, demand.buffer_units)


@dataclass(frozen=True)
class IntegralPaths:
    """Integral paths of all jobs, and their rates.

    Parameters
    ----------
    units : tuple of lists of int
        Of each way of each job.
    grids : tuple of Fraction
        Trees per root of each job (unrestricted roots: per rank), or chunks of a unit of demand.
    rates : tuple of Fraction
        Algbw of each job, bytes/s: what links carry, and no more than the optimum.
    loss : Fraction
        Of the job that loses most, as a share of its rate in the optimum.
    """

    units: tuple[list[int], ...]
    grids: tuple[Fraction, ...]
    rates: tuple[Fraction, ...]
    loss: Fraction


def exact_paths(jobs: Sequence[JobPaths], rates: Sequence[Fraction]) -> IntegralPaths:
    """The optimum as it is."""
    grids = tuple(job.exact_grid for job in jobs)
    units = tuple(job.exact_units(grid) for job, grid in zip(jobs, grids, strict=True))
    return IntegralPaths(units, grids, tuple(rates), Fraction(0))


def integral_paths(
    jobs: Sequence[JobPaths], exact: IntegralPaths, bandwidths: Sequence[int], *, max_trees: int | None = None
) -> IntegralPaths:
    """Ways of jobs on grids that are coarse enough; exact where that is coarse enough too.

    Parameters
    ----------
    jobs : sequence of JobPaths
    exact : IntegralPaths
        The optimum.
    bandwidths : sequence of int
        Of the links, bytes/s.
    max_trees : int, optional
        Most trees per root (unrestricted roots: per rank on average), or chunks of a unit of demand; the best
        powers of two up to it are tried, and it. Default: the optimum if `MOST_EXACT` do, else the
        coarsest power of two whose loss is `MOST_LOSS` or less.
    """
    most = MOST_EXACT if max_trees is None else max_trees
    if all(grid <= most for grid in exact.grids):
        return exact
    best: IntegralPaths | None = None
    largest = MOST_TREES if max_trees is None else max_trees
    # powers of two up to the largest, and it
    grids = sorted({*(2**exponent for exponent in range(largest.bit_length())), largest})
    for done, grid in enumerate(grids):
        context().report("grids", done, len(grids))
        units, own = _on_grid(jobs, bandwidths, exact, grid, most)
        found = IntegralPaths(units, own, *_rates(jobs, exact.rates, bandwidths, units, own))
        if best is None or found.loss < best.loss:
            best = found
        if max_trees is None and best.loss <= MOST_LOSS:
            break
    assert best is not None  # there is at least one grid
    return best


def _on_grid(
    jobs: Sequence[JobPaths],
    bandwidths: Sequence[int],
    exact: IntegralPaths,
    grid: int,
    most: int,
) -> tuple[tuple[list[int], ...], tuple[Fraction, ...]]:
    """Units and grid of each job: what the optimum has where that is not too many, else rounded."""
    units, grids = list(exact.units), list(exact.grids)
    loads = _Loads(bandwidths)
    short: list[tuple[float, int, int | None, int]] = []
    places: dict[tuple[int, int | None], list[int]] = defaultdict(list)  # ways of each part of a job
    for number, (job, rate) in enumerate(zip(jobs, exact.rates, strict=True)):
        if grids[number] > most:
            grids[number] = Fraction(grid)
            wanted = [way.share * job.parts[way.part] * grid for way in job.ways]
            units[number] = [int(value) for value in wanted]
            left = {part: wide * grid for part, wide in job.parts.items()}
            for way, count in zip(job.ways, units[number], strict=True):
                left[way.part] -= count
            short += [(_unit(job, rate, grid), number, part, count) for part, count in left.items() if count]
        for place, (way, count) in enumerate(zip(job.ways, units[number], strict=True)):
            loads.add(way, _unit(job, rate, grids[number]) * count)
            places[number, way.part].append(place)
    # what weighs most first, as long as there is room to choose
    for weight, number, part, count in sorted(short, key=lambda one: one[0], reverse=True):
        ways = jobs[number].ways
        for _ in range(count):
            place = min(places[number, part], key=lambda place: loads.largest_with(ways[place], weight))
            units[number][place] += 1
            loads.add(ways[place], weight)
    return tuple(units), tuple(grids)


def _unit(job: JobPaths, rate: Fraction, grid: Fraction | int) -> float:
    """Bytes/s of a unit."""
    return float(rate / (grid * job.buffer))


class _Loads:
    """Loads of links relative to their bandwidth, in floats: they only decide between paths."""

    def __init__(self, bandwidths: Sequence[int]) -> None:
        self._bandwidths = bandwidths
        self._loads = [0.0] * len(bandwidths)

    def add(self, way: JobPath, rate: float) -> None:
        for link, count in way.loads.items():
            self._loads[link] += rate * count / self._bandwidths[link]

    def largest_with(self, way: JobPath, rate: float) -> float:
        """Return the largest load of a path's links if it carries more."""
        loads, bandwidths = self._loads, self._bandwidths
        return max(loads[link] + rate * count / bandwidths[link] for link, count in way.loads.items())


def _rates(
    jobs: Sequence[JobPaths],
    rates: Sequence[Fraction],
    bandwidths: Sequence[int],
    units: Sequence[Sequence[int]],
    grids: Sequence[Fraction],
) -> tuple[tuple[Fraction, ...], Fraction]:
    """Exact algbws that links carry, and the largest loss.

    All rise in proportion to the optimum, until a link is full or they are there; jobs on a full link keep
    what they have.
    """
    loads: list[dict[int, int]] = []
    for job, counts in zip(jobs, units, strict=True):
        own: dict[int, int] = defaultdict(int)
        for way, count in zip(job.ways, counts, strict=True):
            for link, times in way.loads.items() if count else ():
                own[link] += times * count
        loads.append(own)
    # bytes/s on a link at the optimum's rates, as multiples of one unit, are whole numbers
    per_unit = [rate / (grid * job.buffer) for job, rate, grid in zip(jobs, rates, grids, strict=True)]
    scale = lcm(*(value.denominator for value in per_unit))
    carried = [
        {link: int(value * scale) * count for link, count in own.items()}
        for value, own in zip(per_unit, loads, strict=True)
    ]
    shares = [Fraction(1)] * len(jobs)
    free = {link: Fraction(bandwidth * scale) for link, bandwidth in enumerate(bandwidths)}
    growing = set(range(len(jobs)))
    while growing:
        wanted: dict[int, int] = defaultdict(int)
        for number in growing:
            for link, amount in carried[number].items():
                wanted[link] += amount
        share = min(Fraction(1), *(free[link] / amount for link, amount in wanted.items()))
        full = {link for link, amount in wanted.items() if free[link] == share * amount}
        stopped = {number for number in growing if share == 1 or not full.isdisjoint(carried[number])}
        for number in stopped:
            shares[number] = share
            for link, amount in carried[number].items():
                free[link] -= share * amount
        growing -= stopped
    return tuple(rate * share for rate, share in zip(rates, shares, strict=True)), 1 - min(shares)
