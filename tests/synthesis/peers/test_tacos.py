"""TACOS's greedy: verified, as fast as its public code, reproducible by seed, and within a time limit."""

from __future__ import annotations

import random
import time
from collections import Counter
from fractions import Fraction

import pytest

from treadle import planning
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.peers.tacos import TRIALS, random_schedule, tacos
from treadle.topologies import parse
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("fabric", "chunks", "expected"),
    [
        ("mesh(4, 4)", 1, {8}),
        ("mesh(4, 4)", 4, {30}),
        ("torus(4, 4)", 1, {4, 5}),
        ("torus(4, 4)", 4, {15, 16, 17}),
    ],
)
def test_as_many_steps_as_its_public_code_takes(fabric: str, chunks: int, expected: set[int]) -> None:
    """40 runs each of astra-sim/tacos at 1811f1f, without latency, took 8; 30; 4 or 5; 15 to 17 steps."""
    draw = random.Random(7)
    found = Counter(random_schedule(parse(fabric), chunks, draw)[-1][2] + 1 for _ in range(12))
    assert set(found) <= expected


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("fabric", ["torus(3, 3)", "mesh(2, 3)", "kautz(2, 1)", "circulant(10, 1, 3)"])
def test_schedules_are_verified_and_below_the_bound(fabric: str, kind: str) -> None:
    found = planning.solve(fabric, kind, algorithm="tacos", chunks=2)
    assert found.report.is_ok
    assert found.algbw <= found.optimal_algbw


def test_a_faster_link_carries_more_in_a_step() -> None:
    """Rank 0 gets three shards over a link of three times the bandwidth: in one step of the slow ones."""
    from treadle.topologies import TopologyBuilder

    builder = TopologyBuilder("fast")
    for number in range(2):
        builder.compute(str(number))
    builder.link("0", "1", 1)
    builder.link("1", "0", 3)
    fabric = builder.build()
    schedule = tacos(fabric, on_all_ranks(fabric, CollectiveKind.ALLGATHER), chunks=3)
    assert schedule.n_steps == 3
    first = schedule.broadcast
    assert first is not None
    counts = Counter(zip(first.send_steps().tolist(), first.link.tolist(), strict=True))
    assert counts == {(0, 0): 1, (1, 0): 1, (2, 0): 1, (0, 1): 3}


def test_the_seed_decides() -> None:
    fabric = parse("torus(4, 4)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    one, other, again = (tacos(fabric, collective, seed=seed) for seed in (1, 2, 1))
    assert one == again != other
    rows = [planning.compare(fabric, "allgather", algorithms=["tacos"], seed=seed).rows[0] for seed in (1, 2)]
    assert all(row.is_peer and row.report is not None and row.report.is_ok for row in rows)


def test_more_chunks_come_nearer_to_the_optimum() -> None:
    """At most 64/15 on a torus of 4 x 4 with links of 1 B/s."""
    one, many = (
        planning.solve("torus(4, 4)", "allgather", algorithm="tacos", chunks=chunks).algbw
        for chunks in (1, 16)
    )
    assert one < many <= Fraction(64, 15)
    assert many > Fraction(64, 15) * Fraction(95, 100)


def test_a_time_limit_ends_the_trials_or_the_first_of_them() -> None:
    fabric = parse("torus(4, 4)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic() - 1)):
        tacos(fabric, collective)
    trials: list[int] = []

    def note(stage: str, done: int, _: int) -> None:
        if stage == "random schedules":
            trials.append(done)

    with under(Context(note)):
        tacos(fabric, collective)
    assert trials == list(range(1, TRIALS + 1))


def test_what_it_cannot_do_is_refused() -> None:
    fabric = parse("ring(4)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    for chunks in (0, -1, 2**40):
        with pytest.raises(ScheduleError, match="chunks a shard, expected 1 to 262144"):
            tacos(fabric, collective, chunks=chunks)
    with pytest.raises(ScheduleError, match="comes with switches"):
        planning.solve("dgx_a100(1)", "allgather", algorithm="tacos")
    from treadle.topologies import TopologyBuilder

    builder = TopologyBuilder("one way")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "b", 1)
    with pytest.raises(InfeasibleError):
        tacos(builder.build(), on_all_ranks(builder.build(), CollectiveKind.ALLGATHER))


def test_links_are_used_no_more_than_they_can_carry() -> None:
    fabric = parse("mi250(1)")
    if fabric.switches.size:
        fabric = parse("hypercube(3)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    schedule = tacos(fabric, collective, chunks=2)
    assert verify(fabric, collective, schedule).is_ok
    sends = schedule.broadcast
    assert sends is not None
    slots = fabric.bandwidths // fabric.bandwidths.min()
    counts = Counter(zip(sends.send_steps().tolist(), sends.link.tolist(), strict=True))
    assert all(count <= slots[link] for (_, link), count in counts.items())
