"""Digraphs near a known one: nodes inserted or deleted, then links that exchange heads, in the compiled core.

What comes out is written as what was done to the graph it came from: `with_inserted_nodes` or
`with_deleted_nodes` of it, and `with_exchanged_heads` of that with as few pairs as undo the difference.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array
from treadle.engine import core, run_until
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.insertions import with_deleted_nodes

MAX_SWAP_DEGREE = 8
MOST_CHANGED = 24
"""Links, besides those of new nodes, whose heads differ from the original graph's."""


class SwapProblem(NamedTuple):
    """Search problem of the core: `src/core/search/link_swaps.hpp`."""

    n: int
    degree: int
    tails: Int32Array
    heads: Int32Array
    home: Int32Array
    opposite: Int32Array
    target: int
    most_changed: int


class SwapPace(NamedTuple):
    """Search limits: graphs tried, a seed, and the cost below which one is useful."""

    trials: int
    seed: int
    bar: int


@dataclass(frozen=True)
class SwapStart:
    """A graph to begin with.

    Parameters
    ----------
    base : Topology
        The known graph; its name is its expression.
    tails, heads : array of int32
        Links of the graph after nodes were inserted or deleted.
    nodes : int
        Of that graph.
    deleted : tuple of int
        Nodes of the base; empty where nodes were inserted, or none.
    is_two_way : bool
        Whether links move with their opposites.
    """

    base: Topology
    tails: Int32Array
    heads: Int32Array
    nodes: int
    deleted: tuple[int, ...]
    is_two_way: bool

    @property
    def degree(self) -> int:
        """d."""
        return self.base.n_links // self.base.n_nodes


def random_start(base: Topology, more: int, rng: random.Random, *, two_way: bool = False) -> SwapStart | None:
    """Insert `more` nodes between random links, or delete as many where it is negative.

    None where a random choice did not fit: a node in one of its own links, one with a self-loop deleted, or
    links left without opposites.
    """
    degree = base.n_links // base.n_nodes
    if more < 0:
        nodes = tuple(sorted(rng.sample(range(base.n_nodes), -more)))
        if (base.tails == base.heads).any():
            return None
        try:
            left = with_deleted_nodes(base, *nodes)
        except ValueError:
            return None
        if two_way and (opposites(left.tails, left.heads) < 0).any():
            return None
        return SwapStart(base, left.tails, left.heads, left.n_nodes, nodes, two_way)
    tails, heads = base.tails.tolist(), base.heads.tolist()
    for node in range(base.n_nodes, base.n_nodes + more):
        for link in _cut(tails, heads, degree, rng, two_way):
            if node in (tails[link], heads[link]):
                return None
            tails.append(node)
            heads.append(heads[link])
            heads[link] = node
    arrays = np.array(tails, dtype=np.int32), np.array(heads, dtype=np.int32)
    return SwapStart(base, *arrays, base.n_nodes + more, (), two_way)


