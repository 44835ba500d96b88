"""Different collectives that run concurrently on one fabric, and proofs of their max-min rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_certificate import LinkLengths, tree_cost
from treadle.schedules.shortest_connection import path_lengths
from treadle.schedules.trees.allreduce_certificate import common_scale
from treadle.topologies.naming import is_one_line
from treadle.topologies.topology import Topology

MOST_WEIGHT_RATIO = 10**6
"""Largest ratio of two weights, so that solvers in floats can distinguish the rates."""


@brief("name", "collective", "weight")
@dataclass(frozen=True)
class Job:
    """A collective that runs concurrently with others.

    Parameters
    ----------
    name : str
        One line.
    collective : Collective
        A single group. Compute nodes that are neither its ranks nor its forwarders are absent for it.
    weight : Fraction
        More than 0. Algbws should be in proportion to the weights: with sizes as weights all jobs end
        together.

    Raises
    ------
    ScheduleError
        If any of the above does not hold.
    """

    name: str
    collective: Collective
    weight: Fraction

    def __post_init__(self) -> None:
        if not self.name or not is_one_line(self.name):
            raise ScheduleError(f"job {self.name[:40]!r}: expected a name on one line")
        self.collective.as_one_group()
        if not (isinstance(self.weight, Fraction) and self.weight > 0):
            raise ScheduleError(f"job {self.name!r}: weight {self.weight!r}, expected a positive fraction")


@dataclass(frozen=True)
class JobLevel:
    """A level of the max-min rates: the jobs that reach their limit at it, with the proof.

    Parameters
    ----------
    rate : Fraction
        Algbw per weight, bytes/s, of all jobs that no earlier level limits.
    limited : tuple of int
        Numbers of the jobs that cannot get more, rising.
    lengths : tuple of Fraction, length m
        Lengths of the links, not negative; the proof.

    Notes
    -----
    At these lengths a unit of job j needs links of total length c_j or more (`proved_rates`). Jobs of earlier
    levels keep their rates r, so the others have rate * sum of w_j c_j <= sum of b(e) l(e) - sum of r_i c_i,
    where equality limits every job with c_j > 0.
    """

    rate: Fraction
    limited: tuple[int, ...]
    lengths: tuple[Fraction, ...]


def check_jobs(topology: Topology, jobs: Sequence[Job]) -> None:
    """Raise ScheduleError unless there are jobs of different names whose nodes are compute nodes."""
    if not jobs:
        raise ScheduleError("jobs: none; expected at least one")
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ScheduleError(f"jobs: two are called {twice[:40]!r}; expected different names")
    weights = [job.weight for job in jobs]
    if max(weights) > MOST_WEIGHT_RATIO * min(weights):
        raise ScheduleError(
            f"jobs: the largest weight is more than {MOST_WEIGHT_RATIO} times the least; use sizes "
            f"and weights with smaller ratios"
        )
    compute = set(topology.compute_nodes.tolist())
    for job in jobs:
        for node in (*job.collective.ranks, *job.collective.forwarders):
            if node not in compute:
                raise ScheduleError(f"job {job.name!r}: node {node} is not a compute node of {topology.name}")


def proved_rates(topology: Topology, jobs: Sequence[Job], levels: Sequence[JobLevel]) -> tuple[Fraction, ...]:
    """Return the max-min algbw of every job, bytes/s, as proved by the levels.

    Parameters
    ----------
    topology : Topology
    jobs : sequence of Job
    levels : sequence of JobLevel
        They prove that no feasible rates are fairer: a job can get more only if another one loses that gets
        less per weight, or as much. Schedules prove that the rates are feasible.

    Raises
    ------
    ScheduleError
        If a level proves another rate, limits a job whose cost is 0, or some job is not limited.
    """
    check_jobs(topology, jobs)
    rates: dict[int, Fraction] = {}
    for number, level in enumerate(levels):
        if len(level.lengths) != topology.n_links or any(length < 0 for length in level.lengths):
            raise ScheduleError(f"level: expected {topology.n_links} lengths, none negative")
        ends = zip(topology.bandwidths.tolist(), level.lengths, topology.tails, topology.heads, strict=True)
        volume = sum((bandwidth * length for bandwidth, length, u, v in ends if u != v), Fraction(0))
        costs = [_unit_cost(topology, job, level.lengths) for job in jobs]
        volume -= sum(rate * costs[job] for job, rate in rates.items())
        needed = sum(job.weight * costs[number] for number, job in enumerate(jobs) if number not in rates)
        if not needed or volume / needed != level.rate:
            found = f"{volume / needed} bytes/s" if needed else "none"
            raise ScheduleError(f"level {number}: its lengths prove {found}, claimed {level.rate}")
        if not level.limited:
            raise ScheduleError(f"level {number} limits no job")
        for job in level.limited:
            if not 0 <= job < len(jobs) or job in rates or not costs[job]:
                raise ScheduleError(f"level {number} does not limit job {job}, or an earlier one does")
        rates |= {job: level.rate * jobs[job].weight for job in level.limited}
    if len(rates) < len(jobs):
        raise ScheduleError(f"the levels limit {len(rates)} of {len(jobs)} jobs")
    return tuple(rates[job] for job in range(len(jobs)))


def _unit_cost(topology: Topology, job: Job, lengths: Sequence[Fraction]) -> Fraction:
    """Return the smallest total length of links that a byte of the job's larger buffer needs."""
    scale = common_scale(lengths)
    scaled = [int(length * scale) for length in lengths]
    if job.collective.kind is not CollectiveKind.ALLTOALL:
        return tree_cost(topology, job.collective, LinkLengths.of(scaled)) / scale
    present = ~topology.is_compute
    present[[*job.collective.ranks, *job.collective.forwarders]] = True
    out: dict[int, list[tuple[int, int]]] = {}
    for tail, head, length in zip(topology.tails.tolist(), topology.heads.tolist(), scaled, strict=True):
        if present[tail] and present[head]:
            out.setdefault(tail, []).append((head, length))
    ranks, demands = job.collective.ranks, job.collective.pair_demands
    needed = 0
    for source in demands.senders.tolist():
        reached = path_lengths(out, ranks[source])
        for amount, node in zip(demands.rows([source])[0].tolist(), ranks, strict=True):
            if not amount:
                continue
            if node not in reached:
                raise ScheduleError(f"job {job.name!r}: a rank cannot be reached, so nothing is proved")
            needed += amount * reached[node]
    return Fraction(needed, scale * demands.buffer_units)
