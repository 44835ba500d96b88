"""Small step schedules, made here by hand or at random, and a slow checker that judges them from scratch.

Nothing here uses `treadle.schedules.steps.step_transforms`, `step_cost` or the verifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

Arc = tuple[int, int]


def schedule_of(kind: CollectiveKind, *phases: Steps) -> StepSchedule:
    parts = {phase.direction: phase for phase in phases}
    return StepSchedule(kind, parts.get(Direction.REDUCE), parts.get(Direction.BROADCAST))


def sends_of(steps: Steps) -> list[Send]:
    """(shard, link, step, low, high) of every send."""
    return [
        (int(steps.shard[i]), int(steps.link[i]), t, int(steps.low[i]), int(steps.high[i]))
        for t in range(steps.n_steps)
        for i in range(int(steps.step_offset[t]), int(steps.step_offset[t + 1]))
    ]


def with_sends(steps: Steps, sends: list[Send]) -> Steps:
    """The same shards with other sends, in as many steps or more."""
    return steps_from_sends(
        steps.direction,
        steps.n_ranks,
        steps.n_chunks,
        sends,
        homes=steps.homes.tolist(),
        n_steps=max([steps.n_steps, *(send[2] + 1 for send in sends)]),
    )


# --- by hand -----------------------------------------------------------------------------------------------


def topology_of(arcs: Sequence[Arc], *, n: int) -> Topology:
    return from_arcs("sample", [tail for tail, _ in arcs], [head for _, head in arcs], n=n)


def ring_allgather(n: int) -> tuple[Topology, Steps]:
    """Unidirectional ring, link v from v to v + 1: shard v leaves u at step (u - v) mod n."""
    sends = [(v, (v + t) % n, t, 0, 1) for v in range(n) for t in range(n - 1)]
    return topology_of([(v, (v + 1) % n) for v in range(n)], n=n), steps_from_sends(
        Direction.BROADCAST, n, 1, sends
    )


def complete_allgather(n: int) -> tuple[Topology, Steps]:
    """Complete graph: everyone to everyone at once."""
    arcs = [(u, w) for u in range(n) for w in range(n) if u != w]
    sends = [(u, link, 0, 0, 1) for link, (u, _) in enumerate(arcs)]
    return topology_of(arcs, n=n), steps_from_sends(Direction.BROADCAST, n, 1, sends)


def k22_allgather() -> tuple[Topology, Steps]:
    """Figure 3.1: a, b = 0, 1 and c, d = 2, 3; a sends S to c and d, they send C1 and C2 on to b."""
    arcs = [(u, w) for u in (0, 1) for w in (2, 3)] + [(u, w) for u in (2, 3) for w in (0, 1)]
    sends: list[Send] = []
    for v, twin, others in ((0, 1, (2, 3)), (1, 0, (2, 3)), (2, 3, (0, 1)), (3, 2, (0, 1))):
        for half, other in enumerate(others):
            sends.append((v, arcs.index((v, other)), 0, 0, 2))
            sends.append((v, arcs.index((other, twin)), 1, half, half + 1))
    return topology_of(arcs, n=4), steps_from_sends(Direction.BROADCAST, 4, 2, sends)


# --- at random ---------------------------------------------------------------------------------------------


# --- the slow checker --------------------------------------------------------------------------------------


def is_correct(topology: Topology, collective: Collective, schedule: StepSchedule) -> bool:
    """Sets of chunks for broadcasting, multisets of contributions for reducing, simulated forwards."""
    n, kind = collective.n_ranks, collective.kind
    if schedule.kind is not kind or any(steps.n_ranks != n for steps in schedule.phases):
        return False
    if collective.weights is not None and len(set(collective.weights)) > 1:
        return False
    homes = schedule.phases[0].homes.tolist()
    if not homes or (collective.root is not None and set(homes) != {collective.root}):
        return False
    is_one_each = kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    if (is_one_each or len(schedule.phases) < kind.reduces + kind.broadcasts) and sorted(homes) != [
        *range(n)
    ]:
        return False
    judges = {Direction.BROADCAST: _spreads_all, Direction.REDUCE: _sums_all}
    return all(judges[steps.direction](topology, collective, steps) for steps in schedule.phases)


def _moves(topology: Topology, steps: Steps) -> list[list[tuple[int, int, int, int]]] | None:
    """Per step (tail, head, shard, chunk); None if a link cannot be used."""
    moves: list[list[tuple[int, int, int, int]]] = [[] for _ in range(steps.n_steps)]
    for shard, link, step, low, high in sends_of(steps):
        if link >= topology.n_links:
            return None
        tail, head = int(topology.tails[link]), int(topology.heads[link])
        if tail == head or not (topology.is_compute[tail] and topology.is_compute[head]):
            return None
        moves[step] += [(tail, head, shard, chunk) for chunk in range(low, high)]
    return moves


def _spreads_all(topology: Topology, collective: Collective, steps: Steps) -> bool:
    moves = _moves(topology, steps)
    if moves is None:
        return False
    held: list[set[tuple[int, int]]] = [set() for _ in range(topology.n_nodes)]
    for shard, home in enumerate(steps.homes.tolist()):
        held[collective.ranks[home]] |= {(shard, chunk) for chunk in range(steps.n_chunks)}
    for step in moves:
        if any((shard, chunk) not in held[tail] for tail, _, shard, chunk in step):
            return False
        for _, head, shard, chunk in step:
            held[head].add((shard, chunk))
    return all(len(held[node]) == steps.n_shards * steps.n_chunks for node in collective.ranks)


def _sums_all(topology: Topology, collective: Collective, steps: Steps) -> bool:
    moves = _moves(topology, steps)
    if moves is None:
        return False
    sums: dict[tuple[int, int, int], Counter[int]] = {
        (node, shard, chunk): Counter([rank])
        for rank, node in enumerate(collective.ranks)
        for shard in range(steps.n_shards)
        for chunk in range(steps.n_chunks)
    }
    for step in moves:
        arriving = []
        for tail, head, shard, chunk in step:
            if (tail, shard, chunk) not in sums:
                return False
            arriving.append(((head, shard, chunk), Counter(sums[tail, shard, chunk])))
        for place, partial in arriving:
            sums.setdefault(place, Counter()).update(partial)
    wanted = Counter(range(collective.n_ranks))
    return all(
        sums[collective.ranks[home], shard, chunk] == wanted
        for shard, home in enumerate(steps.homes.tolist())
        for chunk in range(steps.n_chunks)
    )


def slow_algbw(topology: Topology, schedule: StepSchedule) -> Fraction:
    """Size / time from the definition, send by send."""
    total = Fraction(0)
    for steps in schedule.phases:
        shard = Fraction(1) if schedule.has_full_shards else Fraction(1, steps.n_shards)
        times: list[dict[tuple[str, int], Fraction]] = [{} for _ in range(steps.n_steps)]
        for _, link, step, low, high in sends_of(steps):
            size = shard * (high - low) / steps.n_chunks
            caps = topology.injection_bytes_per_s
            tail, head = int(topology.tails[link]), int(topology.heads[link])
            for place, capacity in (
                (("link", link), int(topology.bandwidths[link])),
                (("out of", tail), int(caps[tail])),
                (("into", head), int(caps[head])),
            ):
                if capacity:
                    times[step][place] = times[step].get(place, Fraction(0)) + size / capacity
        total += sum((max(step.values(), default=Fraction(0)) for step in times), Fraction(0))
    return 1 / total
