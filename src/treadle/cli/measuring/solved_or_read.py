"""Commands that take a plan, or a fabric and a collective to solve first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from treadle import planning
from treadle.cli.fabric_arguments import topology_text
from treadle.cli.output import ProgressLine
from treadle.cli.plan_file import read_plan
from treadle.cli.usage import is_fabric
from treadle.context import Context, under
from treadle.errors import FormatError
from treadle.planning.problem import ProblemOptions
from treadle.planning.together.shared_rates import SharedRates, alone_in_plan, plan_rates, shared_rates
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology

PlanOrFabricArgument = Annotated[
    Any,
    typer.Argument(
        metavar="PLAN|TOPOLOGY",
        help="A plan that solve wrote, or a fabric to solve for.",
        parser=topology_text,
    ),
]
"""A `Topology` where `cli.fabric_arguments.FabricCommand` has read one; else the text."""
SolvedCollectiveArgument = Annotated[
    str | None, typer.Argument(metavar="[COLLECTIVE]", help="With a fabric: what to solve.")
]
SolvedAlgorithmOption = Annotated[
    str | None, typer.Option("--algorithm", help="With a fabric: the scheduler.", metavar="NAME")
]


@dataclass(frozen=True)
class Solving:
    """What is to be solved for a fabric, as it was typed; nothing of it goes with a schedule at hand."""

    collective: str | None
    algorithm: str | None
    seed: int
    options: ProblemOptions
    multicast: bool = False

    def refuse(self, instead: str) -> None:
        """FormatError if anything was asked for; `instead` says what was found, as "x is a plan"."""
        given = {
            "COLLECTIVE": self.collective,
            "--algorithm": self.algorithm,
            "--multicast": self.multicast,
            **{f"--{name}": value for name, value in self.options.items() if name != "file_format"},
        }
        for name, value in given.items():
            if value is not None and value is not False:
                raise FormatError(f"{name}: expected a fabric to solve for, and {instead}")


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


def solved_or_read(
    plan: Topology | str, asked: Solving, *, command: str, max_memory: str | None, progress: ProgressLine
) -> LoadedPlan:
    """The plan of a file, or of a fabric and a collective.

    Raises
    ------
    TreadleError
        If the collective is missing, or what only solving heeds is given beside a plan; or the plan cannot be
        read, or there is none.
    """
    if isinstance(plan, Topology) and asked.collective is not None:
        solved = planning.solve(
            plan,
            asked.collective,
            algorithm=asked.algorithm,
            multicast=asked.multicast,
            seed=asked.seed,
            progress=progress,
            **asked.options,
        )
        return LoadedPlan(solved.plan, solved)
    text = str(plan)
    if is_fabric(text) and not Path(text).exists():
        raise FormatError(
            f"COLLECTIVE is missing; expected one of {', '.join(CollectiveKind)}, as in: "
            f"treadle {command} {quote(text)} allreduce"
        )
    asked.refuse(f"{text} is a plan")
    Context(progress).announce("reading")
    return LoadedPlan(read_plan(text, max_memory))
