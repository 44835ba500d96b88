"""Timelines worked by hand, against a slow walk, and what holds of all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

from reference.training.stepped_timeline import walk
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Seconds, Traffic
from treadle.training.timeline.contention import Contention
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

DP: Traffic = (CollectiveKind.ALLREDUCE, ("dp",))
TP: Traffic = (CollectiveKind.ALLGATHER, ("tp",))
EP: Traffic = (CollectiveKind.ALLTOALL, ("ep",))


def compute(seconds: Seconds, *waits: int, device: int = 0) -> Task:
    return Task("compute", device, COMPUTE_STREAM, seconds, waits, Category.FORWARD)


def moves(
    seconds: Seconds,
    *waits: int,
    device: int = 0,
    stream: str = "network",
    traffic: Traffic = DP,
    urgent: bool = False,
) -> Task:
    category = Category(traffic[0].value if traffic[0] else "send")
    return Task("moves", device, stream, seconds, waits, category, traffic, 8, urgent)


def times(tasks: list[Task], kappa: Seconds = 1) -> list[tuple[Seconds, Seconds]]:
    found = run_tasks(tasks, Contention(kappa))
    return list(zip(found.starts, found.ends, strict=True))


def test_a_stream_runs_its_tasks_one_by_one_in_the_order_of_issue() -> None:
    assert times([compute(3), compute(1), compute(2)]) == [(0, 3), (3, 4), (4, 6)]


def test_a_task_behind_one_that_waits_waits_as_well() -> None:
    """The second communication is ready at 0, but the first is issued before it."""
    assert times([compute(5), moves(2, 0), moves(1)]) == [(0, 5), (5, 7), (7, 8)]


def test_an_urgent_task_overtakes_what_has_not_begun() -> None:
    """Begun at 2, the first allreduce goes on; the second, issued before the all-to-all, gives way."""
    tasks = [compute(2), moves(4, 0), moves(3, 0), compute(1, 0), moves(2, 3, traffic=EP, urgent=True)]
    assert times(tasks) == [(0, 2), (2, 6), (8, 11), (2, 3), (6, 8)]


def test_two_streams_run_at_once_without_contention() -> None:
    assert times([compute(2), moves(4, 0), compute(3)]) == [(0, 2), (2, 6), (2, 5)]


@pytest.mark.parametrize(
    ("kappa", "moved", "computed"),
    [(1, 6, 5), (Fraction(3, 2), Fraction(15, 2), Fraction(13, 2)), (2, 9, 8)],
)
def test_both_streams_advance_at_one_over_kappa_while_both_run(
    kappa: Seconds, moved: Seconds, computed: Seconds
) -> None:
    """3 s of computing beside 4 s of moving: kappa x 3 for both, then 1 s of moving alone."""
    assert times([compute(2), moves(4, 0), compute(3)], kappa) == [(0, 2), (2, moved), (2, computed)]


def test_at_kappa_2_overlap_gains_nothing() -> None:
    tasks = [compute(2), moves(4, 0), compute(3)]
    assert run_tasks(tasks, Contention(2)).total_s == 2 + 4 + 3


def test_nothing_is_computed_during_a_blocking_alltoall() -> None:
    """Backward of an expert layer behind a dense one whose bucket is moving: the all-to-all queues."""
    tasks = [
        compute(2),  # a layer's backward, 0-2
        moves(5, 0),  # its bucket, 2-7
        compute(1, 0),  # the next layer, 2-3
        moves(3, 2, traffic=EP),  # its all-to-all behind the bucket, 7-10
        compute(4, 3),  # what waits for it, 10-14
        moves(1, 4),  # the last bucket, 14-15
    ]
    found = run_tasks(tasks, Contention(Fraction(3, 2)))
    # The bucket shares the device for the 1 s of computing, which takes 3/2.
    late = Fraction(1, 2)
    assert found.starts == (0, 2, 2, 7 + late, 10 + late, 14 + late)
    assert found.ends == (2, 7 + late, 3 + late, 10 + late, 14 + late, 15 + late)
    parts = found.device_time(0)
    assert parts.compute_s == 7
    assert parts.contention_s == late
    assert parts.exposed_s == {Category.ALLREDUCE: 4 + 1, Category.ALLTOALL: 3}
    assert parts.idle_s == 0


def test_streams_of_communication_slow_each_other_down() -> None:
    """Alone 6 and 2; together twice and three times as long: 6 s, in which the first does 3.

    Beside 4 s of computing, at kappa 2: 8 s, in which they do 2 and 4/3; 2 s together; 3 s of the first.
    """

    def slowdowns(running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        return tuple({DP: 2, TP: 3}[traffic] for traffic in running)

    tasks = [moves(6), moves(2, stream="tp", traffic=TP)]
    found = run_tasks(tasks, Contention(1, slowdowns))
    assert found.ends == (9, 6)
    assert found.device_time(0).exposed_s == {Category.ALLREDUCE: 3 + 3, Category.ALLGATHER: 3}
    assert run_tasks([*tasks, compute(4)], Contention(2, slowdowns)).ends == (13, 10, 8)


def test_devices_do_not_slow_each_other_down() -> None:
    """A pipeline of two stages, and two micro-batches."""
    tasks = [
        compute(4),
        moves(1, 0),
        compute(4),
        moves(1, 2),
        compute(3, 1, device=1),
        compute(3, 3, device=1),
    ]
    found = run_tasks(tasks, Contention(2))
    # The first send meets the second micro-batch of its own stage: both end a second later than alone.
    assert found.starts == (0, 4, 4, 9, 6, 10)
    assert found.ends == (4, 6, 9, 10, 9, 13)
    second = found.device_time(1)
    assert (second.compute_s, second.idle_s) == (6, 6 + 1)
    assert found.device_time(0).idle_s == 3


def test_tasks_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(ScheduleError, match="never runs on stream compute of device 0"):
        run_tasks([compute(1, 1), compute(1)])
    with pytest.raises(ScheduleError, match="waits for task 7 of 1"):
        run_tasks([compute(1, 7)])


def test_values_refuse_what_is_out_of_range() -> None:
    with pytest.raises(ScheduleError, match="expected 0 or more"):
        compute(-1)
    with pytest.raises(ScheduleError, match="communicates on the stream compute"):
        moves(1, stream=COMPUTE_STREAM)
    with pytest.raises(ScheduleError, match=r"kappa 2.5; expected 1 .* to 2"):
        Contention(2.5)
    with pytest.raises(ScheduleError, match="as many of at least 1"):
        run_tasks([moves(1), moves(1, stream="tp")], Contention(1, lambda running: (0.5,) * len(running)))


def random_tasks(random: Random) -> list[Task]:
    n = random.randint(1, 14)
    tasks = []
    for place in range(n):
        waits = random.sample(range(place), min(place, random.choice((0, 0, 1, 2))))
        seconds, device = Fraction(random.randint(1, 12), random.choice((1, 2, 3))), random.randrange(2)
        if random.random() < 0.5:
            tasks.append(compute(seconds, *waits, device=device))
        else:
            traffic = random.choice((DP, TP, EP))
            stream, urgent = random.choice(("network", "tp")), random.random() < 0.3
            tasks.append(moves(seconds, *waits, device=device, stream=stream, traffic=traffic, urgent=urgent))
    return tasks


FACTORS = {DP: Fraction(3, 2), TP: Fraction(1), EP: Fraction(7, 3)}


def run_random(tasks: list[Task], kappa: Fraction) -> Timeline:
    return run_tasks(tasks, Contention(kappa, lambda running: tuple(FACTORS[one] for one in running)))


@pytest.mark.parametrize("seed", range(100))
def test_random_tasks_run_as_in_a_slow_walk(seed: int) -> None:
    random = Random(seed)
    tasks = random_tasks(random)
    kappa = random.choice((Fraction(1), Fraction(3, 2), Fraction(2)))

    def slowdown(_: list[Task], task: Task) -> Fraction:
        assert task.traffic is not None
        return FACTORS[task.traffic]

    try:
        expected = walk(tasks, kappa, slowdown)
    except AssertionError:
        with pytest.raises(ScheduleError, match="never runs"):
            run_random(tasks, kappa)
        return
    found = run_random(tasks, kappa)
    assert list(zip(found.starts, found.ends, strict=True)) == expected
    check_properties(found, kappa)


def check_properties(found: Timeline, kappa: Fraction) -> None:
    tasks = found.tasks
    longest: list[Seconds] = []
    for place, task in enumerate(tasks):
        assert all(found.starts[place] >= found.ends[other] for other in task.waits_for)
        longest.append(task.seconds + max((longest[other] for other in task.waits_for), default=0))
    assert found.total_s >= max(longest)
    for key in {(task.device, task.stream) for task in tasks}:
        own = [place for place, task in enumerate(tasks) if (task.device, task.stream) == key]
        spans = sorted((found.starts[place], found.ends[place]) for place in own)
        assert all(after[0] >= before[1] for before, after in pairwise(spans))
        assert found.total_s >= sum(tasks[place].seconds for place in own)
        usual = [found.starts[place] for place in own if not tasks[place].is_urgent]
        assert usual == sorted(usual)
    for device in found.devices:
        parts = found.device_time(device)
        whole = parts.compute_s + parts.contention_s + sum(parts.exposed_s.values()) + parts.idle_s
        assert whole == found.total_s
        assert 0 <= parts.contention_s <= (kappa - 1) * parts.compute_s
        assert parts.idle_s >= 0


def test_rounded_numbers_come_close_to_exact_ones() -> None:
    for seed in range(40):
        tasks = random_tasks(Random(seed))
        rounded = [
            Task(
                t.name, t.device, t.stream, float(t.seconds), t.waits_for, t.category, t.traffic, t.size_bytes
            )
            for t in tasks
        ]
        plain = [
            Task(t.name, t.device, t.stream, t.seconds, t.waits_for, t.category, t.traffic, t.size_bytes)
            for t in tasks
        ]
        found, expected = (run_random(some, Fraction(3, 2)).ends for some in (rounded, plain))
        assert [float(end) for end in expected] == pytest.approx(found)
