"""Protocol, lanes, threads and slices by size."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.planning import program_of, solve
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import BlockLimits, BlockSizes, choose_blocks, leaving_rate, sizes_of
from treadle.simulation.block_costs import block_costs
from treadle.topologies import parse

LL, SIMPLE = DeviceProtocol.LL, DeviceProtocol.SIMPLE
HOPPER = block_costs()
SIZES = [2**power for power in range(8, 31)]


def box() -> BlockSizes:
    return sizes_of(program_of(solve("dgx_h100:1", "allreduce").plan, 1024))


def test_figures_of_a_box() -> None:
    assert box() == BlockSizes(depth=2, sent=1.75, largest=0.125, received=1.75, parts=8)


def test_more_bytes_take_more_of_everything() -> None:
    found = [choose_blocks(box(), size, HOPPER) for size in SIZES]
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
        best = choose_blocks(box(), size, HOPPER)
        for protocol in DeviceProtocol:
            for lanes in (1, 3, 8):
                limits = BlockLimits((protocol,), lanes=lanes, threads=96, slice_bytes=2**15)
                other = choose_blocks(box(), size, HOPPER, limits=limits)
                assert (other.protocol, other.lanes, other.threads) == (protocol, lanes, 96)
                assert other.slice_bytes == 2**15
                assert other.time_s >= best.time_s


def test_what_a_gpu_has_room_for_and_models_have_figures_for() -> None:
    assert choose_blocks(box(), 2**28, HOPPER, limits=BlockLimits(most_lanes=3)).lanes == 2
    assert choose_blocks(box(), 2**28, HOPPER, limits=BlockLimits(lanes=9, most_lanes=3)).lanes == 3
    reference = block_costs("reference")
    assert choose_blocks(box(), 8, reference).protocol is SIMPLE
    with pytest.raises(ScheduleError, match="protocol LL by cost model reference: it has no figures"):
        choose_blocks(box(), 8, reference, limits=BlockLimits((LL,)))


def test_rates() -> None:
    assert leaving_rate(parse("dgx_h100:1")) == 450 * 10**9
    assert leaving_rate(parse("ring:4")) == 450 * 10**9
    with pytest.raises(ScheduleError, match="cost model 'x': expected one of reference, "):
        block_costs("x")
