"""Random fabrics with random groups: switches, forwarders, parallel links, loops, one-way links."""

from __future__ import annotations

from random import Random

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder


def random_fabric(
    random: Random, kind: CollectiveKind, *, most_ranks: int = 6, balanced: bool = False
) -> tuple[Topology, Collective]:
    """A fabric of which each part of a circle is joined up, and a collective in one or more groups."""
    size = random.randint(2, max(2, most_ranks // 2))
    n_groups = random.randint(1, most_ranks // size)
    n_switches, n_forwarders = random.randint(0, 3), random.randint(0, 1)
    builder = TopologyBuilder("random")
    names = [builder.compute(f"g{i}") for i in range(size * n_groups + n_forwarders)]
    for i in range(n_switches):
        builder.switch(f"w{i}")
    everyone = names + [f"w{i}" for i in range(n_switches)]
    for _ in range(1 if balanced else random.randint(1, 3)):
        random.shuffle(everyone)
        circle = list(everyone)
        for tail, head in zip(circle, circle[1:] + circle[:1], strict=True):
            builder.link(tail, head, random.randint(1, 6))
    for _ in range(random.randint(0, 2 * len(everyone))):
        tail, head = random.choice(everyone), random.choice(everyone)
        bandwidth = random.randint(1, 6)
        builder.link(tail, head, bandwidth)
        if balanced and tail != head:
            builder.link(head, tail, bandwidth)
    nodes = list(range(len(names)))
    random.shuffle(nodes)
    places = list(range(size * n_groups))
    random.shuffle(places)
    groups = tuple(tuple(places[size * g : size * (g + 1)]) for g in range(n_groups))
    one = n_groups == 1 and random.random() < 0.5
    weighted = one and kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    return builder.build(), Collective(
        kind,
        tuple(nodes[: size * n_groups]),
        root=random.randrange(size) if kind.is_rooted else None,
        weights=tuple(random.randint(0, 3) + (v == 0) for v in range(size)) if weighted else None,
        forwarders=tuple(nodes[size * n_groups :]),
        groups=None if one else groups,
        ranks_forward=not one and random.random() < 0.5,
    )
