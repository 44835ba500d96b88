"""Random small fabrics of clusters: all links equal, dense within a cluster, few between clusters.

Everything follows from a seed. Bandwidths tell nothing here; what makes a cluster is how it is joined.
"""

from __future__ import annotations

import random
from itertools import combinations, pairwise

from samples.nested_fabrics import Case, budget, collective
from treadle.topologies.topology import Topology, TopologyBuilder

SHAPES = ("ring", "path", "star", "random", "dumbbell", "grid", "two levels")


def _inner(draw: random.Random, size: int, style: str) -> list[tuple[int, int]]:
    """Links within a cluster, connected."""
    pairs = list(combinations(range(size), 2))
    if style == "complete" or size < 4:
        return pairs
    if style == "circulant":
        return sorted({tuple(sorted((i, (i + step) % size))) for i in range(size) for step in (1, 2)})
    ring = [(i, (i + 1) % size) for i in range(size)]
    more = [pair for pair in pairs if pair not in ring and pair[::-1] not in ring]
    return ring + draw.sample(more, min(len(more), size))


def _joins(draw: random.Random, count: int, shape: str) -> list[tuple[int, int]]:
    """Which clusters are joined."""
    cycle = [(i, (i + 1) % count) for i in range(count)]
    if shape == "path" or count == 2:
        return list(pairwise(range(count)))
    if shape == "star":
        return [(0, i) for i in range(1, count)]
    if shape == "grid":
        return [(i, i + 1) for i in range(0, count - 1, 2)] + [(i, i + 2) for i in range(count - 2)]
    if shape == "random":
        chords = draw.sample(list(combinations(range(count), 2)), 1)
        return cycle + [chord for chord in chords if chord not in cycle]
    if shape == "two levels":
        half = count // 2
        sides = [range(half), range(half, count)]
        return [pair for side in sides for pair in pairwise(side)] * 2 + [(0, half)]
    return cycle


def clustered(seed: int) -> tuple[Topology, list[list[int]]]:
    """A random clustered fabric and the nodes of its clusters.

    About 8 to 40 ranks; bandwidths of all links equal. Nodes are in random order half of the time.
    """
    draw = random.Random(f"clustered {seed}")
    shape = draw.choice(SHAPES)
    count = 2 if shape == "dumbbell" else draw.randint(3, 6)
    if shape == "two levels":
        count = draw.choice((4, 6))
    alike = draw.random() < 0.5
    size, style = draw.randint(4, 8), draw.choice(("complete", "circulant", "random"))
    sizes = [size if alike else draw.randint(4, 8) for _ in range(count)]
    names = [[f"c{i}n{j}" for j in range(size)] for i, size in enumerate(sizes)]
    everyone = [name for cluster in names for name in cluster]
    if draw.random() < 0.5:
        draw.shuffle(everyone)
    bandwidth = draw.choice((1, 7, 10**9, 25 * 10**9))
    builder = TopologyBuilder(f"clustered {seed}")
    for name in everyone:
        builder.compute(name)
    for cluster in names:
        inner = _inner(
            draw, len(cluster), style if alike else draw.choice(("complete", "circulant", "random"))
        )
        for one, other in inner:
            builder.duplex(cluster[one], cluster[other], bandwidth)
    width = draw.randint(1, 2)
    for one, other in _joins(draw, count, shape):
        for _ in range(width):
            builder.duplex(draw.choice(names[one]), draw.choice(names[other]), bandwidth)
    if draw.random() < 0.2:  # one-way shortcuts around all of them
        ends = [draw.choice(cluster) for cluster in names]
        for one, other in zip(ends, ends[1:] + ends[:1], strict=True):
            builder.link(one, other, bandwidth)
    number = {name: place for place, name in enumerate(everyone)}
    return builder.build(), [sorted(number[name] for name in cluster) for cluster in names]


def clustered_case(seed: int) -> Case:
    """A random clustered fabric and what is to be done on it."""
    topology, _ = clustered(seed)
    return Case(topology, collective(seed, topology), budget(seed))
