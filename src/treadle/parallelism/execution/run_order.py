"""In which order a phase of a part runs: single operators and loops over chunks."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import ComputeGraph, Phase
from treadle.parallelism.plan.part_plan import ActivationPolicy, Chunk, PartPlan


@dataclass(frozen=True)
class OrderedUnit:
    """An operator, or those of one loop in their order.

    Parameters
    ----------
    numbers : tuple of int
        Nodes.
    chunk : Chunk or None
        Of the first: others may name the dimension differently.
    """

    numbers: tuple[int, ...]
    chunk: Chunk | None = None


def units_of(graph: ComputeGraph, plan: PartPlan, phase: Phase) -> list[OrderedUnit]:
    """Return the units of a phase in executable order, the graph's own as far as loops allow.

    Raises
    ------
    ScheduleError
        If an operator has no plan, or one outside a loop stands between two of its operators.
    """
    by_loop: dict[object, OrderedUnit] = {}
    for number, node in enumerate(graph.nodes):
        if not node.computes:
            continue
        if node.name not in plan.operators:
            raise ScheduleError(f"plan: no plan of {node.name}; expected one for each operator")
        one = plan.operators[node.name]
        is_again = phase is Phase.BACKWARD and one.keep is ActivationPolicy.RECOMPUTED
        if node.phase is not phase and not is_again:
            continue
        key = number if one.chunk is None else one.chunk.of_loop
        known = by_loop.get(key, OrderedUnit((), one.chunk))
        by_loop[key] = OrderedUnit((*known.numbers, number), known.chunk)
    units = list(by_loop.values())
    unit_of = {number: at for at, unit in enumerate(units) for number in unit.numbers}
    sorter = TopologicalSorter[int]()
    for at, unit in enumerate(units):
        before = {unit_of.get(o.tensor.node, at) for n in unit.numbers for o in graph.nodes[n].operands}
        sorter.add(at, *before - {at})
    try:
        sorter.prepare()
    except CycleError as error:
        stuck = min(at for at in error.args[1] if units[at].chunk is not None)
        raise ScheduleError(
            f"plan: the loop over chunks of {units[stuck].chunk.letter} cannot run: an "
            "operator outside of it stands between two of its own"
        ) from None
    found: list[OrderedUnit] = []
    ready: list[tuple[int, int]] = []
    while sorter.is_active():
        for at in sorter.get_ready():
            heappush(ready, (units[at].numbers[0], at))
        _, at = heappop(ready)
        found.append(units[at])
        sorter.done(at)
    return found
