"""The verifier accepts hand-made steps; on thousands of mutants it agrees with a slow checker."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from reference.step_times import runtime_s
from samples import step_samples as samples
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps import step_cost
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import Report, ViolationKind, verify
from treadle.verification.steps import step_flow as verify_steps_flow

ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER


def check(topology: Topology, steps: Steps, kind: CollectiveKind = ALLGATHER) -> Report:
    collective = on_all_ranks(topology, kind)
    schedule = samples.schedule_of(kind, steps)
    report = verify(topology, collective, schedule)
    assert report.is_ok == samples.is_correct(topology, collective, schedule)
    return report


def kinds(report: Report) -> set[ViolationKind]:
    return {violation.kind for violation in report.violations}


# --- accepted ----------------------------------------------------------------------------------------------


def test_figure_3_1_complete_bipartite_graph() -> None:
    """Figure 3.1: T_L = 2 alpha and T_B = M/B * 3/4; B = 2, so algbw = 2 / (3/4)."""
    topology, steps = samples.k22_allgather()
    c1, c2 = (0, 1), (1, 2)
    link = {(int(topology.tails[e]), int(topology.heads[e])): e for e in range(topology.n_links)}
    a, b, c, d = range(4)
    published = {
        (a, link[a, c], 0, 0, 2),
        (a, link[a, d], 0, 0, 2),
        (a, link[c, b], 1, *c1),
        (a, link[d, b], 1, *c2),
    }
    assert {send for send in samples.sends_of(steps) if send[0] == a} == published
    report = check(topology, steps)
    assert report.is_ok
    assert (report.n_steps, report.height_max, report.algbw) == (2, None, Fraction(2) / Fraction(3, 4))


@pytest.mark.parametrize("n", [2, 3, 7])
def test_ring_and_complete_graph(n: int) -> None:
    for (topology, steps), degree, n_steps in (
        (samples.ring_allgather(n), 1, n - 1),
        (samples.complete_allgather(n), n - 1, 1),
    ):
        report = check(topology, steps)
        assert report.is_ok
        assert report.n_steps == n_steps
        assert report.algbw == degree * Fraction(n, n - 1)  # bandwidth-optimal: T_B = M/B * (N - 1)/N


@pytest.mark.parametrize("seed", range(25))
def test_random_schedule_is_accepted(seed: int) -> None:
    topology, collective, schedule = samples.random_case(random.Random(seed))
    assert samples.is_correct(topology, collective, schedule)
    report = verify(topology, collective, schedule)
    assert not report.violations
    assert report.algbw == samples.slow_algbw(topology, schedule) == step_cost.algbw(topology, schedule)
    assert report.n_steps == schedule.n_steps
    assert verify(topology, collective, schedule, claimed_algbw=report.algbw).is_ok


def test_injection_cap_limits_algbw() -> None:
    topology, steps = samples.complete_allgather(4)
    topology = replace(topology, injection_bytes_per_s=np.array([0, 2, 0, 0]))
    report = check(topology, steps)
    schedule = samples.schedule_of(ALLGATHER, steps)
    assert report.algbw == samples.slow_algbw(topology, schedule) == step_cost.algbw(topology, schedule)
    assert runtime_s(topology, schedule, 8) == pytest.approx(3.0)
    assert report.algbw == Fraction(2, 3) * 4  # 3 shards enter at 2 bytes/s


# --- rejected ----------------------------------------------------------------------------------------------


def mutated(rng: random.Random, topology: Topology, steps: Steps) -> Steps:
    """One send dropped, doubled, swapped in time, delayed, advanced or changed; or another home."""
    sends = samples.sends_of(steps)
    i, j = rng.randrange(len(sends)), rng.randrange(len(sends))
    shard, link, step, low, high = sends[i]
    what = rng.randrange(9)
    if what == 0:
        return samples.with_sends(steps, sends[:i] + sends[i + 1 :])
    if what == 1:
        return samples.with_sends(steps, [*sends, (shard, link, rng.randrange(steps.n_steps), low, high)])
    if what == 2:
        other = sends[j]
        sends[i], sends[j] = (shard, link, other[2], low, high), (*other[:2], step, *other[3:])
    elif what == 3:
        sends[i] = (shard, link, step + rng.choice((1, 1, 2)), low, high)
    elif what == 4:
        sends[i] = (shard, link, max(0, step - 1), low, high)
    elif what == 5:
        sends[i] = (shard, rng.randrange(topology.n_links + 1), step, low, high)
    elif what == 6:
        sends[i] = (rng.randrange(steps.n_shards), link, step, low, high)
    elif what == 7:
        low, high = sorted(rng.sample(range(steps.n_chunks + 1), 2))
        sends[i] = (shard, link, step, low, high)
    else:
        homes = steps.homes.copy()
        homes[rng.randrange(len(homes))] = rng.randrange(steps.n_ranks)
        return replace(steps, homes=homes)
    return samples.with_sends(steps, sends)


def mutant(rng: random.Random, topology: Topology, schedule: StepSchedule) -> StepSchedule:
    phases = list(schedule.phases)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        k = rng.randrange(len(phases))
        if phases[k].n_sends:
            phases[k] = mutated(rng, topology, phases[k])
    if len({phase.homes.tobytes() for phase in phases}) > 1:
        phases = [replace(phase, homes=phases[0].homes) for phase in phases]
    return samples.schedule_of(schedule.kind, *phases)


def agree(topology: Topology, collective: Collective, schedule: StepSchedule) -> bool:
    report = verify(topology, collective, schedule)
    is_correct = samples.is_correct(topology, collective, schedule)
    assert report.is_ok == is_correct, (topology, collective, schedule, report.violations)
    if is_correct:
        assert report.algbw == samples.slow_algbw(topology, schedule)
    else:
        assert report.n_violations >= len(report.violations) > 0
        assert all("\n" not in violation.message for violation in report.violations)
        assert report.algbw is None
    return is_correct


def count_verdicts(n_cases: int, seed: int, *, is_frugal: bool, n_chunks: int | None = None) -> Counter[bool]:
    verdicts: Counter[bool] = Counter()
    for number in range(n_cases):
        rng = random.Random(seed * 10**6 + number)
        topology, collective, schedule = samples.random_case(rng, is_frugal=is_frugal, n_chunks=n_chunks)
        verdicts[agree(topology, collective, schedule)] += 1
        for _ in range(5):
            verdicts[agree(topology, collective, mutant(rng, topology, schedule))] += 1
    return verdicts


@pytest.mark.parametrize("is_frugal", [True, False])
def test_verdicts_agree_with_the_slow_checker(is_frugal: bool) -> None:
    verdicts = count_verdicts(60, 1, is_frugal=is_frugal)
    assert min(verdicts[True], verdicts[False]) > 40


def test_verdicts_agree_in_small_batches_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_steps_flow, "_BATCH", 2)
    monkeypatch.setattr(verify_steps_flow, "_STATE_BYTES", 8)
    verdicts = count_verdicts(25, 2, is_frugal=False)
    assert min(verdicts[True], verdicts[False]) > 12


@pytest.mark.parametrize("n_chunks", [8, 64, 65, 130])
def test_verdicts_agree_for_many_chunks(n_chunks: int) -> None:
    verdicts = count_verdicts(6, n_chunks, is_frugal=True, n_chunks=n_chunks)
    assert min(verdicts[True], verdicts[False]) > 3


@pytest.mark.parametrize("n_chunks", [1, 8, 9, 64, 65, 130])
def test_every_single_chunk_is_minded(n_chunks: int) -> None:
    """Two ranks exchange chunk by chunk; each chunk in turn is forgotten, or sent twice."""
    topology = samples.topology_of([(0, 1), (1, 0)], n=2)
    for kind, direction in ((ALLGATHER, Direction.BROADCAST), (REDUCE_SCATTER, Direction.REDUCE)):
        reduces = kind is REDUCE_SCATTER
        sends = [(v, v ^ reduces, 0, c, c + 1) for c in range(n_chunks) for v in (0, 1)]

        def verdict(
            sends: list[Send], kind: CollectiveKind = kind, direction: Direction = direction
        ) -> set[ViolationKind]:
            schedule = samples.schedule_of(kind, steps_from_sends(direction, 2, n_chunks, sends))
            return kinds(verify(topology, Collective(kind, (0, 1)), schedule))

        assert verdict(sends) == set()
        for i in range(0, 2 * n_chunks, 1 + n_chunks // 16):
            assert verdict(sends[:i] + sends[i + 1 :]) == {ViolationKind.DELIVERY}
            assert verdict([*sends, sends[i]]) == ({ViolationKind.DOUBLE} if reduces else set())
        for i in (2 * n_chunks - 1, min(126, 2 * n_chunks - 2), min(128, 2 * n_chunks - 2)):
            assert verdict(sends[:i] + sends[i + 1 :]) == {ViolationKind.DELIVERY}


# --- what the messages say ---------------------------------------------------------------------------------


def messages(topology: Topology, steps: Steps, kind: CollectiveKind) -> list[str]:
    report = verify(topology, on_all_ranks(topology, kind), samples.schedule_of(kind, steps))
    return [str(violation) for violation in report.violations]


def test_a_chunk_that_arrives_in_a_step_leaves_in_the_next() -> None:
    topology, steps = samples.k22_allgather()
    sends = [(v, link, 0, low, high) for v, link, _, low, high in samples.sends_of(steps)]
    at_once = steps_from_sends(Direction.BROADCAST, 4, 2, sends)
    assert kinds(check(topology, at_once)) == {ViolationKind.HELD}
    assert messages(topology, at_once, ALLGATHER)[0] == (
        "held: broadcast step 0, link 5 (n2->n1), shard 0: n2 does not hold chunk 0 yet"
    )


def test_chunk_that_is_not_delivered() -> None:
    topology, steps = samples.k22_allgather()
    sends = [send for send in samples.sends_of(steps) if send[:3] != (0, 5, 1)]
    assert messages(topology, samples.with_sends(steps, sends), ALLGATHER) == [
        "delivery: broadcast steps, shard 0: rank 1 (n1) never gets chunk 0"
    ]


def test_chunks_are_named_in_runs_of_each_sixty_four() -> None:
    """Of 130 chunks of rank 0, sent one by one, some are left out."""
    topology = samples.topology_of([(0, 1), (1, 0)], n=2)
    for missing, said in (
        ([3], ["chunk 3"]),
        ([0, 2, 3, 5, 63], ["chunks 0, 2-3, 5, 63"]),
        ([0, 2, 4, 6, 8], ["chunks 0, 2, 4, 6, ..."]),
        ([3, 66, 68, 129], ["chunk 3", "chunks 66, 68", "chunk 129"]),
    ):
        sends = [(1, 1, 0, 0, 130), *((0, 0, 0, c, c + 1) for c in range(130) if c not in missing)]
        steps = steps_from_sends(Direction.BROADCAST, 2, 130, sends)
        assert messages(topology, steps, ALLGATHER) == [
            f"delivery: broadcast steps, shard 0: rank 1 (n1) never gets {one}" for one in said
        ]


def in_tree(sends: list[Send], *, n_chunks: int = 1) -> Steps:
    """Sums of 3 ranks at rank 0, over links 0: 1->0, 1: 2->0, 2: 2->1, 3: 0->1."""
    return steps_from_sends(Direction.REDUCE, 3, n_chunks, sends, homes=[0])


@pytest.mark.parametrize(
    ("sends", "wrong"),
    [
        ([(0, 0, 0, 0, 1), (0, 1, 0, 0, 1)], None),
        ([(0, 2, 0, 0, 1), (0, 0, 1, 0, 1)], None),
        ([(0, 2, 0, 0, 1), (0, 0, 0, 0, 1)], ViolationKind.DELIVERY),  # rank 2's comes too late to pass on
        ([(0, 2, 0, 0, 1), (0, 0, 1, 0, 1), (0, 1, 1, 0, 1)], ViolationKind.DOUBLE),  # by two ways
        ([(0, 1, 0, 0, 1), (0, 1, 0, 0, 1), (0, 0, 0, 0, 1)], ViolationKind.DOUBLE),  # twice in one step
        ([(0, 1, 0, 0, 1), (0, 1, 1, 0, 1), (0, 0, 0, 0, 1)], ViolationKind.DOUBLE),  # once in each of two
        ([(0, 3, 0, 0, 1), (0, 1, 0, 0, 1), (0, 0, 1, 0, 1)], ViolationKind.DOUBLE),  # home's own comes back
        ([(0, 0, 0, 0, 1), (0, 1, 0, 0, 1), (0, 3, 1, 0, 1)], None),  # of no use, but harmless
    ],
)
def test_contributions_are_counted(sends: list[Send], wrong: ViolationKind | None) -> None:
    topology = samples.topology_of([(1, 0), (2, 0), (2, 1), (0, 1)], n=3)
    collective = on_all_ranks(topology, CollectiveKind.REDUCE, root=0)
    schedule = samples.schedule_of(CollectiveKind.REDUCE, in_tree(sends))
    assert samples.is_correct(topology, collective, schedule) == (wrong is None)
    assert kinds(verify(topology, collective, schedule)) == ({wrong} - {None})


def test_double_is_named_with_its_chunks() -> None:
    topology = samples.topology_of([(1, 0), (2, 0), (2, 1), (0, 1)], n=3)
    steps = in_tree([(0, 2, 0, 0, 6), (0, 0, 1, 0, 6), (0, 1, 1, 1, 4)], n_chunks=6)
    report = verify(
        topology,
        on_all_ranks(topology, CollectiveKind.REDUCE, root=0),
        samples.schedule_of(CollectiveKind.REDUCE, steps),
    )
    assert [str(violation) for violation in report.violations] == [
        "double: reduce step 0, link 2 (n2->n1), shard 0: what n2 has of chunks 1-3 reaches the owner by "
        "another send too, so it would be added twice"
    ]


def test_forwarder_has_nothing_of_its_own() -> None:
    """Ranks 0 and 2, forwarder 1 between them: it passes on a sum only after one arrived."""
    topology = samples.topology_of([(2, 1), (1, 0), (0, 1), (1, 2)], n=3)
    collective = Collective(CollectiveKind.REDUCE, (0, 2), root=0, forwarders=(1,))
    for sends, wrong in (
        ([(0, 0, 0, 0, 1), (0, 1, 1, 0, 1)], set()),
        ([(0, 0, 0, 0, 1), (0, 1, 0, 0, 1), (0, 1, 1, 0, 1)], {ViolationKind.HELD}),
        ([(0, 0, 0, 0, 1), (0, 1, 1, 0, 1), (0, 1, 2, 0, 1)], {ViolationKind.DOUBLE}),
    ):
        steps = steps_from_sends(Direction.REDUCE, 2, 1, sends, homes=[0])
        schedule = samples.schedule_of(CollectiveKind.REDUCE, steps)
        assert samples.is_correct(topology, collective, schedule) == (not wrong)
        assert kinds(verify(topology, collective, schedule)) >= wrong
        assert verify(topology, collective, schedule).is_ok == (not wrong)


def test_unusable_links() -> None:
    builder = TopologyBuilder("switched")
    for name in "ab":
        builder.compute(name)
    builder.switch("s")
    for tail, head in ("ab", "ba", "aa", "as", "sb"):
        builder.link(tail, head, 1)
    topology = builder.build()
    steps = steps_from_sends(
        Direction.BROADCAST,
        2,
        1,
        [(v, link, 0, 0, 1) for v, link in ((0, 0), (1, 1), (0, 2), (0, 3), (0, 9))],
    )
    assert messages(topology, steps, ALLGATHER) == [
        "link: broadcast step 0, link 2 (a->a), shard 0: a self-loop carries nothing",
        "link: broadcast step 0, link 3 (a->s), shard 0: a switch cannot hold chunks",
        "link: broadcast step 0, link 9, shard 0: the fabric has only links 0 to 4",
    ]


def test_shapes() -> None:
    topology, steps = samples.ring_allgather(3)
    schedule = samples.schedule_of(ALLGATHER, steps)
    ranks = (0, 1, 2)
    twice = samples.schedule_of(ALLGATHER, replace(steps, twins=[1, 2, 0]))
    rooted = samples.schedule_of(CollectiveKind.BROADCAST, steps)
    for collective, changed, said in (
        (
            Collective(ALLGATHER, ranks, weights=(1, 2, 1)),
            schedule,
            ["steps have equal shards, but those of the collective differ"],
        ),
        (
            Collective(CollectiveKind.BROADCAST, ranks, root=0),
            samples.schedule_of(ALLGATHER, empty_steps(homes=[0, 1, 2])),
            ["the schedule is for allgather, not broadcast"],
        ),
        (
            Collective(CollectiveKind.BROADCAST, ranks, root=1),
            rooted,
            [f"rank {rank} owns 1 shards, expected all at root 1" for rank in (0, 2)],
        ),
        (
            Collective(ALLGATHER, (0, 1), forwarders=(2,)),
            schedule,
            ["broadcast steps have 3 ranks, the collective 2"],
        ),
        (
            Collective(ALLGATHER, ranks),
            samples.schedule_of(ALLGATHER, replace(steps, homes=[0, 0, 1])),
            ["rank 0 owns 2 shards, expected 1", "rank 2 owns 0 shards, expected 1"],
        ),
        (
            Collective(ALLGATHER, ranks),
            samples.schedule_of(ALLGATHER, empty_steps(homes=[])),
            ["broadcast steps have no shard, expected at least one"],
        ),
        (
            Collective(ALLGATHER, ranks),
            twice,
            ["shards have several owners, expected only between the phases of an allreduce"],
        ),
    ):
        report = verify(topology, collective, changed)
        assert [str(violation) for violation in report.violations] == [f"shape: {one}" for one in said]
        assert report.n_steps is None
    assert verify(topology, Collective(ALLGATHER, ranks, weights=(2, 2, 2)), schedule).is_ok
    assert kinds(verify(topology, Collective(ALLGATHER, (0, 1)), schedule)) == {ViolationKind.MEMBERSHIP}


@pytest.mark.parametrize("homes", [[0, 1, 2, 0], [0, 1], [0, 0, 2]])
def test_every_rank_is_home_once(homes: list[int]) -> None:
    """Schedules that move all their shards, but too many, too few or the wrong ones."""
    topology, _ = samples.complete_allgather(3)
    for kind, direction, ends in (
        (ALLGATHER, Direction.BROADCAST, topology.tails),
        (REDUCE_SCATTER, Direction.REDUCE, topology.heads),
        (CollectiveKind.ALLREDUCE, Direction.REDUCE, topology.heads),
    ):
        sends = [
            (shard, link, 0, 0, 1)
            for shard, home in enumerate(homes)
            for link in range(topology.n_links)
            if ends[link] == home
        ]
        steps = steps_from_sends(direction, 3, 1, sends, homes=homes)
        assert kinds(check(topology, steps, kind)) == {ViolationKind.SHAPE}


def empty_steps(*, homes: list[int]) -> Steps:
    return steps_from_sends(Direction.BROADCAST, 3, 1, [], homes=homes)


def test_no_sends_deliver_nothing() -> None:
    topology, _ = samples.ring_allgather(3)
    report = check(topology, empty_steps(homes=[0, 1, 2]))
    assert report.n_violations == 6


def test_limit_keeps_the_count() -> None:
    topology, _ = samples.ring_allgather(3)
    schedule = samples.schedule_of(ALLGATHER, empty_steps(homes=[0, 1, 2]))
    report = verify(topology, on_all_ranks(topology, ALLGATHER), schedule, limit=2)
    assert (len(report.violations), report.n_violations) == (2, 6)


# --- claims ------------------------------------------------------------------------------------------------


def test_claims_and_witness() -> None:
    topology, steps = samples.k22_allgather()
    collective, schedule = on_all_ranks(topology, ALLGATHER), samples.schedule_of(ALLGATHER, steps)
    cut = BottleneckCut((0, 1, 2))  # 3 of 4 shards leave over 2 links
    optimum = Fraction(8, 3)
    good = verify(
        topology, collective, schedule, claimed_algbw=optimum, claimed_optimal_algbw=optimum, certificate=cut
    )
    assert good.is_ok
    assert good.is_optimal
    for claimed in (optimum - 1, optimum + 1):
        false = verify(topology, collective, schedule, claimed_algbw=claimed)
        assert kinds(false) == {ViolationKind.CLAIM}
        false = verify(topology, collective, schedule, claimed_optimal_algbw=claimed, certificate=cut)
        assert kinds(false) == {ViolationKind.BOUND}
    assert kinds(verify(topology, collective, schedule, claimed_optimal_algbw=optimum)) == {
        ViolationKind.BOUND
    }


def test_witness_below_the_schedule_is_false() -> None:
    class Low:
        kind = "low"

        def bound(self, topology: Topology, collective: Collective) -> Fraction:
            return Fraction(1, topology.n_nodes * collective.n_ranks)

        def to_json(self) -> dict[str, object]:
            return {}

    topology, steps = samples.ring_allgather(3)
    report = verify(
        topology, on_all_ranks(topology, ALLGATHER), samples.schedule_of(ALLGATHER, steps), certificate=Low()
    )
    assert kinds(report) == {ViolationKind.BOUND}
