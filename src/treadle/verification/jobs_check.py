"""Independent check of jobs that run at once: each schedule, the loads of all together, the rates' proof.

Shares no code with the generators: everything is recomputed here from the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
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
    """What `verify_jobs` found.

    Parameters
    ----------
    report : Report
        Violations; `algbw` is the least rate per weight that the links leave.
    proved : tuple of Fraction, optional
        The max-min algbws by the levels, bytes/s; None if they prove none.
    loss : Fraction
        What the job that is furthest below its proved rate gives up, as a share of that.
    """

    report: Report
    proved: tuple[Fraction, ...] | None = None
    loss: Fraction = Fraction(0)

    @property
    def is_max_min(self) -> bool:
        """The rates are those that the levels prove to be the max-min ones, and the links carry them."""
        return self.report.is_ok and self.proved is not None and not self.loss


def verify_jobs(
    topology: Topology,
    jobs: Sequence[Job],
    plans: Sequence[Plan],
    rates: Sequence[Fraction],
    levels: Sequence[JobLevel],
    *,
    limit: int = 1000,
) -> JobsReport:
    """Check that plans perform the jobs and that links carry all at once; tell how far that is from the best.

    Parameters
    ----------
    topology : Topology
        The fabric that all jobs share.
    jobs : sequence of Job
    plans : sequence of Plan
        One for each job, on the part of the fabric that is there for it.
    rates : sequence of Fraction
        Claimed algbw of each job, bytes/s, while all run.
    levels : sequence of JobLevel
        Prove that the rates are the max-min ones.
    limit : int
        Most violations to describe; all are counted.
    """
    found = Findings(limit)
    if not len(jobs) == len(plans) == len(rates):
        found.add(
            ViolationKind.SHAPE,
            f"{len(jobs)} jobs, {len(plans)} plans and {len(rates)} rates; expected one each",
        )
        return JobsReport(found.report())
    carried = np.zeros(topology.n_links, dtype=object)
    for job, plan, rate in zip(jobs, plans, rates, strict=True):
        own = Findings(limit)
        load = _checked_load(topology, job, plan, own)
        if rate <= 0:
            own.add(ViolationKind.CLAIM, f"rate {rate} bytes/s, expected more than 0")
        if load is not None:
            carried = carried + load * rate
        found.adopt(f"job {job.name}", own)
    _check_links(topology, carried, found)
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
    """Bytes over each link of the fabric per byte of the job; None if they cannot be told."""
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
        link = plan.topology.link_name(int(np.flatnonzero(numbers < 0)[0]))
        found.add(ViolationKind.MEMBERSHIP, f"its plan has a link {link}, which the fabric has not so")
        return None
    if found.total:
        return None
    load = np.full(topology.n_links, Fraction(0), dtype=object)
    own = _load_per_byte(plan.topology, plan.collective, plan.entries[-1].schedule, found)
    if own is None:
        return None
    for link, value in zip(numbers.tolist(), own, strict=True):
        load[link] += value
    return load


def _is_same(topology: Topology, asked: Collective, plan: Plan) -> bool:
    """Kind, nodes by name, root, weights and demands agree."""
    made = plan.collective

    def names(fabric: Topology, nodes: Sequence[int]) -> list[str]:
        return [fabric.node_names[node] for node in nodes]

    return (
        made.kind is asked.kind
        and made.groups is None
        and names(plan.topology, made.ranks) == names(topology, asked.ranks)
        and sorted(names(plan.topology, made.forwarders)) == sorted(names(topology, asked.forwarders))
        and (made.root, made.weights, made.demands) == (asked.root, asked.weights, asked.demands)
    )


def _links_of(topology: Topology, part: Topology) -> Int64Array:
    """Number in the fabric of each link of a part of it, -1 where there is none of that bandwidth."""
    free: dict[tuple[str, str], list[int]] = {}
    for link in range(topology.n_links - 1, -1, -1):
        ends = (topology.node_names[topology.tails[link]], topology.node_names[topology.heads[link]])
        free.setdefault(ends, []).append(link)
    numbers = np.full(part.n_links, -1, dtype=np.int64)
    for link in range(part.n_links):
        ends = (part.node_names[part.tails[link]], part.node_names[part.heads[link]])
        if free.get(ends):
            number = free[ends].pop()
            if topology.bandwidths[number] == part.bandwidths[link]:
                numbers[link] = number
    return numbers


def _load_per_byte(
    topology: Topology, collective: Collective, schedule: Schedule, found: Findings
) -> list[Fraction] | None:
    """Bytes over each link per byte of the larger buffer."""
    if isinstance(schedule, ForestSchedule):
        units = [0] * topology.n_links
        for forest in schedule.forests:
            counted = forest.path_units().tolist()
            for number, count in enumerate(counted):
                for link in forest.path(number).tolist():
                    units[link] += count
        return [Fraction(count, sum(schedule.root_multiplicity.tolist())) for count in units]
    if isinstance(schedule, RouteSchedule):
        units = [0] * topology.n_links
        for number in range(schedule.n_paths):
            for link in schedule.path(number).tolist():
                units[link] += int(schedule.units[number])
        whole = schedule.n_chunks * collective.pair_demands.buffer_units
        return [Fraction(count, whole) for count in units]
    found.add(ViolationKind.SHAPE, f"a {type(schedule).__name__}, expected trees or routes")
    return None


def _check_links(topology: Topology, carried: np.ndarray, found: Findings) -> None:
    """No link may carry more than its bandwidth."""
    over = [link for link in range(topology.n_links) if carried[link] > int(topology.bandwidths[link])]
    found.add_all(
        ViolationKind.LOAD,
        over,
        lambda link: (
            f"link {topology.link_name(link)} carries {carried[link]} bytes/s of all jobs together, its "
            f"bandwidth is {topology.bandwidths[link]}"
        ),
    )
