"""Fabrics as values, with odd figures: refusals in full, limits, boxes, rotations, predicates, notations."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.topologies import parse
from treadle.topologies.rotation import box_rotation
from treadle.topologies.topology import Topology


def fabric(links: str, nodes: str = "abcS", **facts: Any) -> Topology:
    """Links such as ``ab5``: from a to b, 5 bytes/s; capitals are switches."""
    words = links.split()
    known: dict[str, Any] = {
        "name": "odd",
        "node_names": tuple(nodes),
        "is_compute": np.array([name.islower() for name in nodes]),
        "tails": np.array([nodes.index(word[0]) for word in words]),
        "heads": np.array([nodes.index(word[1]) for word in words]),
        "bandwidths": np.array([int(word[2:]) for word in words]),
    }
    return Topology(**(known | facts))


def test_rotations_of_boxes() -> None:
    """Boxes of two: a rotation takes each box to the next; links keep their figures."""
    ring = parse('ring(6, bandwidth="3B/s", latency="2ns")')
    found = box_rotation(ring, np.arange(6), 2)
    assert found is not None
    assert (found.boxes, found.links.shape) == (3, (3, 12))
    ends = [(int(ring.tails[e]), int(ring.heads[e])) for e in range(12)]
    for turns in range(3):
        moved = [ends[int(link)] for link in found.links[turns]]
        assert moved == [((tail + 2 * turns) % 6, (head + 2 * turns) % 6) for tail, head in ends]
    assert found.moves.all()
    assert found.first.tolist() == found.links.min(axis=0).tolist()
    assert box_rotation(parse("path(6)"), np.arange(6), 2) is None
    star = box_rotation(parse("dgx_a100_flat(2, 2)"), np.array([0, 1, 3, 4]), 2)
    assert star is not None
    assert star.boxes == 2
    for change in ({"bandwidths": np.array([3, 3, 3, 4])}, {"latencies_ns": np.array([0, 0, 0, 1])},
                   {"injection_bytes_per_s": np.array([1, 0, 0, 0])}):  # fmt: skip
        odd = fabric("ab3 bc3 cd3 da3", "abcd", **change)
        assert box_rotation(odd, np.arange(4), 1) is None
    even = fabric("ab3 bc4 cd3 da4", "abcd")
    turned = box_rotation(even, np.arange(4), 2)
    assert turned is not None
    assert turned.links.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert turned.first.tolist() == [0, 1, 0, 1]
