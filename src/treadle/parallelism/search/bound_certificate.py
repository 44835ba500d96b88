"""Certificate of a lower bound: multipliers, and messages of one pass over an uncut factor graph or boxes.

A search prunes states and splits domains on its way; its bound is then known to it alone. The multipliers
that it ends with give a bound on the whole graph too, with messages by which anybody can check it in one pass
over the tables (`evaluation.bound_check`). It may lie below the search's own by what splitting gained.

`proof_steps` goes the way of the search once more, without pruning: boxes of plans that fall into smaller
boxes by the states of one node, until each has its own certificate. States that the search had pruned where
it split a box are a box of their own. So the proof may need less than the search found, and then proves less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.multipliers import Columns, climb, even_weights, theta
from treadle.parallelism.search.reweighted_trees import TreeBound, no_messages
from treadle.parallelism.search.slices import Domains, Slice, boxes_of, consistent, full_domains
from treadle.parallelism.search.splitting import PartRecord, best_split

MOST_MORE_SPLITS = 3
"""One within the other, of a box that the search did not split, since it had pruned it."""
_MORE_PASSES = 12


@dataclass(frozen=True, eq=False)
class BoundCertificate:
    """Numbers by which a bound on a step's seconds holds, whatever they are.

    Parameters
    ----------
    shares : tuple of float
        Of each section the share of its time that compute is charged for, 0 to 1; communication has the rest.
        Where nothing overlaps they do not count, and over the entire model the first applies to all sections.
    prices : tuple of float
        Seconds for each byte at each moment, 0 or more; where moments are not distinguished, of what
        persists.
    messages : array
        Seconds; factor over two nodes after factor, in the graph's order: what it gives to the states of its
        first node, then to those of its second.
    """

    shares: tuple[float, ...]
    prices: tuple[float, ...]
    messages: FloatArray


@dataclass(frozen=True, eq=False)
class BoxSplit:
    """A box of plans falls into boxes by the states of one node.

    Parameters
    ----------
    node : int
    groups : tuple of int arrays
        States of the node, by box; together all that the box has.
    """

    node: int
    groups: tuple[Int64Array, ...]


ProofStep = BoxSplit | BoundCertificate
"""Step of a proof, depth first: a box is split, or bounded."""


def bound_certificate(
    graph: FactorGraph, aim: Minimax, *, known: Iterable[tuple[int, ...]] = (), n_passes: int = 40
) -> BoundCertificate | None:
    """Return a certificate of a bound over all plans within the limits; None if every plan is forbidden.

    Parameters
    ----------
    graph : FactorGraph
    aim : Minimax
        A step's time (`step_time`).
    known : iterable of plans
        Allowed ones: the better they are, the sooner multipliers are found.
    n_passes : int
        Most calls of message passing.
    """
    domains = consistent(graph, full_domains(graph))
    if domains is None:
        return None
    columns, uncut = Columns(graph, aim), Slice(graph, domains)
    for plan in known:
        columns.add(plan)
    point = climb(uncut, columns, even_weights(aim), no_messages(graph), cut_at=1.0, n_passes=n_passes)
    found = theta(uncut, aim, point.weights, no_messages(graph), tolerance=1e-5)
    return _certificate(graph, aim, point.weights, found.messages)


def proof_steps(
    graph: FactorGraph,
    aim: Minimax,
    record: PartRecord,
    *,
    at_least: float,
    known: Iterable[tuple[int, ...]] = (),
    within: Domains | None = None,
) -> Iterator[ProofStep]:
    """Yield a proof along the splits of a search.

    Parameters
    ----------
    graph : FactorGraph
    aim : Minimax
        Of the search: a step's time (`step_time`), or that with prices of bytes (`layer_columns.priced`).
    record : PartRecord
        Of the search.
    at_least : float
        What is to be proven: boxes that are bounded by it need not fall apart.
    known : iterable of plans
        That the search met: they determine which weights a box needs.
    within : tuple of int arrays, optional
        States that plans may take, as the search took them.
    """
    columns = Columns(graph, aim)
    for plan in known:
        columns.add(plan)
    start = full_domains(graph) if within is None else within
    stack = [(record, start, no_messages(graph), MOST_MORE_SPLITS)]
    while stack:
        part, box, messages, n_more = stack.pop()
        domains = consistent(graph, box)
        if domains is None:  # the check also finds that no plan is left
            yield _certificate(graph, aim, part.weights, messages)
            continue
        cut = Slice(graph, domains)
        found = theta(cut, aim, part.weights, messages)
        if part.node < 0 and found.bound < at_least and not context().is_late:
            part, found = _bound_again(cut, columns, part.weights, found, at_least, is_split=n_more > 0)
            n_more -= 1
        if part.node < 0 or found.bound >= at_least or context().is_late:
            yield _certificate(graph, aim, part.weights, found.messages)
            continue
        node, groups, parts = part.node, list(part.groups), list(part.parts)
        rest = np.setdiff1d(box[node], np.concatenate(groups))
        if len(rest):
            groups.append(rest)
            parts.append(PartRecord(part.weights))
        yield BoxSplit(node, tuple(groups))
        boxes = zip(parts, boxes_of(box, node, groups), strict=True)
        stack += reversed([(one, smaller, found.messages, n_more) for one, smaller in boxes])


def _bound_again(
    cut: Slice, columns: Columns, weights: FloatArray, before: TreeBound, at_least: float, *, is_split: bool
) -> tuple[PartRecord, TreeBound]:
    """Find weights that bound all of a box, since the search bounded a pruned one, and perhaps a split."""
    aim = columns.aim
    share = at_least / columns.value if 0 < columns.value < np.inf else 1.0
    point = climb(cut, columns, weights, before.messages, cut_at=share, n_passes=_MORE_PASSES, prunes=False)
    record, found = PartRecord(weights), before
    if point.bound > before.bound:
        record, found = PartRecord(point.weights), theta(cut, aim, point.weights, point.messages)
    if found.bound < at_least and is_split and not cut.is_single:
        record.split(*best_split(cut, aim, record.weights, found.messages, point.support))
    return record, found


def _certificate(
    graph: FactorGraph, aim: Minimax, weights: FloatArray, messages: FloatArray
) -> BoundCertificate:
    # overlap by layer has a group for each section, of weight `repeats`; else one group is for all of them
    n_sections = len(graph.repeats)
    groups = aim.groups[:n_sections] if len(aim.groups) >= n_sections else aim.groups[:1] * n_sections
    shares = (float(weights[forms[0]]) / weight for weight, forms in groups)
    return BoundCertificate(
        tuple(min(max(share, 0.0), 1.0) for share in shares),
        tuple(float(weights[form]) for form in aim.limited),
        messages,
    )
