"""All-to-all in steps as a value, its cost, and its verifier against a slow checker."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import exchange_samples as samples
from samples.strategies import digraphs
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import (
    exchange_algbw,
    exchange_runtime_s,
    exchange_time,
    step_times,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Send, Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import Report, ViolationKind, verify

PATH = from_arcs("path", [0, 1, 1, 2], [1, 2, 0, 1], n=3)
"""0 - 1 - 2; links 0 and 1 lead up, 2 and 3 down."""
UP = Demands([[0, 0, 2], [0, 0, 1], [0, 0, 0]])
"""Rank 0 has two units for rank 2, rank 1 has one."""


def steps(sends: list[Send], homes: list[int], *, n: int = 3, chunks: int = 2) -> Steps:
    return steps_from_sends(Direction.BROADCAST, n, chunks, sends, homes=homes)


def upwards(*sends: Send) -> ExchangeSchedule:
    """Shard 0 from rank 0 to 2, shard 1 from rank 1 to 2."""
    return ExchangeSchedule(steps(list(sends), [0, 1]), np.array([2, 2]))


PIPELINE = ((0, 0, 0, 0, 1), (1, 1, 0, 0, 2), (0, 0, 1, 1, 2), (0, 1, 1, 0, 1), (0, 1, 2, 1, 2))


def check(*sends: Send, topology: Topology = PATH) -> Report:
    return verify(topology, samples.alltoall(topology, UP), upwards(*sends))


def complaints(report: Report) -> list[str]:
    return [str(violation) for violation in report.violations]


# --- the value ---------------------------------------------------------------------------------------------


def test_malformed_values_are_refused() -> None:
    good = steps([(0, 0, 0, 0, 2)], [0])
    with pytest.raises(ScheduleError, match="targets has 2 rows, expected 1"):
        ExchangeSchedule(good, np.array([1, 2]))
    for stranger in (3, -1):
        with pytest.raises(ScheduleError, match="expected 0 to 2"):
            ExchangeSchedule(good, np.array([stranger]))
    with pytest.raises(ScheduleError, match="shard 0 goes from rank 0 to itself"):
        ExchangeSchedule(good, np.array([0]))
    with pytest.raises(ScheduleError, match="expected int32"):
        ExchangeSchedule(good, np.array([1.5]))
    with pytest.raises(ScheduleError, match="direction broadcast"):
        ExchangeSchedule(replace(good, direction=Direction.REDUCE), np.array([1]))


def test_values_are_equal_by_content() -> None:
    one, other = upwards(*PIPELINE), upwards(*PIPELINE)
    assert one == other
    assert hash(one) == hash(other)
    assert one != upwards(*PIPELINE[:-1])
    assert one != ExchangeSchedule(one.sends, np.array([2, 0]))
    assert one != "something else"
    assert not one.targets.flags.writeable


# --- cost --------------------------------------------------------------------------------------------------


def test_cost_by_hand() -> None:
    collective, schedule = samples.alltoall(PATH, UP), upwards(*PIPELINE)
    # step 0: half of 2 units, 1 unit; step 1: 1 unit on both links; step 2: 1 unit
    assert step_times(PATH, collective, schedule) == [1, 1, 1]
    assert exchange_time(PATH, collective, schedule) == Fraction(3, 3)  # rank 2 receives 3 units
    assert exchange_algbw(PATH, collective, schedule) == 1
    assert exchange_runtime_s(PATH, collective, schedule, 30, alpha_s=2.0) == pytest.approx(36.0)
    assert verify(PATH, collective, schedule, claimed_algbw=Fraction(1)).is_ok


def test_host_caps_and_latencies_cost_time() -> None:
    topology = replace(
        PATH,
        injection_bytes_per_s=np.array([0, 1, 0]),
        bandwidths=PATH.bandwidths * 4,
        latencies_ns=[10**9] * 4,
    )
    collective, schedule = samples.alltoall(topology, UP), upwards(*PIPELINE)
    assert step_times(topology, collective, schedule) == [1, 1, 1]  # rank 1 takes in or sends out 1 unit
    assert exchange_runtime_s(topology, collective, schedule, 3) == pytest.approx(3.75)
    prompt = replace(topology, latencies_ns=np.zeros(4, dtype=np.int64))
    assert exchange_runtime_s(prompt, collective, schedule, 3) == pytest.approx(3)  # a quarter without caps
    report = verify(topology, collective, schedule)
    assert report.algbw == exchange_algbw(topology, collective, schedule) == 1


def test_amounts_beyond_64_bits_are_exact() -> None:
    demands = Demands([[0, 2**20], [2**20 - 1, 0]])
    pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    sends = [(k, k, t, 0, 2**24) for t in range(2**10) for k in (0, 1)]
    big = ExchangeSchedule(steps(sends, [0, 1], n=2, chunks=2**24), np.array([1, 0]))
    assert exchange_time(pair, samples.alltoall(pair, demands), big) == 2**10


def test_a_schedule_for_other_ranks_or_of_nothing_has_no_cost() -> None:
    with pytest.raises(ScheduleError, match="the collective has 8"):
        exchange_time(parse("hypercube:3"), samples.alltoall(parse("hypercube:3")), upwards(*PIPELINE))
    with pytest.raises(ScheduleError, match="sends nothing"):
        exchange_algbw(PATH, samples.alltoall(PATH, UP), upwards())


# --- the verifier ------------------------------------------------------------------------------------------


def test_violations_are_named() -> None:
    assert check(*PIPELINE).is_ok
    assert complaints(check(*PIPELINE[:-1])) == [
        "delivery: shard 0, rank 0 to 2: chunk 1 ends at n1, expected n2"
    ]
    early = check(*PIPELINE[:3], (0, 1, 0, 0, 1), PIPELINE[4])
    assert complaints(early) == [
        "held: step 0, link 1 (n1->n2), shard 0, rank 0 to 2: n1 does not hold chunk 0 at the beginning of "
        "the step; n1 has that after step 0"
    ]
    twice = check(*PIPELINE, (0, 1, 4, 0, 1))
    assert [violation.kind for violation in twice.violations] == [ViolationKind.HELD]
    back = check(*PIPELINE, (0, 3, 3, 0, 1), (0, 1, 4, 0, 1))
    assert complaints(back) == [
        "double: step 3, link 3 (n2->n1), shard 0, rank 0 to 2: chunk 0 leaves the target of the shard again"
    ]
    assert "the fabric has only links 0 to 3" in complaints(check(*PIPELINE, (0, 4, 4, 0, 1)))[0]


def test_circles_on_the_way_only_cost_time() -> None:
    report = check((1, 2, 0, 0, 2), (1, 0, 1, 0, 2), (1, 1, 2, 0, 2), (0, 0, 0, 0, 2), (0, 1, 1, 0, 2))
    assert report.is_ok
    assert report.n_steps == 3


def test_switches_and_self_loops_hold_nothing() -> None:
    builder = TopologyBuilder("star")
    for name in "abc":
        builder.compute(name)
    builder.switch("s")
    builder.link("a", "b", 1)
    builder.link("b", "s", 1)
    builder.link("s", "c", 1)
    assert "a switch cannot hold chunks" in complaints(check((0, 1, 0, 0, 2), topology=builder.build()))[0]
    loop = from_arcs("loop", [0, 1, 1, 2], [1, 2, 1, 1], n=3)
    assert "a self-loop carries nothing" in complaints(check((0, 2, 0, 0, 2), topology=loop))[0]


def test_shards_must_be_the_demanded_pairs() -> None:
    everyone = verify(PATH, samples.alltoall(PATH), upwards(*PIPELINE))
    assert everyone.n_violations == 4
    assert "rank 0 to 1: 0 shards, expected 1" in complaints(everyone)[0]
    assert not verify(PATH, samples.alltoall(PATH, n_ranks=2), upwards(*PIPELINE)).is_ok
    doubled = ExchangeSchedule(steps([], [0, 0, 1]), np.array([2, 2, 2]))
    assert (
        "rank 0 to 2: 2 shards, expected 1"
        in complaints(verify(PATH, samples.alltoall(PATH, UP), doubled))[0]
    )
    other = on_all_ranks(PATH, CollectiveKind.ALLGATHER)
    assert [violation.kind for violation in verify(PATH, other, upwards(*PIPELINE)).violations] == [
        ViolationKind.SHAPE
    ]
    fewer = replace(samples.alltoall(PATH, UP), ranks=(0, 1), demands=None)
    assert verify(PATH, fewer, upwards(*PIPELINE)).violations[0].kind is ViolationKind.MEMBERSHIP


def test_claims_are_held_against_the_loads_and_the_witness() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    schedule = samples.over_shortest_paths(cube, collective)
    certificate = FlowDualCertificate(np.ones(24, dtype=np.int64))
    two = Fraction(2)  # f = 1/4 of a link, times 8 ranks
    report = verify(
        cube, collective, schedule, claimed_algbw=two, claimed_optimal_algbw=two, certificate=certificate
    )
    assert report.is_optimal
    wrong = verify(cube, collective, schedule, claimed_algbw=two + 1)
    assert [violation.kind for violation in wrong.violations] == [ViolationKind.CLAIM]
    unproved = verify(cube, collective, schedule, claimed_optimal_algbw=two + 1, certificate=certificate)
    assert [violation.kind for violation in unproved.violations] == [ViolationKind.BOUND]


@pytest.mark.parametrize("name", ["hypercube:3", "torus:3,3", "generalized_kautz:2,5", "uni_ring:1,5"])
@pytest.mark.parametrize("rounds", [None, 3])
def test_mutants_are_judged_as_by_the_slow_checker(name: str, rounds: int | None) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    rejected = 0
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        schedule = samples.over_shortest_paths(topology, collective, rounds=rounds)
        assert samples.is_correct(topology, collective, schedule)
        for seed in range(6):
            for mutant in samples.mutants(topology, schedule, seed=seed):
                report = verify(topology, collective, mutant)
                assert report.is_ok == samples.is_correct(topology, collective, mutant), report.violations[:3]
                rejected += not report.is_ok
    assert rejected > 60


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data())
def test_random_schedules_are_judged_and_timed_as_by_the_slow_checker(data: st.DataObject) -> None:
    topology = data.draw(digraphs())
    n = len(topology.compute_nodes)
    caps = data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    topology = replace(topology, injection_bytes_per_s=np.array(caps))
    demands = data.draw(
        st.one_of(st.none(), st.integers(0, 99).map(lambda seed: samples.random_demands(n, seed)))
    )
    collective = samples.alltoall(topology, demands)
    rounds = data.draw(st.one_of(st.none(), st.integers(1, 9)))
    chunks = data.draw(st.sampled_from([1, 5, 60]))
    schedule = samples.over_shortest_paths(topology, collective, rounds=rounds, chunks=chunks)
    report = verify(topology, collective, schedule)
    assert report.is_ok, report.violations[:3]
    assert samples.is_correct(topology, collective, schedule)
    time = samples.seconds_per_byte(topology, collective, schedule)
    assert report.algbw == 1 / time
    assert exchange_time(topology, collective, schedule) == time
    for mutant in samples.mutants(topology, schedule, seed=data.draw(st.integers(0, 99))):
        found = verify(topology, collective, mutant)
        assert found.is_ok == samples.is_correct(topology, collective, mutant), found.violations[:3]


def test_windows_of_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torus = parse("torus:3,3")
    collective = samples.alltoall(torus)
    schedule = samples.over_shortest_paths(torus, collective, rounds=4)
    found = [samples.mutants(torus, schedule, seed=seed) for seed in range(4)]
    whole = [[verify(torus, collective, mutant) for mutant in row] for row in found]
    monkeypatch.setattr("treadle.verification.alltoall.exchange_check._ROWS", 7)
    for row, reports in zip(found, whole, strict=True):
        for mutant, report in zip(row, reports, strict=True):
            again = verify(torus, collective, mutant)
            assert sorted(complaints(again)) == sorted(complaints(report))
            assert again.algbw == report.algbw
