"""Third-party schedules on a fabric: read, interpreted, and routed on its links; also plans and values.

A file is first checked alone, by its format's interpreter: it must perform its collective. Then every
message gets a path on the fabric (`program.foreign.placing`), and throughput follows from the loads of the
links. Trees are different: they become one of Treadle's schedules, and the verifier of forests checks them on
the fabric. Ranks of a file correspond to the fabric's by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TypeAlias

import numpy as np

from treadle.brief import brief
from treadle.context import Context, Progress, under
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.formats.schedule_source import ScheduleSource, schedule_sources, source_name
from treadle.formats.verdict import Terms, Verdict
from treadle.input_files import is_plan_file, open_input
from treadle.inputs.fabrics_and_plans import FabricLike, as_plan
from treadle.inputs.moved_plans import moved_plan, verified_on
from treadle.inputs.problem import Problem, make_problem
from treadle.inputs.runtime_files import read_runtime_file
from treadle.inputs.verification import full_report, part_that_is_known
from treadle.program.any_schedule import lower, lower_groups
from treadle.program.foreign.placing import Placement, route_program
from treadle.program.foreign.traffic import NamedRings, NamedTrees, Traffic
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import OperationKind, Program
from treadle.runtime.measured_sizes import measure
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.third_party.foreign_trees import forest_of_trees, trees_of_rings
from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import HasPlan, Plan, PlanEntry, serving
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.schedule import Schedule, unit_trees
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.simulation.congestion import algbw_of_program
from treadle.simulation.tasks import task_graph
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify as verify_schedule
from treadle.verification.violations import Findings, Report, Violation, ViolationKind

HEAD = 2**16
_ELEMENTS = 3
"""Elements of each chunk, in the run that checks a program."""
_SPELT = {"reducescatter": "reduce-scatter", "reduce_scatter": "reduce-scatter"}

_ONE_GROUP = "it is for one group of ranks; a plan of all groups can stand here"

ForeignSchedule: TypeAlias = Plan | HasPlan | Schedule | Program | Path | str
"""Schedules that can be compared: a plan or a result with one, a schedule value, or a file."""


@brief("name", "form", "collective", "topology", "notes")
@dataclass(frozen=True, eq=False)
class PlacedSchedule:
    """A third-party schedule on a fabric.

    Parameters
    ----------
    name : str
        The file's, or what it is.
    form : str
        Format of the file; "plan" for Treadle's.
    problem : Problem
    report : Report
        Violations of the file and of its routing; algbw if there are none.
    schedule : Schedule, optional
        Treadle's schedule; None for files of messages. For a plan by size that of the largest, as algbw.
    messages : Program, optional
        Messages of a file, with their paths; None if it is wrong.
    notes : tuple of str
        How paths were chosen where the file leaves that open.
    optimal_algbw : Fraction, optional
        The most that any schedule reaches, bytes/s, where that was found.
    certificate : Certificate, optional
        Which proves it.
    entries : tuple of PlanEntry
        Size ranges of a plan on this fabric; empty for third-party schedules.
    rates : tuple of Fraction
        Of a plan: asymptotic algbw of each of its schedules, bytes/s.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("ring.xml").write_text(treadle.lower(treadle.solve("ring:4", "allgather")).text)
    >>> placed = treadle.planning.route_file(Path("ring.xml"), "ring:4")
    >>> placed
    <PlacedSchedule ring.xml, msccl-xml, allgather of 4 ranks, ring(4)>
    >>> placed.report.algbw, placed.optimal_algbw
    (Fraction(8, 3), Fraction(8, 3))
    """

    name: str
    form: str
    problem: Problem
    report: Report
    schedule: Schedule | None = None
    messages: Program | None = None
    notes: tuple[str, ...] = ()
    optimal_algbw: Fraction | None = None
    certificate: Certificate | None = None
    entries: tuple[PlanEntry, ...] = ()
    rates: tuple[Fraction, ...] = ()

    @property
    def topology(self) -> Topology:
        """The fabric."""
        return self.problem.topology

    @property
    def collective(self) -> Collective:
        """Collective on it."""
        return self.problem.collective

    @property
    def algorithm(self) -> str:
        """Algorithm name, as in a plan."""
        return self.name

    @property
    def algbw(self) -> Fraction:
        """Asymptotic, bytes/s; ScheduleError where something is wrong."""
        return self.require().algbw or Fraction(0)

    def require(self) -> Report:
        """The report; ScheduleError, with the first violation, if there are any."""
        if not self.report.is_ok:
            more = self.report.n_violations - 1
            rest = f" (and {more} more; treadle verify --topology lists them)" if more else ""
            raise ScheduleError(f"{self.name}: {format_violations(self.report.violations[0])}{rest}")
        return self.report

    @property
    def program(self) -> Program:
        """Return the tasks to simulate; ScheduleError if something is wrong."""
        self.require()
        if self.messages is not None:
            return self.messages
        assert self.schedule is not None
        return lower(self.topology, self.collective, self.schedule)

    @property
    def programs(self) -> ProgramGroups:
        """Return the tasks of all groups to simulate; ScheduleError if something is wrong."""
        if not isinstance(self.schedule, GroupSchedule):
            return as_groups(self.program)
        self.require()
        return lower_groups(self.topology, self.collective, self.schedule)

    def by_size(self, sizes: Sequence[int]) -> list[tuple[PlacedSchedule, list[int]]]:
        """Return the schedule of each size, as by `treadle.schedules.plan.serving`."""
        if not self.entries:
            return [(self, list(range(len(sizes))))]
        return [
            (replace(self, schedule=entry.schedule, entries=()), places)
            for entry, places in serving(self.entries, sizes)
        ]

    @property
    def trees(self) -> int | None:
        """Unit trees in all; None for other schedules."""
        return None if self.schedule is None else unit_trees(self.schedule)


def route_schedule(source: ForeignSchedule, problem: Problem, *, name: str = "") -> PlacedSchedule:
    """Check a third-party schedule on a fabric.

    Parameters
    ----------
    source : Plan, result, schedule, Program, Path or str
        A schedule value, or a file: a plan, or a runtime file of a known format, recognised by its content. A
        program is run on data; sends without a path are routed as those of files are.
    problem : Problem
        The fabric and what is to be done on it.
    name : str
        For reports; default the file's.

    Raises
    ------
    FormatError
        If a file cannot be read, or is of no known format. What it does wrong is in the report.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> ring = treadle.solve("ring:4", "allgather", algorithm="ring")
    >>> placed = planning.route_schedule(ring, planning.make_problem("complete:4", "allgather"))
    >>> placed.report.algbw
    Fraction(8, 3)
    """
    if isinstance(source, Program):
        return _of_program(source, problem, name or "Program")
    if isinstance(source, Schedule):
        return _of_schedule(source, problem, name or type(source).__name__)
    if not isinstance(source, str | Path):
        plan = as_plan(source, "schedule beside others")
        return _of_plan(plan, problem, name or plan.algorithm)
    path = Path(source)
    open_input(path).close()  # raises the error of an unreadable file
    if is_plan_file(path):
        return _of_plan(load_plan(path), problem, name or path.name)
    return route_parsed_file(read_schedule_file(path, root=problem.collective.root or 0), problem, name=name)


def route_schedules(sources: Sequence[ForeignSchedule], problem: Problem) -> list[PlacedSchedule]:
    """Check several, as by `route_schedule`, with distinct names.

    Files of one name get as many folders in front as make them distinct; what is still equal, such as
    plans by one algorithm, is numbered.
    """
    paths = {place: Path(one) for place, one in enumerate(sources) if isinstance(one, str | Path)}
    placed: list[PlacedSchedule] = []
    for place, source in enumerate(sources):
        others = [path for other, path in paths.items() if other != place]
        name = _told_apart(paths[place], others) if place in paths else ""
        found = route_schedule(source, problem, name=name)
        taken = {one.name for one in placed}
        free = (own for number in count(2) if (own := f"{found.name} ({number})") not in taken)
        placed.append(replace(found, name=next(free)) if found.name in taken else found)
    return placed


def _told_apart(path: Path, others: Sequence[Path]) -> str:
    """Return the shortest end of a path that no other has; the path itself if another is equal."""
    parts, rest = path.parts, [other.parts for other in others if other != path]
    for length in range(1, len(parts) + 1):
        if all(other[-length:] != parts[-length:] for other in rest):
            return str(Path(*parts[-length:]))
    return str(path)


def _of_plan(plan: Plan, problem: Problem, name: str) -> PlacedSchedule:
    """Check a plan on the given fabric; its embedded fabric is not trusted."""
    if plan.collective.kind is not problem.collective.kind:
        return _refused(name, "plan", problem, _other_kind(plan.collective.kind, problem))
    fabric = problem.topology
    notes: tuple[str, ...] = ()
    is_its_own = topology_hash(plan.topology) == topology_hash(fabric)
    if not is_its_own:
        # its claims and certificate are of the fabric that it was made for
        notes = (f"the plan was made for {plan.topology.name}; its claims are left aside",)
    report = None
    try:
        part = fabric if is_its_own else part_that_is_known(plan.topology, fabric)
        reports = verified_on(plan, part, with_claims=is_its_own)
        report = full_report(reports)
        moved = moved_plan(plan, fabric)
    except TreadleError as error:
        if report is None or report.is_ok:
            return _refused(name, "plan", problem, str(error))
        return PlacedSchedule(name, "plan", problem, report, plan.entries[-1].schedule)
    if moved.collective != problem.collective:
        return _refused(name, "plan", problem, "the plan is for other ranks, groups, weights or demands")
    rates = tuple(one.rate for one in reports if one.rate is not None)
    schedule = moved.entries[-1].schedule
    return PlacedSchedule(
        name, "plan", problem, report, schedule, notes=notes, entries=moved.entries, rates=rates
    )


def _of_schedule(schedule: Schedule, problem: Problem, name: str) -> PlacedSchedule:
    report = verify_schedule(problem.topology, problem.collective, schedule)
    return PlacedSchedule(name, type(schedule).__name__, problem, report, schedule)


def _of_program(program: Program, problem: Problem, name: str) -> PlacedSchedule:
    """Check a program, run on data; sends without a path are routed."""
    topology, collective = problem.topology, problem.collective
    form = type(program).__name__
    root = -1 if collective.root is None else collective.root
    try:
        if collective.groups is not None:
            raise ScheduleError(_ONE_GROUP)
        if program.kind is not collective.kind or program.root != root:
            raise ScheduleError(_other_kind(program.kind, problem))
        if program.n_ranks != collective.n_ranks:
            raise ScheduleError(f"it has {program.n_ranks} ranks, the collective {collective.n_ranks}")
        if not _has_equal_parts(problem):
            raise ScheduleError("programs are interpreted for equal shards")
        (row,) = measure(program, [4 * program.n_chunks * _ELEMENTS], iterations=1)
        if row.wrong:
            raise ScheduleError(f"{row.wrong} elements are wrong after a run on data")
        if not np.any(program.path[program.operation_kind == OperationKind.SEND] < 0):
            task_graph(topology, program)  # rejects invalid paths
            report = Report((), 0, algbw_of_program(topology, program), None, None)
            return PlacedSchedule(name, form, problem, report, messages=program)
    except ScheduleError as error:
        return _refused(name, form, problem, str(error))
    return _of_messages(Traffic(program), problem, name, form)


@dataclass(frozen=True, eq=False)
class ScheduleFile:
    """A third-party schedule file, checked alone.

    Parameters
    ----------
    name : str
    record : ScheduleSource
    data : bytes
    terms : Terms
    verdict : Verdict
    """

    name: str
    record: ScheduleSource
    data: bytes
    terms: Terms
    verdict: Verdict

    @property
    def kind(self) -> CollectiveKind:
        """Collective that it claims to perform."""
        found = self.verdict.collective
        return CollectiveKind(_SPELT.get(found, found))


def read_schedule_file(path: Path, *, root: int = 0) -> ScheduleFile:
    """Read and interpret a file; FormatError if it cannot be read, or its format is unknown."""
    text = read_runtime_file(path)
    record = None if text is None else source_name(text[:HEAD])
    if text is None or record is None:
        known = ", ".join(record.name for record in schedule_sources())
        if text is not None:
            raise FormatError(f"names no fabric and cannot be put on one; {known} can", source=str(path))
        raise FormatError(f"neither a plan nor a schedule of a known format ({known})", source=str(path))
    terms = Terms(source=str(path), root=root)
    data = text.encode("utf-8", "surrogatepass")
    return ScheduleFile(path.name, record, data, terms, record.interpreted([data], terms))


def route_parsed_file(text: ScheduleFile, problem: Problem, *, name: str = "") -> PlacedSchedule:
    """Route a file on a fabric; see `route_schedule`."""
    name, form, collective = name or text.name, text.record.name, problem.collective
    if collective.groups is not None:
        return _refused(name, form, problem, _ONE_GROUP)
    n_ranks, faults = text.verdict.n_ranks, [*text.verdict.violations]
    if text.verdict.collective and n_ranks != collective.n_ranks:
        faults = [f"the file has {n_ranks} ranks, {problem.topology.name} has {collective.n_ranks}", *faults]
    if faults:
        return _refused(name, form, problem, *faults)
    try:
        messages = text.record.messages(text.data, text.terms)
    except ScheduleError as error:
        return _refused(name, form, problem, str(error))
    if isinstance(messages, NamedRings):
        return _of_rings(messages, problem, name, form)
    if isinstance(messages, NamedTrees):
        return _of_trees(messages, problem, name, form)
    if text.kind is not collective.kind:
        return _refused(name, form, problem, _other_kind(text.kind, problem))
    if not _has_equal_parts(problem):
        return _refused(name, form, problem, "the file's shards are of one size, the collective's differ")
    return _of_messages(messages, problem, name, form)


def route_file(
    path: Path, topology: FabricLike, *, root: int = 0, progress: Progress | None = None
) -> PlacedSchedule:
    """Route a file on a fabric for the collective that it claims, on all of the fabric's ranks.

    The optimum is computed for comparison.

    Raises
    ------
    FormatError, TopologyError
        If the file or the fabric cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("ring.xml").write_text(treadle.lower(treadle.solve("ring:4", "allgather")).text)
    >>> placed = treadle.planning.route_file(Path("ring.xml"), "complete:4")
    >>> placed.report.is_ok, placed.report.algbw, placed.optimal_algbw
    (True, Fraction(8, 3), Fraction(4, 1))
    """
    text = read_schedule_file(path, root=root)
    if not text.verdict.collective:
        raise FormatError(
            f"{text.record.name}: names no collective; use treadle compare TOPOLOGY COLLECTIVE --with {path}",
            source=str(path),
        )
    kind = text.kind
    problem = make_problem(topology, kind, root=root if kind.is_rooted else None)
    placed = route_parsed_file(text, problem)
    if not placed.report.is_ok:
        return placed
    with under(Context(progress)):
        bound = find_bound(problem, cards_forward=True)
    return replace(placed, optimal_algbw=bound.algbw, certificate=bound.certificate)


def _of_messages(traffic: Traffic, problem: Problem, name: str, form: str) -> PlacedSchedule:
    program, placement = route_program(problem.topology, problem.collective, traffic)
    notes = (*traffic.notes, *placement.notes)
    if program is None:
        return replace(_refused(name, form, problem, *placement.faults), notes=notes)
    report = Report((), 0, algbw_of_program(problem.topology, program), None, None)
    return PlacedSchedule(name, form, problem, report, messages=program, notes=notes)


def _of_trees(trees: NamedTrees, problem: Problem, name: str, form: str) -> PlacedSchedule:
    """Convert trees to a schedule, and check it with the verifier of forests."""
    found = forest_of_trees(trees, problem)
    if isinstance(found, Placement):
        return replace(_refused(name, form, problem, *found.faults), notes=found.notes)
    schedule, notes = found
    report = verify_schedule(problem.topology, problem.collective, schedule)
    return PlacedSchedule(name, form, problem, report, schedule, notes=notes)


def _of_rings(rings: NamedRings, problem: Problem, name: str, form: str) -> PlacedSchedule:
    """Check NCCL's rings: every box has those of the file, and NCCL joins them."""
    boxes = find_boxes(problem.topology, problem.collective)
    try:
        placed = _of_trees(trees_of_rings(rings, boxes), problem, name, form)
    except ScheduleError as error:
        return _refused(name, form, problem, str(error))
    if len(boxes) == 1:
        return placed
    notes = [f"every box is taken to have the file's rings; NCCL joins the {len(boxes)} boxes in order"]
    if rings.has_cards:
        notes.append("network cards of the file are left aside: data between boxes take the shortest ways")
    if not placed.report.is_ok:
        notes.append("ways over another GPU of a box (PXN), which NCCL uses on rails, are not placed")
    return replace(placed, notes=(*notes, *placed.notes))


def format_violations(violation: Violation) -> str:
    """Format a violation, without its kind if it is a file's.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> ring = treadle.solve("ring:4", "allgather")
    >>> found = planning.route_schedule(ring, planning.make_problem("path:4", "allgather"))
    >>> planning.format_violations(found.report.violations[0])
    'membership: the schedule uses link n3->n0, which path(4) does not have'
    """
    return violation.message if violation.kind is ViolationKind.TEXT else str(violation)


def _has_equal_parts(problem: Problem) -> bool:
    collective = problem.collective
    return collective.demands is None and (collective.weights is None or len(set(collective.weights)) == 1)


def _other_kind(kind: str, problem: Problem) -> str:
    return f"it is for {kind}, asked for is {problem.collective.kind}"


def _refused(name: str, form: str, problem: Problem, *faults: str) -> PlacedSchedule:
    """Return a report of violations, without a schedule or messages."""
    found = Findings(1000)
    for fault in faults:
        found.add(ViolationKind.TEXT, fault)
    return PlacedSchedule(name, form, problem, found.report())
