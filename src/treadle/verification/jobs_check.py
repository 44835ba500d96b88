"""Independent check of concurrent jobs: each schedule, the loads of all together, the proof of the rates.

Shares no code with the generators: everything is recomputed here from the values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import TreadleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.jobs import Job, JobLevel, proved_rates
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify_plan
from treadle.verification.violations import Findings, Report, ViolationKind


@dataclass(frozen=True)
class JobsReport:
    """Result of `verify_jobs`.

    Parameters
    ----------
    report : Report
        Violations only.
    proved : tuple of Fraction, optional
        Max-min algbws that the levels prove, bytes/s; None if the levels are not valid.
    loss : Fraction
        Largest fraction of its proved rate that a job does not reach.
    """

    report: Report
    proved: tuple[Fraction, ...] | None = None
    loss: Fraction = Fraction(0)

    @property
    def is_max_min(self) -> bool:
        """Whether the rates are proved to be the max-min ones, and the links can carry them."""
        return self.report.is_ok and self.proved is not None and not self.loss


_MOST_DESCRIBED = 1000
"""Violations that are described; all are counted."""


def verify_jobs(
    topology: Topology,
    jobs: Sequence[Job],
    plans: Sequence[Plan],
    rates: Sequence[Fraction],
    levels: Sequence[JobLevel],
) -> JobsReport:
    """Check that plans perform the jobs and that the links carry all of them concurrently.

    Parameters
    ----------
    topology : Topology
        The fabric that all jobs share.
    jobs : sequence of Job
    plans : sequence of Plan
        One for each job, on the part of the fabric that is allocated to it.
    rates : sequence of Fraction
        Claimed algbw of each job while all run, bytes/s.
    levels : sequence of JobLevel
        Proof that the rates are the max-min ones.
    """
    found = Findings(_MOST_DESCRIBED)
    if not len(jobs) == len(plans) == len(rates):
        found.add(
            ViolationKind.SHAPE,
            f"{len(jobs)} jobs, {len(plans)} plans and {len(rates)} rates; expected one each",
        )
        return JobsReport(found.report())
    carried = np.zeros(topology.n_links, dtype=object)
    for job, plan, rate in zip(jobs, plans, rates, strict=True):
        own = Findings(_MOST_DESCRIBED)
        load = _checked_load(topology, job, plan, own)
        if rate <= 0:
            own.add(ViolationKind.CLAIM, f"rate {rate} bytes/s, expected more than 0")
        if load is not None:
            carried = carried + load * rate
        found.adopt(f"job {job.name}", own)
    found.add_all(
        ViolationKind.LOAD,
        [link for link in range(topology.n_links) if carried[link] > int(topology.bandwidths[link])],
        lambda link: (
            f"link {topology.link_name(link)} carries {carried[link]} bytes/s of all jobs together, its "
            f"bandwidth is {topology.bandwidths[link]}"
        ),
    )
    try:
        proved = proved_rates(topology, jobs, levels)
    except TreadleError as error:
        found.add(ViolationKind.BOUND, f"the levels prove no rates: {error}")
        return JobsReport(found.report())
    for job, rate, most in zip(jobs, rates, proved, strict=True):
        if rate > most:
            found.add(ViolationKind.BOUND, f"job {job.name}: the levels prove {most} bytes/s, claimed {rate}")
    losses = [1 - rate / most for rate, most in zip(rates, proved, strict=True) if most > 0]
    return JobsReport(found.report(), proved, max(Fraction(0), *losses))


def _checked_load(topology: Topology, job: Job, plan: Plan, found: Findings) -> np.ndarray | None:
    """Return the bytes over each link of the fabric per byte of the job; None if the plan is wrong."""
    for report in verify_plan(plan, limit=found.limit):
        for violation in report.violations:
            found.add(violation.kind, violation.message)
    if not _is_same(topology, job.collective, plan):
        found.add(
            ViolationKind.MEMBERSHIP, f"its plan is for another collective than the job: {plan.collective!r}"
        )
        return None
    numbers = _links_of(topology, plan.topology)
    if (numbers < 0).any():
        link = plan.topology.link_name(int(np.argmin(numbers)))
        found.add(
            ViolationKind.MEMBERSHIP,
            f"its plan has a link {link} that the fabric does not have at this bandwidth",
        )
        return None
    if found.total:  # the loads of a malformed schedule cannot be summed
        return None
    schedule = plan.entries[-1].schedule
    units = _units_of(plan.topology, plan.collective, schedule)
    if units is None:
        found.add(ViolationKind.SHAPE, f"a {type(schedule).__name__}, expected trees or routes")
        return None
    crossed, total = units
    load = np.full(topology.n_links, Fraction(0), dtype=object)
    load[numbers] = [Fraction(count, total) for count in crossed]  # different links have different numbers
    return load


def _is_same(topology: Topology, collective: Collective, plan: Plan) -> bool:
    """Whether a plan has the kind, nodes (by name), root, weights and demands of the collective."""
    planned = plan.collective

    def names(fabric: Topology, nodes: Sequence[int]) -> list[str]:
        return [fabric.node_names[node] for node in nodes]

    return (
        planned.kind is collective.kind
        and planned.groups is None
        and names(plan.topology, planned.ranks) == names(topology, collective.ranks)
        and sorted(names(plan.topology, planned.forwarders)) == sorted(names(topology, collective.forwarders))
        and (planned.root, planned.weights, planned.demands)
        == (collective.root, collective.weights, collective.demands)
    )


def _links_of(topology: Topology, part: Topology) -> Int64Array:
    """Return the number in the fabric of each link of a part, -1 if none has the same bandwidth."""
    free: dict[tuple[str, str], list[int]] = defaultdict(list)
    for link in range(topology.n_links - 1, -1, -1):
        free[_end_names(topology, link)].append(link)
    numbers = np.full(part.n_links, -1, dtype=np.int64)
    for link in range(part.n_links):
        parallel = free[_end_names(part, link)]
        if parallel and topology.bandwidths[number := parallel.pop()] == part.bandwidths[link]:
            numbers[link] = number
    return numbers


def _end_names(topology: Topology, link: int) -> tuple[str, str]:
    return topology.node_names[topology.tails[link]], topology.node_names[topology.heads[link]]


def _units_of(topology: Topology, collective: Collective, schedule: Schedule) -> tuple[list[int], int] | None:
    """Return the units over each link, and those in the larger buffer; None unless trees or routes."""
    paths: list[tuple[Int32Array, int]]
    if isinstance(schedule, ForestSchedule):
        total = sum(schedule.root_multiplicity.tolist())
        paths = [
            (forest.path(number), count)
            for forest in schedule.forests
            for number, count in enumerate(forest.path_units().tolist())
        ]
    elif isinstance(schedule, RouteSchedule):
        total = schedule.n_chunks * collective.pair_demands.buffer_units
        paths = [(schedule.path(number), count) for number, count in enumerate(schedule.units.tolist())]
    else:
        return None
    units = [0] * topology.n_links
    for links, count in paths:
        for link in links.tolist():
            units[link] += count
    return units, total
