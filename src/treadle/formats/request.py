"""Input and output of the formats' writers: a plan's entry with the given options, and the written files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from treadle.errors import ScheduleError
from treadle.formats.file_arguments import has_equal_shards
from treadle.formats.file_options import AUTO_CHUNKS, PLAN_CHUNKS, PROTOCOLS, FileOptions
from treadle.formats.msccl.profile import Profile
from treadle.formats.selection.chunk_counts import Grid, choose_grid, regrid
from treadle.formats.selection.supported_sizes import Selector
from treadle.program.any_schedule import lower as lower_schedule
from treadle.program.passes import replicate
from treadle.program.program import Program
from treadle.program.trees.forest_program import lower as lower_trees
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.steps.steps import StepSchedule
from treadle.topologies.topology import Topology

Boxes = tuple[tuple[int, ...], ...]
"""The ranks of each box."""


@dataclass(frozen=True)
class Given:
    """In-network operations that a runtime file uses like its plan: (rank that triggers it, chunk)."""

    stores: frozenset[tuple[int, int]] = frozenset()
    sums: frozenset[tuple[int, int]] = frozenset()


NOTHING_ASKED = Given()
"""For runtime files without in-network operations."""


@dataclass(frozen=True)
class FileRequest:
    """Input of a format's writer."""

    plan: Plan
    entry: PlanEntry
    """Entry of the plan; its schedule is explicit, except for a single rank."""
    options: FileOptions
    path: str
    """Path of the file to be written."""
    in_own_folder: bool
    """Whether the folder contains only such files."""
    find_boxes: Callable[[Topology, Collective], Boxes] | None = None
    """Default: all ranks are in one box."""
    rate: Callable[[Topology, Collective, Program, Given], Fraction | None] | None = None
    """Algbw (bytes/s) of a program whose ranks do all in-network operations of the plan but `Given`.

    None: no operation is missing, or the rate is unknown.
    """

    @property
    def boxes(self) -> Boxes:
        """The ranks of each box, in the order of their devices."""
        if self.find_boxes is None:
            return (tuple(range(self.plan.collective.n_ranks)),)
        return self.find_boxes(self.plan.topology, self.plan.collective)

    def rate_without_switches(self, program: Program, asked: Given) -> Fraction | None:
        """Return the algbw of a file that uses only the in-network operations `asked`, as `rate` does."""
        return self.rate and self.rate(self.plan.topology, self.plan.collective, program, asked)

    @property
    def name(self) -> str:
        """Name of the algorithm; formats whose runtimes need unique names replace the default."""
        return self.options.name or "treadle"

    @property
    def profile(self) -> Profile:
        """Dialect of MSCCL XML."""
        return self.options.profile or Profile.AZURE

    @property
    def protocol(self) -> str:
        """Protocol of messages; Simple unless another is given."""
        return self.options.protocol or PROTOCOLS[0]

    @property
    def max_bytes(self) -> int:
        """Last size of the entry, 0 for no limit."""
        return self.entry.max_bytes or 0

    def program(self, *, merge: bool) -> Program:
        """Lower the entry's schedule, or the part of one rank."""
        options, schedule = self.options, self.entry.schedule
        problem = self.plan.topology, self.plan.collective
        shape: dict[str, Any] = {"in_place": options.in_place, "channels": options.channels}
        if options.rank is None:
            program = lower_schedule(*problem, schedule, merge=merge, **shape)
        elif isinstance(schedule, FactoredSchedule):
            program = lower_trees(*problem, schedule, rank=options.rank, **shape)
        else:
            raise ScheduleError(
                "--rank is for factored plans (solve --form factored); this one is lowered as a whole"
            )
        return replicate(program, options.instances or 1)

    def write(self, program: Program, selector: Selector, emit: Callable[[Program], str]) -> tuple[Grid, str]:
        """Write a program in the given chunks; automatic ones only if they fit the runtime's tables."""
        chunks, topology = self.options.chunks, self.plan.topology
        plan = grid = Grid(program, program.n_chunks)
        by_step = isinstance(self.entry.schedule, StepSchedule | ExchangeSchedule)
        if has_equal_shards(program) and chunks == AUTO_CHUNKS:
            sizes = (self.entry.min_bytes, self.max_bytes)
            grid = choose_grid(program, topology, selector, *sizes, by_step=by_step)
        elif has_equal_shards(program) and chunks != PLAN_CHUNKS:
            grid = regrid(program, int(chunks), topology, by_step=by_step)
        try:
            return grid, emit(grid.program)
        except ScheduleError:
            if grid.is_plan or chunks != AUTO_CHUNKS:
                raise
        return plan, emit(program)


@dataclass(frozen=True)
class Written:
    """Output of a format's writer."""

    files: tuple[tuple[str, bytes], ...]
    """Suffix of the name's stem, and content; a single file of exactly that name has the suffix ""."""
    program: Program | None = None
    """The program in the files, if they contain one."""
    grid: Grid | None = None
    """Its chunks, if they may differ from the plan's."""
    selectors: tuple[Selector, ...] = ()
    """Selectors that may choose the file; the first is the default."""
    name: str = ""
    """Name of the algorithm, if the runtime prints it."""
    dialect: str = ""
    asked: Given = NOTHING_ASKED
    cautions: tuple[str, ...] = ()
    """Calls for which the runtime uses the file although it does not support them."""
    instances: int = 1
    """Concurrent copies of the schedule."""
    carried_algbw: Fraction | None = None
    """Algbw (bytes/s) that the thread blocks carry, if that is less than the plan's."""


def root_cautions(program: Program) -> tuple[str, ...]:
    """Return the caution for a runtime that does not compare the root."""
    if program.root < 0:
        return ()
    return (
        f"the runtime compares no root: a {program.kind} from another root than {program.root} would give "
        "wrong data",
    )