def _cut(tails: list[int], heads: list[int], degree: int, rng: random.Random, two_way: bool) -> list[int]:
    """Return the links to cut for a node; with the reverse links for bidirectional graphs."""
    if not two_way:
        return rng.sample(range(len(tails)), degree)
    opposite = opposites(np.array(tails, dtype=np.int32), np.array(heads, dtype=np.int32))
    duplex = [link for link, other in enumerate(opposite.tolist()) if link < other]
    chosen = rng.sample(duplex, degree // 2)
    return [link for one in chosen for link in (one, int(opposite[one]))]


def opposites(tails: Int32Array, heads: Int32Array) -> Int32Array:
    """Return for each link the number of its reverse link; -1 if it has none."""
    waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
    found = np.full(len(tails), -1, dtype=np.int32)
    for link, (tail, head) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        if others := waiting[head, tail]:
            other = others.pop(0)
            found[link], found[other] = other, link
        else:
            waiting[tail, head].append(link)
    return found


@dataclass(frozen=True)
class Swapped:
    """The best graph that a search came to.

    Parameters
    ----------
    heads : array of int32
    cost : int
        Loads of both directions times `load_scale(degree)`; -1 if it takes more steps than asked or is no
        better than the bar.
    tried : int
    """

    heads: Int32Array
    cost: int
    tried: int


def swap_links(
    start: SwapStart, *, target: int, trials: int, seed: int, bar: int, most_changed: int = MOST_CHANGED
) -> Swapped:
    """Exchange heads of links while that leaves fewer pairs beyond `target` steps, or less traffic.

    Parameters
    ----------
    start : SwapStart
    target : int
        Most steps.
    trials : int
        Graphs evaluated.
    seed : int
    bar : int
        Only graphs of lower cost are of use.
    most_changed : int
        Of the base's links, those that lead elsewhere than before and not to a new node.
    """
    more = start.nodes - start.base.n_nodes
    # a link that is cut for a new node is where it should be
    most_changed += start.degree * max(more, 0)
    home = np.full(len(start.heads), -1, dtype=np.int32)
    if start.deleted:
        went_on = np.isin(start.base.heads, start.deleted)[~np.isin(start.base.tails, start.deleted)]
        home[~went_on] = with_deleted_nodes(start.base, *start.deleted).heads[~went_on]
    else:
        home[: start.base.n_links] = start.base.heads
    opposite = opposites(start.tails, start.heads) if start.is_two_way else np.zeros(0, dtype=np.int32)
    assert (opposite >= 0).all(), "links of two-way graphs come in pairs"
    problem = SwapProblem(
        start.nodes, start.degree, start.tails, start.heads, home, opposite, target, most_changed
    )
    pace = SwapPace(trials, seed, bar)
    outcome = run_until("graphs", lambda control: core.swap_links(problem, pace, control))
    _, heads, cost, _, tried = outcome
    return Swapped(heads, cost, tried)


def expression_of(start: SwapStart, heads: Int32Array) -> str:
    """Return the catalogue expression of a start's graph with other heads."""

    def call(function: str, graph: str, numbers: Sequence[int]) -> str:
        return f"{function}({graph}, {', '.join(map(str, numbers))})"

    first, text = start.base.heads, start.base.name
    if start.deleted:
        first = with_deleted_nodes(start.base, *start.deleted).heads
        text = call("with_deleted_nodes", text, start.deleted)
    elif start.nodes > start.base.n_nodes:
        # for each new node d links to put it between: those into it, as far as they are the base's
        d, n, m = start.degree, start.base.n_nodes, start.base.n_links
        into = {node: np.flatnonzero(heads[:m] == node).tolist() for node in range(n, start.nodes)}
        taken = {link for links in into.values() for link in links}
        spare = (link for link in range(m) if link not in taken)
        cut = [link for links in into.values() for link in (*links, *islice(spare, d - len(links)))]
        first = np.concatenate([first, first[cut]])
        first[cut] = n + np.arange(len(cut)) // d
        assert len(first) == start.nodes * d, (len(first), m)
        text = call("with_inserted_nodes", text, cut)
    pairs = exchanges(first.tolist(), heads.tolist())
    return call("with_exchanged_heads", text, pairs) if pairs else text


def exchanges(heads: list[int], wanted: list[int]) -> list[int]:
    """Return pairs of links that have to exchange heads, one after another, until all are as wanted.

    Examples
    --------
    >>> exchanges([0, 1, 2, 3], [1, 2, 0, 3])
    [0, 1, 1, 2]
    """
    now = list(heads)
    holders: dict[int, list[int]] = defaultdict(list)
    for link, (one, other) in enumerate(zip(now, wanted, strict=True)):
        if one != other:
            holders[one].append(link)
    pairs: list[int] = []
    for link, aim in enumerate(wanted):
        if now[link] == aim:
            continue
        have = now[link]
        # one that wants what this link has is done at once too
        other = next((f for f in holders[aim] if wanted[f] == have), holders[aim][0])
        holders[aim].remove(other)
        holders[have].remove(link)
        now[link], now[other] = aim, have
        if wanted[other] != have:
            holders[have].append(other)
        pairs += [link, other]
    return pairs
