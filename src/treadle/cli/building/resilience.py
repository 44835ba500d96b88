"""``treadle resilience``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.quantities import counted
from treadle.cli.solving.report import print_seconds
from treadle.options.building import Resilience
from treadle.options.rows import keywords
from treadle.options.shared import Seed, TimeLimit
from treadle.planning.problem import resolve_topology

_HARMS = 3
"""Cables that are named for each level."""


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
        return late("nothing is told; take fewer --samples, or allow more time (--time-limit)")
    _print(output, result)
    output.result(planning.resilience_summary(result))
    return 0


def _print(output: Output, result: planning.ResilienceResult) -> None:
    whole = ", ".join(f"{name} {output.rates(rate)}" for name, rate in result.whole.items())
    loops = int((result.topology.tails == result.topology.heads).sum())
    beside = f", and {loops} from a node to itself, which carry nothing" if loops else ""
    output.line(f"fabric      {result.topology.name}: {counted(result.cables, 'cable')}{beside}")
    output.line(f"optimum     {whole} busbw, nothing failed")
    output.line()
    rows = [
        (
            level.collective,
            counted(level.cables, "cable") if level.cables else counted(level.nodes, "node"),
            str(len(level.shares)),
            f"{level.mean:.1%}",
            f"{level.worst:.1%}",
            level.worst_fabric,
        )
        for level in result.levels
    ]
    output.table(("collective", "failed", "draws", "mean", "worst", "worst draw"), rows, left=2)
    output.line()
    output.line("            mean and worst: optimal busbw of what is left, as a share of the whole fabric's")
    for level in result.levels:
        if level.harms:
            worst = ", ".join(f"{harm.cable} {harm.regained:+.1%}" for harm in level.harms[:_HARMS])
            output.line(f"hurt most   {level.collective}, {counted(level.cables, 'cable')}: {worst}")
    if any(level.harms for level in result.levels):
        output.line("            what mending that cable alone gives back in the worst draw")
    print_seconds(output, result.seconds)
