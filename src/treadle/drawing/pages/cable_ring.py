"""Cables of a placed fabric: nodes, or racks, round a circle, and how many go from rack to rack."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

import numpy as np

from treadle.finder.building.built_fabric import BuiltFabric

MOST_NODES = 128
"""Of which each has a place in the picture; of more, racks have."""
MOST_RACKS = 128


def cable_ring(built: BuiltFabric) -> dict[str, object]:
    """Places, links between them, and cables by pairs of racks.

    Parameters
    ----------
    built : BuiltFabric
        Placed in racks.
    """
    placement, fabric = built.sheet.placement, built.topology
    assert placement is not None
    racks = len(placement.racks)
    matrix = np.zeros((racks, racks), dtype=np.int64)
    for wire in built.sheet.wires:
        one, other = sorted((int(placement.rack[wire.tail]), int(placement.rack[wire.head])))
        matrix[one, other] += 1
    both = np.triu(matrix) + np.triu(matrix, 1).T
    shown = min(racks, MOST_RACKS)
    order = np.lexsort((placement.unit, placement.rack))
    is_single = fabric.n_nodes <= MOST_NODES
    if is_single:
        around = [(int(node), int(placement.rack[node])) for node in order]
        lines = [[wire.tail, wire.head, 1, int(wire.is_duplex)] for wire in built.sheet.wires]
    else:
        around = [(rack, rack) for rack in range(shown)]
        lines = [
            [one, other, int(both[one, other]), 1]
            for one in range(shown)
            for other in range(one + 1, shown)
            if both[one, other]
        ]
    places = _round(around, gaps=is_single)
    names = fabric.node_names if is_single else [rack.name for rack in placement.racks]
    return {
        "single": is_single,
        "rackNames": [rack.name for rack in placement.racks[:shown]],
        "places": [[item, rack, *places[item], names[item]] for item, rack in around],
        "labels": _rack_labels(around, places) if is_single else [],
        "lines": lines,
        "matrix": [[int(value) for value in row[:shown]] for row in both[:shown]],
        "leftOut": "" if shown == racks else f"The first {shown} of {racks} racks are shown.",
    }


_MIDDLE, _RADIUS = 260.0, 205.0


def _round(around: Sequence[tuple[int, int]], *, gaps: bool) -> dict[int, tuple[float, float]]:
    """Places on a circle in order, with a gap of a place between racks."""
    slots, last, at = [], None, 0
    for item, rack in around:
        if gaps and last is not None and rack != last:
            at += 1
        slots.append((item, at))
        last, at = rack, at + 1
    whole = at + (1 if gaps else 0)
    return {
        item: (
            round(_MIDDLE + _RADIUS * sin(2 * pi * slot / whole), 1),
            round(_MIDDLE - _RADIUS * cos(2 * pi * slot / whole), 1),
        )
        for item, slot in slots
    }


def _rack_labels(
    around: Sequence[tuple[int, int]], places: dict[int, tuple[float, float]]
) -> list[list[float]]:
    """Of each rack where its name stands, outside of its nodes: rack, x, y."""
    members: dict[int, list[int]] = {}
    for item, rack in around:
        members.setdefault(rack, []).append(item)
    found = []
    for rack, items in members.items():
        x, y = (sum(places[item][axis] for item in items) / len(items) - _MIDDLE for axis in (0, 1))
        far = (x * x + y * y) ** 0.5 or 1.0
        found.append([float(rack), round(_MIDDLE + x / far * 237, 1), round(_MIDDLE + y / far * 237, 1)])
    return found
