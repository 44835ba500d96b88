"""Ranks on one switch, and in boxes; how numbers of ranks fall into factors."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.topologies.topology import Topology, TopologyBuilder


def on_a_switch(n: int) -> Topology:
    """N ranks joined by a switch, 10 bytes/s each way."""
    builder = TopologyBuilder(f"switch({n})")
    switch = builder.switch("s")
    for rank in range(n):
        builder.duplex(builder.compute(f"r{rank}"), switch, 10)
    return builder.build()


def in_boxes(*sizes: int) -> Topology:
    """GPUs on a switch in each box, all of them on a slower one besides."""
    builder = TopologyBuilder(f"boxes{sizes}")
    network = builder.switch("network")
    for box, size in enumerate(sizes):
        switch = builder.switch(f"box{box}")
        for place in range(size):
            gpu = builder.compute(f"box{box}.gpu{place}")
            builder.duplex(gpu, switch, 120)
            builder.duplex(gpu, network, 10)
    return builder.build()


def linked_boxes(n_boxes: int, size: int, *, chords: int = 0) -> Topology:
    """Boxes whose ranks form rings of links, all on a slower switch; the last box has chords besides."""
    builder = TopologyBuilder(f"linked_boxes({n_boxes}, {size}, {chords})")
    network = builder.switch("network")
    for box in range(n_boxes):
        gpus = [builder.compute(f"box{box}.gpu{place}") for place in range(size)]
        for place, gpu in enumerate(gpus):
            builder.duplex(gpu, network, 5)
            if size > 2 or place == 0:
                builder.duplex(gpu, gpus[(place + 1) % size], 40)
        if box == n_boxes - 1:
            for place in range(chords):
                builder.duplex(gpus[place], gpus[place + 2], 40)
    return builder.build()


def factorings(n: int) -> Iterator[tuple[int, ...]]:
    """All ways to write n as an ordered product of numbers from 2."""
    if n == 1:
        yield ()
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in factorings(n // first):
                yield (first, *rest)
