"""Costs of all rows of a comparison: a fabric and a schedule each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.options.keywords import TrainKeywords
from treadle.schedules.mesh import Mesh
from treadle.training.prices.fabric_costs import FabricCosts, scheduler_named
from treadle.training.prices.message_costs import message_costs
from treadle.training.train_options import StepRequest
from treadle.units import format_bandwidth

_SLOW = 10**6
"""Bytes/s that no link of a machine is below."""


def costs_of_rows(
    fabrics: FabricLike | Sequence[FabricLike],
    schedules: Sequence[str] | str,
    mesh: Mesh,
    asked: StepRequest,
    options: TrainKeywords,
) -> list[FabricCosts]:
    """Of each fabric by each schedule, fabrics first; FormatError if there is none of either."""
    several = [*fabrics] if isinstance(fabrics, list | tuple) else [cast(FabricLike, fabrics)]
    names = [schedules] if isinstance(schedules, str) else list(schedules)
    if not several or not names:
        raise FormatError(f"{'schedules' if several else 'fabrics'}: expected at least one")
    file_format, alpha_s = options.get("file_format"), options.get("alpha_s")
    cost_model = options.get("cost_model")
    topologies = [resolve_topology(as_fabric(one, "fabrics"), file_format=file_format) for one in several]
    records = [scheduler_named(name) for name in names]
    return [
        FabricCosts(
            topology,
            mesh,
            record,
            messages=message_costs(topology, alpha_s=alpha_s, cost_model=cost_model),
            forward=options.get("forward", False),
            simulates=options.get("simulates", True),
            network=asked.network,
        )
        for topology in topologies
        for record in records
    ]


def slow_links(costs: Sequence[FabricCosts]) -> list[str]:
    """Notes about fabrics whose links are those of a graph, not of a machine."""
    found = {own.topology.name: int(own.topology.bandwidths.max(initial=0)) for own in costs}
    return [
        f'{name}: its links carry {format_bandwidth(most)} at most; graphs take bandwidth="25GB/s"'
        for name, most in found.items()
        if 0 < most < _SLOW
    ]
