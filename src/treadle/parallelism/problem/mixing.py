"""Layers of a model that take different plans: the problem's repeated part as columns, and back as a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.problem.prices import StatePrices
from treadle.parallelism.problem.search_problem import SearchProblem
from treadle.parallelism.problem.variable_table import ACTIVATION, GRADIENT
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.search.layer_columns import Layering
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.search.mixed_layers import MixedLayers, mix_layers
from treadle.parallelism.state.sharding import axis_sizes
from treadle.training.costs import Costs


def layering_of(problem: SearchProblem, costs: Costs) -> Layering | None:
    """Return the part that runs most often as layers; None where no part runs twice."""
    table, graph = problem.table, problem.graph
    section = max(range(len(graph.repeats)), key=lambda at: graph.repeats[at])
    if graph.repeats[section] < 2:
        return None
    boundary = table.boundary[ACTIVATION], table.boundary[GRADIENT]
    prices, switches = StatePrices(axis_sizes(problem.mesh), costs), []
    for variable in map(table.state, boundary):
        states = table.widened(variable.part, variable.tensor, variable.states)
        part = table.values[variable.part].graph
        switches.append(prices.seconds(part, variable.tensor, states, states))
    forth, back = switches
    block = frozenset(
        number for number, one in enumerate(table.variables) if one.part == section and number not in boundary
    )
    return Layering(graph, section, boundary, (forth, back.T), block)


def mixed(
    problem: SearchProblem,
    costs: Costs,
    known: Sequence[tuple[int, ...]],
    *,
    memory_bytes: float = inf,
    overlap: Overlap = Overlap.LAYER,
    effort: SearchEffort | None = None,
) -> tuple[ParallelPlan, MixedLayers] | None:
    """Return the best plan whose layers may differ, with its bound.

    Parameters
    ----------
    problem : SearchProblem
    costs : Costs
        Of the problem's mesh.
    known : sequence of plans
        That all layers may take; one of them keeps to the limit.
    memory_bytes, overlap, effort
        As `mix_layers` takes them.

    Returns
    -------
    The plan, without a claim, and what was found; None where nothing repeats, or nothing keeps to the limit.
    """
    layering = layering_of(problem, costs)
    if layering is None:
        return None
    found = mix_layers(layering, known, memory_bytes=memory_bytes, overlap=overlap, effort=effort)
    if found is None:
        return None
    kinds = list(dict.fromkeys(found.layers))
    plan = problem.decode(found.ends)
    name = problem.model.parts[layering.section].name
    of_layers = [problem.decode(kind) for kind in kinds]
    parts = tuple(replace(one.parts[name][0], boundary=one.boundary) for one in of_layers)
    layers = {name: tuple(kinds.index(layer) for layer in found.layers)} if len(kinds) > 1 else {}
    return replace(plan, parts={**plan.parts, name: parts}, layers=layers), found
