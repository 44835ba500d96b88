"""What proves a lower bound: multipliers, and messages of one pass over the whole, uncut factor graph.

A search prunes states and splits domains on its way; its bound is then known to it alone. The multipliers
that it ends with give a bound on the whole graph too, with messages by which anybody can check it in one pass
over the tables (`evaluation.bounds`). It may lie below the search's own by what splitting gained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.minimax import Overlap, step_time
from treadle.parallelism.search.multipliers import Columns, climb, even_weights, theta
from treadle.parallelism.search.reweighted_trees import TreeMessages
from treadle.parallelism.search.slices import Slice, consistent, whole


@dataclass(frozen=True, eq=False)
class BoundWitness:
    """Numbers by which a bound on a step's seconds holds, whatever they are.

    Parameters
    ----------
    shares : tuple of float
        Of each section the share of its time that compute is charged for, 0 to 1; communication has the rest.
        Where nothing overlaps they do not count, and over the whole model the first serves all sections.
    prices : tuple of float
        Seconds for each byte at each moment, 0 or more; where no moments are told apart, of what persists.
    messages : array
        Seconds; factor over two nodes after factor, in the graph's order: what it gives to the states of its
        first node, then to those of its second.
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    messages: FloatArray


def bound_witness(
    graph: FactorGraph,
    *,
    memory_bytes: float = np.inf,
    overlap: Overlap = Overlap.LAYER,
    known: Iterable[tuple[int, ...]] = (),
    n_solves: int = 40,
) -> BoundWitness | None:
    """A witness for the step's time over all plans that keep to a limit of memory.

    Parameters
    ----------
    graph : FactorGraph
    memory_bytes : float
        Limit of every moment.
    overlap : Overlap
    known : iterable of plans
        Allowed ones: the better they are, the sooner multipliers are found.
    n_solves : int
        Most calls of message passing.

    Returns
    -------
    BoundWitness, or None where the factors forbid every plan.
    """
    domains = consistent(graph, whole(graph))
    if domains is None:
        return None
    aim = step_time(graph, overlap=overlap, memory_bytes=memory_bytes)
    columns, uncut = Columns(graph, aim), Slice(graph, domains)
    for plan in known:
        columns.add(plan)
    point = climb(uncut, columns, even_weights(aim), TreeMessages.none(graph), cut_at=1.0, n_solves=n_solves)
    found = theta(uncut, aim, point.weights, TreeMessages.none(graph), tolerance=1e-5)
    shares = []
    for at, repeats in enumerate(graph.repeats):
        if overlap is Overlap.LAYER:
            shares.append(float(point.weights[aim.groups[at][1][0]]) / repeats)
        else:
            shares.append(float(point.weights[aim.groups[0][1][0]]))
    return BoundWitness(
        tuple(min(max(share, 0.0), 1.0) for share in shares),
        tuple(float(point.weights[form]) for form in aim.limited),
        found.messages.given,
    )
