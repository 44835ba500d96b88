"""Fabrics of the allreduce tests, small and named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import Topology, TopologyBuilder

GB = 10**9


def allreduce(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLREDUCE)


def undirected(n: int, edges: Iterable[tuple[int, int, int]]) -> Topology:
    """n compute nodes with duplex links (one, other, GB/s)."""
    builder = TopologyBuilder("undirected")
    for node in range(n):
        builder.compute(str(node))
    for one, other, bandwidth in edges:
        builder.duplex(str(one), str(other), bandwidth * GB)
    return builder.build()


def boxes(sizes: Sequence[int], *, failed: frozenset[tuple[int, int]] = frozenset()) -> Topology:
    """A100 boxes of unequal sizes: 300 GB/s to NVSwitch, 25 to InfiniBand, some NICs failed."""
    builder = TopologyBuilder("boxes")
    names = [[builder.compute(f"gpu{box}.{i}") for i in range(size)] for box, size in enumerate(sizes)]
    fabric = builder.switch("ib")
    for box, gpus in enumerate(names):
        switch = builder.switch(f"nvswitch{box}")
        for i, gpu in enumerate(gpus):
            builder.duplex(gpu, switch, 300 * GB)
            if (box, i) not in failed:
                builder.duplex(gpu, fabric, 25 * GB)
    return builder.build()


def fano() -> Topology:
    """Seven capable switches; seven ranks at the four lines that miss their point, one rank at all."""
    lines = ((0, 1, 2), (0, 3, 4), (0, 5, 6), (1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
    builder = TopologyBuilder("fano")
    points = [builder.compute(f"point{p}") for p in range(7)]
    everywhere = builder.compute("everywhere")
    for number, line in enumerate(lines):
        switch = builder.switch(f"line{number}", multicast=True, aggregation=True, turns_round=True)
        builder.duplex(everywhere, switch, 1)
        for p, point in enumerate(points):
            if p not in line:
                builder.duplex(point, switch, 1)
    return builder.build()


def without_capabilities(topology: Topology) -> Topology:
    """The fabric with switches that only forward."""
    none = topology.multicast & False
    return replace(topology, multicast=none, aggregation=none, turns_round=none)
