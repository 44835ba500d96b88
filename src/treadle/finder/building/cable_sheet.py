"""The cabling list of a fabric: with racks, lengths, media and bundles, and boxes that cables go through."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from treadle.finder.building.build_prices import BuildPrices
from treadle.finder.building.optical_planes import OpticalBox, OpticalPlanes, divide_among
from treadle.finder.building.placement import RackPlacement, cable_metres
from treadle.finder.cabling import Cable, cables, number_ports
from treadle.tabular import format_csv
from treadle.topologies.topology import Topology
from treadle.units import format_link_bandwidth

COPPER, OPTICAL = "copper", "optical"


@dataclass(frozen=True)
class CableSheet:
    """All cables of a fabric as they are laid.

    Parameters
    ----------
    topology : Topology
    wires : tuple of Cable
    placement : RackPlacement, optional
    metres : tuple of Fraction
        By cable, if placed; through its box and back where it has one.
    media : tuple of str
        By cable, if placed: copper within its reach, else optical.
    planes : OpticalPlanes, optional
    """

    topology: Topology
    wires: tuple[Cable, ...]
    placement: RackPlacement | None
    metres: tuple[Fraction, ...]
    media: tuple[str, ...]
    planes: OpticalPlanes | None

    def bundle(self, place: int) -> str:
        """Return the racks that a cable joins, by number; only one if both ends are in it."""
        assert self.placement is not None
        wire = self.wires[place]
        pair = sorted({int(self.placement.rack[wire.tail]), int(self.placement.rack[wire.head])})
        racks = [self.placement.racks[one].name for one in pair]
        if self.planes is None or self.planes.plane[place] < 0:
            return "--".join(racks)
        return "+".join(f"{rack}--plane{self.planes.plane[place]}" for rack in racks)

    def csv(self) -> str:
        """Format as CSV; docs/how-to/architect.md describes the columns."""
        heads = ["cable", "from_node", "from_port", "to_node", "to_port", "duplex", "bandwidth"]
        if self.placement is not None:
            heads += ["from_rack", "from_unit", "to_rack", "to_unit", "length_m", "medium", "bundle"]
        if self.planes is not None:
            heads += ["plane", "from_plane_port", "to_plane_port"]
        return format_csv(heads, map(self._row, range(len(self.wires))))

    def _row(self, place: int) -> list[object]:
        wire, names = self.wires[place], self.topology.node_names
        row: list[object] = [
            place,
            names[wire.tail],
            wire.tail_port,
            names[wire.head],
            wire.head_port,
            "yes" if wire.is_duplex else "no",
            format_link_bandwidth(int(self.topology.bandwidths[wire.link])),
        ]
        if self.placement is not None:
            at = self.placement
            for node in (wire.tail, wire.head):
                row += [at.racks[at.rack[node]].name, int(at.unit[node])]
            row += [f"{float(self.metres[place]):.2f}", self.media[place], self.bundle(place)]
        if self.planes is not None:
            is_in = self.planes.plane[place] >= 0
            figures = [self.planes.plane[place], *self.planes.ports[place]]
            row += [int(one) if is_in else "" for one in figures]
        return row


def cable_sheet(
    topology: Topology, placement: RackPlacement | None, box: OpticalBox | None, prices: BuildPrices
) -> CableSheet:
    """Return all cables of a fabric, placed and assigned to boxes as requested.

    Parameters
    ----------
    topology : Topology
    placement : RackPlacement, optional
    box : OpticalBox, optional
        Placed in the middle of the floor, with all others of its type.
    prices : BuildPrices
        Says how far copper reaches.

    Raises
    ------
    InfeasibleError
        If the boxes do not hold the cables.
    """
    wires = cables(topology)
    planes = None if box is None else divide_among(wires, box)
    if planes is not None:
        # unidirectional links are numbered by plane at each node: a port's fibres mostly reach one box
        taken = Counter(node for wire in wires if wire.is_duplex for node in (wire.tail, wire.head))
        lone = [place for place, wire in enumerate(wires) if not wire.is_duplex]
        lone.sort(key=lambda place: (planes.plane[place], place))
        numbered = dict(zip(lone, number_ports((wires[place] for place in lone), taken), strict=True))
        wires = tuple(numbered.get(place, wire) for place, wire in enumerate(wires))
    metres: tuple[Fraction, ...] = ()
    media: tuple[str, ...] = ()
    if placement is not None:
        lengths = cable_metres(topology, placement, wires)
        if planes is not None:
            lengths = [
                length if planes.plane[place] < 0 else _through_the_middle(placement, wire)
                for place, (wire, length) in enumerate(zip(wires, lengths, strict=True))
            ]
        metres = tuple(lengths)
        reach = prices.copper_reach
        media = tuple(COPPER if one <= reach and planes is None else OPTICAL for one in metres)
    return CableSheet(topology, wires, placement, metres, media, planes)


def _through_the_middle(placement: RackPlacement, wire: Cable) -> Fraction:
    """Return the metres of both fibres from each rack to the boxes in the middle of the floor, with slack."""
    floor, racks = placement.floor, placement.racks
    middle = [sum((getattr(rack, axis) for rack in racks), Fraction(0)) / len(racks) for axis in "xy"]
    total = Fraction(0)
    for node in (wire.tail, wire.head):
        rack = racks[placement.rack[node]]
        way = abs(rack.x - middle[0]) + abs(rack.y - middle[1])
        # down from the tray to the middle of the box's rack
        down = floor.height_below_tray(max(1, floor.units // 2))
        total += way + floor.height_below_tray(int(placement.unit[node])) + down + floor.slack
    return total
