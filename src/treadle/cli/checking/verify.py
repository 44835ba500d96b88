"""``treadle verify``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import plan_memory
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.inputs.runtime_files import read_runtime_file, verify_runtime_file
from treadle.options.checking import Verify
from treadle.render.comparing import placed_rows
from treadle.render.files import verify_file_rows, verify_jobs_rows, verify_rows
from treadle.schedules.plan_files.archive import load_plan
from treadle.topologies.topology import Topology


def command(o: Verify) -> int:
    """Recompute every claim of a plan, or interpret a runtime file; list every violation."""
    output = Output.of(o)
    if o.plan.is_dir():
        _reject_file_options(o, "this is a folder of plans")
        return _verify_jobs(output, o.plan, o.topology)
    text = read_runtime_file(o.plan)
    if text is not None:
        if o.topology is not None:
            placed = planning.route_file(o.plan, o.topology, root=o.root or 0)
            output.show(placed_rows(placed, o.plan, output.rates))
            return 0 if placed.report.is_ok else FAILED
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("verifying")
            found = verify_runtime_file(text, source=str(o.plan), profile=o.profile, root=o.root or 0)
        output.show(verify_file_rows(o.plan, found))
        return FAILED if found.violations else 0
    _reject_file_options(o, "a plan has both")
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        with plan_memory(o.plan, o.max_memory, "a plan written by solve (-o), or a runtime file") as granted:
            loaded = load_plan(o.plan, max_memory_bytes=granted)
            Context(progress).announce("verifying")
            result = planning.verify(loaded, o.topology)
    for note in () if o.quiet else result.notes:
        warn(f"warning: {note}")
    output.show(verify_rows(result, loaded, o.plan, output.rates))
    return 0 if result.is_ok else FAILED


def _reject_file_options(o: Verify, reason: str) -> None:
    if o.profile is not None or o.root is not None:
        raise ScheduleError(f"{o.plan}: --profile and --root are for runtime files; {reason}")


def _verify_jobs(output: Output, folder: Path, topology: Topology | None) -> int:
    """Verify the plans of concurrent jobs."""
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        stored = planning.load_jobs(folder)
        Context(progress).announce("verifying")
        found = stored.verified(topology)
    output.show(verify_jobs_rows(stored, found, topology, folder), variant="jobs")
    return 0 if found.report.is_ok else FAILED
