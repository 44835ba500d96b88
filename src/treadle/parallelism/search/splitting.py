"""Choice of a split of a set of plans: the node whose parts' bounds rise most (strong branching).

Candidates are nodes at which the plans that a linear program mixes disagree, boundary states of a block and
those that disagree most before others. Each is tried: states split by a key in which the mixed plans
differ, and a few passes of messages at the weights and with the messages that bounded the whole part. States
outside a part are not removed for that but made expensive, which bounds the part as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.arrays import Int64Array
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.multipliers import Support
from treadle.parallelism.search.reweighted_trees import tree_bound
from treadle.parallelism.search.slices import Energies, Slice

N_CANDIDATES = 8
"""Nodes that are tried."""
N_PASSES = 6
"""Pairs of passes for each part that is tried."""


@dataclass(eq=False)
class PartRecord:
    """A part of the plans, kept so that a search's bound can be proven again without it.

    What the search cut away between splits is not kept: a proof bounds whole boxes.

    Parameters
    ----------
    weights : array of shape (forms,)
        Of the bound.
    node : int
        At which it was split; -1: it was not.
    groups : list of int arrays
        States of the node, by part.
    parts : list of PartRecord
        The parts.
    """

    weights: FloatArray
    node: int = -1
    groups: list[Int64Array] = field(default_factory=list)
    parts: list[PartRecord] = field(default_factory=list)

    def split(self, node: int, groups: list[Int64Array]) -> None:
        """Note how a part was split."""
        self.node, self.groups = node, groups
        self.parts = [PartRecord(self.weights) for _ in groups]


def best_split(
    part: Slice, aim: Minimax, weights: FloatArray, messages: FloatArray, support: Support
) -> tuple[int, list[Int64Array]]:
    """Choose the node to split a set at, and its states by part.

    Parameters
    ----------
    part : Slice
        With a node of more than one state.
    aim : Minimax
    weights, messages
        That bounded it.
    support : tuple of (float, plan)
        Plans that the linear program mixes.
    """
    energies = part.energies(weights @ aim.forms)
    base = tree_bound(part, energies, messages, n_passes=1).bound
    best: tuple[float, int, list[Int64Array]] | None = None
    for node, groups in _candidates(part, support):
        gains = sorted(
            max(_bound_of(part, energies, messages, node, states) - base, 0.0) for states in groups
        )
        tiny = 1e-6 * abs(base)
        score = (gains[0] + tiny) * (gains[1] + tiny)
        if best is None or score > best[0]:
            best = score, node, groups
    if best is None:
        node = int(np.argmax(part.sizes))
        return node, _split(part.graph, node, part.domains[node], [])
    return best[1:]


def _bound_of(part: Slice, energies: Energies, messages: FloatArray, node: int, states: Int64Array) -> float:
    """Return A bound of the plans that take one of some states of a node."""
    unary = energies.unary.copy()
    dear = 4 * energies.largest + 1
    start, end = part.starts[node], part.starts[node + 1]
    unary[start:end][~np.isin(part.domains[node], states)] += dear
    made = Energies(unary, energies.pair, energies.largest + dear)
    return tree_bound(part, made, messages, n_passes=N_PASSES, tolerance=1e-3).bound


def _candidates(part: Slice, support: Support) -> Iterator[tuple[int, list[Int64Array]]]:
    """Yield the nodes and groups of their states."""
    total = sum(weight for weight, _ in support)
    ranked: list[tuple[bool, float, int, list[int]]] = []
    for node, states in enumerate(part.domains):
        shares: dict[int, float] = {}
        for weight, plan in support:
            shares[plan[node]] = shares.get(plan[node], 0.0) + weight
        likely = sorted(set(shares) & set(states.tolist()))
        if len(states) > 1 and len(likely) > 1:
            spread = total - max(shares.values())
            ranked.append((node in part.graph.first, spread, node, likely))
    ranked.sort(key=lambda found: found[:2], reverse=True)
    for _, _, node, likely in ranked[:N_CANDIDATES]:
        # by the first and by the last key in which likely states differ
        differing = _differing(part.graph, node, likely)
        for position in dict.fromkeys((*differing[:1], *differing[-1:])):
            yield node, _by_key(part.graph, node, part.domains[node], position)
        if not differing:
            yield node, _split(part.graph, node, part.domains[node], likely)


def _differing(graph: FactorGraph, node: int, states: Sequence[int] | Int64Array) -> list[int]:
    """Return the positions of keys that distinguish some states."""
    if not graph.letters:
        return []
    keys = graph.letters[node][states]
    return np.flatnonzero((keys != keys[:1]).any(axis=0)).tolist()


def _by_key(graph: FactorGraph, node: int, states: Int64Array, position: int) -> list[Int64Array]:
    keys = graph.letters[node][states, position]
    return [states[keys == key] for key in np.unique(keys)]


def _split(graph: FactorGraph, node: int, states: Int64Array, likely: list[int]) -> list[Int64Array]:
    """Separate likely states; without any split by the first distinguishing key, or into halves."""
    if len(likely) > 1:
        apart = [states[states == state] for state in likely]
        rest = states[~np.isin(states, likely)]
        return [*apart, rest] if len(rest) else apart
    if differing := _differing(graph, node, states):
        return _by_key(graph, node, states, differing[0])
    half = (len(states) + 1) // 2
    return [states[:half], states[half:]]
