"""Hypothesis strategies of the suite and of the search for faults: fabrics, collectives, hostile input."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder

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
    bandwidths: st.SearchStrategy[int] | None = None,
    extra_walks: int = 10,
) -> Topology:
    """Fabrics whose switches are balanced and whose compute nodes, in general, are not.

    A cycle through all nodes in random order, and walks from a compute node through switches to another.
    """
    builder, names = _nodes(draw, compute, switches)
    ranks = [name for name in names if name.startswith("gpu")]
    relays = [name for name in names if not name.startswith("gpu")]
    bandwidths = st.integers(1, max_bandwidth) if bandwidths is None else bandwidths
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
def dressed_topologies(draw: Any) -> Topology:
    """Fabrics with everything that a node or a link can have, and with names as people never choose them."""
    bare = draw(eulerian_topologies(bandwidths=wide_bandwidths(), compute=(2, 4)))
    letters = st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp"))
    texts = st.one_of(
        st.text(letters, min_size=1, max_size=6), st.sampled_from(["#", "a b", '"', "{", "1", "X:"])
    )
    n, m, flags = (
        bare.n_nodes,
        bare.n_links,
        st.lists(st.booleans(), min_size=bare.n_nodes, max_size=bare.n_nodes),
    )
    multicast, aggregation, turns = (np.array(draw(flags)) & ~bare.is_compute for _ in range(3))
    caps = draw(st.lists(st.sampled_from([0, 0, 1, 2**50]), min_size=n, max_size=n))
    waits = draw(st.lists(st.sampled_from([0, 0, 5, 2**62]), min_size=m, max_size=m))
    dressed: Topology = replace(
        bare,
        name=draw(texts),
        node_names=tuple(draw(st.lists(texts, min_size=n, max_size=n, unique=True))),
        latencies_ns=np.array(waits, dtype=np.int64),
        multicast=multicast,
        aggregation=aggregation,
        turns_round=turns & (multicast | aggregation),
        injection_bytes_per_s=np.array(caps, dtype=np.int64) * bare.is_compute,
    )
    return dressed


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


EXTREME_BANDWIDTHS = st.one_of(
    st.integers(1, 12),
    st.builds(lambda digit, power: digit * 10**power, st.integers(1, 9), st.integers(0, 14)),
    st.sampled_from([24_300_000_000, 46_875_000_000, 3_125_000_000, 999_999_999_989, 2**40, MAX_BANDWIDTH]),
    st.integers(1, MAX_BANDWIDTH),
    st.floats(0, 12).map(lambda exponent: round(10**exponent)),
)
"""Bytes/s from 1 to the most that is accepted: small, round, real, prime, any; of any size up to 10^12."""


@st.composite
def extreme_topologies(
    draw: Any, *, compute: tuple[int, int] = (2, 5), switches: tuple[int, int] = (0, 2)
) -> Topology:
    """Fabrics of all four kinds above with bandwidths from a palette of one to three extreme ones."""
    palette = draw(st.lists(EXTREME_BANDWIDTHS, min_size=1, max_size=3, unique=True))
    bandwidths = st.sampled_from(palette)
    makers = [
        symmetric_topologies(compute=compute, switches=switches, bandwidths=bandwidths),
        eulerian_topologies(compute=compute, switches=switches, bandwidths=bandwidths),
        digraphs(compute=compute, bandwidths=bandwidths),
    ]
    if switches[1]:
        relays = (1, switches[1])
        makers.append(
            relay_balanced_topologies(compute=compute, switches=relays, bandwidths=bandwidths, extra_walks=4)
        )
    topology: Topology = draw(st.one_of(makers))
    if not draw(st.booleans()):
        return topology
    is_switch = ~topology.is_compute
    n = topology.n_nodes
    flags = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    latencies = st.lists(
        st.sampled_from([0, 1, 700, 10**9]), min_size=topology.n_links, max_size=topology.n_links
    )
    return replace(
        topology,
        multicast=draw(flags) & is_switch,
        aggregation=draw(flags) & is_switch,
        latencies_ns=np.array(draw(latencies)),
    )


@st.composite
def sparse_demands(draw: Any, n: int) -> list[list[int]]:
    """A matrix of demands with zeros, empty rows and columns, or one pair only; some entry is positive."""
    amount = st.one_of(st.integers(1, 4), st.sampled_from([2**20, 2**20 - 1, 1000]))
    pairs = [(one, other) for one in range(n) for other in range(n) if one != other]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=len(pairs), unique=True))
    matrix = [[0] * n for _ in range(n)]
    for one, other in chosen:
        matrix[one][other] = draw(amount)
    if draw(st.booleans()):
        for rank in range(n):
            matrix[rank][rank] = draw(st.integers(0, 3))
    return matrix


DAMAGING_NUMBERS = (
    *("-1", "0", "3", "71", "4000000", "4294967295", "9" * 19, "9" * 400),
    *("1e9", "NaN", "0x7", ""),
)
DAMAGING_PIECES = (
    *("\0", "&x;", "<!-- ", "]]>", "<?php ?>", "\ud800", "\t", '"', "{", "[[", "]", "<a>"),
    *("\\u0000", "٣"),
)
Damage = tuple[str, float, float, str]
"""What to do, where (a share of the text's places), with what share of its length, with what."""


@st.composite
def damages(draw: st.DrawFn) -> tuple[Damage, ...]:
    """Up to three damages to a text, for `damaged`."""
    share = st.floats(0, 1, allow_nan=False)
    one = st.tuples(
        st.sampled_from(["number", "number", "word", "cut", "repeat", "insert", "attribute", "line", "swap"]),
        share,
        share,
        st.sampled_from(DAMAGING_NUMBERS + DAMAGING_PIECES),
    )
    return tuple(draw(st.lists(one, min_size=1, max_size=3)))


def damaged(text: str, steps: Iterable[Damage]) -> str:
    """A text with damages."""
    for what, where, length, piece in steps:
        if not text:
            return text
        at = min(int(where * len(text)), len(text) - 1)
        past = min(len(text), at + 1 + int(length * 200))
        lines = text.split("\n")
        line = min(int(where * len(lines)), len(lines) - 1)
        match what:
            case "number":
                places = [match.span() for match in re.finditer(r"-?\d+", text)]
                low, high = places[int(where * (len(places) - 1))] if places else (at, past)
                text = text[:low] + piece + text[high:]
            case "word":
                places = [match.span() for match in re.finditer(r"[A-Za-z_]+", text)]
                one = places[int(where * (len(places) - 1))] if places else (at, past)
                other = places[int(length * (len(places) - 1))] if places else (at, past)
                text = text[: one[0]] + text[other[0] : other[1]] + text[one[1] :]
            case "cut":
                text = text[:at] + text[past:]
            case "repeat":
                text = text[:past] + text[at:past] * 20 + text[past:]
            case "insert":
                text = text[:at] + piece + text[at:]
            case "attribute":
                text = re.sub(r'(\w+)="(\w*)"', r'\1="\2" \1="\2"', text, count=1 + int(3 * where))
            case "line":
                text = "\n".join([*lines[:line], *lines[line : line + 1] * 3, *lines[line + 1 :]])
            case _:
                place = min(int(length * len(lines)), len(lines) - 1)
                lines[line], lines[place] = lines[place], lines[line]
                text = "\n".join(lines)
    return text
