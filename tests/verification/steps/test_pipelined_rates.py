"""What step schedules reach as messages are cut into slices: exact rates, and the simulator beside them."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treadle
from treadle.options.keywords import SolveKeywords
from treadle.planning import SimulationOptions

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
