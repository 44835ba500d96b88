"""L^3(C(16,{3,4})) cannot reach the all-to-all rate that is printed for it.

[D] The dissertation's table A.1, column MCF, prints 8.12e-4. Link lengths show that F is at most 7.851e-4;
with all lengths 1 (the distances of the fabric) they show 8.095e-4 already. The graph is built here from
walks and the sums are made here: nothing but the last test uses the package.
"""

from __future__ import annotations

import heapq
import json
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import places
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import parse

GOLDEN = places.GOLDEN / "alltoall_lengths_l3_c16_3_4.json"
PRINTED = 8.12e-4

ORDER = 16
STEPS = {"a": 3, "b": 4, "A": -3, "B": -4}
"""A link of C(16, {3, 4}) goes one of these on."""

Node = tuple[int, str]
"""A node of L^3 is a walk of three steps: where it starts, and the steps; a link is a walk of four."""


def turned(walk: str) -> str:
    """The walk under x -> -x."""
    return walk.swapcase()


def lengths_by_walk() -> dict[str, int]:
    """A length for each kind of link: alike for walks that differ by x -> x + 1 or x -> -x."""
    half: dict[str, int] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert set(half) == {"".join(walk) for walk in product("ab", *["abAB"] * 3)}
    return half | {turned(walk): length for walk, length in half.items()}


def distances(start: Node, length: dict[str, int]) -> dict[Node, int]:
    """Dijkstra's algorithm on walks."""
    settled: dict[Node, int] = {}
    queue = [(0, start)]
    while queue:
        distance, node = heapq.heappop(queue)
        if node in settled:
            continue
        settled[node] = distance
        place, walk = node
        onward = (place + STEPS[walk[0]]) % ORDER
        for step in STEPS:
            heapq.heappush(queue, (distance + length[walk + step], (onward, walk[1:] + step)))
    return settled


def rate_bound(length: dict[str, int]) -> Fraction:
    """Sum of the lengths over the sum of the distances; all places to start at are alike."""
    apart = 0
    for walk in product(STEPS, repeat=3):
        found = distances((0, "".join(walk)), length)
        assert len(found) == ORDER * 4**3
        apart += sum(found.values())
    return Fraction(sum(length.values()), apart)


def test_the_printed_rate_is_beyond_what_lengths_allow() -> None:
    bound = rate_bound(lengths_by_walk())
    assert bound == Fraction(14233, 18129682)
    assert 0 < bound < Fraction(7851, 10**7) < Fraction(PRINTED)


def test_the_printed_rate_is_beyond_what_hops_allow() -> None:
    bound = rate_bound(dict.fromkeys(lengths_by_walk(), 1))
    assert bound == Fraction(64, 79063)
    assert float(bound) == pytest.approx(8.095e-4, abs=5e-8)
    assert bound < Fraction(PRINTED)


def test_one_length_more_or_less_changes_the_bound() -> None:
    """So that the datum is what is tested."""
    lengths = lengths_by_walk()
    changed = lengths | {walk: lengths[walk] + 40 for walk in ("bABa", "BabA")}
    assert rate_bound(changed) > Fraction(14233, 18129682)


def test_the_witness_says_the_same() -> None:
    """The catalogue's fabric: the links of a line graph, taken back to walks in the base graph."""
    fabric = parse("circulant(16, 3, 4)")
    walks = [[tail, head] for tail, head in zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True)]
    for times in (1, 2, 3):
        fabric = parse(f"line_graph(circulant(16, 3, 4), {times})")
        links = zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True)
        walks = [[*walks[tail], walks[head][-1]] for tail, head in links]
    letter = {step % ORDER: name for name, step in STEPS.items()}
    by_walk = lengths_by_walk()
    lengths = [by_walk["".join(letter[step % ORDER] for step in np.diff(walk).tolist())] for walk in walks]
    everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    certificate = FlowDualCertificate(np.array(lengths))
    assert certificate.pair_rate_bound(fabric, everyone) == Fraction(14233, 18129682)
