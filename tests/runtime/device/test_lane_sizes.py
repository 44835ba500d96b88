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


def box() -> BlockSizes:
    return sizes_of(program_of(solve("dgx_h100:1", "allreduce").plan, 1024))


def test_what_a_gpu_has_room_for_and_models_have_figures_for() -> None:
    assert choose_blocks(box(), 2**28, HOPPER, limits=BlockLimits(most_lanes=3)).lanes == 2
    assert choose_blocks(box(), 2**28, HOPPER, limits=BlockLimits(lanes=9, most_lanes=3)).lanes == 3
    reference = block_costs("reference")
    assert choose_blocks(box(), 8, reference).protocol is SIMPLE
    with pytest.raises(ScheduleError, match="protocol LL by cost model reference: it has no values"):
        choose_blocks(box(), 8, reference, limits=BlockLimits((LL,)))


def test_rates() -> None:
    assert leaving_rate(parse("dgx_h100:1")) == 450 * 10**9
    assert leaving_rate(parse("ring:4")) == 450 * 10**9
    with pytest.raises(ScheduleError, match="cost model 'x': expected one of reference, "):
        block_costs("x")
