"""A lower bound on the cheapest plan by sequential tree-reweighted message passing (TRW-S), and good plans.

Kolmogorov, "Convergent tree-reweighted message passing for energy minimization" (PAMI 2006), with the edges
of the graph covered by chains that are monotonic in the order of the nodes; messages have the form of
"A new look at reweighted message passing" (PAMI 2015). A message is an amount moved from an edge's table to
one of its ends, so any messages whatever leave the energy of every plan as it was, and

    bound = sum over nodes of min(unary + received) + sum over edges of min(table - sent)

holds for any floating-point messages. After a forward pass each edge's minimum is 0 *as computed*: its last
message is the rounded minimum of the very expression that is compared. What is left is the rounding of that
evaluation. With u = 2**-53, a sum of n terms is off by at most (n + 1) * u * (sum of magnitudes) to first
order; `margin` is four times that over all terms of all nodes and edges, and is taken off the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.engine import core
from treadle.parallelism.search.core_search_values import PairEnergies
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.slices import Energies, Slice

UNIT_ROUNDOFF = 2.0**-53


def no_messages(graph: FactorGraph) -> FloatArray:
    """Return the messages before anything is moved: what edges gave to their ends, the earlier node first.

    They cover all states, so that they stay valid after states are removed.
    """
    return np.zeros(int(np.array(graph.sizes)[graph.message_ends[0]].sum()))


@dataclass(frozen=True, eq=False)
class TreeBound:
    """Result of message passing for one vector of weights.

    Parameters
    ----------
    bound : float
        No plan of the slice has a smaller energy; rounding is taken off already.
    labels : list of int
        A plan, as places in the slice's domains; empty if the greedy choice met a forbidden pair.
    slack : list of arrays of shape (states,)
        A plan that takes the state has energy at least `bound` + slack.
    messages : array
        To begin the next call with.
    """

    bound: float
    labels: list[int]
    slack: list[FloatArray]
    messages: FloatArray


def tree_bound(
    part: Slice,
    energies: Energies,
    messages: FloatArray,
    *,
    n_passes: int = 40,
    tolerance: float = 1e-4,
) -> TreeBound:
    """Bound the least energy from below.

    Parameters
    ----------
    part : Slice
    energies : Energies
        Of that slice.
    messages : array
        From an earlier call with other weights or larger domains, or `no_messages`.
    n_passes : int
        Most pairs of a backward and a forward pass.
    tolerance : float
        Relative gain of a pair of passes below which to stop.

    Notes
    -----
    A pass costs one addition and one minimum per entry of the edges' tables. Slacks of a node are taken as a
    forward pass reaches it: then every edge's minimum is 0 and the nodes' minima sum up to no less than the
    bound before that pass, which only grows; so what the last pass gained is taken off them.
    """
    tables, sizes = part.graph.pair_tables, np.array(part.sizes, dtype=np.int32)
    pairs = PairEnergies(sizes, tables.tail, tables.head, energies.unary, energies.pair)
    (now, before, sent), labels, slack, moved = core.reweighted_trees(
        pairs, messages[part.message_positions], n_passes, tolerance
    )
    messages = messages.copy()
    messages[part.message_positions] = moved
    # how far rounding may have lifted the bound
    n_terms = part.graph.quantities.count + 4 + part.graph.most_edges
    margin = 4 * UNIT_ROUNDOFF * (n_terms + len(part.sizes)) * (energies.largest + 3 * sent)
    slack = np.maximum(slack - max(now - before, 0.0) - margin, 0.0)
    chosen = labels.tolist()
    return TreeBound(
        now - margin,
        chosen if part.graph.is_allowed(part.plan(chosen)) else [],
        [slack[start:end] for start, end in pairwise(part.starts.tolist())],
        messages,
    )
