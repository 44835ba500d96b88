"""Several groups at once in words of at most 80 columns: alone, together, the shared bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.cli.designing.names import describe_links
from treadle.cli.output import Output
from treadle.cli.quantities import busbw, counted
from treadle.cli.solving.report import print_problem
from treadle.cli.status import INFEASIBLE, fail
from treadle.cli.terminal_table import wrapped
from treadle.planning.group_summary import cut_off_values
from treadle.planning.meshes import as_axes, as_mesh
from treadle.planning.summary import problem_summary

if TYPE_CHECKING:
    from treadle.planning.solving.group_rates import AloneRate, CutOffGroupError
    from treadle.planning.together.shared_rates import SharedRates
    from treadle.schedules.collective import Collective
    from treadle.topologies.topology import Topology

_WIDTH = 80
_INDENT = 12
_AS_GOOD_AS = 1 - Fraction(1, 10**4)
"""Of the optimum: nearer than this both sides look the same."""
_SHOWN = 3
"""Different rates that are told before the rest are counted."""


def mesh_values(mesh: str | None, axes: str | None) -> dict[str, object]:
    """What JSON says of the mesh that was typed."""
    if mesh is None or axes is None:
        return {}
    meant = as_mesh(mesh)
    groups = meant.groups(as_axes(axes))
    return {
        "mesh": meant.text,
        "axes": list(as_axes(axes)),
        "groups": len(groups),
        "group_size": len(groups[0]),
    }


def print_mesh(output: Output, mesh: str | None, axes: str | None) -> None:
    """The mesh that was typed, and the groups that it makes."""
    values = mesh_values(mesh, axes)
    if values and mesh is not None and axes is not None:
        groups, size = int(str(values["groups"])), values["group_size"]
        what = f"{counted(groups, 'group')} of {size} ranks{' at once' if groups > 1 else ''}"
        say(output, "mesh", f"{values['mesh']}, over {', '.join(as_axes(axes))}: {what}")


def print_groups(
    output: Output, topology: Topology, collective: Collective, found: SharedRates, model: str = ""
) -> None:
    """What each group reaches alone and all together, and the links that set it."""
    rates = output.rates
    if found.alone:
        say(output, "alone", alone_text(output, found.alone))
    lower, upper = found.lower, found.upper
    if found.is_exact:
        scaled = rates(busbw(upper, collective))
        say(output, "together", f"{rates.exact(upper)} algbw of each group, {scaled} busbw, exact")
    elif lower > upper * _AS_GOOD_AS:
        scaled, gap = rates(busbw(lower, collective)), f"{float(1 - lower / upper):.1e}"
        say(
            output,
            "together",
            f"{rates(lower)} algbw of each group, {scaled} busbw, at most {gap} below the optimum",
        )
    else:
        say(
            output,
            "together",
            f"at least {rates.exact(lower)} and at most {rates.exact(upper)} algbw of each group: the "
            f"optimum is between",
        )
    if found.rs_ag is not None:
        say(output, "RS + AG", phases_text(output, found))
    say(output, "bottleneck", describe_links(topology, found.bottleneck, rates))
    if model:
        say(output, "model", model)


def phases_text(output: Output, found: SharedRates) -> str:
    """What reduce-scatters and then allgathers reach, beside the joint optimum."""
    assert found.rs_ag is not None
    if found.rs_ag == found.upper:
        return "reduce-scatter + allgather is optimal"
    joint = "joint" if found.is_exact else "joint at least"
    more = float(found.lower / found.rs_ag)
    return f"{output.rates.exact(found.rs_ag)}; {joint} {output.rates.exact(found.lower)}, {more:.4g}x"


def alone_text(output: Output, alone: tuple[AloneRate, ...]) -> str:
    """The least rate of a group by itself, and how many groups have which others."""
    shown = [f"{'' if one.is_exact else 'at most '}{output.rates.exact(one.algbw)}" for one in alone]
    if len(alone) == 1:
        return f"{shown[0]} algbw, each group by itself"
    numbers = [counted(len(one.groups), "group") for one in alone]
    terms = [f"{text} for {number}" for text, number in zip(shown, numbers, strict=True)]
    more = len(alone) - _SHOWN
    if more > 0:
        terms = [*terms[:_SHOWN], f"{more} more up to {shown[-1]}"]
    return f"{', '.join(terms)}, each by itself"


def say(output: Output, label: str, text: str) -> None:
    """A line of a report with its label; what is longer goes on below."""
    for line in wrapped(f"{label:<{_INDENT}}{text}", _WIDTH, indent=_INDENT):
        output.line(line)


def cut_off(
    output: Output,
    error: CutOffGroupError,
    mesh: str | None,
    axes: str | None,
    more: Mapping[str, object],
) -> int:
    """Report a group that is cut off, and what all reach where compute nodes forward; the exit status.

    `more` is what else JSON has of the command.
    """
    problem, forwarding = error.problem, error.forwarding
    print_problem(output, problem.topology, problem.collective)
    print_mesh(output, mesh, axes)
    say(output, "together", "0: a group is cut off")
    if forwarding is not None:
        scaled = output.rates(busbw(forwarding.algbw, forwarding.collective))
        rate = output.rates.exact(forwarding.algbw)
        say(output, "--forward", f"{rate} algbw of each group, {scaled} busbw")
    values = problem_summary(problem.topology, problem.collective)
    output.result({**values, **cut_off_values(error), **mesh_values(mesh, axes), **more})
    return fail(str(error), INFEASIBLE)
