"""Compare a fabric with reference networks: torus, dragonfly, Slim Fly, fat tree, leaf and spine.

Each is taken at the size nearest to the fabric's. Direct ones are valued as the finder values its own: steps
and T_B by breadth-first broadcast, all-to-all by a flow where that takes seconds and else by distances.
Switched ones have as many planes as the fabric's nodes have ports, each without blocking: ceil(log_(p+1) N)
steps and T_B = (N - 1)/N are what p concurrent ports attain (Bruck et al., 1997), and an all-to-all runs at
full rate. All ports have one speed, so that one price list holds for all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from operator import itemgetter
from pathlib import Path

import numpy as np

from treadle.brief import brief
from treadle.checking import checked
from treadle.context import UNLIMITED, Context, Progress, context, under
from treadle.errors import FormatError
from treadle.finder.building.build_prices import BuildPrices
from treadle.finder.building.cable_sheet import COPPER, CableSheet, cable_sheet
from treadle.finder.building.floor import Floor
from treadle.finder.building.installed_fabric import as_box, as_floor, as_prices
from treadle.finder.building.optical_planes import OpticalBox
from treadle.finder.building.placement import assign_racks
from treadle.finder.measure import bfb_values, is_quick_breadth_first
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import resolve_topology
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies import all_to_all_bound, parse, with_links
from treadle.topologies.catalogue.finite_field import prime_power
from treadle.topologies.properties import has_switches
from treadle.topologies.topology import Topology

_MOST_WORK = 5_000_000
"""Pairs of nodes times degree up to which a flow is computed, as in the finder."""
MAX_NODES = 4096
DEFAULT_RACK_SIZE = 32
_SWITCH_UNITS = 16
"""Units of a rack that are left for switches, at least."""
_GAP = 1e-3
_EFFORT = 0.25
"""Part of the usual search for a placement: rows are compared, not built."""


@brief("name", "nodes", "ports", "steps", "t_b", "price")
@dataclass(frozen=True)
class ReferenceRow:
    """A network compared with the fabric.

    Parameters
    ----------
    name : str
    nodes : int
    ports : int
        Of a node.
    cables, switches : int
        In all; with optical boxes a cable counts once.
    steps : int
        Of an allgather or a reduce-scatter.
    t_b : Fraction
        Mean of both in M/B, B of all ports of a node.
    alltoall : float
        Throughput of an all-to-all per port: algbw over the bandwidth of all ports of a node.
    is_bound : bool
        An upper bound of it by distances.
    metres : Fraction
        Of cable.
    price : Fraction
        Of everything, in all.
    """

    name: str
    nodes: int
    ports: int
    cables: int
    switches: int
    steps: int
    t_b: Fraction
    alltoall: float
    is_bound: bool
    metres: Fraction
    price: Fraction

    @property
    def price_per_node(self) -> Fraction:
        """Total price per node."""
        return self.price / self.nodes

    @property
    def allreduce_rate(self) -> Fraction:
        """algbw of an allreduce as size grows, in bandwidths of a port."""
        return self.ports / (2 * self.t_b)


@brief("rows", "prices")
@dataclass(frozen=True)
class ReferenceComparison(Tabular):
    """The fabric, in the first row, and what people build.

    Parameters
    ----------
    rows : tuple of ReferenceRow
    prices : BuildPrices

    Examples
    --------
    >>> from treadle import planning
    >>> found = planning.compare_references("ring:8")
    >>> [(row.name, int(row.price_per_node)) for row in found.rows][:3]
    [('ring(8)', 390), ('torus(8)', 390), ('dragonfly(2, 1)', 390)]
    """

    rows: tuple[ReferenceRow, ...]
    prices: BuildPrices

    def for_equal_price(self, row: ReferenceRow) -> tuple[float, float]:
        """Return the throughput of allreduce and all-to-all for the same money, relative to the first row."""
        first = self.rows[0]
        money = float(first.price_per_node / row.price_per_node)
        exchange = row.alltoall * row.ports / (first.alltoall * first.ports)
        return float(row.allreduce_rate / first.allreduce_rate) * money, exchange * money

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each network."""
        return [
            plain_row(
                {
                    "fabric": row.name,
                    "nodes": row.nodes,
                    "ports_per_node": row.ports,
                    "cables_per_node": Fraction(row.cables, row.nodes),
                    "switches": row.switches,
                    "steps": row.steps,
                    "t_b": row.t_b,
                    "alltoall_per_port": row.alltoall,
                    "alltoall_is_bound": row.is_bound,
                    "metres_per_node": row.metres / row.nodes,
                    "price_per_node": row.price_per_node,
                    "allreduce_for_equal_price": self.for_equal_price(row)[0],
                    "alltoall_for_equal_price": self.for_equal_price(row)[1],
                }
            )
            for row in self.rows
        ]


