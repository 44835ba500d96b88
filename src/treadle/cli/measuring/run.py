"""``treadle run``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.measuring.solved_or_read import solved_or_read
from treadle.cli.output import Output, ProgressLine
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.options.measuring import Run, Runs
from treadle.options.rows import keywords
from treadle.planning import DeviceProtocol, RunKeywords, parse_sizes
from treadle.render.measuring import run_rows
from treadle.render.quantities import Rates
from treadle.simulation.block_costs import block_costs


def command(o: Run) -> int:
    """Move real data by a plan, check every element, and print the columns of nccl-tests."""
    reporter = planning.is_reporter(o.runtime)
    sizes = parse_sizes(o.size)
    options = _run_keywords(o)
    with ProgressLine(quiet=o.quiet or o.json or not reporter) as progress:
        found = solved_or_read(o, command="run", progress=progress)
    loaded = found.plan
    output = Output(o.json, o.quiet or not reporter, Rates(o.unit or ""))
    if not reporter and not planning.has_process_per_rank(loaded, o.runtime):
        return 0  # the first process reports it for all; a failure here could end that before it has
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("running")
            result = planning.run(loaded, sizes, runtime=o.runtime, in_place=o.in_place, **options)
            shared = found.shared(progress) if reporter else None
    except planning.UnverifiedPlanError:
        if reporter:
            raise
        return 0
    if reporter:
        output.show(
            run_rows(loaded, o.runtime, result, output.rates, shared=shared, mesh=o.mesh, axes=o.axes)
        )
    return FAILED if result.wrong else 0


def _run_keywords(o: Run) -> RunKeywords:
    """Return only the given options: other runtimes reject options of devices."""
    found: RunKeywords = keywords(o, Runs, but=("device_protocols", "lane_costs"))
    protocol = o.device_protocols
    if protocol is not None and protocol.strip().lower() == "auto":
        found["device_protocols"] = ()
    elif protocol is not None:
        known = {one.value.lower(): one for one in DeviceProtocol}
        names = [name.strip().lower() for name in protocol.split(",")]
        if not set(names) <= set(known):
            expected = " and ".join(known[name].value for name in known)
            raise FormatError(
                f"--protocol: expected auto, or some of {expected} with commas, found {protocol[:40]!r}"
            )
        found["device_protocols"] = tuple(known[name] for name in dict.fromkeys(names))
    if o.lane_costs is not None:
        found["lane_costs"] = block_costs(planning.as_cost_model(o.lane_costs))
    return found
