"""Random small fabrics of boxes within pods, in all the shapes that tight cuts may or may not serve.

Everything follows from a seed. `case` draws a fabric, what is to be done on it, and how many trees.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology, TopologyBuilder

_SHARDED = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


@dataclass
class Draft:
    """A fabric under construction: who is joined to whom, and how fast."""

    draw: random.Random
    computes: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    links: list[tuple[str, str, int]] = field(default_factory=list)

    def compute(self, name: str) -> str:
        self.computes.append(name)
        return name

    def switch(self, name: str) -> str:
        self.switches.append(name)
        return name

    def duplex(self, one: str, other: str, bandwidth: int) -> None:
        self.links += [(one, other, bandwidth), (other, one, bandwidth)]

    def cycle(self, names: list[str], bandwidth: int) -> None:
        self.links += [(a, b, bandwidth) for a, b in zip(names, names[1:] + names[:1], strict=True)]

    def build(self, name: str) -> Topology:
        """Nodes in random order half of the time; switches that lost every link are left out."""
        linked = {end for link in self.links for end in link[:2]}
        nodes = [*self.computes, *(node for node in self.switches if node in linked)]
        if self.draw.random() < 0.5:
            self.draw.shuffle(nodes)
        builder = TopologyBuilder(name)
        computes = set(self.computes)
        for node in nodes:
            builder.compute(node) if node in computes else builder.switch(node)
        for tail, head, bandwidth in self.links:
            builder.link(tail, head, bandwidth)
        return builder.build()


@dataclass(frozen=True)
class Case:
    """A fabric and what to ask of it."""

    topology: Topology
    collective: Collective
    budget: TreeBudget

    def __str__(self) -> str:
        return f"{self.topology!r} {self.collective} {self.budget}"


class _Bandwidths:
    """Bandwidths of one fabric: small, or with awkward ratios, or real, or huge."""

    def __init__(self, draw: random.Random) -> None:
        style = draw.choice(("small", "small", "small", "awkward", "real", "huge"))
        self.draw = draw
        self.unit = {"small": 1, "awkward": draw.choice((7, 30)), "real": 25 * 10**9, "huge": 2**43}[style]
        self.noise = {"small": 0, "awkward": 6, "real": 0, "huge": draw.choice((0, 2**41 + 1))}[style]

    def __call__(self, low: int, high: int) -> int:
        drawn = self.draw.randint(low, high) * self.unit
        return drawn + (self.draw.randint(0, self.noise) if self.noise else 0)


def _box(draft: Draft, name: str, size: int, style: str, fast: int) -> list[str]:
    """Ranks of a box, joined among themselves."""
    draw = draft.draw
    ranks = [draft.compute(f"{name}g{i}") for i in range(size)]
    if size == 1:
        return ranks
    if style == "switch":
        inner = [draft.switch(f"{name}s{i}") for i in range(draw.choice((1, 1, 1, 2)))]
        for switch in inner:
            for rank in ranks:
                draft.duplex(rank, switch, fast)
    elif style == "mesh":
        for i, one in enumerate(ranks):
            for other in ranks[:i]:
                draft.duplex(one, other, fast)
    elif style == "ring":
        for one, other in zip(ranks, ranks[1:] + ranks[:1], strict=True):
            draft.duplex(one, other, fast)
    elif style == "one-way":
        draft.cycle(ranks, fast)
    else:  # pairs, and thin links between them
        for one, other in zip(ranks[::2], ranks[1::2], strict=False):
            draft.duplex(one, other, 2 * fast)
        for one, other in pairwise(ranks):
            draft.duplex(one, other, fast)
    return ranks


def _uplinks(draft: Draft, name: str, ranks: list[str], style: str, slow: int, fast: int) -> list[list[str]]:
    """What of a box is joined to each plane, by way of network cards or PCIe switches or directly."""
    if style == "direct":
        return [[rank] for rank in ranks]
    ends = []
    width = 1 if style == "card" else 2
    for i in range(0, len(ranks), width):
        card = draft.switch(f"{name}n{i}")
        for rank in ranks[i : i + width]:
            draft.duplex(rank, card, fast)
        if style == "pcie":
            adapter = draft.switch(f"{name}a{i}")
            draft.duplex(card, adapter, slow)
            card = adapter
        ends.append([card])
    return ends


def _level(draft: Draft, name: str, parts: list[list[str]], style: str, slow: int) -> list[str]:
    """Join parts, each given by its ends, by switches; returns the switches that lead on upwards."""
    draw = draft.draw
    count = {"switch": 1, "planes": draw.randint(2, 3), "rails": max(map(len, parts)), "spread": 2}[style]
    tops = [draft.switch(f"{name}t{i}") for i in range(count)]
    for number, ends in enumerate(parts):
        for i, end in enumerate(ends):
            if style == "rails":
                draft.duplex(end, tops[i], slow)
            elif style == "spread":
                draft.duplex(end, tops[(i + number) % count], slow)
            else:
                for top in tops:
                    draft.duplex(end, top, slow)
    return tops


def _spoil(draft: Draft, bandwidths: _Bandwidths) -> None:
    """Failures and oddities; every switch stays balanced."""
    draw = draft.draw
    everyone = [*draft.computes, *draft.switches]
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind = draw.choice(("cut", "cut", "slow", "parallel", "loop", "shortcut", "one-way", "split"))
        if kind == "loop":
            node = draw.choice(everyone)
            draft.links.append((node, node, bandwidths(1, 9)))
        elif kind == "shortcut":
            draft.duplex(*draw.sample(everyone, 2), bandwidths(1, 4))
        elif kind == "one-way":
            among = draw.sample(everyone, draw.randint(2, min(4, len(everyone))))
            draft.cycle(among, bandwidths(1, 4))
        else:
            tail, head, bandwidth = draw.choice(draft.links)
            if (head, tail, bandwidth) not in draft.links:
                continue
            if kind in ("cut", "slow", "split"):
                draft.links.remove((tail, head, bandwidth))
                draft.links.remove((head, tail, bandwidth))
            if kind == "parallel":
                draft.duplex(tail, head, bandwidth)
            elif bandwidth > 1 and kind in ("slow", "split"):
                part = draw.randint(1, bandwidth - 1)
                draft.duplex(tail, head, part)
                if kind == "split":
                    draft.duplex(tail, head, bandwidth - part)


def fabric(seed: int) -> Topology:
    """A random fabric of two to about forty nodes."""
    draw = random.Random(f"fabric {seed}")
    draft, bandwidths = Draft(draw), _Bandwidths(draw)
    fast, slow, core = bandwidths(4, 12), bandwidths(1, 3), bandwidths(1, 12)
    alike = draw.random() < 0.6
    styles = ("switch", "switch", "mesh", "ring", "one-way", "pairs")
    inner, size = draw.choice(styles), draw.randint(2, 4)
    up = draw.choice(("direct", "direct", "card", "shared", "pcie"))
    joins = ("switch", "switch", "planes", "rails", "spread")
    n_pods = draw.choice((1, 1, 1, 2, 2, 3))
    tops: list[list[str]] = []
    for pod in range(n_pods):
        parts = []
        for box in range(draw.randint(2, 4) if n_pods < 3 else 2):
            name = f"p{pod}b{box}"
            if not alike:
                inner, size, fast = draw.choice(styles), draw.randint(1, 4), bandwidths(4, 12)
                slow = slow if draw.random() < 0.7 else bandwidths(1, 3)
            ranks = _box(draft, name, size, inner, fast)
            style = up if alike or draw.random() < 0.7 else draw.choice(("direct", "card", "pcie"))
            parts += [[end[0] for end in _uplinks(draft, name, ranks, style, slow, fast)]]
        if draw.random() < 0.15:
            parts.append([draft.compute(f"p{pod}single")])
        if draw.random() < 0.1:  # boxes joined to each other without switches
            ends = [draw.choice(part) for part in parts]
            draft.cycle(ends, slow) if draw.random() < 0.5 else _box_chain(draft, ends, slow)
            tops.append(ends[:1])
        else:
            tops.append(_level(draft, f"p{pod}", parts, draw.choice(joins), slow))
    if n_pods > 1:
        _level(draft, "spine", tops, draw.choice(joins), core)
    if draw.random() < 0.45:
        _spoil(draft, bandwidths)
    return draft.build(f"nested {seed}")


def _box_chain(draft: Draft, ends: list[str], slow: int) -> None:
    for one, other in pairwise(ends):
        draft.duplex(one, other, slow)


def collective(seed: int, topology: Topology) -> Collective:
    """A random collective: of all ranks mostly, the others forward; weights with zeros at times."""
    draw = random.Random(f"collective {seed}")
    nodes = [int(node) for node in topology.compute_nodes]
    ranks, forwarders = nodes, []
    if draw.random() < 0.25 and len(nodes) > 2:
        ranks = sorted(draw.sample(nodes, draw.randint(2, len(nodes))))
        forwarders = [node for node in nodes if node not in ranks]
        if draw.random() < 0.2:
            draw.shuffle(ranks)
    kind = draw.choice((CollectiveKind.ALLGATHER, *SPANNING_KINDS))
    weights = None
    if kind in _SHARDED and draw.random() < 0.35:
        values = draw.choice(((0, 1), (1, 2), (0, 1, 2, 3), (1, 1, 1, 5)))
        weights = [draw.choice(values) for _ in ranks]
        weights[draw.randrange(len(ranks))] += not any(weights)
    root = draw.randrange(len(ranks)) if kind.is_rooted else None
    return Collective(
        kind,
        tuple(ranks),
        root=root,
        weights=None if weights is None else tuple(weights),
        forwarders=tuple(forwarders),
    )


def budget(seed: int) -> TreeBudget:
    """How many trees."""
    draw = random.Random(f"budget {seed}")
    style = draw.choice(("", "", "trees", "trees", "max_trees", "exact"))
    if style == "trees":
        return TreeBudget(trees=draw.choice((1, 1, 2, 3, 4, 5, 7, 10)))
    if style == "max_trees":
        return TreeBudget(max_trees=draw.choice((1, 2, 4, 8)))
    return TreeBudget(exact=style == "exact")


def case(seed: int) -> Case:
    """Everything of one seed."""
    topology = fabric(seed)
    return Case(topology, collective(seed, topology), budget(seed))


def all_cuts_rate(topology: Topology, collective: Collective) -> tuple[int, int]:
    """min of B+(S) / w(S) over all S that leave out a rank and hold weight, as (B+, w): every S is tried."""
    n = topology.n_nodes
    inside = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    weights = np.zeros(n, dtype=np.int64)
    weights[list(collective.ranks)] = collective.shard_weights
    weight = inside @ weights
    legal = (weight > 0) & ~inside[:, list(collective.ranks)].all(axis=1)
    tails, heads = topology.tails, topology.heads
    if collective.kind.reduces:
        tails, heads = heads, tails
    crossing = np.zeros(2**n, dtype=object)
    for tail, head, bandwidth in zip(tails, heads, topology.bandwidths.tolist(), strict=True):
        crossing += (inside[:, tail] & ~inside[:, head] & 1).astype(object) * bandwidth
    best = (1, 0)
    for capacity, demand in zip(crossing[legal].tolist(), weight[legal].tolist(), strict=True):
        if capacity * best[1] < best[0] * demand or not best[1]:
            best = (capacity, demand)
    return best


def written_out(
    nodes: str, links: str, kind: CollectiveKind, limits: TreeBudget, *, root: int | None = None
) -> Case:
    """A case in text.

    Parameters
    ----------
    nodes : str
        A letter for each: c for compute nodes, s for switches.
    links : str
        ``0-1:7`` is a link each way, ``0>1:7`` one way, between nodes by number.
    """
    builder = TopologyBuilder("written out")
    for number, letter in enumerate(nodes):
        (builder.compute if letter == "c" else builder.switch)(f"{letter}{number}")
    names = [f"{letter}{number}" for number, letter in enumerate(nodes)]
    for link in links.split():
        ends, bandwidth = link.split(":")
        add = builder.duplex if "-" in ends else builder.link
        tail, head = ends.replace(">", "-").split("-")
        add(names[int(tail)], names[int(head)], int(bandwidth))
    topology = builder.build()
    return Case(topology, Collective(kind, tuple(topology.compute_nodes.tolist()), root=root), limits)
