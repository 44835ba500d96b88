"""Transforms keep schedules correct, keep their costs, and are their own inverses where they should be."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from samples import step_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import algbw, bandwidth_time
from treadle.schedules.steps.step_transforms import combine, pipelined, reverse, subdivide
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
SEEDS = range(12)


def random_allgather(seed: int, *, n_chunks: int | None = None) -> tuple[Topology, Steps]:
    """A random fabric of 2 to 5 ranks with links of many bandwidths, and an allgather on it."""
    rng = random.Random(seed)
    topology = samples.random_fabric(rng, rng.randint(2, 5))
    return topology, random_steps(rng, topology, n_chunks=n_chunks)


def random_steps(rng: random.Random, topology: Topology, *, n_chunks: int | None = None) -> Steps:
    collective = on_all_ranks(topology, ALLGATHER)
    homes = list(range(collective.n_ranks))
    return samples.random_phase(
        rng, Direction.BROADCAST, topology, collective, homes, is_frugal=True, n_chunks=n_chunks
    )


def kind_of(steps: Steps) -> CollectiveKind:
    return ALLGATHER if steps.direction is Direction.BROADCAST else REDUCE_SCATTER


def time_of(topology: Topology, steps: Steps) -> Fraction:
    return bandwidth_time(topology, samples.schedule_of(kind_of(steps), steps))


def assert_correct(topology: Topology, steps: Steps) -> None:
    kind = kind_of(steps)
    schedule = samples.schedule_of(kind, steps)
    assert samples.is_correct(topology, on_all_ranks(topology, kind), schedule)
    assert not verify(topology, on_all_ranks(topology, kind), schedule).violations


def loads(steps: Steps) -> set[tuple[int, int, int, Fraction]]:
    """What is sent, element by element: (shard, link, step, place in the shard), once for each chunk."""
    return {
        (shard, link, step, Fraction(chunk, steps.n_chunks))
        for shard, link, step, low, high in samples.sends_of(steps)
        for chunk in range(low, high)
    }


# --- reversal (A.2) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_reverse_is_a_reduce_scatter_on_the_transpose(seed: int) -> None:
    """Definition 5, Theorem 1."""
    topology, steps = random_allgather(seed)
    back = reverse(steps)
    assert sorted(samples.sends_of(back)) == sorted(
        (v, link, steps.n_steps - 1 - t, low, high) for v, link, t, low, high in samples.sends_of(steps)
    )
    assert_correct(topology.transpose(), back)
    assert back.n_steps == steps.n_steps
    assert time_of(topology.transpose(), back) == time_of(topology, steps)
    assert reverse(back) == steps


# --- chunks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_finer_chunks(seed: int) -> None:
    topology, steps = random_allgather(seed)
    for factor in (1, 2, 3):
        finer = subdivide(steps, factor)
        assert finer.n_chunks == steps.n_chunks * factor
        assert_correct(topology, finer)
        assert time_of(topology, finer) == time_of(topology, steps)
        assert {(*send[:3], low, high) for *send, low, high in samples.sends_of(finer)} == {
            (*send[:3], factor * low, factor * high) for *send, low, high in samples.sends_of(steps)
        }


def test_too_many_chunks() -> None:
    _, steps = samples.k22_allgather()
    with pytest.raises(ScheduleError, match="33554432 chunks per shard"):
        subdivide(steps, 2**24)
    with pytest.raises(ScheduleError, match="at least 1, found 0"):
        subdivide(steps, 0)
    with pytest.raises(ScheduleError, match="more than 2"):
        combine([subdivide(steps, 2**20 + 1), subdivide(steps, 2**20 - 1)])


# --- putting together --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_side_by_side(seed: int) -> None:
    """Parts of any number of chunks and steps share the links; `reverse` commutes."""
    rng = random.Random(seed)
    topology = samples.random_fabric(rng, 4)
    parts = [random_steps(rng, topology) for _ in range(rng.randint(1, 3))]
    shares = [rng.randint(1, 4) for _ in parts]
    whole = combine(parts, shares=shares)
    assert_correct(topology, whole)
    assert whole.n_steps == max(part.n_steps for part in parts)
    worst = sum(
        (
            Fraction(share, sum(shares)) * time_of(topology, part)
            for share, part in zip(shares, parts, strict=True)
        ),
        Fraction(0),
    )
    assert time_of(topology, whole) <= worst
    # every element of a part's share goes the way of the part
    start = Fraction(0)
    for share, part in zip(shares, parts, strict=True):
        size = Fraction(share, sum(shares))
        for shard, link, step, low, high in samples.sends_of(part):
            begin = (start + size * Fraction(low, part.n_chunks)) * whole.n_chunks
            end = (start + size * Fraction(high, part.n_chunks)) * whole.n_chunks
            assert (shard, link, step, begin, end) in samples.sends_of(whole)
        start += size
    back = combine([reverse(part) for part in parts], shares=shares)
    assert (back.n_chunks, loads(back)) == (whole.n_chunks, loads(reverse(whole)))
    assert_correct(topology.transpose(), back)


def test_equal_parts_by_default() -> None:
    topology, steps = samples.k22_allgather()
    assert loads(combine([steps])) == loads(steps)
    twice = combine([steps, steps])
    assert twice.n_chunks == combine([steps, steps], shares=[2, 2]).n_chunks == 4
    assert time_of(topology, twice) == time_of(topology, steps)
    for parts, shares in (([], None), ([steps], [0]), ([steps], [1, 1])):
        with pytest.raises(ScheduleError):
            combine(parts, shares=shares)


def test_transforms_leave_their_argument_alone() -> None:
    _, steps = samples.k22_allgather()
    before = samples.sends_of(steps)
    for result in (reverse(steps), subdivide(steps, 2), combine([steps, steps])):
        assert not any(
            column.flags.writeable for column in (result.shard, result.link, result.low, result.high)
        )
    assert samples.sends_of(steps) == before


def test_a_send_without_chunks_is_refused() -> None:
    """Each bound lies in its own range; together they name nothing."""
    with pytest.raises(ScheduleError, match="a send carries no chunk"):
        steps_from_sends(Direction.BROADCAST, 2, 4, [(0, 0, 0, 2, 1)])


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_follow_each_other(seed: int) -> None:
    topology, steps = random_allgather(seed)
    for one in (steps, reverse(steps)):
        fabric = topology if one is steps else topology.transpose()
        piped = pipelined(one, 3)
        assert_correct(fabric, piped)
        assert piped.n_chunks == 3 * one.n_chunks
        assert piped.n_steps == one.n_steps + 2
        share = one.n_chunks
        for piece in range(3):
            own = [
                (shard, link, step - piece, low - piece * share, high - piece * share)
                for shard, link, step, low, high in samples.sends_of(piped)
                if piece * share <= low < (piece + 1) * share
            ]
            assert sorted(own) == sorted(samples.sends_of(one))
    assert pipelined(steps, 1) is steps
    with pytest.raises(ScheduleError, match="expected at least 1 part of a shard, found 0"):
        pipelined(steps, 0)
    with pytest.raises(ScheduleError, match=r"more than 2\*\*24"):
        pipelined(steps, 2**24 // steps.n_chunks + 1)


def test_pieces_of_nothing_take_no_step() -> None:
    nothing = steps_from_sends(Direction.BROADCAST, 1, 2, [])
    piped = pipelined(nothing, 3)
    assert (piped.n_steps, piped.n_sends, piped.n_chunks) == (0, 0, 6)


def test_what_cannot_be_put_together() -> None:
    """Three ranks, a chunk of rank 1's over link 0."""
    one = steps_from_sends(Direction.BROADCAST, 3, 1, [(1, 0, 0, 0, 1)])
    alike = "must have equal directions and ranks"
    homes = "must have equal owners of shards"
    for other, said in (
        (replace(one, direction=Direction.REDUCE), alike),
        (replace(one, n_ranks=4), alike),
        (replace(one, homes=[0, 2, 1]), homes),
        (replace(one, twins=[1, 2, 0]), homes),
        (replace(one, way_offset=[0, 1], way_links=[0]), "must have the same paths"),
    ):
        for parts in ((one, other), (one, one, other)):
            with pytest.raises(ScheduleError) as caught:
                combine(parts)
            assert str(caught.value) == f"steps: combined schedules {said}"
    with pytest.raises(ScheduleError, match=r"^steps: no schedule to combine; expected at least one$"):
        combine([])
    for sends, n_steps, said in (
        ([(0, 0, -1, 0, 1)], 3, "a step lies outside 0 to 2"),
        ([(0, 0, 3, 0, 1)], 3, "a step lies outside 0 to 2"),
        ([(0, 2**31, 0, 0, 1)], None, "link: expected int32 (found 2147483648)"),
        ([(0, -1, 0, 0, 1)], None, "link: found -1, expected 0 to 2147483647"),
    ):
        with pytest.raises(ScheduleError) as caught:
            steps_from_sends(Direction.BROADCAST, 2, 1, sends, n_steps=n_steps)
        assert str(caught.value) == f"steps: {said}"
    assert steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 2**31 - 1, 2, 0, 1)]).step_offset.tolist() == [
        *(0, 0, 0, 1)
    ]
    empty = steps_from_sends(Direction.BROADCAST, 2, 1, [], n_steps=2)
    assert (empty.n_steps, empty.n_sends) == (2, 0)
    with pytest.raises(ScheduleError, match=r"^the schedule sends nothing, so it has no throughput$"):
        algbw(samples.topology_of([(0, 1), (1, 0)], n=2), StepSchedule(ALLGATHER, broadcast=empty))
