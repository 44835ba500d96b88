"""Unequal links (section A.5.3): against linear program (A.12) with every set of links removed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.bfb_lp import breaches_of_theorem_14
from reference.step_times import runtime_s
from samples.strategies import digraphs
from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import algbw
from treadle.schedules.steps.steps import StepSchedule
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.synthesis.steps.bfb import (
    bfb_allgather,
    bfb_schedule,
    bfb_value,
    heterogeneous_allgather,
    heterogeneous_value,
    schedule_for_size,
)
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.verification.steps.step_check import verify_steps


@st.composite
def fabrics(draw: Any) -> Topology:
    """Small digraphs; bandwidths of some GB/s and latencies of some microseconds."""
    topology = draw(digraphs(compute=(2, 4), max_bandwidth=5, extra_links=6))
    latencies = draw(
        st.lists(st.sampled_from([0, 500, 1000, 7001]), min_size=topology.n_links, max_size=topology.n_links)
    )
    return replace(topology, bandwidths=topology.bandwidths * 10**9, latencies_ns=np.array(latencies))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(topology=fabrics(), size=st.sampled_from([1, 20_000, 3_000_000]), chunks=st.integers(1, 9))
def test_schedules_take_their_time(topology: Topology, size: int, chunks: int) -> None:
    value = heterogeneous_value(topology, size)
    for count in (None, chunks):
        steps = heterogeneous_allgather(topology, size, max_chunks=count)
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
        assert breaches_of_theorem_14(topology, steps) == []
        assert not verify_steps(topology, on_all_ranks(topology, schedule.kind), schedule).violations
        taken = runtime_s(topology, schedule, size)
        assert taken >= float(value.runtime_s) * (1 - 1e-9)
        if count is None:
            assert taken <= float(value.runtime_s) * 1.00101


def test_whole_chunks_by_hand() -> None:
    """Parallel links of 2 and 1 bytes/s, a shard of 6 bytes: 4 and 2 bytes take 2 s, halves 3 s."""
    topology = Topology(
        name="pair",
        node_names=("a", "b"),
        is_compute=np.ones(2, bool),
        tails=np.array([0, 0, 1, 1]),
        heads=np.array([1, 1, 0, 0]),
        bandwidths=np.array([2, 1, 2, 1]),
    )
    assert heterogeneous_value(topology, 12).runtime_s == 2
    for chunks, time in ((1, 3), (2, 3), (3, 2), (5, 2)):
        steps = heterogeneous_allgather(topology, 12, max_chunks=chunks)
        assert steps.n_chunks == (3 if chunks >= 3 else 1)
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
        assert runtime_s(topology, schedule, 12) == pytest.approx(float(time)), chunks


def test_a_slow_link_is_not_used() -> None:
    """Section A.5.3: a latency above the step's time is not paid, because the link stays idle."""
    topology = from_arcs("pair", [0, 0, 1, 1], [1, 1, 0, 0], n=2, bandwidth=10**9)
    topology = replace(topology, latencies_ns=np.array([1000, 50_000, 1000, 50_000]))
    small = heterogeneous_value(topology, 2000)
    assert small.runtime_s == Fraction(2, 10**6)
    assert set(heterogeneous_allgather(topology, 2000).link.tolist()) == {0, 2}
    large = heterogeneous_value(topology, 2 * 10**9)  # both links, 1 us and 50 us
    assert large.runtime_s == (1 + Fraction(51, 10**6)) / 2


@settings(max_examples=8, deadline=None, derandomize=True)
@given(topology=fabrics())
def test_bandwidth_only_is_the_limit(topology: Topology) -> None:
    """Without latencies every size gives the value of the subset formula, and its schedule."""
    still = replace(topology, latencies_ns=np.zeros(topology.n_links))
    value = bfb_value(still)
    assert heterogeneous_value(still, 10**6).runtime_s == value.seconds_per_byte * 10**6
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=bfb_allgather(topology))
    assert runtime_s(still, schedule, 10**6) == pytest.approx(float(value.seconds_per_byte) * 10**6)


def test_equal_links_cost_a_latency_a_step() -> None:
    topology = parse("torus(4, 3, bandwidth='1GB/s', latency='10us')")
    value = bfb_value(topology)
    expected = value.diameter * Fraction(1, 10**5) + value.seconds_per_byte * 2**20
    assert heterogeneous_value(topology, 2**20).runtime_s == expected


def test_refusals() -> None:
    ring = parse("ring(4)")
    with pytest.raises(ScheduleError, match="at least 1 byte"):
        heterogeneous_value(ring, 0)
    with pytest.raises(ScheduleError, match="expected 1 to"):
        heterogeneous_allgather(ring, 10, max_chunks=0)
    with pytest.raises(InfeasibleError, match="no path"):
        heterogeneous_value(from_arcs("one way", [0], [1], n=2), 10)
    primes = np.array([2**50 - 27, 2**50 - 35, 2**50 - 51, 2**50 - 71, 2**50 - 113, 2**50 - 117, 3, 5])
    odd = replace(ring, bandwidths=primes, latencies_ns=primes)
    with pytest.raises(ScheduleError, match="128 bits"):
        heterogeneous_value(odd, 10**18 + 9)


