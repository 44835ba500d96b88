"""Different collectives at once: what each can get, and plans that reach it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treadle._version import __version__
from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning.fabrics_and_plans import FabricLike
from treadle.planning.problem import resolve_topology
from treadle.planning.solving.solve import RejectedError
from treadle.planning.solving.transfer import transfer_collective, transfer_schedule
from treadle.planning.stages import Stopwatch, seconds_left
from treadle.planning.together.job_files import read_jobs
from treadle.schedules.collective import Collective
from treadle.schedules.jobs import Job, JobLevel, proved_rates
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.schedule import Schedule
from treadle.topologies import subset, without_failures
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify
from treadle.watch import Progress, Watch

if TYPE_CHECKING:
    from treadle.synthesis.jobs.max_min import JobRates
    from treadle.verification.jobs_check import JobsReport

MODEL = "without in-network multicast and aggregation"
ALGORITHM = "jobs"


@brief("topology", "jobs", "common_rate")
@dataclass(frozen=True)
class JobsResult:
    """What jobs get that share a fabric.

    Parameters
    ----------
    topology : Topology
    jobs : tuple of Job
    alone : tuple of Fraction
        Algbw of each job while the others idle, bytes/s, exact.
    together : tuple of Fraction
        The same while all run: the max-min rates in proportion to the weights, exact.
    levels : tuple of JobLevel
        What proves them.
    seconds : mapping of stage to CPU seconds
    plans : tuple of Plan
        One for each job, on the part of the fabric that is there for it; none of a bound.
    report : JobsReport, optional
        Of the independent verifier, on all plans together.
    """

    topology: Topology
    jobs: tuple[Job, ...]
    alone: tuple[Fraction, ...]
    together: tuple[Fraction, ...]
    levels: tuple[JobLevel, ...]
    seconds: dict[str, float]
    plans: tuple[Plan, ...] = ()
    report: JobsReport | None = None

    @property
    def common_rate(self) -> Fraction:
        """Largest algbw per weight that all jobs reach at once, bytes/s."""
        return self.levels[0].rate


@checked()
def bound_jobs(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    *,
    without: str | Sequence[str] | None = None,
    file_format: str | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> JobsResult:
    """The max-min rates of different collectives that run at once, exact, with lengths that prove them.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
    jobs : sequence of Job, or a TOML file of them
        See docs/groups.md.
    without, file_format
        As of `pose`.
    time_limit_s : float, optional
        Seconds after which to give up.
    progress : callable, optional
        progress(stage, done, total).

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a job's rank cannot be reached.
    TimeLimitError
        If time ran out.
    """
    found, _ = _rates(
        topology, jobs, without, file_format, Stopwatch(progress), _limit(progress, time_limit_s)
    )
    return found


@checked()
def solve_jobs(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    *,
    without: str | Sequence[str] | None = None,
    file_format: str | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> JobsResult:
    """Plans of different collectives that reach their max-min rates at once, verified together.

    Parameters, errors: see `bound_jobs`.

    Raises
    ------
    RejectedError
        If the plans do not verify, which is a defect of Treadle.
    """
    from treadle.synthesis.jobs.job_schedules import schedule_of
    from treadle.verification.jobs_check import verify_jobs

    watch = Stopwatch(progress)
    found, rates = _rates(topology, jobs, without, file_format, watch, _limit(progress, time_limit_s))
    with watch.stage("schedules"):
        plans = tuple(
            _plan(found.topology, job, schedule_of(found.topology, job.collective, parts))
            for job, parts in zip(found.jobs, rates.parts, strict=True)
        )
    with watch.stage("verify"):
        report = verify_jobs(found.topology, found.jobs, plans, rates.rates, rates.levels)
    if not report.is_max_min:
        raise RejectedError(ALGORITHM, report.report)
    return JobsResult(
        found.topology,
        found.jobs,
        found.alone,
        found.together,
        found.levels,
        watch.seconds(),
        plans,
        report,
    )


def _limit(progress: Progress | None, time_limit_s: float | None) -> Watch:
    return Watch(progress, seconds_left(time_limit_s))


def _rates(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    without: str | Sequence[str] | None,
    file_format: str | None,
    watch: Stopwatch,
    limit: Watch,
) -> tuple[JobsResult, JobRates]:
    from treadle.synthesis.jobs.max_min import max_min_rates  # brings a solver that few commands need

    with watch.stage("fabric"):
        fabric = resolve_topology(topology, file_format=file_format)
        if without is not None:
            fabric = without_failures(fabric, without)
        _refuse_caps(fabric)
        posed = read_jobs(jobs, fabric) if isinstance(jobs, Path | str) else tuple(jobs)
    with watch.stage("together"):
        rates = max_min_rates(fabric, posed, watch=limit)
        proved = proved_rates(fabric, posed, rates.levels)
        if proved != rates.rates:
            raise ScheduleError("jobs: the levels do not prove the rates; this is a defect of Treadle")
    with watch.stage("alone"):
        alone = tuple(max_min_rates(fabric, (job,), watch=limit).rates[0] for job in posed)
    return JobsResult(fabric, posed, alone, rates.rates, rates.levels, watch.seconds()), rates


def _refuse_caps(fabric: Topology) -> None:
    for node in np.flatnonzero(fabric.injection_bytes_per_s)[:1]:
        raise InfeasibleError(
            f"compute node {fabric.node_names[node]!r} has an injection cap, which jobs at once do not "
            f"model; put a switch with links of that bandwidth between the node and its links"
        )


def _plan(fabric: Topology, job: Job, schedule: Schedule) -> Plan:
    """The plan of a job on the part of the fabric that is there for it; its algbw is what it has alone."""
    part, own = posed_alone(fabric, job)
    moved = transfer_schedule(schedule, fabric, part)
    report = verify(part, own, moved)
    if not report.is_ok or report.algbw is None:
        raise RejectedError(ALGORITHM, report)
    return Plan(
        part,
        own,
        (PlanEntry(0, None, moved),),
        ALGORITHM,
        report.algbw,
        provenance={"version": __version__, "job": job.name, "model": MODEL},
    )


def posed_alone(fabric: Topology, job: Job) -> tuple[Topology, Collective]:
    """The part of the fabric that is there for a job, and the collective on it."""
    there = {*job.collective.ranks, *job.collective.forwarders}
    places = [place for place, node in enumerate(fabric.compute_nodes.tolist()) if node in there]
    if len(places) == len(fabric.compute_nodes):
        return fabric, job.collective
    part = subset(fabric, *places)
    return part, transfer_collective(job.collective, fabric, part)
