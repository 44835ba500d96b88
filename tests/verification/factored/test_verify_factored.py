"""The verifier of factored forests agrees with the explicit one on the trees written out."""

from __future__ import annotations

import pytest

from samples.factored import factored_samples as samples
from treadle.schedules.collective import Collective
from treadle.schedules.factored import (
    FactoredSchedule,
)
from treadle.schedules.trees.forest_cost import height_max, link_loads
from treadle.topologies.topology import Topology
from treadle.verification.factored import factored_check
from treadle.verification.schedules import verify
from treadle.verification.violations import Findings


def factored_loads(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> list[int]:
    """Units that cross each link, as the verifier counts them; all forests together."""
    loads = [
        factored_check._check_forest(topology, collective, forest, Findings(1)) for forest in schedule.forests
    ]
    return [sum(units) for units in zip(*(load.tolist() for load in loads), strict=True)]


def _agrees(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> None:
    """Loads, algbw and height of an accepted schedule are those of the trees written out, which are right."""
    explicit = schedule.explicit()
    slow, fast = verify(topology, collective, explicit), verify(topology, collective, schedule)
    assert not slow.violations
    assert fast.algbw == slow.algbw
    assert factored_loads(topology, collective, schedule) == link_loads(topology, explicit).tolist()
    assert (fast.height_max, fast.height_is_exact) == (height_max(explicit), True)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_hand_made_forests_are_accepted(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    assert not verify(topology, collective, schedule).violations
    _agrees(topology, collective, schedule)
