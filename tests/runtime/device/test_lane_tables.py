"""Tables of lanes at a size, number by number, and estimates of launches by their formula."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.runtime.device.block_program import (
    DeviceProtocol,
)
from treadle.runtime.device.block_sizes import (
    BlockCosts,
    BlockLimits,
    BlockSizes,
    ProtocolCosts,
    choose_blocks,
)

LL, SIMPLE = DeviceProtocol.LL, DeviceProtocol.SIMPLE


FIGURES = BlockSizes(depth=3, sent=1.5, largest=0.25, received=0.5, parts=6)


@pytest.mark.parametrize(
    ("parts", "lanes", "most", "tried"),
    [
        *((6, None, None, 4), (1, None, None, 1), (0, None, None, 1), (99, None, None, 16)),
        *((99, None, 15, 8), (2, 40, None, 40), (2, 40, 30, 30), (2, 3, 30, 3)),
    ],
)
def test_lanes_have_work_and_room(parts: int, lanes: int | None, most: int | None, tried: int) -> None:
    """Where lanes cost nothing beside what they carry, the most are taken."""
    costs = ProtocolCosts(0, 0, 0, 1.0, lane_bytes_per_s=10**6)
    found = choose_blocks(
        replace(FIGURES, parts=parts), 10**8, BlockCosts("m", {SIMPLE: costs}),
        rate_bytes_per_s=1e12, limits=BlockLimits((SIMPLE,), lanes=lanes, most_lanes=most),
    )  # fmt: skip
    assert found.lanes == tried
