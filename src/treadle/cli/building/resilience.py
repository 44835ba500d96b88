"""``treadle resilience``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output, ProgressLine, late
from treadle.inputs.problem import resolve_topology
from treadle.options.building import Resilience
from treadle.options.rows import keywords
from treadle.options.shared import Seed, TimeLimit
from treadle.render.building import resilience_rows


def command(o: Resilience) -> int:
    """Show what random failures leave of a fabric's optimum, and which cables matter most."""
    output = Output.of(o)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.resilience(
                resolve_topology(o.topology),
                cables=planning.parse_amounts(o.cables, "--cables"),
                nodes=() if o.nodes is None else planning.parse_amounts(o.nodes, "--nodes"),
                samples=o.samples,
                collectives=o.collectives,
                progress=progress,
                **keywords(o, Seed, TimeLimit),
            )
    except planning.TimeLimitError:
        return late("no result yet; take fewer --samples, or allow more time (--time-limit)")
    output.show(resilience_rows(result, output.rates))
    return 0
