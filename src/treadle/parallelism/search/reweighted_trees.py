"""A lower bound on the cheapest plan by sequential tree-reweighted message passing (TRW-S), and good plans.

Kolmogorov, "Convergent tree-reweighted message passing for energy minimization" (PAMI 2006), with the edges
of the graph covered by chains that are monotonic in the order of the nodes; messages are kept in the form of
"A new look at reweighted message passing" (PAMI 2015). A message is an amount moved from an edge's table to
one of its ends, so any messages whatever leave the energy of every plan as it was, and

    bound = sum over nodes of min(unary + received) + sum over edges of min(table - sent)

holds for any floating-point messages. After a forward pass each edge's minimum is 0 *as computed*: its last
message is the rounded minimum of the very expression that is compared. What is left is the rounding of that
evaluation. With u = 2**-53, a sum of n terms is off by at most (n + 1) * u * (sum of magnitudes) to first
order; `margin` is four times that over all terms of all nodes and edges, and is taken off the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.slices import Energies, Slice

UNIT_ROUNDOFF = 2.0**-53


class TreeMessages:
    """What edges gave to their ends, kept for all states, so that they serve after states were removed.

    Parameters
    ----------
    given : list of pairs of arrays
        Per edge, in the order of the graph's factors: to its earlier node and to its later one.
    """

    def __init__(self, given: list[tuple[FloatArray, FloatArray]]) -> None:
        self.given = given

    @classmethod
    def none(cls, graph: FactorGraph) -> TreeMessages:
        """Nothing moved yet."""
        scopes = [part.scope for part in graph.factors if len(part.scope) == 2]
        return cls([(np.zeros(graph.sizes[u]), np.zeros(graph.sizes[v])) for u, v in scopes])

    def cut(self, part: Slice) -> list[list[FloatArray]]:
        """Those for the states of a slice, as copies."""
        return [
            [early[part.domains[edge.scope[0]]], late[part.domains[edge.scope[1]]]]
            for edge, (early, late) in zip(part.edges, self.given, strict=True)
        ]

    def replaced(self, part: Slice, moved: list[list[FloatArray]]) -> TreeMessages:
        """These with others at the states of a slice."""
        given = []
        for edge, (early, late), (new_early, new_late) in zip(part.edges, self.given, moved, strict=True):
            early, late = early.copy(), late.copy()
            early[part.domains[edge.scope[0]]] = new_early
            late[part.domains[edge.scope[1]]] = new_late
            given.append((early, late))
        return TreeMessages(given)


@dataclass(frozen=True, eq=False)
class TreeBound:
    """What message passing found for one vector of weights.

    Parameters
    ----------
    bound : float
        No plan of the slice has a smaller energy; rounding is taken off already.
    labels : list of int
        A plan, as places in the slice's domains; empty if the greedy choice met a forbidden pair.
    slack : list of arrays of shape (states,)
        A plan that takes the state has energy at least `bound` + slack.
    messages : TreeMessages
        To begin the next call with.
    """

    bound: float
    labels: list[int]
    slack: list[FloatArray]
    messages: TreeMessages


def tree_bound(
    part: Slice,
    energies: Energies,
    messages: TreeMessages,
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
    messages : TreeMessages
        From an earlier call with other weights or larger domains, or `TreeMessages.none`.
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
    moved = messages.cut(part)
    _forward(part, energies, moved)
    now = -np.inf
    for _ in range(n_passes):
        last, before = now, _backward(part, energies, moved)
        labels, slack, minima = _forward(part, energies, moved)
        now = float(np.sum(minima))
        if now - last <= tolerance * abs(now):
            break
    margin = _margin(part, energies, moved)
    loss = max(now - before, 0.0)
    return TreeBound(
        now - margin,
        labels if _is_allowed(part, labels) else [],
        [np.maximum(amount - loss - margin, 0.0) for amount in slack],
        messages.replaced(part, moved),
    )


def _received(part: Slice, energies: Energies, moved: list[list[FloatArray]], node: int) -> FloatArray:
    total = energies.unary[node].copy()
    for e in part.after[node]:
        total += moved[e][0]
    for e in part.before[node]:
        total += moved[e][1]
    return total


def _forward(
    part: Slice, energies: Energies, moved: list[list[FloatArray]]
) -> tuple[list[int], list[FloatArray], list[float]]:
    """Visit nodes in order: take all from earlier edges, share out among later ones.

    Returns
    -------
    labels : list of int
        States chosen on the way, each given those before it.
    slack : list of arrays
        What each state lacks to the node's minimum before it shares out.
    minima : list of float
        Of the nodes, after that.
    """
    labels: list[int] = []
    slack: list[FloatArray] = []
    minima: list[float] = []
    for node in range(len(part.sizes)):
        early, late = part.before[node], part.after[node]
        for e in early:
            moved[e][1] = (energies.pairs[e] - moved[e][0][:, None]).min(axis=0)
        total = _received(part, energies, moved, node)
        choice = energies.unary[node].copy()
        for e in late:
            choice += moved[e][0]
        for e in early:
            choice += energies.pairs[e][labels[part.edges[e].scope[0]]]
        labels.append(int(choice.argmin()))
        least = float(total.min())
        slack.append(total - least)
        if late:
            # the minimum stays, so that messages do not carry the bound to and fro
            share = (total - least) / max(len(late), len(early))
            for e in late:
                moved[e][0] = moved[e][0] - share
        minima.append(float(_received(part, energies, moved, node).min()) if late else least)
    return labels, slack, minima


def _backward(part: Slice, energies: Energies, moved: list[list[FloatArray]]) -> float:
    """Visit nodes in reverse order, likewise; the sum of the minima."""
    sum_of_minima = 0.0
    for node in range(len(part.sizes) - 1, -1, -1):
        early, late = part.before[node], part.after[node]
        for e in late:
            moved[e][0] = (energies.pairs[e] - moved[e][1][None, :]).min(axis=1)
        total = _received(part, energies, moved, node)
        least = float(total.min())
        if early:
            share = (total - least) / max(len(late), len(early))
            for e in early:
                moved[e][1] = moved[e][1] - share
            least = float(_received(part, energies, moved, node).min())
        sum_of_minima += least
    return sum_of_minima


def _margin(part: Slice, energies: Energies, moved: list[list[FloatArray]]) -> float:
    """How far rounding may have lifted the bound."""
    sent = sum(float(np.abs(message).max()) for pair in moved for message in pair)
    n_terms = (
        part.graph.quantities.count
        + 4
        + max(
            (len(early) + len(late) for early, late in zip(part.before, part.after, strict=True)), default=0
        )
    )
    magnitude = energies.largest + 3 * sent
    return 4 * UNIT_ROUNDOFF * (n_terms + len(part.sizes)) * magnitude


def _is_allowed(part: Slice, labels: Sequence[int]) -> bool:
    return not any(
        piece.forbidden is not None and piece.forbidden[tuple(labels[node] for node in piece.scope)]
        for piece in (*part.nodes, *part.edges)
    )