@checked(floor=as_floor, box=as_box, prices=as_prices)
def compare_references(
    topology: FabricLike,
    *,
    rack_size: int = DEFAULT_RACK_SIZE,
    floor: Floor | str | Path | None = None,
    box: OpticalBox | str | None = None,
    prices: BuildPrices | str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ReferenceComparison:
    """Compare a direct-connect fabric with the usual networks of the nearest size, prices included.

    Parameters
    ----------
    topology : Topology or str
        Without switches, at most 4096 nodes, breadth-first values in seconds.
    rack_size : int
        Nodes in a rack; cables are as long as a placement makes them.
    floor : Floor, str or Path, optional
    box : OpticalBox or str, optional
        Adds a row of the fabric with all its cables through such boxes.
    prices : BuildPrices, str or Path, optional
    seed : int
    progress : callable, optional

    Examples
    --------
    >>> from treadle import planning
    >>> [row.name for row in planning.compare_references("ring:8").rows][1:3]
    ['torus(8)', 'dragonfly(2, 1)']
    """
    fabric = resolve_topology(topology)
    given, place, boxes = as_prices(prices, "prices"), as_floor(floor, "floor"), as_box(box, "box")
    with under(Context(progress)):
        n = fabric.n_nodes
        degree = fabric.n_links // n
        if has_switches(fabric) or n > MAX_NODES or not is_quick_breadth_first(n, degree):
            raise FormatError(
                f"--against: {fabric.name} has switches, or its {n} nodes of degree {degree} take too "
                f"long to value; expected at most {MAX_NODES} nodes"
            )
        # others may need more racks than the floor has, and units for switches
        units = max(place.units, rack_size * place.node_units + _SWITCH_UNITS)
        own = _Site(rack_size, place, given, seed)
        other = replace(own, floor=replace(place, racks=(), units=units))
        rows = [_direct(fabric, fabric.name, own)]
        if boxes is not None:
            rows.append(_through_boxes(fabric, rows[0], boxes, own))
        for name in nearest_names(fabric.n_nodes, degree):
            context().announce(name)
            rows.append(_direct(parse(name), name, other))
        for name in switched_names(fabric.n_nodes, given.radix):
            context().announce(name)
            rows.append(_switched(parse(name), name, degree, other))
        return ReferenceComparison(tuple(rows), given)


@dataclass(frozen=True)
class _Site:
    """Racks of a fabric, prices of its parts, and the seed of its placement."""

    rack_size: int
    floor: Floor
    prices: BuildPrices
    seed: int

    def lay(self, fabric: Topology, box: OpticalBox | None = None) -> tuple[CableSheet, Fraction]:
        """Place a fabric; return its cables and their price, for cables through boxes that of the fibres."""
        with under(UNLIMITED):
            placement = assign_racks(fabric, self.floor, self.rack_size, seed=self.seed, effort=_EFFORT)
        sheet = cable_sheet(fabric, placement, box, self.prices)
        parts = [
            self.prices.cable(length, is_copper=medium == COPPER and box is None)
            for length, medium in zip(sheet.metres, sheet.media, strict=True)
        ]
        return sheet, sum(parts, Fraction(0))


def nearest_names(nodes: int, degree: int) -> Iterator[str]:
    """Yield a torus of the degree, dragonfly and Slim Fly, each of the size nearest to `nodes`."""
    yield f"torus({', '.join(map(str, _sides(nodes, max(1, degree // 2))))})"
    # balanced ones have a = 2 h; the nearest, of these the one with fewest ports
    sizes = ((a * (a * h + 1), a, h) for h in range(1, 64) for a in range(max(2, h), 3 * h + 2))
    near = ((abs(size - nodes), a + h, a, h) for size, a, h in sizes if size <= 4 * nodes + 64)
    *_, a, h = min(near, key=itemgetter(0, 1))
    yield f"dragonfly({a}, {h})"
    known = [q for q in range(3, 84) if q % 4 != 2 and prime_power(q) is not None]
    yield f"slimfly({min(known, key=lambda q: abs(2 * q * q - nodes))})"


def _sides(nodes: int, dimensions: int) -> tuple[int, ...]:
    """Return sides of a torus near `nodes`, none over twice another: the nearest, of these the most even."""
    side = max(2, round(nodes ** (1 / dimensions)))
    low, high = max(2, int(side / 1.5)), max(3, int(side * 1.5) + 1)
    found: list[tuple[int, ...]] = [()]
    for _ in range(dimensions):
        longer = [(*one, next_) for one in found for next_ in range(one[-1] if one else low, high + 1)]
        # of a product's many ways only the most even is of use
        best: dict[int, tuple[int, ...]] = {}
        for one in longer:
            if one[-1] <= 2 * one[0]:
                key = prod(one)
                if key not in best or one[-1] - one[0] < best[key][-1] - best[key][0]:
                    best[key] = one
        found = list(best.values())
    return min(found, key=lambda one: (abs(prod(one) - nodes), one[-1] - one[0]))


def switched_names(nodes: int, radix: int) -> Iterator[str]:
    """Yield fat tree, and leaves and spines without blocking, of switches of at most `radix` ports."""
    trees = [k for k in range(2, radix + 1, 2) if k**3 // 4 > 1]
    if trees:
        yield f"fat_tree({min(trees, key=lambda k: max(k**3 // 4 / nodes, nodes / (k**3 // 4)))})"
    below = [g for g in range(1, radix // 2 + 1) if 2 <= -(-nodes // g) <= radix]
    if below:
        g = min(below, key=lambda g: (-(-nodes // g) * g - nodes, -g))
        yield f"leaf_spine({-(-nodes // g)}, {g}, gpus_per_leaf={g})"


def concurrent_port_steps(nodes: int, ports: int) -> int:
    """Return ceil(log_(ports + 1) nodes): steps with as many concurrent ports (Bruck et al., 1997)."""
    return next(steps for steps in range(1, 64) if (ports + 1) ** steps >= nodes)


def _direct(fabric: Topology, name: str, site: _Site) -> ReferenceRow:
    n, ports = fabric.n_nodes, int(np.bincount(fabric.tails).max())
    steps, gather, reduce = bfb_values(fabric)
    unit = with_links(fabric, bandwidth=1)
    collective = on_all_ranks(unit, CollectiveKind.ALLTOALL)
    is_bound = n * n * ports > _MOST_WORK
    rate = float(all_to_all_bound(unit)) if is_bound else optimal_rate(unit, collective, gap=_GAP).rate
    sheet, price = site.lay(fabric)
    return ReferenceRow(
        *(name, n, ports, len(sheet.wires), 0),
        *(steps, (gather + reduce) / 2, n * rate / ports, is_bound),
        *(sum(sheet.metres, Fraction(0)), price + n * ports * site.prices.node_port),
    )


def _through_boxes(fabric: Topology, plain: ReferenceRow, box: OpticalBox, site: _Site) -> ReferenceRow:
    """Return the row with every cable as two fibres to a box in the middle, transceivers at nodes only."""
    sheet, fibres = site.lay(fabric, box)
    planes = sheet.planes
    assert planes is not None
    nodes = fabric.n_nodes * plain.ports * site.prices.node_port
    return replace(
        plain,
        name=f"{plain.name}, {planes.n_planes} boxes of {box.ports}",
        switches=planes.n_planes,
        metres=sum(sheet.metres, Fraction(0)),
        price=nodes + fibres + (planes.price or Fraction(0)),
    )


def _switched(plane: Topology, name: str, ports: int, site: _Site) -> ReferenceRow:
    """Return the row of as many planes as nodes have ports."""
    n = len(plane.compute_nodes)
    sheet, price = site.lay(plane)
    at_switches = int(np.isin(plane.tails, plane.switches).sum())
    each = price + at_switches * site.prices.switch_port + n * site.prices.node_port
    return ReferenceRow(
        *(f"{ports} x {name}", n, ports, ports * len(sheet.wires), ports * len(plane.switches)),
        *(concurrent_port_steps(n, ports), Fraction(n - 1, n), n / (n - 1), False),
        *(ports * sum(sheet.metres, Fraction(0)), ports * each),
    )
