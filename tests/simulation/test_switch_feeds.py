"""Copies and sums made by switches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from samples.simulation_samples import RATE, one_to_two, star, two_to_one
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.errors import ScheduleError
from treadle.simulation.simulation_options import Sharing, SimulationOptions


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize(("make", "silent"), [(one_to_two, {1, 2, 4}), (two_to_one, {0, 3, 5})])
def test_the_switch_saves_a_crossing(make, silent: set[int], sharing: Sharing) -> None:
    """Each of three links is used once, for all of the data; through and through, 1000 ns."""
    result = simulate_program(star(3, capable=True), make(), 1000, SimulationOptions(sharing=sharing))
    assert result.time_s == pytest.approx(1000e-9, rel=1e-9)
    busy = [busy * float(result.tick_s) for busy in result.busy.tolist()]
    assert busy == pytest.approx([0 if link in silent else 1000e-9 for link in range(6)], rel=1e-9)


@pytest.mark.parametrize("make", [one_to_two, two_to_one])
def test_a_switch_that_cannot_is_refused(make) -> None:
    with pytest.raises(ScheduleError, match="'sw', which does not"):
        simulate_program(star(3), make(), 1000)


@pytest.mark.parametrize("cap", [0, 2 * RATE])
@pytest.mark.parametrize("sharing", Sharing)
def test_who_asks_hears_itself(sharing: Sharing, cap: int) -> None:
    """A store comes back to rank 0, and its own data go up with those that it asks the sum of."""
    fabric = star(3, cap=cap)
    flags = ~fabric.is_compute
    asked = dataclasses.replace(fabric, multicast=flags, aggregation=flags)
    by_itself = dataclasses.replace(asked, turns_round=flags)
    for make, link in ((one_to_two, 1), (two_to_one, 0)):
        seconds = []
        for topology in (asked, by_itself):
            result = simulate_program(topology, make(), 1000, SimulationOptions(sharing=sharing))
            seconds.append(result.busy * float(result.tick_s))
            assert result.time_s == pytest.approx(1000e-9, rel=1e-9)
        more = seconds[0] - seconds[1]
        assert np.flatnonzero(more > 1e-12).tolist() == [link, *([] if not cap else [6 + 3 * (link == 1)])]
        assert more[link] == pytest.approx(1000e-9, rel=1e-9)


def test_an_in_network_allreduce_comes_close_to_its_bound() -> None:
    """Two boxes of H100 with switches that copy and add (figure 4.12's setting): efficiency grows to 1."""
    plan = planning.solve("dgx_h100(2, nvls=True, sharp=True)", "allreduce", multicast=True).plan
    shares = [
        planning.simulate(plan, [2**30], options=SimulationOptions(slices=n), auto_slices=False)
        .rows[0]
        .efficiency
        for n in (16, 256)
    ]
    assert None not in shares
    assert shares[0] < 0.9 < 0.98 < shares[1] <= 1


@pytest.mark.parametrize("sharing", Sharing)
def test_a_copy_ends_no_earlier_than_what_it_is_made_of(sharing: Sharing) -> None:
    """The way to the switch takes 2000 ns, the links behind it half of that."""
    fabric = star(3, capable=True)
    slow = dataclasses.replace(fabric, bandwidths=fabric.bandwidths // np.array([2, 1, 1, 1, 1, 1]))
    result = simulate_program(slow, one_to_two(), 1000, SimulationOptions(sharing=sharing))
    begin, _ = result.operation_spans()
    assert begin[[2, 3]] * float(result.tick_s) == pytest.approx([2000e-9, 2000e-9], rel=1e-9)
