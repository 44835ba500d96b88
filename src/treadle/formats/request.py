"""What a writer is given, a plan's entry with everything that was asked for, and what it hands back."""

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
    """Chunks for which a text asks switches as its plan does: (rank that asks, chunk)."""

    stores: frozenset[tuple[int, int]] = frozenset()
    sums: frozenset[tuple[int, int]] = frozenset()


NOTHING_ASKED = Given()
"""Of texts that do not know switches."""


@dataclass(frozen=True)
class FileRequest:
    """What a writer of a format reads.

    Parameters
    ----------
    plan : Plan
    entry : PlanEntry
        Of the plan, its schedule written out.
    options : FileOptions
    path : str
        Where the text will lie.
    in_own_folder : bool
        Whether nothing but such texts lies beside it.
    find_boxes : callable, optional
        From fabric and collective to the ranks of each box. Default: all ranks are one box.
    rate : callable, optional
        From fabric, collective, a program and what its text asks of switches to the algbw (bytes/s) where
        ranks do the rest of what the plan leaves to switches; None: nothing is left, or it is not known.
    """

    plan: Plan
    entry: PlanEntry
    options: FileOptions
    path: str
    in_own_folder: bool
    find_boxes: Callable[[Topology, Collective], Boxes] | None = None
    rate: Callable[[Topology, Collective, Program, Given], Fraction | None] | None = None

    @property
    def boxes(self) -> Boxes:
        """The ranks of each box, in the order of their devices."""
        if self.find_boxes is None:
            return (tuple(range(self.plan.collective.n_ranks)),)
        return self.find_boxes(self.plan.topology, self.plan.collective)

    def rate_without_switches(self, program: Program, asked: Given) -> Fraction | None:
        """The algbw of a text that asks switches for `asked` alone; None: nothing lacks, or it is unknown."""
        return self.rate and self.rate(self.plan.topology, self.plan.collective, program, asked)

    @property
    def name(self) -> str:
        """The algorithm's name where nothing depends on it."""
        return self.options.name or "treadle"

    @property
    def profile(self) -> Profile:
        """The dialect of MSCCL XML."""
        return self.options.profile or Profile.AZURE

    @property
    def protocol(self) -> str:
        """How messages carry their flags; Simple unless another was asked for."""
        return self.options.protocol or PROTOCOLS[0]

    @property
    def max_bytes(self) -> int:
        """Last size of the entry, 0 for no limit."""
        return self.entry.max_bytes or 0

    def program(self, *, merge: bool) -> Program:
        """The entry's schedule, or one rank's part in it, lowered."""
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
        """A program as text in the chunks that were asked for.

        Chunks that nobody asked for give way to the plan's where they do not fit a runtime's tables.
        """
        grid = self._grid(program, selector)
        try:
            return grid, emit(grid.program)
        except ScheduleError:
            if grid.is_plan or self.options.chunks != AUTO_CHUNKS:
                raise
        plan = Grid(program, program.n_chunks, Fraction(0))
        return plan, emit(program)

    def _grid(self, program: Program, selector: Selector) -> Grid:
        chunks, topology = self.options.chunks, self.plan.topology
        if chunks == PLAN_CHUNKS or not has_equal_shards(program):
            return Grid(program, program.n_chunks, Fraction(0))
        by_step = isinstance(self.entry.schedule, StepSchedule | ExchangeSchedule)
        if chunks == AUTO_CHUNKS:
            return choose_grid(
                program,
                topology,
                selector,
                min_bytes=self.entry.min_bytes,
                max_bytes=self.max_bytes,
                by_step=by_step,
            )
        return regrid(program, int(chunks), topology, by_step=by_step)


@dataclass(frozen=True)
class Written:
    """What a writer made of a request.

    Parameters
    ----------
    files : tuple of (str, bytes)
        What to add to the name's stem, and the content; one file of the very name has the suffix "".
    program : Program, optional
        What the files express, where they express a program.
    grid : Grid, optional
        Its chunks, where others than the plan's may be taken.
    selectors : tuple of Selector
        Who decides which calls the text is given; the first unless told otherwise.
    name : str
        The algorithm's, where the runtime shows it.
    dialect : str
        Which of several the text is written in.
    asked : Asked
        What the text leaves to switches.
    cautions : tuple of str
        Calls that the runtime gives to the text and that it does not serve.
    instances : int
        Copies of the schedule side by side.
    carried_algbw : Fraction, optional
        Algbw, bytes/s, that the thread blocks carry where that is less than the plan's.
    """

    files: tuple[tuple[str, bytes], ...]
    program: Program | None = None
    grid: Grid | None = None
    selectors: tuple[Selector, ...] = ()
    name: str = ""
    dialect: str = ""
    asked: Given = NOTHING_ASKED
    cautions: tuple[str, ...] = ()
    instances: int = 1
    carried_algbw: Fraction | None = None


def root_cautions(program: Program) -> tuple[str, ...]:
    """What to say of a text whose runtime does not compare the root."""
    if program.root < 0:
        return ()
    return (
        f"the runtime compares no root: a {program.kind} from another root than {program.root} would give "
        "wrong data",
    )
