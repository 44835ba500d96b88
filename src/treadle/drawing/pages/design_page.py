"""A design as a page: steps against bandwidth time, times by size, cables from rack to rack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, cos, floor, log2, log10, pi, sin
from string import ascii_lowercase

import numpy as np

from treadle.brief import brief
from treadle.context import Progress
from treadle.drawing.page import PageKind, page, table, text_columns
from treadle.finder.building.cable_sheet import COPPER
from treadle.finder.building.floor import Floor
from treadle.finder.building.installed_fabric import InstalledFabric, cabling
from treadle.finder.building.reference_topologies import ReferenceComparison
from treadle.finder.construction import expression, family
from treadle.finder.designing.design_limits import DesignLimits, design_limits
from treadle.finder.designing.design_result import DesignResult, DesignRow
from treadle.finder.designing.known_fabrics import is_beaten, known_fabrics
from treadle.finder.evaluate import call_seconds
from treadle.finder.workload import Call, Exchange
from treadle.spelling import counted
from treadle.units import format_bandwidth, format_seconds, format_size

SIZES = tuple(2**power for power in range(10, 31, 2))
"""1 KiB to 1 GiB."""
_USUAL_RACKS = 8
_LARGEST_RACK = 32
_MOST_POINTS = 60


def design_page(
    result: DesignResult,
    row: DesignRow | None = None,
    *,
    built: InstalledFabric | None = None,
    rack_size: int | None = None,
    seed: int = 0,
    rivalry: ReferenceComparison | None = None,
    progress: Progress | None = None,
) -> str:
    """Write the report of `treadle design --report`: one self-contained HTML file.

    Parameters
    ----------
    result : DesignResult
    row : DesignRow, optional
        Whose cables are shown; default the best.
    built : InstalledFabric, optional
        The row's fabric as it is placed; default: placed here.
    rack_size : int, optional
        Most nodes of a rack; by default eight racks, or 32 nodes per rack.
    seed : int
        Of the search for a placement.
    rivalry : Rivalry, optional
        The row's fabric compared with networks that people build: a table of their prices and rates.
    progress : callable, optional

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> found = treadle.design(8, 2, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    >>> treadle.planning.design_page(found, rack_size=4)[:15]
    '<!doctype html>'
    """
    chosen = row or result.best
    points = _points(result)
    if built is None or built.sheet.placement is None:
        size = rack_size or min(_LARGEST_RACK, max(1, ceil(result.nodes / _USUAL_RACKS)))
        built = cabling(result.topology(chosen), rack_size=size, seed=seed, progress=progress)
    place = next(number for number, one in enumerate(result.rows) if one is chosen)
    direction = "bidirectional links" if result.is_bidirectional else "links of any direction"
    scope = _scope(result)
    return page(
        {
            "title": f"{result.nodes} nodes of {counted(result.degree, 'port')}",
            "lede": f"{counted(len(result.rows), 'fabric')} that no other known one beats ({direction}): "
            "fewer steps are quicker for small data, less bandwidth time for large. Cables are those of "
            f"{_readable_name(result, chosen)}, {chosen.option.label}.",
            "tiles": _tiles(result, chosen, built),
            "chosen": place,
            "pareto": {**pareto_chart(points, result.limits), "scope": scope},
            "curves": _curves(result, points),
            "cables": cable_ring(built),
            "tables": [
                _fabrics(points),
                _exchanges(result),
                *([] if rivalry is None else [_networks(rivalry)]),
                _totals(built),
                _lengths(built),
            ],
            "facts": _facts(result, chosen, built),
        },
        PageKind.DESIGN,
    )


def _tiles(result: DesignResult, chosen: DesignRow, built: InstalledFabric) -> list[list[str]]:
    figures, limits = chosen.option.candidate, result.limits
    t_b = figures.t_b_both / 2
    least_steps = figures.steps == limits.steps
    tiles = [
        [
            str(figures.steps),
            "steps" + (", the lower bound" if least_steps else f"; lower bound {limits.steps}"),
            "good" if least_steps else "",
        ],
        [
            f"{float(t_b):.3f} M/B",
            "bandwidth time"
            + (", the lower bound" if t_b == limits.t_b else f"; lower bound {float(limits.t_b):.3f}"),
            "good" if t_b == limits.t_b else "",
        ],
    ]
    if chosen.allreduce_s is not None:
        tiles.append(
            [format_seconds(chosen.allreduce_s), f"allreduce of {format_size(result.shown_bytes)}", ""]
        )
    assert built.totals is not None
    return [
        *tiles,
        [f"{float(built.totals.metres):,.0f} m", f"of {counted(built.totals.cables, 'cable')}", ""],
    ]


def _scope(result: DesignResult) -> str:
    """Return the fabrics for which the lower bounds are proved."""
    pairs = ", bidirectional links" if result.is_bidirectional else ""
    return f"{result.nodes} nodes, {counted(result.degree, 'port')} each, no switches{pairs}"


def _readable_name(result: DesignResult, row: DesignRow) -> str:
    """Return family, N, d and number of a row."""
    number = next(place for place, one in enumerate(result.rows, start=1) if one is row)
    made = family(row.option.candidate.construction)
    return f"{made} N={row.option.nodes} d={row.option.degree} no. {number}"


def _points(result: DesignResult) -> list[ChartPoint]:
    """Return the frontier, well-known fabrics and others that it beats, each fabric once."""
    network = result.network
    found = []
    for number, row in enumerate(result.rows, start=1):
        option = row.option
        if option.parts > 1:
            continue
        seconds = tuple(
            call_seconds(Call(Exchange.ALLREDUCE, size), option, network) or 0.0 for size in SIZES
        )
        figures = (option.nodes, option.degree, option.candidate.steps, option.candidate.t_b_both / 2)
        name = _readable_name(result, row)
        found.append(ChartPoint(str(number), "frontier", name, *figures, seconds, option.expression))
    best = [(one.steps, one.t_b) for one in found]
    for number, known in enumerate(known_fabrics(result.nodes, result.degree)):
        beaten = is_beaten(known.steps, known.t_b, best)
        is_own = (known.nodes, known.ports) == (result.nodes, result.degree)
        note = "beaten" if beaten else "as good" if is_own else "of another size"
        seconds = tuple(known.allreduce_s(network, size) for size in SIZES)
        about = (known.name, known.nodes, known.ports, known.steps, known.t_b)
        found.append(ChartPoint(ascii_lowercase[number], "known", *about, seconds, note))
    names = {one.note for one in found} | {one.name for one in found}
    for candidate in result.others:
        if len(found) >= _MOST_POINTS:
            break
        text = expression(candidate.construction)
        if text not in names:
            note = "" if candidate.is_exact else "at most: predicted"
            figures = (result.nodes, result.degree, candidate.steps, candidate.t_b_both / 2)
            found.append(ChartPoint("", "other", text, *figures, (), note))
    return found


def _curves(result: DesignResult, points: Sequence[ChartPoint]) -> dict[str, object]:
    limits = [
        design_limits(result.nodes, result.degree, result.is_bidirectional, result.network, size).allreduce_s
        for size in SIZES
    ]
    timed = [one for one in points if one.seconds]
    return {
        "sizes": list(SIZES),
        "series": [
            {
                "key": one.key,
                "name": f"{one.key} {one.name}" + _outside_scope(result, one),
                "seconds": [float(f"{second:.6g}") for second in one.seconds],
            }
            for one in timed
        ],
        "bound": [float(f"{second:.6g}") for second in limits],
        "boundName": f"lower bound ({_scope(result)})",
        "ratio": True,
        "title": "Allreduce by size",
        "note": f"An allreduce by {format_seconds(result.network.alpha_s)} a step and bandwidth, "
        f"{format_bandwidth(result.network.bandwidth_bytes_per_s)} a node over all its ports.",
    }


def _outside_scope(result: DesignResult, one: ChartPoint) -> str:
    """Return the reason why the lower bound does not hold for a fabric; "" where it does."""
    why = [f"{one.nodes} nodes"] if one.nodes != result.nodes else []
    if one.kind == "known" and "fat_tree" in one.name:
        why.append("switches")
    elif one.ports != result.degree:
        why.append(counted(one.ports, "port"))
    return f" ({', '.join(why)}: outside the bound)" if why else ""


def _exchanges(result: DesignResult) -> dict[str, object]:
    """Return the all-to-all of each row, and the workload's time where that is another."""
    rows = [
        [
            *(str(number), _readable_name(result, row)),
            *(row.allreduce_s, row.alltoall_s, row.alltoall_bound_s, row.seconds),
        ]
        for number, row in enumerate(result.rows, start=1)
        if row.option.parts == 1
    ]
    seconds = ("allreduce", "all-to-all", "all-to-all, lower bound", "workload")
    return table(
        "times",
        f"Times for {format_size(result.shown_bytes)}",
        [*text_columns("", "fabric"), *((name, "s") for name in seconds)],
        rows,
        panel=None,
        note=f"workload: {result.workload.name}",
        left_out="all-to-all: of a flow, bandwidth only, where it was computed (design --alltoall); its "
        "lower bound by distances.",
    )


def _networks(rivalry: ReferenceComparison) -> dict[str, object]:
    rows = [
        [
            *(row.name, row.nodes, row.ports, row.switches, round(float(row.price_per_node))),
            *(row.steps, float(row.t_b), row.alltoall),
        ]
        for row in rivalry.rows
    ]
    numbers = ("nodes", "ports", "switches", f"{rivalry.prices.currency} a node", "steps")
    return table(
        "networks",
        "Compared with networks that people build",
        [
            *text_columns("network"),
            *((name, "n") for name in numbers),
            *(("T_B in M/B", "x"), ("all-to-all in B", "x")),
        ],
        rows,
        panel=None,
        note=f"prices: {rivalry.prices.source}",
        left_out="all-to-all: algbw over the bandwidth of all ports of a node; of some networks an upper "
        "bound by distances.",
    )


def _fabrics(points: Sequence[ChartPoint]) -> dict[str, object]:
    kinds = {"frontier": "frontier", "known": "known", "other": "found"}
    rows = [
        [
            one.key,
            one.name if one.kind != "frontier" else f"{one.name}: {one.note}",
            *(kinds[one.kind], one.nodes, one.ports, one.steps, float(one.t_b)),
            "" if one.kind == "frontier" else one.note,
        ]
        for one in points
    ]
    return table(
        "fabrics",
        "Fabrics",
        [
            *text_columns("", "fabric", "what"),
            *(("nodes", "n"), ("ports", "n"), ("steps", "n"), ("T_B in M/B", "x"), ("", "text")),
        ],
        rows,
        panel=None,
        note="found: by the finder, beaten or no better",
        left_out="T_B: mean of allgather and reduce-scatter, B of all ports of a node.",
    )


def _totals(built: InstalledFabric) -> dict[str, object]:
    placed, plain = built.totals, built.in_order
    assert placed is not None
    assert plain is not None
    rows: list[list[object]] = [
        ["metres in all", float(placed.metres), float(plain.metres)],
        ["longest, metres", float(placed.longest), float(plain.longest)],
        ["cables within racks", placed.in_rack, plain.in_rack],
        ["pairs of racks that cables join", placed.bundles, plain.bundles],
    ]
    columns = [*text_columns(""), ("placed", "x"), ("in order of numbers", "x")]
    note = "so that cables are short; good, not proved the best"
    return table("placement", "Placement", columns, rows, panel=None, note=note)


def _lengths(built: InstalledFabric) -> dict[str, object]:
    """Return the cables by length, a metre a row."""
    sheet = built.sheet
    counts: dict[int, list[int]] = {}
    for length, medium in zip(sheet.metres, sheet.media, strict=True):
        counts.setdefault(int(length), [0, 0])[medium != COPPER] += 1
    columns = [*text_columns("metres"), ("copper", "n"), ("optical", "n")]
    rows = [[f"{metre} to {metre + 1}", *counts[metre]] for metre in sorted(counts)]
    return table("lengths", "Cables by length", columns, rows, panel=None)


def _facts(result: DesignResult, chosen: DesignRow, built: InstalledFabric) -> list[list[str]]:
    placement = built.sheet.placement
    assert placement is not None
    floor: Floor = placement.floor
    network = result.network
    return [
        ["Chosen", chosen.option.expression],
        [
            "Network",
            f"{format_seconds(network.alpha_s)} a step, "
            f"{format_bandwidth(network.bandwidth_bytes_per_s)} out of and into a node",
        ],
        ["Workload", result.workload.name],
        [
            f"Lower bounds ({_scope(result)})",
            f"{counted(result.limits.steps, 'step')}, T_B {float(result.limits.t_b):.4f} M/B",
        ],
        [
            "Racks",
            f"{len(placement.racks)} of at most {counted(placement.rack_size, 'node')}, "
            f"{float(floor.width):g} m wide, rows {float(floor.pitch):g} m apart",
        ],
    ]


# Cables of a placed fabric: nodes, or racks, round a circle, and how many go from rack to rack

MOST_NODES = 128
"""Largest number of nodes drawn one by one; above it racks are drawn."""
MOST_RACKS = 128


def cable_ring(built: InstalledFabric) -> dict[str, object]:
    """Return the positions round a circle, links between them, and cables by pairs of racks.

    Parameters
    ----------
    built : InstalledFabric
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
    """Return the positions on a circle in order, with a gap of one position between racks."""
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
    """Return the position of each rack's name, outside its nodes: rack, x, y."""
    members: dict[int, list[int]] = {}
    for item, rack in around:
        members.setdefault(rack, []).append(item)
    found = []
    for rack, items in members.items():
        x, y = (sum(places[item][axis] for item in items) / len(items) - _MIDDLE for axis in (0, 1))
        far = (x * x + y * y) ** 0.5 or 1.0
        found.append([float(rack), round(_MIDDLE + x / far * 237, 1), round(_MIDDLE + y / far * 237, 1)])
    return found


# Fabrics by steps and bandwidth time, as places in a chart

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _LOW = 760.0, 400.0, 66.0, 26.0, 18.0, 48.0


@brief("key", "name", "steps", "t_b")
@dataclass(frozen=True)
class ChartPoint:
    """A fabric in the chart.

    Parameters
    ----------
    key : str
        Its name in the chart; "" if only the table names it.
    kind : str
        frontier, other or known.
    name : str
    nodes, ports, steps : int
    t_b : Fraction
        In M/B.
    seconds : tuple of float
        Of an allreduce at each size; empty where no curve is drawn.
    note : str
    """

    key: str
    kind: str
    name: str
    nodes: int
    ports: int
    steps: int
    t_b: Fraction
    seconds: tuple[float, ...]
    note: str


def pareto_chart(points: Sequence[ChartPoint], limits: DesignLimits) -> dict[str, object]:
    """Return the positions in the chart: logarithm of the steps, and bandwidth time.

    Parameters
    ----------
    points : sequence of ChartPoint
    limits : DesignLimits
        No fabric of the frontier's size is left of or below.
    """
    steps = [limits.steps, *(one.steps for one in points)]
    times = [float(limits.t_b), *(float(one.t_b) for one in points)]
    low, high = log2(min(steps)), max(log2(max(steps)), log2(min(steps)) + 1)
    base = min(times) - 0.06 * (max(times) - min(times) or 0.1)
    top = max(times) + 0.08 * (max(times) - min(times) or 0.1)

    def x(value: float) -> float:
        return round(_LEFT + 14 + (_WIDTH - _LEFT - _RIGHT - 28) * (log2(value) - low) / (high - low), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _LOW - (_HEIGHT - _LOW - _TOP) * (value - base) / (top - base), 1)

    together: dict[tuple[float, float], list[ChartPoint]] = {}
    for one in points:
        together.setdefault((x(one.steps), y(float(one.t_b))), []).append(one)
    labels = _labels(
        {place: ", ".join(one.key for one in some if one.key) for place, some in together.items()}
    )
    front = sorted({(one.steps, float(one.t_b)) for one in points if one.kind == "frontier"})
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "points": [
            [*place, [points.index(one) for one in some], _shape(some), *label]
            for (place, some), label in zip(together.items(), labels, strict=True)
        ],
        "front": [[x(step), y(time)] for step, time in front],
        "limit": [x(limits.steps), y(float(limits.t_b))],
        "left": _LEFT,
        "low": _HEIGHT - _LOW,
        "top": _TOP,
        "right": _WIDTH - _RIGHT,
        "xTicks": [[x(value), str(value)] for value in _step_ticks(min(steps), max(steps))],
        "yTicks": [[y(value), f"{value:.4g}"] for value in _ticks(base, top)],
        "names": [
            [one.name, one.kind, one.nodes, one.ports, one.steps, float(one.t_b), one.note] for one in points
        ],
    }