def unequal_k33() -> Topology:
    """K(3,3) at 1 GB/s; the three links i - i are 50 us long, the others 1 us."""
    fabric = parse('complete_bipartite(3, 3, bandwidth="1GB/s")')
    is_long = abs(fabric.tails - fabric.heads) == 3
    return replace(fabric, latencies_ns=np.where(is_long, 50_000, 1000))


def seconds(topology: Topology, schedule: StepSchedule, size: int) -> Fraction:
    return alpha_beta_time(topology, on_all_ranks(topology, schedule.kind), schedule, size)


SIZED = [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE]


@pytest.mark.parametrize("kind", SIZED)
def test_long_links_are_left_idle_where_data_are_small(kind: CollectiveKind) -> None:
    """53 us for 6 KB, where the steps that are best for large data take 102 us."""
    fabric, phases = unequal_k33(), 2 if kind is CollectiveKind.ALLREDUCE else 1
    found = schedule_for_size(fabric, kind, 6000)
    assert verify_steps(fabric, on_all_ranks(fabric, kind), found).is_ok
    assert seconds(fabric, found, 6000) == phases * Fraction("53e-6")
    assert seconds(fabric, bfb_schedule(fabric, kind), 6000) > phases * Fraction("101e-6")


@settings(max_examples=5, deadline=None, derandomize=True)
@given(topology=fabrics(), size=st.sampled_from([100, 20_000, 3_000_000]))
def test_no_size_is_slower_than_steps_for_large_data(topology: Topology, size: int) -> None:
    for kind in SIZED:
        found = schedule_for_size(topology, kind, size)
        assert verify_steps(topology, on_all_ranks(topology, kind), found).is_ok
        exact = sum(
            heterogeneous_value(fabric, size).runtime_s
            for fabric, counts in ((topology, kind.broadcasts), (topology.transpose(), kind.reduces))
            if counts
        )
        # at most 1024 chunks per shard may miss the fractional optimum by a chunk a step
        assert seconds(topology, found, size) <= min(
            seconds(topology, bfb_schedule(topology, kind), size), exact * Fraction(1001, 1000)
        ) * Fraction(1001, 1000)
        assert seconds(topology, found, size) >= exact


def test_one_root_has_no_size() -> None:
    with pytest.raises(ScheduleError, match="leave out the size"):
        schedule_for_size(unequal_k33(), CollectiveKind.BROADCAST, 1000)


def measured(topology: Topology, seed: int) -> Topology:
    """Bandwidths as measurements have them: 24.9 to 25 GB/s, to the byte."""
    speeds = np.random.default_rng(seed).integers(24_900_000_000, 25_000_000_000, topology.n_links)
    return replace(topology, bandwidths=speeds)


@pytest.mark.parametrize("name", ["ring:4", "torus:3,3", "kautz:2,2"])
@pytest.mark.parametrize("kind", SIZED)
def test_measured_bandwidths_lose_little(name: str, kind: CollectiveKind) -> None:
    """The exact split of the ring needs about 10**20 chunks."""
    topology = measured(parse(name), 1)
    least = sum(
        bfb_value(fabric).seconds_per_byte
        for fabric, counts in ((topology, kind.broadcasts), (topology.transpose(), kind.reduces))
        if counts
    )
    found = bfb_schedule(topology, kind)
    assert verify_steps(topology, on_all_ranks(topology, kind), found).is_ok
    assert least <= 1 / algbw(topology, found) <= least * Fraction(1001, 1000)
    assert all(steps.n_chunks <= 1024 for steps in found.phases)
    assert schedule_for_size(topology, kind, 2**20) == found
    losses = [1 / algbw(topology, bfb_schedule(topology, kind, max_chunks=most)) for most in (1, 2, 9, 64)]
    assert losses == sorted(losses, reverse=True)


def test_bandwidths_that_sums_cannot_hold_are_refused() -> None:
    wide = from_arcs("wide", [0] * 4100 + [1], [1] * 4100 + [0], n=2)
    speeds = np.ones(wide.n_links, dtype=np.int64)
    speeds[0] = 2**50
    with pytest.raises(TopologyError, match="wide: bandwidths differ too much: the fastest times the links"):
        bfb_value(replace(wide, bandwidths=speeds))


def test_chunks_and_fabrics_out_of_range() -> None:
    triangle = from_arcs("triangle", [0, 1, 2], [1, 2, 0], n=3)
    assert heterogeneous_allgather(triangle, 9, max_chunks=1).n_chunks == 1
    for count in (0, 2**24 + 1):
        with pytest.raises(ScheduleError, match=rf"^chunks per shard: expected 1 to 2\*\*24, found {count}$"):
            heterogeneous_allgather(triangle, 9, max_chunks=count)
    builder = TopologyBuilder("switched")
    builder.duplex(builder.compute("a"), builder.switch("s"), 1)
    builder.duplex(builder.compute("b"), "s", 1)
    message = "^switched: breadth-first broadcast is for fabrics without switches$"
    with pytest.raises(TopologyError, match=message):
        heterogeneous_allgather(builder.build(), 9)
