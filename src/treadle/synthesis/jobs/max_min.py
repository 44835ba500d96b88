"""Rates of different collectives at once: the largest common one, then the largest of each not limited yet.

A linear program over ways to do each job, made as they are needed: trees of a root, pairs of an in-tree and
an out-tree, the paths of a source. At the prices of its links the cheapest ways of all jobs are shortest
paths and minimum arborescences; where none is cheaper than what the program has, its vertex is optimal, and
the prices prove it. The vertex is exact, so the ways and their parts are the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.math.columns import RestrictedMaster
from treadle.math.exact import Vertex
from treadle.math.lp import Floats
from treadle.schedules.jobs import Job, JobLevel, check_jobs
from treadle.synthesis.jobs.job_network import Column, JobNetwork
from treadle.topologies.topology import Topology

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class JobRates:
    """What jobs reach together.

    Parameters
    ----------
    rates : tuple of Fraction
        Algbw of each job, bytes/s.
    levels : tuple of JobLevel
        Rising; the first is the largest common rate.
    parts : tuple of tuples of (Column, Fraction)
        Of each job, how it is done, and bytes/s of each way.
    """

    rates: tuple[Fraction, ...]
    levels: tuple[JobLevel, ...]
    parts: tuple[tuple[tuple[Column, Fraction], ...], ...]


def max_min_rates(topology: Topology, jobs: Sequence[Job]) -> JobRates:
    """The max-min algbws of jobs that run at once, in proportion to their weights as far as links allow.

    Parameters
    ----------
    topology : Topology
        Its capabilities and injection caps are not modelled.
    jobs : sequence of Job

    Raises
    ------
    InfeasibleError
        If a job's rank cannot be reached, or no exact vertex was found.
    ScheduleError
        If the jobs do not fit the fabric.
    TimeLimitError
        If the deadline passed.
    """
    check_jobs(topology, jobs)
    networks = [JobNetwork(topology, number, job) for number, job in enumerate(jobs)]
    columns = [column for one in networks for _, _, column in one.cheapest(np.ones(topology.n_links))]
    rates: dict[int, Fraction] = {}
    levels: list[JobLevel] = []
    # prices of about 1: a solver takes what is below its tolerance for 0
    most = max(job.weight for job in jobs)
    weights = [job.weight / most for job in jobs]
    while len(rates) < len(jobs):
        program = _Program(topology, weights, networks, rates, columns)
        vertex = program.optimum()
        rate = vertex.primal[program.rate]
        lengths = tuple(max(Fraction(0), vertex.dual[row]) for row in program.capacity)
        limited = program.limited(vertex)
        if not limited:
            raise InfeasibleError("jobs: a linear program without a limit; this is a defect of Treadle")
        levels.append(JobLevel(rate / most, limited, lengths))
        rates |= {number: rate * weights[number] for number in limited}
        columns = program.columns
        context().report("rates", len(rates), len(jobs))
    return JobRates(tuple(rates[number] for number in range(len(jobs))), tuple(levels), program.parts(vertex))


class _Program:
    """Largest rate of the jobs that are not limited yet, while the others keep theirs."""

    def __init__(
        self,
        topology: Topology,
        weights: Sequence[Fraction],
        networks: Sequence[JobNetwork],
        rates: Mapping[int, Fraction],
        columns: Sequence[Column],
    ) -> None:
        self._networks, self._n_links = networks, topology.n_links
        self._lp = RestrictedMaster(int(topology.bandwidths.max()))
        self.rate = self._lp.add_column(1)  # algbw per weight, bytes/s
        self.capacity = [self._lp.add_row({}, bandwidth) for bandwidth in topology.bandwidths.tolist()]
        self._rows: dict[tuple[int, int | None], tuple[int, int]] = {}
        self._open = [number for number in range(len(weights)) if number not in rates]
        for number, (weight, network) in enumerate(zip(weights, networks, strict=True)):
            for root in network.roots:
                part = network.root_fraction(root) * rates.get(number, weight)
                is_known = number in rates
                given = {} if is_known else {self.rate: part.numerator}
                row = self._lp.add_row(given, -part.numerator if is_known else 0, equality=True)
                self._rows[number, root] = row, part.denominator
        self.columns: list[Column] = []
        self._numbers: list[int] = []
        for column in columns:
            self._add(column)

    def _add(self, column: Column) -> int:
        """Add a way, unless the program has one with equal loads; how many."""
        if not self._lp.is_new((column.job, column.root, frozenset(column.loads.items()))):
            return 0
        key = column.job, column.root
        row, scale = self._rows[key if key in self._rows else (column.job, None)]
        entries = {self.capacity[link]: count for link, count in column.loads.items()}
        self._numbers.append(self._lp.add_column(0, {**entries, row: -scale}))
        self.columns.append(column)
        return 1

    def optimum(self) -> Vertex:
        """The exact optimum over all columns that there are."""
        vertex = self._lp.generate(
            lambda _, dual: self._priced(np.array(dual), _TOLERANCE),
            lambda vertex: self._priced(np.array(vertex.dual, dtype=float), 1e-13),
        )
        if vertex is None:
            raise InfeasibleError("jobs: no exact vertex of the linear program was found")
        return vertex

    def _priced(self, dual: Floats, tolerance: float) -> int:
        """Add the ways that are cheaper than those of the program; how many."""
        lengths, added = np.maximum(dual[self.capacity], 0.0), 0
        for number, network in enumerate(self._networks):
            for root, length, column in network.cheapest(lengths):
                row, scale = self._rows[number, root]
                worth = scale * dual[row]
                if length < worth - tolerance * max(abs(worth), 1e-300):
                    added += self._add(column)
        if added:
            context().report("columns", len(self.columns), 0)
        return added

    def limited(self, vertex: Vertex) -> tuple[int, ...]:
        """Jobs that more capacity of the priced links would help."""
        return tuple(
            number
            for number in self._open
            if any(vertex.dual[row] > 0 for (owner, _), (row, _) in self._rows.items() if owner == number)
        )

    def parts(self, vertex: Vertex) -> tuple[tuple[tuple[Column, Fraction], ...], ...]:
        """Of each job, its ways and their bytes/s."""
        found: list[list[tuple[Column, Fraction]]] = [[] for _ in self._networks]
        for column, number in zip(self.columns, self._numbers, strict=True):
            if vertex.primal[number]:
                found[column.job].append((column, vertex.primal[number]))
        return tuple(map(tuple, found))
