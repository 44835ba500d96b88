"""Several groups simulated at once: loads add up exactly, and large sizes come near the plan's throughput."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shortcuts.group_plans import random_groups
from treadle.program.any_schedule import lower_groups
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.trees.forest_cost import group_algbw
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_what_all_groups_put_on_a_link_is_what_the_closed_form_says(kind: CollectiveKind) -> None:
    for seed in range(4):
        topology, collective, schedule = random_groups(seed, kind)
        lists = lower_groups(topology, collective, schedule).lists
        result = simulate_graph(task_graph(topology, lists), 2**20, SimulationOptions())
        assert result.is_exact
        rate = group_algbw(topology, schedule)
        assert Fraction(int(result.busy.max())) * result.tick_s == Fraction(2**20) / rate
        assert alpha_beta_time(topology, collective, schedule, 2**20) == 2**20 / rate
        assert result.time >= 2**20 / rate
