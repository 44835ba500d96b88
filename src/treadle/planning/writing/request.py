"""A plan's entry with everything that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.formats.msccl.writer import Profile
from treadle.formats.selection.grids import Grid, choose_grid, regrid
from treadle.formats.selection.served import Selector
from treadle.formats.text_arguments import has_equal_shards
from treadle.planning.writing.options import AUTO_CHUNKS, PLAN_CHUNKS, TextOptions
from treadle.program.lower import lower as lower_schedule
from treadle.program.passes import replicate
from treadle.program.program import Program
from treadle.program.trees.factored_rank import lower_factored_rank
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.steps.steps import StepSchedule


@dataclass(frozen=True)
class TextRequest:
    """What a writer of a format reads.

    Parameters
    ----------
    plan : Plan
    entry : PlanEntry
        Of the plan, its schedule written out.
    options : TextOptions
    path : str
        Where the text will lie.
    in_own_folder : bool
        Whether nothing but such texts lies beside it.
    """

    plan: Plan
    entry: PlanEntry
    options: TextOptions
    path: str
    in_own_folder: bool

    @property
    def name(self) -> str:
        """The algorithm's name where nothing depends on it."""
        return self.options.name or "treadle"

    @property
    def profile(self) -> Profile:
        """The dialect of MSCCL XML."""
        return self.options.profile or Profile.AZURE

    @property
    def max_bytes(self) -> int:
        """Last size of the entry, 0 for no limit."""
        return self.entry.max_bytes or 0

    def program(self, *, merge: bool) -> Program:
        """The entry's schedule, or one rank's part in it, lowered."""
        options = self.options
        if options.rank is not None:
            return replicate(self._part(options.rank), options.instances)
        program = lower_schedule(
            self.plan.topology,
            self.plan.collective,
            self.entry.schedule,
            in_place=options.in_place,
            channels=options.channels,
            merge=merge,
        )
        return replicate(program, options.instances)

    def _part(self, rank: int) -> Program:
        schedule = self.entry.schedule
        if not isinstance(schedule, FactoredSchedule):
            raise ScheduleError(
                "--rank is for factored plans (solve --form factored); this one is lowered as a whole"
            )
        return lower_factored_rank(
            self.plan.topology,
            self.plan.collective,
            schedule,
            rank,
            in_place=self.options.in_place,
            channels=self.options.channels,
        )

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
