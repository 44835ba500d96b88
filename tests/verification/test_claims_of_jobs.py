"""Jobs at once judged word by word: two of unequal weight on a ring whose last link is faster."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import treadle
from treadle.schedules.jobs import Job, JobLevel
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.jobs_check import verify_jobs


def ring(*bandwidths: int, name: str = "n") -> Topology:
    """One way round three ranks."""
    builder = TopologyBuilder("way")
    for rank in range(3):
        builder.compute(f"{name}{rank}")
    for link, bandwidth in enumerate(bandwidths):
        builder.link(f"{name}{link % 3}", f"{name}{(link + 1) % 3}", bandwidth)
    return builder.build()


FABRIC = ring(6, 6, 9)
PLAN = treadle.solve(FABRIC, "allgather").plan
JOBS = [Job(name, PLAN.collective, Fraction(weight)) for name, weight in (("a", 1), ("b", 2))]
SHARES: Any = [JobLevel(Fraction(3), (0, 1), (Fraction(1), Fraction(1), Fraction(0)))]
"""Of each byte two thirds cross each link: at rates of 3 and 6 bytes/s they fill 6 bytes/s."""


def told(*changes: Any, fabric: Topology = FABRIC) -> tuple[list[str], Any]:
    """What is said of jobs, plans, rates and levels; None: as they are right."""
    right = (JOBS, [PLAN, PLAN], [Fraction(3), Fraction(6)], SHARES)
    values = [mine if other is None else other for mine, other in zip(right, changes, strict=True)]
    found = verify_jobs(fabric, *values)
    return [str(one) for one in found.report.violations], found


def test_rates_that_fill_the_links_are_the_fairest() -> None:
    said, found = told(None, None, None, None)
    assert (said, found.proved, found.loss, found.is_max_min) == ([], (3, 6), 0, True)
    said, found = told(None, None, [Fraction(3), Fraction(5)], None)
    assert (said, found.loss, found.is_max_min) == ([], Fraction(1, 6), False)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            treadle.solve(FABRIC, "reduce-scatter").plan,
            "membership: job b: its plan is for another collective than the job: ",
        ),
        (
            treadle.solve(ring(6, 6, 8), "allgather").plan,
            "membership: job b: its plan has a link n2->n0 that the fabric does not have at this bandwidth",
        ),
        (
            treadle.solve(ring(6, 6, 9, 1), "allgather").plan,
            "membership: job b: its plan has a link n0->n1 that the fabric does not have at this bandwidth",
        ),
        (
            treadle.solve(ring(6, 6, 9, name="m"), "allgather").plan,
            "membership: job b: its plan is for another collective than the job: ",
        ),
        (
            treadle.solve(FABRIC, "allgather", algorithm="bfb").plan,
            "shape: job b: a StepSchedule, expected trees or routes",
        ),
        (
            replace(PLAN, algbw=PLAN.algbw / 2),
            f"claim: job b: algbw is {PLAN.algbw} bytes/s by the loads, not {PLAN.algbw / 2} as claimed",
        ),
    ],
)
def test_a_plan_is_one_of_its_job_on_the_fabric(plan: Any, said: str) -> None:
    (one,), found = told(None, [PLAN, plan], None, None)
    assert one.startswith(said)
    assert not found.is_max_min
