"""``treadle execute``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output, ProgressLine
from treadle.cli.parallelising.execution_report import execution_values, print_execution
from treadle.cli.quantities import counted
from treadle.cli.status import FAILED, fail
from treadle.context import Context
from treadle.options.parallelising import Execute


def command(o: Execute) -> int:
    """Run a step of a module by a plan on processes of this machine, and compare with one process."""
    output = Output.of(o)
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("executing")
        found = planning.execute_plan(
            o.plan,
            o.module,
            repeats=o.repeats,
            fabric=o.fabric,
            backend=o.backend,
            seed=o.seed,
            timeout_s=o.timeout_s,
        )
    print_execution(output, str(o.plan), found)
    output.result(execution_values(found))
    if found.faults:
        return fail(f"{o.plan}: {counted(len(found.faults), 'fault')}; the first: {found.faults[0]}", FAILED)
    return 0
