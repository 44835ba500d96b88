"""What step schedules reach as messages are cut into slices: exact rates, and the simulator beside them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import treadle
from treadle.options.keywords import SolveKeywords
from treadle.planning import SimulationOptions
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.direct import from_arcs
from treadle.verification.schedules import verify

GB = 10**9
NVLS = SolveKeywords(algorithm="factor-allreduce", multicast=True, factors=(8,), exchanged=())


def factor(chunks: int) -> SolveKeywords:
    return SolveKeywords(algorithm="factor-allreduce", chunks=chunks)


def by(algorithm: str) -> SolveKeywords:
    return SolveKeywords(algorithm=algorithm)


RATES: list[tuple[str, str, SolveKeywords, str, str]] = [
    ("dgx_h100(2)", "allreduce", factor(1), "3600/23", "1800/7"),
    ("dgx_h100(2)", "allreduce", factor(3), "2160/11", "1800/7"),
    ("dgx_h100(2)", "allreduce", factor(4), "14400/71", "1800/7"),
    ("dgx_h100(1, nvls=True)", "allreduce", NVLS, "225", "400"),
    ("dgx_a100(4)", "allreduce", by("factor-allreduce"), "48", "200/3"),
    ("dgx_h100(16)", "allreduce", by("box-carriers"), "75/4", "25"),
    ("ring(8, bandwidth='25GB/s')", "allreduce", by("recursive-doubling"), "100/21", "25"),
    ("hypercube(3, bandwidth='25GB/s')", "allreduce", by("recursive-doubling"), "100/7", "25"),
    ("torus(4, 4, bandwidth='25GB/s')", "allgather", by("tacos"), "100", "320/3"),
    ("torus(4, 4, bandwidth='15GB/s')", "allreduce", by("swing"), "32", "32"),
    ("torus(3, 3, bandwidth='14GB/s')", "alltoall", by("pairwise"), "9", "42"),
    ("dgx_h100(2)", "alltoall", by("factor-exchange"), "3600/43", "100"),
]
"""Fabric, collective, scheduler, then GB/s step by step and pipelined."""


@pytest.mark.parametrize(
    ("fabric", "kind", "keywords", "in_turn", "pipelined"), RATES, ids=[f"{one[2]}"[:40] for one in RATES]
)
def test_simulated_slices_reach_the_rate_and_no_more(
    fabric: str, kind: str, keywords: SolveKeywords, in_turn: str, pipelined: str
) -> None:
    found = treadle.solve(fabric, kind, **keywords)
    report, slices = found.report, 64
    assert (report.algbw, report.rate) == (Fraction(in_turn) * GB, Fraction(pipelined) * GB)
    assert found.plan.algbw == report.algbw, "files keep their claim"
    # messages that last so long that latencies are nothing
    run = treadle.simulate(found, 2**36, options=SimulationOptions(slices=slices), auto_slices=False)
    share = run.rows[0].algbw_bytes_per_s / float(report.rate)
    assert 1 - (report.n_steps - 1) / slices <= share <= 1 + 1e-9


@pytest.mark.parametrize(
    ("fabric", "kind", "in_turn", "pipelined"),
    [
        ("jellyfish:16,4", "allgather", 71.4, 75.0),
        ("jellyfish:64,4", "allreduce", 71.6, 82.9),
        ("mesh:8,8", "allgather", 92.6, 96.9),
        ("mesh:8,8", "allreduce", 52.9, 72.0),
        ("mesh:3,5", "allreduce", 66.6, 78.5),
        ("dragonfly:4,2", "allreduce", 77.8, 82.4),
        ("dragonfly:8,2", "allreduce", 71.4, 75.0),
        ("slimfly:5", "allgather", 100.0, 100.0),
    ],
)
def test_breadth_first_of_the_optimum(fabric: str, kind: str, in_turn: float, pipelined: float) -> None:
    report = treadle.solve(fabric, kind, algorithm="bfb").report
    shares = [round(float(100 * one / report.bound), 1) for one in (report.algbw, report.rate)]
    assert shares == [in_turn, pipelined]
    assert report.is_optimal == (pipelined == 100)


def test_hosts_limit_and_phases_add_up() -> None:
    """Two ranks whose hosts let 3 of the link's 4 bytes/s pass: half a buffer each way in either phase."""
    pair = from_arcs("pair", [0, 1], [1, 0], n=2, bandwidth=4)
    pair = replace(pair, injection_bytes_per_s=np.array([3, 3]))
    reduce = steps_from_sends(Direction.REDUCE, 2, 1, [(0, 1, 0, 0, 1), (1, 0, 1, 0, 1)])
    broadcast = steps_from_sends(Direction.BROADCAST, 2, 2, [(0, 0, 0, 0, 2), (1, 1, 1, 0, 2)])
    schedule = StepSchedule(CollectiveKind.ALLREDUCE, reduce, broadcast)
    report = verify(pair, on_all_ranks(pair, CollectiveKind.ALLREDUCE), schedule)
    # each of four steps carries half; a link carries a half in each phase
    assert report.is_ok
    assert (report.algbw, report.pipelined_algbw) == (Fraction(3, 2), Fraction(3))
