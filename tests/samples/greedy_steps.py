"""Step schedules for tests: greedy breadth-first ones, their mirrors, and small hand-made ones."""

from __future__ import annotations

import random

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb.breadth_first import split
from treadle.synthesis.steps.bfb.in_links import link_rows
from treadle.synthesis.steps.bfb.value import value_of
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

StepSample = tuple[Topology, Collective, StepSchedule]


def greedy_sends(
    topology: Topology, homes: list[int], n_chunks: int, rng: random.Random, *, waste: float = 0.0
) -> list[Send]:
    """Breadth first: every rank fetches each chunk, by a link of its choice, a step after a neighbour had it.

    With `waste`, some chunks come later than they could.
    """
    n = topology.n_nodes
    links: list[list[int]] = [[] for _ in range(n)]
    for link, head in enumerate(topology.heads.tolist()):
        if topology.tails[link] != head:
            links[head].append(link)
    sends: list[Send] = []
    held = [
        {(v, c): -1 for v, home in enumerate(homes) for c in range(n_chunks) if home == u} for u in range(n)
    ]
    step = 0
    while any(len(chunks) < len(homes) * n_chunks for chunks in held):
        arrived: list[tuple[int, tuple[int, int]]] = []
        for u in range(n):
            for v in range(len(homes)):
                for c in range(n_chunks):
                    ready = [e for e in links[u] if (v, c) in held[int(topology.tails[e])]]
                    if (v, c) not in held[u] and ready and rng.random() >= waste:
                        sends.append((v, rng.choice(ready), step, c, c + 1))
                        arrived.append((u, (v, c)))
        for u, chunk in arrived:
            held[u][chunk] = step
        step += 1
    return _joined(sends)


def _joined(sends: list[Send]) -> list[Send]:
    """Adjacent chunks of a shard that cross a link in the same step become one send."""
    result: list[Send] = []
    for shard, link, step, low, high in sorted(sends, key=lambda send: (send[2], send[1], send[0], send[3])):
        if result and result[-1][:3] == (shard, link, step) and result[-1][4] == low:
            result[-1] = (shard, link, step, result[-1][3], high)
        else:
            result.append((shard, link, step, low, high))
    return result


def mirrored(sends: list[Send]) -> list[Send]:
    """The sends backwards in time; right for reductions on the transposed fabric."""
    last = max((send[2] for send in sends), default=0)
    return [(v, link, last - step, low, high) for v, link, step, low, high in sends]


def greedy_schedule(
    topology: Topology,
    kind: CollectiveKind,
    *,
    seed: int = 0,
    n_chunks: int = 2,
    root: int = 0,
    homes: list[int] | None = None,
    waste: float = 0.0,
) -> tuple[Collective, StepSchedule]:
    """A correct schedule of any kind; the two phases of an allreduce cut their shards differently."""
    rng = random.Random(seed)
    n = topology.n_nodes
    collective = on_all_ranks(topology, kind, root=root if kind.is_rooted else None)
    if homes is None:
        homes = [root] if kind.is_rooted else list(range(n))
    reduce = broadcast = None
    if kind.reduces:
        sends = mirrored(greedy_sends(topology.transpose(), homes, n_chunks, rng, waste=waste))
        reduce = steps_from_sends(Direction.REDUCE, n, n_chunks, sends, homes=homes)
    if kind.broadcasts:
        n_chunks += int(kind.reduces)
        sends = greedy_sends(topology, homes, n_chunks, rng, waste=waste)
        broadcast = steps_from_sends(Direction.BROADCAST, n, n_chunks, sends, homes=homes)
    return collective, StepSchedule(kind, reduce=reduce, broadcast=broadcast)


def ring(n: int, *, links: int = 1, both: bool = False) -> Topology:
    """`links` parallel arcs from each node to the next, and back if `both`."""
    tails = np.repeat(np.arange(n), links)
    heads = (tails + 1) % n
    if both:
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    return from_arcs(f"ring{n}x{links}{'b' if both else ''}", tails, heads, n=n)


def ring_steps(n: int, direction: Direction) -> Steps:
    """The ring algorithm on `ring(n)`: link i leaves rank i; shard v is at home at rank v."""
    if direction is Direction.BROADCAST:
        sends = [(v, (v + t) % n, t, 0, 1) for v in range(n) for t in range(n - 1)]
    else:
        sends = [(v, (v + 1 + t) % n, t, 0, 1) for v in range(n) for t in range(n - 1)]
    return steps_from_sends(direction, n, 1, sends)


def whole_buffer_allreduce(n: int) -> tuple[Topology, Collective, StepSchedule]:
    """Every rank sends its whole buffer to every other one, in a single step of the complete graph."""
    pairs = [(u, w) for u in range(n) for w in range(n) if u != w]
    topology = from_arcs(f"complete{n}", [u for u, _ in pairs], [w for _, w in pairs], n=n)
    sends = [(w, link, 0, 0, 1) for link, (_, w) in enumerate(pairs)]
    steps = steps_from_sends(Direction.REDUCE, n, 1, sends)
    return (
        topology,
        on_all_ranks(topology, CollectiveKind.ALLREDUCE),
        StepSchedule(CollectiveKind.ALLREDUCE, reduce=steps),
    )


def random_digraph(rng: random.Random, n: int) -> Topology:
    """A cycle through all nodes in random order, and some more arcs; loops and parallels included."""
    order = rng.sample(range(n), n)
    arcs = list(zip(order, order[1:] + order[:1], strict=True))
    arcs += [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 2 * n))]
    rng.shuffle(arcs)
    return from_arcs("random", [a for a, _ in arcs], [b for _, b in arcs], n=n)


def with_chunks(topology: Topology, chunks: int) -> Steps:
    """Breadth-first-broadcast allgather with so many chunks per shard and the least T_B among those."""
    instance = link_rows(topology)
    return split(instance, value_of(instance), chunks)
