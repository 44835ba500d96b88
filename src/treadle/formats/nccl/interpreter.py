"""Compares NCCL graph files with the plan: the rings that NCCL would make of them are the plan's.

A graph holds the order of the devices of each box, and no program that could be executed. NCCL joins the
boxes by itself, so that is done here too; what the joined rings are compared with is read off the plan's
trees arc by arc. Shares no code with the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from treadle.errors import FormatError
from treadle.formats.nccl.reader import NcclGraph, joined_rings, read
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.schedules.trees.forest import Forest, ForestSchedule

_Arcs = frozenset[tuple[int, int]]
"""A ring as (rank, next rank)."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Compare the files of all boxes with the plan; without one, or where it has no trees, parse them.

    Raises
    ------
    FormatError
        If a file is malformed or hostile, or the boxes differ in their numbers of channels.
    """
    graphs = [read(data, terms) for data in files]
    counts = (("channel", len(graphs[0].channels)), ("file", len(files)))
    planned = terms.planned
    if planned is None or not isinstance(planned.schedule, ForestSchedule):
        return Verdict(Check.PARSED, (), counts, sum(len(graph.channels[0]) for graph in graphs))
    violations = tuple(_compared(graphs, planned, planned.schedule))
    detail = ", its rings joined as NCCL joins boxes"
    return Verdict(Check.COMPARED, violations, counts, planned.collective.n_ranks, detail=detail)


def _compared(graphs: list[NcclGraph], planned: Planned, schedule: ForestSchedule) -> list[str]:
    """How the rings that NCCL would make differ from the plan's."""
    boxes = planned.boxes()
    if len(graphs) not in (1, len(boxes)):
        return [f"{len(graphs)} files for {len(boxes)} boxes"]
    graphs = graphs if len(graphs) > 1 else graphs * len(boxes)
    found = [
        f"box {number}: a channel passes {len(graph.channels[0])} devices, the box has {len(box)}"
        for number, (graph, box) in enumerate(zip(graphs, boxes, strict=True))
        if set(graph.channels[0]) != set(range(len(box)))
    ]
    if found:
        return found
    try:
        joined = joined_rings(graphs)
    except FormatError as error:
        return [str(error)]
    order = [rank for box in boxes for rank in box]
    rings = ([order[place] for place in ring] for ring in joined)
    made = Counter(frozenset(zip(ring, [*ring[1:], *ring[:1]], strict=True)) for ring in rings)
    if _shares(made) != _plan_shares(schedule):
        found.append("NCCL would join other rings than the plan's")
    return found + [
        f"box {number}: channel {place} does not come and go by the cards of its first and last device"
        for number, graph in enumerate(graphs)
        for place, chain in enumerate(graph.channels)
        if graph.cards[place : place + 1] != (((chain[0], chain[-1]),) if len(boxes) > 1 else ())
    ]


def _shares(units: Counter[_Arcs]) -> dict[_Arcs, Fraction]:
    """The share of the data that each ring carries."""
    return {ring: Fraction(count, units.total()) for ring, count in units.items()}


def _plan_shares(schedule: ForestSchedule) -> dict[_Arcs, Fraction] | None:
    """The share of each ring of the plan; None if some tree is no path, or roots or phases differ.

    Of an allreduce the broadcasting trees count: the reducing ones pass the same rings the other way.
    """
    *before, last = [_forest_shares(forest) for forest in schedule.forests]
    turned = (
        None if last is None else {frozenset((b, a) for a, b in ring): part for ring, part in last.items()}
    )
    return last if all(one in (last, turned) for one in before) else None


def _forest_shares(forest: Forest) -> dict[_Arcs, Fraction] | None:
    roots: list[dict[_Arcs, Fraction]] = []
    for root in range(forest.n_ranks):
        units = Counter[_Arcs]()
        for tree in forest.trees(root):
            parents = [int(parent) for parent in tree.parent]
            leaves = set(range(len(parents))) - set(parents)
            if len(leaves) != 1:
                return None
            # the arc that the ring has and the tree lacks leads from its only leaf back to its root
            arcs = {(parent, rank) for rank, parent in enumerate(parents) if parent >= 0}
            units[frozenset(arcs | {(leaves.pop(), root)})] += tree.multiplicity
        roots.append(_shares(units))
    return roots[0] if all(one == roots[0] for one in roots) else None
