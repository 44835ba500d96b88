"""Constructions of an allreduce end where their work budget does; then the best legal plan is returned."""

from __future__ import annotations

import pytest

from treadle import planning
from treadle.context import Context, TimeLimitError, WorkBudget
from treadle.synthesis.trees.allreduce import work_budget
from treadle.topologies import Topology, TopologyBuilder


def five(*one_way: tuple[int, int, int]) -> Topology:
    """Five ranks on which reduce-scatter and allgather are not optimal."""
    builder = TopologyBuilder("five")
    for rank in range(5):
        builder.compute(f"r{rank}")
    for one, other, width in ((0, 1, 3), (0, 2, 1), (1, 3, 1), (2, 3, 1), (2, 4, 2), (3, 4, 2)):
        builder.duplex(f"r{one}", f"r{other}", width)
    for tail, head, width in one_way:
        builder.link(f"r{tail}", f"r{head}", width)
    return builder.build()


@pytest.fixture
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every construction have spent its budget at its first step."""
    for name in ("_LEAST_WORK", "_WORK_PER_CELL"):
        monkeypatch.setattr(work_budget, name, 0)


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize("topology", [five(), five((1, 2, 1), (2, 1, 2))], ids=["symmetric", "asymmetric"])
def test_what_takes_no_search_is_built_without_a_budget(topology: Topology) -> None:
    """The shares of the bound's own program need no work of their own."""
    result = planning.solve(topology, "allreduce")
    assert result.is_optimal
    assert result.notes[0] == "built as in-trees and out-trees from the linear program"
    assert planning.solve(topology, "allreduce").plan == result.plan


def test_phases_remain_with_their_gap(request: pytest.FixtureRequest) -> None:
    """With two trees per rank only a search finds what is faster than reduce-scatter and allgather."""
    topology = five((1, 2, 1), (2, 1, 2))
    phases = planning.solve(topology, "allreduce", algorithm="rs-ag", max_trees=2)
    usual = planning.solve(topology, "allreduce", max_trees=2)
    assert usual.algbw > phases.algbw
    request.getfixturevalue("no_budget")
    result = planning.solve(topology, "allreduce", max_trees=2)
    assert result.report.is_ok
    assert result.algbw == phases.algbw
    assert usual.optimal_algbw is not None
    assert result.optimal_algbw == usual.optimal_algbw > result.algbw
    searched = "in-trees and out-trees of whole capacities"
    assert result.notes[0] == f"{searched}: not finished within the work budget"


def test_a_budget_of_a_part_does_not_exceed_that_of_the_whole() -> None:
    whole = Context(budget=WorkBudget(5))
    part = whole.within(7)
    part.spend(5)
    with pytest.raises(TimeLimitError):
        part.report("work", 0, 1)
    whole.report("work", 0, 1)
    assert Context().within(3).budget == WorkBudget(3)
