"""Additions of reducing step schedules: theorem 6 and its corollary."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.step_times import reduction_time, runtime_s, t_b
from samples.table import STEP_BASELINES
from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.moore import bandwidth_optimum
from treadle.topologies.topology import Topology

ALLGATHER, REDUCE_SCATTER, ALLREDUCE = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
)


KINDS = (ALLGATHER, REDUCE_SCATTER, ALLREDUCE)


def _schedules(topology: Topology) -> list[StepSchedule]:
    found = [bfb_schedule(topology, kind) for kind in KINDS]
    for name in STEP_BASELINES:
        for kind in KINDS:
            try:
                found.append(STEP_BASELINES[name](topology, on_all_ranks(topology, kind)))
            except TreadleError:
                continue
    return found


@pytest.mark.parametrize(
    "text", ["ring(6)", "shifted_ring(8)", "torus(3, 4)", "hypercube(3)", "kautz(2, 2)", "de_bruijn(2, 3)"]
)
def test_theorem_6_additions_take_at_most_the_bandwidth_time(text: str) -> None:
    """T_C <= M gamma y where T_B = y M/B, of the reducing phase; never below (N - 1) / N (A.3.4)."""
    _check_theorem_6(parse(text))


@given(st.integers(3, 8), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=7, deadline=None, derandomize=True)
def test_theorem_6_on_random_regular_digraphs(n: int, d: int, rng: random.Random) -> None:
    """A ring and d permutations: loops and parallel links among them."""
    rounds = [[(v + 1) % n for v in range(n)], *(rng.sample(range(n), n) for _ in range(d))]
    tails, heads = zip(*((v, heads[v]) for heads in rounds for v in range(n)), strict=True)
    _check_theorem_6(from_arcs("regular", tails, heads, n=n))


def _check_theorem_6(topology: Topology) -> None:
    for schedule in _schedules(topology):
        if schedule.reduce is None:
            assert reduction_time(topology, schedule) == 0
            continue
        reducing = schedule
        if schedule.broadcast is not None and len(schedule.reduce.homes) == topology.n_nodes:
            reducing = StepSchedule(REDUCE_SCATTER, reduce=schedule.reduce)
        added = reduction_time(topology, schedule)
        assert bandwidth_optimum(topology.n_nodes) <= added <= t_b(topology, reducing)


def test_corollary_6_1_additions_of_optimal_schedules() -> None:
    """T_C = (N - 1) / N gamma M exactly, and then T_B + T_C = 2 M (1 / B + gamma / 2) (N - 1) / N."""
    for text in ("shifted_ring(9)", "torus(3, 3)", "complete(5)"):
        topology = parse(text)
        optimum = bandwidth_optimum(topology.n_nodes)
        for schedule in _schedules(topology):
            if schedule.kind is ALLREDUCE and t_b(topology, schedule) == 2 * optimum:
                assert reduction_time(topology, schedule) == optimum
                taken = runtime_s(topology, schedule, 10**6, gamma_s_per_byte=0.5)
                per_byte = 1 / int(topology.egress_bytes_per_s()[0]) + 0.25
                assert taken == pytest.approx(2 * 10**6 * per_byte * float(optimum))


# --- refusals ----------------------------------------------------------------------------------------------
