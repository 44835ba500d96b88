"""Commands that take a plan, or a fabric and a collective to solve first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from treadle import planning
from treadle.cli.output import ProgressLine
from treadle.cli.plan_file import read_plan
from treadle.cli.usage import is_fabric
from treadle.context import Context, under
from treadle.errors import FormatError
from treadle.options.rows import keywords, reject
from treadle.options.shared import Groups, ReadOrSolved, Seed
from treadle.schedulers.alone_rates import alone_in_plan
from treadle.schedulers.shared_rates import SharedRates, plan_rates, shared_rates
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology


def reject_solver_options(o: ReadOrSolved, instead: str) -> None:
    """FormatError if what only solving accepts was typed; `instead` says what was found, as "x is a plan"."""
    names = ["collective", "algorithm", *Groups.rows, *(["multicast"] if "multicast" in o.rows else [])]
    reject(o, names, f"expected a fabric to solve for, and {instead}")


@dataclass(frozen=True)
class LoadedPlan:
    """A plan and, where it was solved for here, what was learnt on the way."""

    plan: Plan
    solved: planning.SolveResult | None = None

    def shared(self, progress: ProgressLine) -> SharedRates | None:
        """What several groups of ranks reach alone and together; of a plan that is verified by now."""
        if self.solved is not None:
            return shared_rates(self.solved)
        if self.plan.collective.blocks is None or self.plan.optimal_algbw is None:
            return None
        with under(Context(progress)):
            return plan_rates(self.plan, alone_in_plan(self.plan))


def solved_or_read(o: ReadOrSolved, *, command: str, progress: ProgressLine) -> LoadedPlan:
    """The plan of a file, or of a fabric and a collective.

    Raises
    ------
    TreadleError
        If the collective is missing, or what only solving accepts is given beside a plan; or there is no
        such plan.
    """
    plan = o.plan
    if isinstance(plan, Topology) and o.collective is not None:
        solved = planning.solve(
            plan,
            o.collective,
            algorithm=o.algorithm,
            multicast=getattr(o, "multicast", False),
            progress=progress,
            **keywords(o, Groups, Seed),
        )
        return LoadedPlan(solved.plan, solved)
    text = str(plan)
    if is_fabric(text) and not Path(text).exists():
        raise FormatError(
            f"COLLECTIVE is missing; expected one of {', '.join(CollectiveKind)}, as in: "
            f"treadle {command} {quote(text)} allreduce"
        )
    reject_solver_options(o, f"{text} is a plan")
    Context(progress).announce("reading")
    return LoadedPlan(read_plan(text, o.max_memory))
