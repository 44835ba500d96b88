"""Random fabrics with groups on which much looks alike: regular digraphs, and others for comparison."""

from __future__ import annotations

from random import Random

from treadle.schedules.collective import SPANNING_KINDS, Collective
from treadle.topologies.topology import Topology, TopologyBuilder


def grouped_fabric(random: Random) -> tuple[Topology, Collective]:
    """A fabric, in half of all cases a regular digraph, and a collective of two or three groups on it."""
    size, n_groups = random.choice([(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)])
    n, is_regular = size * n_groups, random.random() < 0.5
    builder = TopologyBuilder("random")
    names = [builder.compute(f"gpu{i}") for i in range(n)]
    names += [builder.switch(f"switch{i}") for i in range(random.randint(0, 1 if is_regular else 3))]
    if is_regular:
        _add_permutations(builder, names, random)
    else:
        _add_circles(builder, names, random)
    order = random.sample(range(n), n)
    kind = random.choice(SPANNING_KINDS)
    collective = Collective(
        kind,
        tuple(range(n)),
        root=random.randrange(size) if kind.is_rooted else None,
        groups=tuple(tuple(order[i : i + size]) for i in range(0, n, size)),
        ranks_forward=random.random() < 0.6,
    )
    return builder.build(), collective


def _add_permutations(builder: TopologyBuilder, names: list[str], random: Random) -> None:
    for _ in range(random.randint(1, 3)):
        heads = names
        while any(a == b for a, b in zip(names, heads, strict=True)):
            heads = random.sample(names, len(names))
        bandwidth = 1 if random.random() < 0.7 else random.randint(1, 3)
        for tail, head in zip(names, heads, strict=True):
            builder.link(tail, head, bandwidth)


def _add_circles(builder: TopologyBuilder, names: list[str], random: Random) -> None:
    for length in (len(names), *(random.randint(2, len(names)) for _ in range(random.randint(1, 5)))):
        circle, bandwidth = random.sample(names, length), random.randint(1, 6)
        for tail, head in zip(circle, circle[1:] + circle[:1], strict=True):
            builder.link(tail, head, bandwidth)