def _shape(some: Sequence[ChartPoint]) -> str:
    kinds = {one.kind for one in some}
    return next(kind for kind in ("frontier", "known", "other") if kind in kinds)


def _labels(words: dict[tuple[float, float], str]) -> list[tuple[float, float, str]]:
    """Place labels next to points, clear of points and other labels."""
    taken = [(px - 7, py - 7, px + 7, py + 7) for px, py in words]
    found = []
    for (px, py), text in words.items():
        width = 7.0 * len(text)
        best = None
        for dx, dy in ((10, -5), (10, 15), (10, 4), (-10 - width, 4), (-width / 2, -12), (-width / 2, 20)):
            box = (px + dx, py + dy - 11, px + dx + width, py + dy + 2)
            clashes = sum(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                for other in taken
            )
            if box[2] > _WIDTH or box[0] < 0:
                clashes += 10
            if best is None or clashes < best[0]:
                best = (clashes, dx, dy, box)
        assert best is not None
        if text:
            taken.append(best[3])
        found.append((round(px + best[1], 1), round(py + best[2], 1), text))
    return found


def _step_ticks(low: int, high: int) -> list[int]:
    """Return the numbers 1, 2, 3, 4, 6, 8, 12, ... within the range."""
    every = sorted({1 << power for power in range(18)} | {3 << power for power in range(17)})
    return [value for value in every if low <= value <= max(high, 2 * low)]


def _ticks(low: float, high: float) -> list[float]:
    each = 10.0 ** floor(log10((high - low) / 2))
    step = next(factor * each for factor in (1, 2, 5, 10) if (high - low) / (factor * each) <= 7)
    return [float(n * step) for n in range(ceil(low / step), int(high / step) + 1)]
