"""Integers in proportion, scales of cut classes, and layers of boxes."""

from __future__ import annotations

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.components import Split, split_layers
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported


def boxes(
    n_boxes: int, size: int, inside: int, *, across: int, odd: int = 0, direct: bool = False
) -> Topology:
    """Boxes on switches, all ranks at a network switch besides; rank 0's links there differ by `odd`."""
    builder = TopologyBuilder("boxes")
    builder.switch("network")
    for box in range(n_boxes):
        builder.switch(f"s{box}")
        for place in range(size):
            name = builder.compute(f"g{box}.{place}")
            builder.duplex(name, f"s{box}", inside)
            builder.duplex(name, "network", across + (odd if box == place == 0 else 0))
    if direct:
        builder.duplex("g0.0", "g1.0", across)
    return builder.build()


def family_of(topology: Topology, size: int) -> Family:
    """The boxes as sets."""
    width = size + 1
    innermost = [0, *(1 + (node - 1) // width for node in range(1, topology.n_nodes))]
    return Family(np.array([-1, *[0] * max(innermost)], dtype=np.int32), np.array(innermost, dtype=np.int32))


def split(topology: Topology, size: int, *, weights: tuple[int, ...] | None = None) -> Split | Unsupported:
    ranks = tuple(topology.compute_nodes.tolist())
    problem = instance_of(topology, Collective(CollectiveKind.ALLGATHER, ranks, weights=weights))
    return split_layers(problem, family_of(topology, size))


def test_borders_that_just_bind_make_no_flat_layer() -> None:
    """24 (6 - 2) - 24 = 0 flat trees: 6 * 4 = 24."""
    found = split(boxes(2, 3, 24, across=6), 3)
    assert isinstance(found, Split)
    assert (found.trees, len(found.parts)) == (1, 1)
    assert isinstance(split(boxes(2, 3, 25, across=6), 3), Unsupported)
