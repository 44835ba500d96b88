"""Different concurrent collectives: their max-min rates, and plans that reach them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from msgspec import Meta

from treadle._version import __version__
from treadle.context import context, under
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.input_files import read_input_string
from treadle.inputs.problem import make_problem, resolve_kind
from treadle.notebook import displayed_by
from treadle.options.keywords import ProblemOptions
from treadle.schedulers.solving import RejectedError
from treadle.schedules.collective import Collective
from treadle.schedules.jobs import Job, JobLevel, check_jobs, proved_rates
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.schedule import Schedule
from treadle.schedules.transfer import transfer_collective, transfer_schedule
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import subset
from treadle.topologies.topology import Topology
from treadle.typed_files import Table, read_toml
from treadle.units import parse_size
from treadle.verification.schedules import verify

if TYPE_CHECKING:
    from treadle.synthesis.jobs.max_min import JobRates
    from treadle.verification.jobs_check import JobsReport

MODEL = "without in-network multicast and aggregation"
ALGORITHM = "jobs"
MAX_FILE_BYTES = 2**20
MAX_JOBS = 4096
_WEIGHT = Meta(ge=1e-6, le=2**40, description="a number from 1e-6 to 2**40")


@displayed_by("treadle.render.solving:jobs_rows")
@dataclass(frozen=True)
class JobsResult:
    """Rates of jobs that share a fabric.

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
    reached : tuple of Fraction
        Algbw of each job by these plans while all run, bytes/s: `together`, or a little less where the trees
        and routes of the optimum would be too many.
    grids : tuple of Fraction
        Trees per root of each job (unrestricted roots: per rank), or chunks of a unit of demand.
    exact_grids : tuple of Fraction
        The same of the optimum.
    report : JobsReport, optional
        Of the independent verifier, on all plans together.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> found = treadle.planning.solve_jobs("ring:4", "jobs.toml")
    >>> found.alone, found.together, found.reached
    ((Fraction(8, 3), Fraction(2, 1)), (Fraction(8, 7), Fraction(8, 7)), (Fraction(8, 7), Fraction(8, 7)))
    """

    topology: Topology
    jobs: tuple[Job, ...]
    alone: tuple[Fraction, ...]
    together: tuple[Fraction, ...]
    levels: tuple[JobLevel, ...]
    seconds: dict[str, float]
    plans: tuple[Plan, ...] = ()
    reached: tuple[Fraction, ...] = ()
    grids: tuple[Fraction, ...] = ()
    exact_grids: tuple[Fraction, ...] = ()
    report: JobsReport | None = None

    @property
    def loss(self) -> Fraction:
        """Largest loss of a job by rounding, as a fraction of its optimal rate."""
        pairs = zip(self.reached, self.together, strict=True) if self.plans else ()
        return max((1 - rate / most for rate, most in pairs), default=Fraction(0))

    @property
    def common_rate(self) -> Fraction:
        """Largest algbw per weight that all jobs reach concurrently, bytes/s."""
        return self.levels[0].rate


def plan_jobs(found: JobsResult, rates: JobRates, budget: TreeBudget) -> JobsResult:
    """Make plans that reach the rates together, and verify them."""
    from treadle.synthesis.jobs.job_paths import exact_paths, integral_paths, paths_of
    from treadle.synthesis.jobs.job_schedules import schedule_of
    from treadle.verification.jobs_check import verify_jobs

    fabric = found.topology
    with context().stage("schedules"):
        ways = [paths_of(job.collective, parts) for job, parts in zip(found.jobs, rates.parts, strict=True)]
        optimum = exact_paths(ways, rates.rates)
        whole = (
            optimum
            if budget.exact
            else integral_paths(ways, optimum, fabric.bandwidths.tolist(), max_trees=budget.max_trees)
        )
        with under(context().unlimited):
            plans = tuple(
                _plan(fabric, job, schedule_of(fabric, way, units, grid))
                for job, way, units, grid in zip(found.jobs, ways, whole.units, whole.grids, strict=True)
            )
    with context().stage("verify"):
        report = verify_jobs(fabric, found.jobs, plans, whole.rates, rates.levels)
    if not report.report.is_ok or report.loss != whole.loss:
        raise RejectedError(ALGORITHM, report.report)
    return replace(
        found,
        seconds=context().seconds,
        plans=plans,
        reached=whole.rates,
        grids=whole.grids,
        exact_grids=optimum.grids,
        report=report,
    )


def job_rates(fabric: Topology, posed: tuple[Job, ...]) -> tuple[JobsResult, JobRates]:
    """Find the max-min rates of jobs, and what each reaches alone."""
    from treadle.synthesis.jobs.max_min import max_min_rates  # brings a solver that few commands need

    with context().stage("together"):
        rates = max_min_rates(fabric, posed)
        proved = proved_rates(fabric, posed, rates.levels)
        if proved != rates.rates:
            raise ScheduleError("jobs: the levels do not prove the rates; this is a defect of Treadle")
    with context().stage("alone"):
        alone = tuple(max_min_rates(fabric, (job,)).rates[0] for job in posed)
    return JobsResult(fabric, posed, alone, rates.rates, rates.levels, context().seconds), rates


def _plan(fabric: Topology, job: Job, schedule: Schedule) -> Plan:
    """The plan of a job on the part of the fabric that is there for it; its algbw is what it has alone."""
    part, own = alone_problem(fabric, job)
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


def alone_problem(fabric: Topology, job: Job) -> tuple[Topology, Collective]:
    """The part of the fabric that is there for a job, and the collective on it."""
    there = {*job.collective.ranks, *job.collective.forwarders}
    places = [place for place, node in enumerate(fabric.compute_nodes.tolist()) if node in there]
    if len(places) == len(fabric.compute_nodes):
        return fabric, job.collective
    part = subset(fabric, *places)
    return part, transfer_collective(job.collective, fabric, part)


class _Job(Table, frozen=True):
    kind: Annotated[str, Meta(min_length=1)]
    name: str = ""
    ranks: Annotated[str | list[int], Meta(description="text such as '0-7' or a list of integers")] | None = (
        None
    )
    root: Annotated[int | str, Meta(description="a rank or a node's name")] | None = None
    forward: bool = False
    mesh: str | None = None
    axes: str | None = None
    size: str | None = None
    weight: (
        Annotated[int, Meta(ge=1, le=2**40, description=_WEIGHT.description)] | Annotated[float, _WEIGHT]
    ) = 1

    def jobs(self, number: int, topology: Topology) -> Iterator[Job]:
        kind = resolve_kind(self.kind)
        name = self.name or f"{number + 1}:{kind}"
        collective = self._collective(kind.value, topology)
        if collective.groups is None:
            yield Job(name, collective, self._amount())
            return
        for group in range(len(collective.groups)):
            yield Job(f"{name}[{group}]", collective.member(group), self._amount())

    def _collective(self, kind: str, topology: Topology) -> Collective:
        """The collective on the nodes of the whole fabric; nodes that do not take part are left out of it."""
        # posed as if all forwarded, so that the fabric and its numbers stay as they are
        options = {
            "ranks": self.ranks,
            "root": self.root,
            "mesh": self.mesh or None,
            "axes": self.axes or None,
            "forward": True,
        }
        posed = make_problem(topology, kind, **cast(ProblemOptions, options)).collective
        return posed if self.forward else replace(posed, forwarders=(), ranks_forward=False)

    def _amount(self) -> Fraction:
        """Size times weight: jobs of equal weight end together."""
        weight = Fraction(str(self.weight))
        if self.size is None:
            return weight
        if (size := parse_size(self.size)) < 1:
            raise FormatError("size: expected at least 1 byte")
        return weight * size


class _File(Table, frozen=True):
    job: Annotated[list[_Job], Meta(min_length=1, max_length=MAX_JOBS)]


def read_jobs(path: Path | str, topology: Topology) -> tuple[Job, ...]:
    """Read a file of jobs: a table ``[[job]]`` for each.

    Parameters
    ----------
    path : Path or str
        With the keys ``kind``, and optionally ``name``, ``ranks``, ``root``, ``forward``, ``mesh`` and
        ``axes`` (a job for each group), ``size`` (such as ``"64MB"``, of all jobs or of none) and ``weight``.
    topology : Topology

    Raises
    ------
    FormatError
        If the file cannot be read, or says something else; one line with the job's place.
    """
    source = str(path)
    text = read_input_string(path, MAX_FILE_BYTES, expected="jobs as TOML")
    tables = read_toml(text, _File, source=source).job
    jobs: list[Job] = []
    for number, table in enumerate(tables):
        try:
            jobs += table.jobs(number, topology)
        except TreadleError as error:
            raise FormatError(str(error), source=f"{source}: job {number + 1}") from None
    if len({table.size is None for table in tables}) > 1:
        raise FormatError(
            "some jobs have a size and others not; give all of them one, or none", source=source
        )
    try:
        check_jobs(topology, jobs)
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    return tuple(jobs)
