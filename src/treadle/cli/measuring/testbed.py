"""``treadle testbed``."""

from __future__ import annotations

from treadle.api.run import parse_sizes
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.inputs.problem import pose, resolve_kind
from treadle.options.measuring import Testbed
from treadle.schedules.collective import CollectiveKind
from treadle.testbed import testbed
from treadle.testbed.testbed_summary import emulation_summary, model_line
from treadle.topologies.topology import Topology
from treadle.units import format_seconds, format_size, parse_bandwidth


def command(o: Testbed) -> int:
    """Emulate a fabric with network namespaces (root on Linux), run plans on it, compare with the model."""
    output = Output.of(o)
    if o.clean:
        removed = testbed.clean_leftovers()
        for line in [f"removed {name}" for name in removed] or ["nothing was left"]:
            output.line(line)
        output.result({"removed": removed})
        return 0
    plans = [read_plan(path, o.max_memory) for path in o.plan]
    fabric = _fabric(o.topology, [loaded.topology for loaded in plans])
    rate_bytes_per_s = parse_bandwidth(o.rate)
    if not rate_bytes_per_s:
        raise FormatError(f"rate {o.rate!r}: expected more than 0")
    if o.dry_run:
        lines = testbed.dry_run(fabric, rate_bytes_per_s, delay_ns=o.delay_ns)
        for line in lines:
            output.line(line)
        output.result({"commands": lines})
        return 0
    with ProgressLine(quiet=output.is_silent) as progress:
        result = testbed.emulate(
            fabric,
            parse_sizes(o.size),
            rate_bytes_per_s=rate_bytes_per_s,
            delay_ns=o.delay_ns,
            collectives=[resolve_kind(name.strip()) for name in o.collectives],
            algorithms=o.algorithms,
            plans=plans,
            timing=testbed.Timing(iterations=o.iterations, rounds=o.rounds),
            with_crossovers=o.crossovers,
            on_case=lambda name: Context(progress).announce(name),
        )
    _print(output, result)
    output.result(emulation_summary(result))
    return FAILED if result.wrong else 0


def _fabric(typed: Topology | None, planned: list[Topology]) -> Topology:
    if typed is not None:
        return pose(typed, CollectiveKind.ALLGATHER).topology
    if not planned:
        raise FormatError("expected a TOPOLOGY, --plan or --clean")
    return planned[0]


def _print(output: Output, result: testbed.EmulationResult) -> None:
    rate = output.rates(result.rate_bytes_per_s)
    output.line(f"measured on {result.topology.name}, emulated on this host, {rate} a link and more:")
    headings = ["collective", "algorithm", "size", "steps", "T_B (M/B)", "measured", "predicted", "error", ""]
    rows = [
        [
            row.collective.value,
            row.algorithm,
            format_size(row.size_bytes),
            str(row.steps),
            f"{row.t_b:.4f}",
            f"{row.time_s * 1e3:.3f} ms",
            f"{row.predicted_s * 1e3:.3f} ms",
            f"{row.error:+.1%}",
            "fitted" if row.is_fitted else "",
        ]
        for row in result.rows
    ]
    output.table(headings, rows, left=2, least=("T_B (M/B)", "steps", "", "predicted"))
    output.line()
    output.line(model_line(result, show=output.rates))
    output.line(f"error: mean {result.mean_error:.1%}, max {result.max_error:.1%}")
    _print_delayed(output, result)
    wrong = result.wrong
    output.line(f"{wrong} elements WRONG" if wrong else "every element is right")
    for skip in result.skipped:
        output.line(f"skipped {skip.collective} by {skip.algorithm}: {skip.reason}")
    if wrong:
        warn(f"{wrong} elements are wrong")


def _print_delayed(output: Output, result: testbed.EmulationResult) -> None:
    line = result.line
    if line is None or result.delay_ns is None:
        return
    output.line(
        f"links of {format_seconds(result.delay_ns / 1e9)}: {line.frames} frames, {line.dropped} dropped, "
        f"at most {format_seconds(line.latest_s)} late"
    )
    if not result.crossovers:
        return
    output.line()
    output.line("where the second becomes faster, each pair predicted from other schedules:")
    headings = ["collective", "small sizes", "large sizes", "predicted", "measured", "ratio", "fitted to"]
    rows = [
        [
            one.collective.value,
            one.small,
            one.large,
            _size(one.predicted_bytes),
            _size(one.measured_bytes),
            "" if one.ratio is None else f"{one.ratio:.2f}",
            ", ".join(one.fitted_to),
        ]
        for one in result.crossovers
    ]
    output.table(headings, rows, left=3, least=("fitted to",))


def _size(size: float | None) -> str:
    return "none" if size is None else format_size(round(size))
