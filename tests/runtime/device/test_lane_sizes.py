"""Protocol, lanes, threads and slices by size."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.planning import program_of, solve
from treadle.runtime.device.lane_program import DeviceProtocol
from treadle.runtime.device.lane_sizes import LaneFigures, LaneLimits, choose_lanes, figures_of, leaving_rate
from treadle.simulation.lane_costs import lane_costs
from treadle.topologies import parse

LL, SIMPLE = DeviceProtocol.LL, DeviceProtocol.SIMPLE
HOPPER = lane_costs()
SIZES = [2**power for power in range(8, 31)]


def box() -> LaneFigures:
    return figures_of(program_of(solve("dgx_h100:1", "allreduce").plan, 1024))


def test_figures_of_a_box() -> None:
    assert box() == LaneFigures(depth=2, sent=1.75, largest=0.125, received=1.75, parts=8)


def test_more_bytes_take_more_of_everything() -> None:
    found = [choose_lanes(box(), size, HOPPER) for size in SIZES]
    switched = [one.protocol for one in found].index(SIMPLE)
    assert {one.protocol for one in found[switched:]} == {SIMPLE}
    assert 2**16 < SIZES[switched] <= 2**23
    for names in (found[:switched], found[switched:]):
        lanes = [(one.lanes, one.threads) for one in names]
        assert lanes == sorted(lanes)
    times = [one.time_s for one in found]
    assert times == sorted(times)
    assert (found[0].lanes, found[0].threads) == (1, 32)
    assert (found[-1].lanes, found[-1].threads) == (8, 512)


def test_each_choice_is_the_best_of_those_that_are_allowed() -> None:
    for size in SIZES[::4]:
        best = choose_lanes(box(), size, HOPPER)
        for protocol in DeviceProtocol:
            for lanes in (1, 3, 8):
                limits = LaneLimits((protocol,), lanes=lanes, threads=96, slice_bytes=2**15)
                other = choose_lanes(box(), size, HOPPER, limits=limits)
                assert (other.protocol, other.lanes, other.threads) == (protocol, lanes, 96)
                assert other.slice_bytes == 2**15
                assert other.time_s >= best.time_s


def test_what_a_gpu_has_room_for_and_models_have_figures_for() -> None:
    assert choose_lanes(box(), 2**28, HOPPER, limits=LaneLimits(most_lanes=3)).lanes == 2
    assert choose_lanes(box(), 2**28, HOPPER, limits=LaneLimits(lanes=9, most_lanes=3)).lanes == 3
    reference = lane_costs("reference")
    assert choose_lanes(box(), 8, reference).protocol is SIMPLE
    with pytest.raises(ScheduleError, match="protocol LL by cost model reference: it has no figures"):
        choose_lanes(box(), 8, reference, limits=LaneLimits((LL,)))


def test_rates() -> None:
    assert leaving_rate(parse("dgx_h100:1")) == 450 * 10**9
    assert leaving_rate(parse("ring:4")) == 450 * 10**9
    with pytest.raises(ScheduleError, match="cost model 'x': expected one of reference, "):
        lane_costs("x")
