"""Every plan of a factor graph, priced from its tables one entry at a time."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from treadle.parallelism.search.factor_graph import FactorGraph

Priced = dict[tuple[int, ...], list[Fraction]]


def every_plan(graph: FactorGraph) -> Priced:
    """Allowed plans and their exact quantities."""
    found: Priced = {}
    for plan in product(*(range(size) for size in graph.sizes)):
        amounts = [Fraction(0)] * graph.quantities.count
        for part in graph.factors:
            place = tuple(plan[node] for node in part.scope)
            if part.forbidden is not None and part.forbidden[place]:
                break
            for quantity, table in part.tables.items():
                amounts[quantity] += Fraction(float(table[place]))
        else:
            found[plan] = amounts
    return found


def seconds(graph: FactorGraph, amounts: list[Fraction], overlap: str) -> Fraction:
    """Of a step; sections repeat."""
    n = graph.quantities.n_sections
    compute = [repeat * amounts[s] for s, repeat in enumerate(graph.repeats)]
    wire = [repeat * amounts[n + s] for s, repeat in enumerate(graph.repeats)]
    if overlap == "none":
        return sum(compute, start=Fraction(0)) + sum(wire, start=Fraction(0))
    if overlap == "model":
        return max(sum(compute, start=Fraction(0)), sum(wire, start=Fraction(0)))
    return sum((max(pair) for pair in zip(compute, wire, strict=True)), start=Fraction(0))


def peak(graph: FactorGraph, amounts: list[Fraction]) -> Fraction:
    """Bytes of the fullest moment."""
    persistent = 2 * graph.quantities.n_sections
    return amounts[persistent] + max(amounts[persistent + 1 :], default=Fraction(0))
