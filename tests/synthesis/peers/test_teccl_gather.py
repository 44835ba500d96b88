"""TE-CCL's integer program: verified schedules, early demands, the best value by trying everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest

from treadle import planning
from treadle.context import Context, under
from treadle.errors import ScheduleError
from treadle.schedulers import step_candidates
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.peers import teccl_gather as module
from treadle.synthesis.peers.teccl_gather import teccl_gather
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify


def gathered(fabric: Topology, chunks: int = 1) -> StepSchedule:
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    found = teccl_gather(fabric, collective, chunks=chunks)
    assert not found.is_late
    report = verify(fabric, collective, found.schedule)
    assert report.violations == ()
    return found.schedule


def path(*bandwidths: int) -> Topology:
    builder = TopologyBuilder("path")
    for number in range(len(bandwidths) + 1):
        builder.compute(str(number))
    for number, width in enumerate(bandwidths):
        builder.duplex(str(number), str(number + 1), width)
    return builder.build()


def circle(n: int) -> Topology:
    """One way round."""
    builder = TopologyBuilder("circle")
    for number in range(n):
        builder.compute(str(number))
    for number in range(n):
        builder.link(str(number), str((number + 1) % n), 1)
    return builder.build()


@pytest.mark.parametrize(
    ("fabric", "chunks", "steps"),
    [
        ("complete(4)", 1, 1),
        ("ring(4)", 1, 2),
        ("ring(4)", 2, 3),
        ("hypercube(3)", 1, 3),
        ("torus(3, 3)", 1, 2),
        ("mesh(3, 3)", 1, 4),
    ],
)
def test_as_few_epochs_as_any_schedule_takes(fabric: str, chunks: int, steps: int) -> None:
    """A node gets all chunks but its own over its links, one a link in an epoch: ceil((N - 1) C / degree)."""
    assert gathered(parse(fabric), chunks).n_steps == steps


def value(fabric: Topology, schedule: StepSchedule) -> Fraction:
    """The objective: of each chunk at each rank, 1 / k for k from the epoch after its arrival to the last."""
    steps = schedule.broadcast
    assert steps is not None
    horizon = schedule.n_steps
    arrivals = zip(steps.send_steps().tolist(), steps.low.tolist(), strict=True)
    return sum((Fraction(1, k) for step, _ in arrivals for k in range(step + 1, horizon + 1)), Fraction(0))


def everything(fabric: Topology, epochs: int) -> Iterator[Fraction]:
    """Values of all schedules of one chunk a shard in so many epochs, link by link, by exhaustion."""
    links = list(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    n = fabric.n_nodes

    def go_on(held: frozenset[tuple[int, int]], epoch: int, so_far: Fraction) -> Iterator[Fraction]:
        if epoch == epochs:
            if len(held) == n * n:
                yield so_far
            return
        offers = [
            [None, *(s for s in range(n) if (tail, s) in held and (head, s) not in held)]
            for tail, head in links
        ]
        worth = sum((Fraction(1, k) for k in range(epoch + 1, epochs + 1)), Fraction(0))
        for choice in product(*offers):
            new = {(head, s) for (_, head), s in zip(links, choice, strict=True) if s is not None}
            yield from go_on(held | new, epoch + 1, so_far + worth * len(new))

    yield from go_on(frozenset((node, node) for node in range(n)), 0, Fraction(0))


@pytest.mark.parametrize("fabric", [path(1, 1), parse("ring(3)"), circle(3)])
def test_the_value_is_the_best_of_all_schedules(fabric: Topology) -> None:
    schedule = gathered(fabric)
    assert value(fabric, schedule) == max(everything(fabric, schedule.n_steps))


def test_what_is_too_large_is_refused_before_it_is_built() -> None:
    with pytest.raises(ScheduleError, match="more than 20000 whole-numbered variables"):
        planning.solve("torus(12, 12)", "allgather", algorithm="te-ccl")
    with pytest.raises(ScheduleError, match="more than 20000"):
        planning.solve("ring(4)", "allgather", algorithm="te-ccl", chunks=10**12)
    with pytest.raises(ScheduleError, match="allreduce is not supported"):
        planning.solve("ring(4)", "allreduce", algorithm="te-ccl")


@pytest.mark.parametrize(
    ("gap", "notes"), [(module.GAP, ()), (0.25, ("the value of its program is within 25% of the best",))]
)
def test_a_schedule_that_may_be_far_from_the_best_says_so(
    gap: float, notes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = parse("ring(4)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    found = teccl_gather(fabric, collective)._replace(gap=gap, is_late=True)
    monkeypatch.setattr(step_candidates, "teccl_gather", lambda *_, **__: found)
    assert step_candidates.te_ccl(fabric, collective).notes == notes
    assert not step_candidates.te_ccl(fabric, collective).is_late
    timed = Context(deadline=time.monotonic() + 60)
    with under(timed):
        assert step_candidates.te_ccl(fabric, collective).is_late
