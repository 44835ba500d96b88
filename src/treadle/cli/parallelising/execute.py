"""``treadle execute``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output, ProgressLine
from treadle.cli.status import FAILED, fail
from treadle.context import Context
from treadle.options.parallelising import Execute
from treadle.render.parallelism import execution_rows
from treadle.render.quantities import counted


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
    output.show(execution_rows(str(o.plan), found))
    if found.faults:
        return fail(f"{o.plan}: {counted(len(found.faults), 'fault')}; the first: {found.faults[0]}", FAILED)
    return 0
