"""Costs of a device runtime's lanes from a cost model."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import BlockCosts, ProtocolCosts
from treadle.simulation.costs.cost_model import CostModel, LinkClass, Protocol
from treadle.simulation.costs.cost_presets import cost_presets

DEFAULT_LANE_MODEL = "nccl-hopper"
"""Has both protocols, with NCCL's figures for one box."""


def block_costs(given: str | CostModel = DEFAULT_LANE_MODEL) -> BlockCosts:
    """Costs within a box: of LL the model's protocol ``ll``; of Simple its ``simple``, or its first.

    Parameters
    ----------
    given : CostModel or str
        Or the name of one that comes with Treadle.

    Raises
    ------
    ScheduleError
        If there is none of that name.
    """
    model = given if isinstance(given, CostModel) else cost_presets().get(given)
    if model is None:
        raise ScheduleError(f"cost model {str(given)[:40]!r}: expected one of {', '.join(cost_presets())}")
    by_name = {one.name.lower(): one for one in model.protocols}
    found = {DeviceProtocol.SIMPLE: _costs(by_name.get("simple", model.protocols[0]))}
    if "ll" in by_name:
        found[DeviceProtocol.LL] = _costs(by_name["ll"])
    return BlockCosts(model.name, found)


def _costs(protocol: Protocol) -> ProtocolCosts:
    box = protocol.of(LinkClass.BOX)
    return ProtocolCosts(
        protocol.launch_ns,
        box.alpha_ns,
        box.occupancy_ns,
        float(box.efficiency),
        # a single channel stands for all that a protocol carries
        protocol.channel_bytes_per_s if protocol.channels > 1 else 0,
        protocol.ceiling_bytes_per_s,
    )
