"""Who sends what first: the longest way goes first, boxes take turns, and parts of ranks do the same."""

from __future__ import annotations

import pytest

from shortcuts.rank_parts import union
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.planning import Form, SimulationOptions
from treadle.program.any_schedule import lower as lower_any
from treadle.program.trees.forest_program import lower as lower_trees
from treadle.schedules.factored import FactoredSchedule

GIB = 2**30


@pytest.mark.parametrize(
    ("fabric", "kind", "least"),
    [("leaf_spine(4, 2)", "allgather", 0.97), ("dgx_h100(8)", "reduce-scatter", 0.95)],
)
def test_parts_of_ranks_have_the_same_order(fabric: str, kind: str, least: float) -> None:
    """Programs of single ranks, made apart, take no longer than the whole."""
    plan = planning.solve(fabric, kind, form=Form.FACTORED).plan
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, FactoredSchedule)
    topology, collective = plan.topology, plan.collective
    whole = lower_any(topology, collective, schedule)
    parts = union([lower_trees(topology, collective, schedule, rank=i) for i in range(whole.n_ranks)])
    assert plan.optimal_algbw is not None
    for program in (whole, parts):
        time = simulate_program(topology, program, GIB, SimulationOptions(slices=4)).time
        assert GIB / plan.optimal_algbw / time >= least
