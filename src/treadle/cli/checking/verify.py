"""``treadle verify``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.cli.memory_fence import memory_fence
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import require_plan_file
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.inputs.runtime_files import read_runtime_file, verify_runtime_file
from treadle.options.checking import Verify
from treadle.render.comparing import placed_rows
from treadle.render.files import verify_file_rows, verify_jobs_rows, verify_rows
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.topologies.topology import Topology

_EXPECTED = "a plan that solve wrote (-o), or a text for a runtime"


def command(o: Verify) -> int:
    """Recompute every claim of a plan, or execute a text; list every violation, or none."""
    output = Output.of(o)
    if o.plan.is_dir():
        _refuse_of_texts(o, "this is a folder of plans")
        return _verify_jobs(output, o.plan, o.topology)
    text = read_runtime_file(o.plan)
    if text is not None:
        if o.topology is not None:
            return _place_text(output, o.plan, o.topology, o.root or 0)
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("judging")
            found = verify_runtime_file(text, source=str(o.plan), profile=o.profile, root=o.root or 0)
        output.show(verify_file_rows(o.plan, found))
        return FAILED if found.violations else 0
    _refuse_of_texts(o, "a plan says both itself")
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        require_plan_file(o.plan, _EXPECTED)
        granted = o.max_memory or MAX_MEMORY
        with memory_fence(granted, str(o.plan)):
            loaded = load_plan(o.plan, max_memory_bytes=granted)
            Context(progress).announce("verifying")
            result = planning.verify(loaded, o.topology)
    for note in () if o.quiet else result.notes:
        warn(f"warning: {note}")
    output.show(verify_rows(result, loaded, o.plan, output.rates))
    return 0 if result.is_ok else FAILED


def _refuse_of_texts(o: Verify, reason: str) -> None:
    if o.profile is not None or o.root is not None:
        raise ScheduleError(f"{o.plan}: --profile and --root are for texts; {reason}")


def _verify_jobs(output: Output, folder: Path, topology: Topology | None) -> int:
    """Judge the plans of jobs that run at once."""
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        stored = planning.load_jobs(folder)
        Context(progress).announce("verifying")
        found = stored.verified(topology)
    output.show(verify_jobs_rows(stored, found, topology, folder), variant="jobs")
    return 0 if found.report.is_ok else FAILED


def _place_text(output: Output, path: Path, topology: Topology, root: int) -> int:
    """Put a text on a fabric, and tell what is wrong with it or how good it is."""
    placed = planning.route_file(path, topology, root=root)
    output.show(placed_rows(placed, path, output.rates))
    return 0 if placed.report.is_ok else FAILED
