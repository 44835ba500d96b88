"""Hypothesis strategies for the whole suite: small random fabrics and collectives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder

SHARDED = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


def wide_bandwidths() -> st.SearchStrategy[int]:
    """Bytes/s over the whole range that a link may have, small, huge and odd ones together."""
    return st.one_of(
        st.integers(1, 9),
        st.integers(0, 50).map(lambda power: 2**power),
        st.integers(0, 15).map(lambda power: 10**power),
        st.integers(2**50 - 9, 2**50),
        st.integers(1, 2**50),
    )


def _nodes(
    draw: Any, compute: tuple[int, int], switches: tuple[int, int]
) -> tuple[TopologyBuilder, list[str]]:
    builder = TopologyBuilder("random")
    names = [builder.compute(f"gpu{i}") for i in range(draw(st.integers(*compute)))]
    names += [builder.switch(f"sw{i}") for i in range(draw(st.integers(*switches)))]
    return builder, names


def _add_cycle(builder: TopologyBuilder, cycle: list[str], bandwidth: int) -> None:
    for tail, head in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        builder.link(tail, head, bandwidth)


@st.composite
def eulerian_topologies(
    draw: Any,
    *,
    compute: tuple[int, int] = (2, 6),
    switches: tuple[int, int] = (0, 3),
    max_bandwidth: int = 12,
    bandwidths: st.SearchStrategy[int] | None = None,
    extra_cycles: int = 4,
) -> Topology:
    """Strongly connected fabrics whose every node has equal ingress and egress.

    A cycle through all nodes in random order, and a few random shorter ones (of length 2: a duplex link).
    """
    builder, names = _nodes(draw, compute, switches)
    bandwidths = st.integers(1, max_bandwidth) if bandwidths is None else bandwidths
    _add_cycle(builder, draw(st.permutations(names)), draw(bandwidths))
    for _ in range(draw(st.integers(0, extra_cycles))):
        length = draw(st.integers(2, len(names)))
        _add_cycle(builder, draw(st.permutations(names))[:length], draw(bandwidths))
    return builder.build()


@st.composite
def relay_balanced_topologies(
    draw: Any,
    *,
    compute: tuple[int, int] = (2, 6),
    switches: tuple[int, int] = (1, 4),
    max_bandwidth: int = 3,
    extra_walks: int = 10,
) -> Topology:
    """Fabrics whose switches are balanced and whose compute nodes, in general, are not.

    A cycle through all nodes in random order, and walks from a compute node through switches to another.
    """
    builder, names = _nodes(draw, compute, switches)
    ranks = [name for name in names if name.startswith("gpu")]
    relays = [name for name in names if not name.startswith("gpu")]
    bandwidths = st.integers(1, max_bandwidth)
    _add_cycle(builder, draw(st.permutations(names)), draw(bandwidths))
    for _ in range(draw(st.integers(1, extra_walks))):
        one, other = draw(st.permutations(ranks))[:2]
        between = draw(st.permutations(relays))[: draw(st.integers(0, min(2, len(relays))))]
        walk, bandwidth = [one, *between, other], draw(bandwidths)
        for tail, head in pairwise(walk):
            builder.link(tail, head, bandwidth)
    return builder.build()


@st.composite
def symmetric_topologies(
    draw: Any,
    *,
    compute: tuple[int, int] = (2, 6),
    switches: tuple[int, int] = (0, 3),
    max_bandwidth: int = 12,
    bandwidths: st.SearchStrategy[int] | None = None,
    extra_links: int = 5,
) -> Topology:
    """Connected fabrics of duplex links, equal both ways: a random tree and a few links more."""
    builder, names = _nodes(draw, compute, switches)
    order = draw(st.permutations(names))
    bandwidths = st.integers(1, max_bandwidth) if bandwidths is None else bandwidths
    for i in range(1, len(order)):
        builder.duplex(order[i], order[draw(st.integers(0, i - 1))], draw(bandwidths))
    for _ in range(draw(st.integers(0, extra_links))):
        one, other = draw(st.permutations(names))[:2]
        builder.duplex(one, other, draw(bandwidths))
    return builder.build()


@st.composite
def digraphs(
    draw: Any,
    *,
    compute: tuple[int, int] = (2, 6),
    max_bandwidth: int = 12,
    bandwidths: st.SearchStrategy[int] | None = None,
    extra_links: int = 10,
) -> Topology:
    """Strongly connected fabrics without switches, in general not Eulerian."""
    builder, names = _nodes(draw, compute, (0, 0))
    bandwidths = st.integers(1, max_bandwidth) if bandwidths is None else bandwidths
    _add_cycle(builder, draw(st.permutations(names)), draw(bandwidths))
    for _ in range(draw(st.integers(0, extra_links))):
        tail, head = draw(st.permutations(names))[:2]
        builder.link(tail, head, draw(bandwidths))
    return builder.build()


@st.composite
def collectives(
    draw: Any,
    topology: Topology,
    *,
    kinds: tuple[CollectiveKind, ...] = SPANNING_KINDS,
    weighted: bool = True,
) -> Collective:
    """A collective over every compute node of `topology`, at times with a root or unequal shards."""
    ranks = tuple(int(node) for node in topology.compute_nodes)
    kind = draw(st.sampled_from(kinds))
    root = draw(st.integers(0, len(ranks) - 1)) if kind.is_rooted else None
    weights = None
    if weighted and kind in SHARDED and draw(st.booleans()):
        weights = tuple(
            draw(st.lists(st.integers(0, 3), min_size=len(ranks), max_size=len(ranks)).filter(any))
        )
    return Collective(kind, ranks, root=root, weights=weights)
