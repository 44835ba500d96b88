"""A fabric as it is to be built: placed, cabled, shared out among boxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.brief import brief
from treadle.checking import checked, unexpected
from treadle.context import Progress, start
from treadle.finder.building.build_prices import BuildPrices, load_prices
from treadle.finder.building.cable_sheet import CableSheet, cable_sheet
from treadle.finder.building.floor import Floor, load_floor
from treadle.finder.building.optical_planes import OpticalBox, parse_box
from treadle.finder.building.placement import (
    CableTotals,
    Objective,
    assign_racks,
    cable_totals,
    placed_in_order,
)
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import resolve_topology
from treadle.topologies.topology import Topology


@brief("topology", "totals")
@dataclass(frozen=True)
class InstalledFabric:
    """A fabric on a floor.

    Parameters
    ----------
    topology : Topology
    sheet : CableSheet
    totals, in_order : CableTotals, optional
        Of the placement, and of nodes in the order of their numbers; None without racks. Both without boxes.

    Examples
    --------
    >>> import treadle
    >>> built = treadle.cabling("torus:4,4", rack_size=8)
    >>> built.totals.cables, float(built.totals.metres)
    (32, 78.582)
    >>> print(built.sheet.csv().splitlines()[1])
    0,n0_0,0,n1_0,0,yes,1 B/s,r0c0,1,r0c0,5,1.18,copper,r0c0
    """

    topology: Topology
    sheet: CableSheet
    totals: CableTotals | None
    in_order: CableTotals | None


def as_floor(value: Any, place: str) -> Floor:
    """Convert an argument: a floor, the path of its file, or None for the default."""
    if value is None or isinstance(value, Floor):
        return value or Floor()
    if isinstance(value, str | Path):
        return load_floor(value)
    raise unexpected(place, "a Floor or the path of its file", value)


def as_box(value: Any, place: str) -> OpticalBox | None:
    """Convert an argument: a box, or its description as typed; None stays."""
    if value is None or isinstance(value, OpticalBox):
        return value
    if isinstance(value, str):
        return parse_box(value)
    raise unexpected(place, "an OpticalBox or a string such as 384,520", value)


def as_prices(value: Any, place: str) -> BuildPrices:
    """Convert an argument: prices, the path of their file, or None for the defaults."""
    if value is None or isinstance(value, BuildPrices):
        return value or BuildPrices()
    if isinstance(value, str | Path):
        return load_prices(value)
    raise unexpected(place, "BuildPrices or the path of their file", value)


@checked(floor=as_floor, ocs=as_box, costs=as_prices)
def cabling(
    topology: FabricLike,
    *,
    rack_size: int | None = None,
    floor: Floor | str | Path | None = None,
    objective: Objective | str = Objective.METRES,
    ocs: OpticalBox | str | None = None,
    costs: BuildPrices | str | Path | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> InstalledFabric:
    """Return the cables of a fabric: ports, and racks, lengths and boxes if requested.

    Parameters
    ----------
    topology : Topology or str
    rack_size : int, optional
        Most compute nodes in a rack; None: no racks.
    floor : Floor, str or Path, optional
        Or the path of its file.
    objective : Objective
        What the placement makes small: metres of cable, or bundles (pairs of racks that cables join).
    ocs : OpticalBox or str, optional
        Optical switches or patch panels that all cables go through: ``"384,520"`` are boxes of 384 ports at
        520 each.
    costs : BuildPrices, str or Path, optional
        Or the path of their file; says how far copper reaches.
    seed : int
        Of the search for a placement.
    time_limit_s : float, optional
        Of that search.
    progress : callable, optional

    Raises
    ------
    InfeasibleError
        If the boxes do not hold the cables.
    TimeLimitError
        If time ran out.
    FormatError
        For malformed input, or racks that do not hold the nodes.

    Examples
    --------
    >>> import treadle
    >>> built = treadle.cabling("torus:4,4", rack_size=4)
    >>> built.totals.cables, built.totals.metres <= built.in_order.metres
    (32, True)
    """
    fabric, where = resolve_topology(topology), as_floor(floor, "floor")
    placement, totals, in_order = None, None, None
    if rack_size is not None:
        in_order = cable_totals(fabric, placed_in_order(fabric, where, rack_size))
        with start(progress, time_limit_s):
            placement = assign_racks(fabric, where, rack_size, objective=Objective(objective), seed=seed)
        totals = cable_totals(fabric, placement)
    sheet = cable_sheet(fabric, placement, as_box(ocs, "ocs"), as_prices(costs, "costs"))
    return InstalledFabric(fabric, sheet, totals, in_order)
