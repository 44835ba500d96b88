"""``treadle testbed``."""

from __future__ import annotations

from treadle.api.run import parse_sizes
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.inputs.problem import make_problem, resolve_kind
from treadle.options.measuring import Testbed
from treadle.render.fitting import emulation_rows
from treadle.render.rows import row
from treadle.schedules.collective import CollectiveKind
from treadle.testbed import testbed
from treadle.topologies.topology import Topology
from treadle.units import parse_bandwidth


def command(o: Testbed) -> int:
    """Emulate a fabric with network namespaces (root on Linux), run plans on it, compare with the model."""
    output = Output.of(o)
    if o.clean:
        removed = testbed.clean_leftovers()
        told = [f"removed {name}" for name in removed] or ["nothing was left"]
        output.show([row(None, "\n".join(told), removed=removed)])
        return 0
    plans = [read_plan(path, o.max_memory) for path in o.plan]
    fabric = _fabric(o.topology, [loaded.topology for loaded in plans])
    rate_bytes_per_s = parse_bandwidth(o.rate)
    if not rate_bytes_per_s:
        raise FormatError(f"rate {o.rate!r}: expected more than 0")
    if o.dry_run:
        lines = testbed.dry_run(fabric, rate_bytes_per_s, delay_ns=o.delay_ns)
        output.show([row(None, "\n".join(lines), commands=lines)])
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
    output.show(emulation_rows(result, output.rates))
    if result.wrong:
        warn(f"{result.wrong} elements are wrong")
    return FAILED if result.wrong else 0


def _fabric(typed: Topology | None, planned: list[Topology]) -> Topology:
    if typed is not None:
        return make_problem(typed, CollectiveKind.ALLGATHER).topology
    if not planned:
        raise FormatError("expected a TOPOLOGY, --plan or --clean")
    return planned[0]
