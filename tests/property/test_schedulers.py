"""Every scheduler of the table on small fabrics: verified, no better than the bound, and it moves data."""

from __future__ import annotations

import pytest

from samples.table import OURS
from shortcuts.switched_ranks import linked_boxes
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem, make_problem
from treadle.options.keywords import OptionKeywords
from treadle.planning import SizeRequest, SolveResult, run, solve
from treadle.schedulers.generation import options_for
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.scheduler import Scheduler

FABRICS = (
    "ring:4",
    "complete:4",
    "hypercube:2",
    "torus:3,3",
    "mesh:2,3",
    "hypercube:3",
    "double_binary_tree:6",
    "kautz(2, 1)",
    "dgx_a100_flat(2, gpus_per_box=2)",
    "dgx_h100(1, gpus_per_box=4, nvls=True)",
    "mi300x(1, 4)",
    linked_boxes(2, 3),
)
"""Rings, grids, trees, one direction only, switches, one that sums, AMD's GPUs: each scheduler serves one."""

VALUES: OptionKeywords = {
    "trees": 2,
    "max_trees": 2,
    "exact": True,
    "packer": "growth",
    "form": "explicit",
    "trim": True,
    "height": 3,
    "multicast": True,
    "factors": (2, 2),
    "exchanged": (1,),
    "chunks": 2,
    "parts": 3,
    "rounds": (4,),
    "steps": 3,
    "symmetric": True,
    "max_layers": 2,
    "max_routes": 2,
    "max_hops": 9,
    "max_flows": 2,
    "size": SizeRequest(1000),
}
"""Something to ask for, by option."""

LARGEST_RUN = 6
"""Ranks of plans that move data here."""

PAIRS = [
    pytest.param(one, kind, number % len(FABRICS), id=f"{one.name}-{kind}")
    for number, (one, kind) in enumerate((one, kind) for one in OURS for kind in one.collectives)
    if one.name != "exact" or kind in (CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST)  # a process each
]


def solved(problem: Problem, one: Scheduler) -> SolveResult | None:
    """The plan, or None where the scheduler refuses: beforehand by the record, or when it is run."""
    refusal = one.unsupported(problem.topology, problem.collective)
    if refusal is not None:
        with pytest.raises(ScheduleError) as refused:
            solve(problem.topology, problem.collective, algorithm=one.name)
        assert str(refused.value).startswith(f"{one.name}: {refusal}")
        return None
    try:
        return solve(problem.topology, problem.collective, algorithm=one.name)
    except (ScheduleError, InfeasibleError):
        return None


def wrong_elements(found: SolveResult) -> int | None:
    """Of 960 bytes that the plan moved; None if it is large, or no program can hold what it passes on."""
    if found.plan.collective.n_ranks > LARGEST_RUN:
        return None
    try:
        return run(found.plan, [960], iterations=1).wrong
    except InfeasibleError:
        return None


@pytest.mark.parametrize(("one", "kind", "first"), PAIRS)
def test_schedules_are_verified_bounded_and_run(one: Scheduler, kind: CollectiveKind, first: int) -> None:
    """On the next fabrics from one on that are served, until two were and data was moved."""
    if one.name == "exact":
        pytest.importorskip("ortools", reason="exact synthesis: OR-Tools are not installed")
    served, moved = 0, 0
    for fabric in FABRICS[:1] if one.name == "exact" else FABRICS[first:] + FABRICS[:first]:
        found = solved(make_problem(fabric, kind), one)
        if found is None:
            continue
        assert found.plan.algorithm == one.name
        assert found.report.is_ok
        assert found.optimal_algbw is not None
        assert found.algbw <= found.optimal_algbw
        wrong = wrong_elements(found)
        assert not wrong
        served, moved = served + 1, moved + (wrong is not None)
        if moved and served > 1:
            break
    assert served, "no fabric is served"
    assert moved, "no program has memory for any of these"


@pytest.mark.parametrize("one", OURS, ids=lambda one: one.name)
def test_options_are_heeded_or_refused_by_name(one: Scheduler) -> None:
    for option in VALUES:
        asked: OptionKeywords = {option: VALUES[option]}  # type: ignore[misc]
        if option in one.supported_options:
            assert option in options_for(one, None, asked).given()
            continue
        with pytest.raises(ScheduleError, match="is for --algorithm ") as refused:
            options_for(one, None, asked)
        _, _, named = str(refused.value).partition("--algorithm ")
        heeding = {other.name for other in OURS if option in other.supported_options}
        assert {name for part in named.split(", ") for name in part.split(" or ")} == heeding


@pytest.mark.parametrize("one", OURS, ids=lambda one: one.name)
def test_records_are_complete(one: Scheduler) -> None:
    assert one.source
    assert one.origin == ""
    assert one.load().__doc__
