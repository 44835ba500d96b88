"""Random fabrics whose bandwidths lie anywhere from 1 to 10^12 bytes/s, by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from treadle.topologies import Topology, TopologyBuilder

Bandwidth = Callable[[], int]


def wide_fabric(seed: int) -> Topology:
    """A fabric of 5 to 15 nodes: duplex links or cycles, with or without switches, or boxes on switches.

    The logarithms of bandwidths are uniform; two in five fabrics have up to four different ones.
    """
    rng = np.random.default_rng([seed, 77])
    builder = TopologyBuilder(f"wide{seed}")
    form = int(rng.integers(4))
    few: list[int] = []
    if rng.random() < 0.4:
        few = [_any_width(rng) for _ in range(int(rng.integers(1, 5)))]

    def bandwidth() -> int:
        return few[int(rng.integers(len(few)))] if few else _any_width(rng)

    if form == 3:
        _add_boxes(builder, rng, bandwidth)
        return builder.build()
    total = int(rng.integers(5, 16))
    switches = int(rng.integers(1, max(2, total // 3 + 1))) if form else 0
    names = [builder.compute(f"g{i}") for i in range(total - switches)]
    names += [builder.switch(f"s{i}") for i in range(switches)]
    order = list(rng.permutation(names))
    if form == 2 or (form == 0 and rng.random() < 0.5):
        _add_cycle(builder, order, bandwidth())
        for _ in range(int(rng.integers(1, 6))):
            _add_cycle(builder, list(rng.permutation(names))[: int(rng.integers(2, total + 1))], bandwidth())
        return builder.build()
    for i in range(1, total):
        builder.duplex(order[i], order[int(rng.integers(i))], bandwidth())
    for _ in range(int(rng.integers(0, 2 * total))):
        one, other = rng.permutation(names)[:2]
        builder.duplex(one, other, bandwidth())
    return builder.build()


def _any_width(rng: np.random.Generator) -> int:
    return round(10 ** rng.uniform(0, 12))


def _add_cycle(builder: TopologyBuilder, names: Sequence[str], bandwidth: int) -> None:
    for one, other in pairwise([*names, names[0]]):
        builder.link(one, other, bandwidth)


def _add_boxes(builder: TopologyBuilder, rng: np.random.Generator, bandwidth: Bandwidth) -> None:
    """Two or three boxes of up to four ranks on a switch each, joined by one or two networks."""
    boxes = int(rng.integers(2, 4))
    networks = [builder.switch(f"net{i}") for i in range(int(rng.integers(1, 3)))]
    left, used = 15 - len(networks), set[str]()
    for box in range(boxes):
        ranks = int(rng.integers(1, max(2, min(5, left // (boxes - box)))))
        left -= ranks + 1
        switch = builder.switch(f"b{box}.s")
        width, is_even = bandwidth(), rng.random() < 0.5
        for i in range(ranks):
            rank = builder.compute(f"b{box}.g{i}")
            builder.duplex(rank, switch, width if is_even else bandwidth())
            for _ in range(int(rng.integers(1, 3))):
                uplink = networks[int(rng.integers(len(networks)))]
                used.add(uplink)
                builder.duplex(rank, uplink, width if is_even and rng.random() < 0.5 else bandwidth())
    for network in networks:
        if network not in used:
            builder.duplex("b0.g0", network, bandwidth())
