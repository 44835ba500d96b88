"""Lanes' costs from models with unlike figures."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import ProtocolCosts
from treadle.simulation.block_costs import DEFAULT_LANE_MODEL, block_costs
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.costs.cost_presets import cost_presets

FAR = ClassCost(1, 2, 3, Fraction(1, 7))


def protocol(name: str, launch_ns: int, channels: int) -> Protocol:
    box = ClassCost(launch_ns + 1, launch_ns + 2, 77, Fraction(3, 4))
    return Protocol(name, box, FAR, FAR, launch_ns, channels, 500 if channels else 0)


def test_costs_within_a_box() -> None:
    """A single channel stands for all that a protocol carries, so that nothing is said of a lane."""
    model = CostModel("odd", "x", (protocol("LL", 10, 1), protocol("mid", 20, 3), protocol("Simple", 30, 2)))
    found = block_costs(model)
    assert found.model == "odd"
    assert dict(found.protocols) == {
        DeviceProtocol.SIMPLE: ProtocolCosts(30, 31, 32, 0.75, 500, 1000),
        DeviceProtocol.LL: ProtocolCosts(10, 11, 12, 0.75, 0, 500),
    }


def test_the_first_protocol_stands_for_simple() -> None:
    found = block_costs(CostModel("odd", "x", (protocol("ours", 10, 0), protocol("theirs", 20, 3))))
    assert dict(found.protocols) == {DeviceProtocol.SIMPLE: ProtocolCosts(10, 11, 12, 0.75, 0, 0)}


def test_models_that_come_along() -> None:
    assert DEFAULT_LANE_MODEL == "nccl-hopper"
    assert block_costs() == block_costs("nccl-hopper") == block_costs(cost_presets()["nccl-hopper"])
    with pytest.raises(ScheduleError) as caught:
        block_costs("x" * 50)
    assert str(caught.value) == f"cost model {'x' * 40!r}: expected one of {', '.join(cost_presets())}"
