"""Placement of nodes in racks by simulated annealing of swaps, for few metres of cable or few bundles.

A placement is a quadratic assignment, and hard; the result is good, not proved optimal. Racks are chosen
first, by the distances between them. Within each rack the nodes with most cables to elsewhere are highest,
where the path to the tray is short; then swaps bring neighbours of the rack together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial

import numpy as np

from treadle.arrays import Int32Array, Int64Array, mask_of
from treadle.engine import core, run_core
from treadle.errors import FormatError, TopologyError
from treadle.finder.building.floor import Floor, Rack, rack_distances
from treadle.finder.cabling import Cable, cables
from treadle.synthesis.core_values.arrangement_values import ArrangeProblem
from treadle.synthesis.core_values.flow_values import Annealing
from treadle.topologies.topology import Topology

_STEPS_PER_ITEM = 4000
"""Proposals: 4 million for 1024 nodes, about a second."""
_MOST_STEPS = 20_000_000
_IN_RACK_PASSES = 4
_as_int32 = partial(np.ascontiguousarray, dtype=np.int32)


class Objective(StrEnum):
    """Objective of a placement.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Objective]
    ['metres', 'bundles']
    """

    METRES = "metres"
    BUNDLES = "bundles"


@dataclass(frozen=True)
class RackPlacement:
    """Positions of the nodes of a fabric.

    Parameters
    ----------
    floor : Floor
    racks : tuple of Rack
        Those in use.
    rack_size : int
        Most compute nodes in a rack.
    rack, unit : arrays of int32, shape (n,)
        By node: its rack, and the lowest unit that it takes, from 1 at the bottom.
    objective : Objective, optional
        Objective; None for nodes in the order of their numbers.
    """

    floor: Floor
    racks: tuple[Rack, ...]
    rack_size: int
    rack: Int32Array
    unit: Int32Array
    objective: Objective | None


@dataclass(frozen=True)
class CableTotals:
    """Totals of all cables of a placement.

    Parameters
    ----------
    cables : int
    metres : Fraction
    bundles : int
        Pairs of racks that cables join.
    in_rack : int
        Cables that stay in a rack.
    longest : Fraction
        Metres.
    """

    cables: int
    metres: Fraction
    bundles: int
    in_rack: int
    longest: Fraction


def placed_in_order(topology: Topology, floor: Floor, rack_size: int) -> RackPlacement:
    """Place nodes in the order of their numbers, rack by rack; switches likewise, above the nodes.

    Raises
    ------
    FormatError
        If the racks cannot hold the nodes, or nodes are too few.
    """
    switch_units = floor.units - rack_size * floor.node_units
    if rack_size < 1 or switch_units < 0:
        raise FormatError(
            f"--rack-size {rack_size}: a rack has {floor.units} units and a node takes {floor.node_units}, "
            f"so expected 1 to {floor.units // floor.node_units}"
        )
    n_compute, n_switches = len(topology.compute_nodes), len(topology.switches)
    if n_switches and not switch_units:
        raise FormatError(
            f"--rack-size {rack_size} leaves no unit of {floor.units} for switches; take fewer nodes a rack"
        )
    needed = max(-(-n_compute // rack_size), -(-n_switches // switch_units) if n_switches else 0)
    rack = np.zeros(topology.n_nodes, dtype=np.int32)
    rack[topology.compute_nodes] = np.arange(n_compute) // rack_size
    # switches are spread evenly over the racks, as leaves over their nodes
    rack[topology.switches] = np.arange(n_switches) * needed // max(1, n_switches)
    unit = _units_in_order(topology, floor, rack_size, rack)
    return RackPlacement(floor, floor.standing(needed), rack_size, rack, unit, None)


def assign_racks(
    topology: Topology,
    floor: Floor,
    rack_size: int,
    *,
    objective: Objective = Objective.METRES,
    seed: int = 0,
    effort: float = 1.0,
) -> RackPlacement:
    """Place nodes in racks such that cables are short or bundles few.

    Parameters
    ----------
    topology : Topology
        Switches take the units of a rack that its nodes leave.
    floor : Floor
    rack_size : int
        Most compute nodes in a rack.
    objective : Objective
    seed : int
    effort : float
        Of the usual number of proposals, 4000 a node and at most 20 million.

    Returns
    -------
    RackPlacement
        Never worse than the order of the numbers.

    Raises
    ------
    FormatError
        If the racks cannot hold the nodes.
    TimeLimitError
        When the deadline of `watch` passed.
    """
    plain = start = placed_in_order(topology, floor, rack_size)
    wires = cables(topology)
    if len(start.racks) > 1 and wires:
        start = _in_racks(topology, wires, start, objective, seed, effort)
    found = _within_racks(topology, wires, start)
    if _worth(topology, found, objective) > _worth(topology, plain, objective):
        found = plain
    return replace(found, objective=objective)


def _worth(topology: Topology, placement: RackPlacement, objective: Objective) -> tuple[Fraction, ...]:
    totals = cable_totals(topology, placement)
    both = (totals.metres, Fraction(totals.bundles))
    return both if objective is Objective.METRES else both[::-1]


def _in_racks(
    topology: Topology,
    wires: tuple[Cable, ...],
    start: RackPlacement,
    objective: Objective,
    seed: int,
    effort: float,
) -> RackPlacement:
    """Choose the racks by annealing; units are in the order of the numbers."""
    floor, racks = start.floor, len(start.racks)
    is_switch = (~topology.is_compute).astype(np.int64)
    sizes = [start.rack_size, floor.units - start.rack_size * floor.node_units if is_switch.any() else 0]
    place_class = np.concatenate([np.repeat(np.arange(racks), size) for size in sizes])
    place_kind = np.repeat(np.arange(2), [racks * size for size in sizes])
    # items beyond the nodes are empty places
    own = is_switch * racks * sizes[0] + start.rack * np.take(sizes, is_switch)
    own += _numbers_in_racks(topology, start.rack)
    place = np.concatenate([own, np.flatnonzero(~mask_of(len(place_class), own))])
    price = _rack_prices(start)
    pair_price = 0
    if objective is Objective.BUNDLES:
        pair_price = 10 * int(price.max())
        price = price // 16  # ties between placements with as many bundles go to short cables
    ends = np.array([(wire.tail, wire.head) for wire in wires], dtype=np.int32).T
    kinds = _as_int32(place_class), _as_int32(place_kind), _as_int32(price)
    problem = ArrangeProblem(2, _as_int32(ends[0]), _as_int32(ends[1]), *kinds, pair_price)
    steps = int(effort * min(_MOST_STEPS, _STEPS_PER_ITEM * len(place)))
    mean = float(price[price > 0].mean()) if (price > 0).any() else 1.0
    hot = max(mean, pair_price / 4) / 2
    annealing = Annealing(max(1, steps), hot, hot / 200, seed)
    _, found, _ = run_core(
        "placement", lambda control: core.arrange_items(problem, _as_int32(place), annealing, control)
    )
    rack = _as_int32(place_class[found[: topology.n_nodes]])
    return replace(start, rack=rack, unit=_units_in_order(topology, floor, start.rack_size, rack))


def _rack_prices(start: RackPlacement) -> Int64Array:
    """Return a cable's millimetres between racks, by nodes of middle height; within a rack a third of it."""
    floor = start.floor
    price = rack_distances(start.racks) + round(2000 * floor.height_below_tray(max(1, start.rack_size // 2)))
    within = round(1000 * floor.unit_height * start.rack_size * floor.node_units / 3)
    price[np.arange(len(price)), np.arange(len(price))] = within
    return price


def _numbers_in_racks(topology: Topology, rack: Int32Array) -> Int64Array:
    """Number the compute nodes of each rack from 0, and its switches likewise."""
    kind = 2 * rack + topology.is_compute
    order = np.argsort(kind, kind="stable")
    number = np.empty(len(rack), dtype=np.int64)
    number[order] = np.arange(len(rack)) - np.searchsorted(kind[order], kind[order])
    return number


def _units_in_order(topology: Topology, floor: Floor, rack_size: int, rack: Int32Array) -> Int32Array:
    """Return the lowest units of nodes in the order of their numbers, switches above the compute nodes."""
    number, height = _numbers_in_racks(topology, rack), floor.node_units
    return _as_int32(np.where(topology.is_compute, number * height, rack_size * height + number) + 1)


def _within_racks(topology: Topology, wires: tuple[Cable, ...], start: RackPlacement) -> RackPlacement:
    """Place nodes within racks: those with most cables out of the rack highest, then swaps that shorten."""
    unit = start.unit.copy()
    near: list[list[int]] = [[] for _ in range(topology.n_nodes)]
    out = np.zeros(topology.n_nodes, dtype=np.int64)
    for wire in wires:
        if wire.tail == wire.head:
            continue
        if start.rack[wire.tail] == start.rack[wire.head]:
            near[wire.tail].append(wire.head)
            near[wire.head].append(wire.tail)
        else:
            out[[wire.tail, wire.head]] += 1
    for rack in range(len(start.racks)):
        nodes = np.flatnonzero((start.rack == rack) & topology.is_compute)
        places = np.sort(unit[nodes])
        unit[nodes[np.argsort(out[nodes], kind="stable")]] = places
        members = nodes.tolist()
        for _ in range(_IN_RACK_PASSES):
            if not _swap_once(members, near, out, unit):
                break
    return replace(start, unit=unit)


def _swap_once(nodes: list[int], near: list[list[int]], out: Int64Array, unit: Int32Array) -> bool:
    """Swap any two nodes of a rack where that saves units of cable; whether any were."""
    at = {node: int(unit[node]) for node in nodes}
    # neighbours that are switches of the rack stay where they are
    for node in nodes:
        for other in near[node]:
            at.setdefault(other, int(unit[other]))
    is_better = False
    for place, one in enumerate(nodes):
        for other in nodes[place + 1 :]:
            a, b = at[one], at[other]
            saved = (b - a) * (int(out[one]) - int(out[other]))
            saved += sum(abs(a - at[x]) - abs(b - at[x]) for x in near[one] if x != other)
            saved += sum(abs(b - at[x]) - abs(a - at[x]) for x in near[other] if x != one)
            if saved > 0:
                at[one], at[other] = b, a
                is_better = True
    for node in nodes:
        unit[node] = at[node]
    return is_better


def cable_metres(
    topology: Topology, placement: RackPlacement, wires: tuple[Cable, ...] | None = None
) -> list[Fraction]:
    """Return the metres of each cable, slack included; a port joined to itself has none."""
    floor, found = placement.floor, []
    for wire in cables(topology) if wires is None else wires:
        one, other = (placement.racks[placement.rack[node]] for node in (wire.tail, wire.head))
        units = [int(placement.unit[node]) for node in (wire.tail, wire.head)]
        length = floor.slack + abs(one.x - other.x) + abs(one.y - other.y)
        if one is other:
            length += abs(units[0] - units[1]) * floor.unit_height
        else:
            length += sum(map(floor.height_below_tray, units))
        found.append(Fraction(0) if wire.tail == wire.head else length)
    return found


def cable_totals(topology: Topology, placement: RackPlacement) -> CableTotals:
    """Return cables, metres and cable bundles of a placement."""
    wires = cables(topology)
    if not wires:
        raise TopologyError(f"{topology.name}: has no cables")
    lengths = cable_metres(topology, placement, wires)
    pairs = [
        tuple(sorted((int(placement.rack[wire.tail]), int(placement.rack[wire.head])))) for wire in wires
    ]
    across = [pair for pair in pairs if pair[0] != pair[1]]
    return CableTotals(
        cables=len(wires),
        metres=sum(lengths, Fraction(0)),
        bundles=len(set(across)),
        in_rack=len(wires) - len(across),
        longest=max(lengths),
    )
