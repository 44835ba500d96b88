"""A design as a page: steps against bandwidth time, times by size, cables from rack to rack."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from treadle.context import Progress
from treadle.drawing.page import PageKind, page
from treadle.drawing.pages.cable_ring import cable_ring
from treadle.drawing.pages.design_chart import ChartPoint, pareto_chart
from treadle.finder.building.built_fabric import BuiltFabric, cabling
from treadle.finder.building.cable_sheet import COPPER
from treadle.finder.building.floor import Floor
from treadle.finder.building.rivals import Rivalry
from treadle.finder.construction import expression, family
from treadle.finder.designing.design_limits import design_limits
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
    built: BuiltFabric | None = None,
    rack_size: int | None = None,
    seed: int = 0,
    rivalry: Rivalry | None = None,
    progress: Progress | None = None,
) -> str:
    """The page of `treadle design --report`: one file of HTML that loads nothing.

    Parameters
    ----------
    result : DesignResult
    row : DesignRow, optional
        Whose cables are shown; default the best.
    built : BuiltFabric, optional
        The row's fabric as it is placed; default: placed here.
    rack_size : int, optional
        Most nodes of a rack; default so many that there are eight racks, or 32.
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
                *_exchanges(result),
                *([] if rivalry is None else [_networks(rivalry)]),
                _totals(built),
                *_lengths(built),
            ],
            "facts": _facts(result, chosen, built),
        },
        PageKind.DESIGN,
    )


def _tiles(result: DesignResult, chosen: DesignRow, built: BuiltFabric) -> list[list[str]]:
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
    """The fabrics for which the lower bounds are proved."""
    pairs = ", bidirectional links" if result.is_bidirectional else ""
    return f"{result.nodes} nodes, {counted(result.degree, 'port')} each, no switches{pairs}"


def _readable_name(result: DesignResult, row: DesignRow) -> str:
    """A family, N, d and the number of the row."""
    number = next(place for place, one in enumerate(result.rows, start=1) if one is row)
    made = family(row.option.candidate.construction)
    return f"{made} N={row.option.nodes} d={row.option.degree} no. {number}"


def _points(result: DesignResult) -> list[ChartPoint]:
    """The frontier, what it beats, and what people know; those that are two of these once."""
    network = result.network
    found = []
    for number, row in enumerate(result.rows, start=1):
        option = row.option
        if option.parts > 1:
            continue
        found.append(
            ChartPoint(
                str(number),
                "frontier",
                _readable_name(result, row),
                option.nodes,
                option.degree,
                option.candidate.steps,
                option.candidate.t_b_both / 2,
                tuple(call_seconds(Call(Exchange.ALLREDUCE, size), option, network) or 0.0 for size in SIZES),
                option.expression,
            )
        )
    best = [(one.steps, one.t_b) for one in found]
    for number, known in enumerate(known_fabrics(result.nodes, result.degree)):
        beaten = is_beaten(known.steps, known.t_b, best)
        is_own = (known.nodes, known.ports) == (result.nodes, result.degree)
        note = "beaten" if beaten else "as good" if is_own else "of another size"
        seconds = tuple(known.allreduce_s(network, size) for size in SIZES)
        found.append(
            ChartPoint(
                _letter(number),
                "known",
                known.name,
                known.nodes,
                known.ports,
                known.steps,
                known.t_b,
                seconds,
                note,
            )
        )
    names = {one.note for one in found} | {one.name for one in found}
    for candidate in result.others:
        if len(found) >= _MOST_POINTS:
            break
        text = expression(candidate.construction)
        if text not in names:
            note = "" if candidate.is_exact else "at most: predicted"
            found.append(
                ChartPoint(
                    "",
                    "other",
                    text,
                    result.nodes,
                    result.degree,
                    candidate.steps,
                    candidate.t_b_both / 2,
                    (),
                    note,
                )
            )
    return found


def _letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number]


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
    """Reason why the lower bound does not hold for a fabric; "" where it does."""
    why = [f"{one.nodes} nodes"] if one.nodes != result.nodes else []
    if one.kind == "known" and "fat_tree" in one.name:
        why.append("switches")
    elif one.ports != result.degree:
        why.append(counted(one.ports, "port"))
    return f" ({', '.join(why)}: outside the bound)" if why else ""


def _exchanges(result: DesignResult) -> list[dict[str, object]]:
    """All-to-all of each row, and the workload's time where that is another."""
    rows = [
        [
            str(number),
            _readable_name(result, row),
            row.allreduce_s,
            row.alltoall_s,
            row.alltoall_bound_s,
            row.seconds,
        ]
        for number, row in enumerate(result.rows, start=1)
        if row.option.parts == 1
    ]
    return [
        {
            "id": "times",
            "title": f"Times for {format_size(result.shown_bytes)}",
            "note": f"workload: {result.workload.name}",
            "columns": [
                ["", "text"],
                ["fabric", "text"],
                ["allreduce", "s"],
                ["all-to-all", "s"],
                ["all-to-all, lower bound", "s"],
                ["workload", "s"],
            ],
            "rows": rows,
            "leftOut": "all-to-all: of a flow, bandwidth only, where it was computed (design --alltoall); "
            "its lower bound by distances.",
        }
    ]


def _networks(rivalry: Rivalry) -> dict[str, object]:
    return {
        "id": "networks",
        "title": "Compared with networks that people build",
        "note": f"prices: {rivalry.prices.source}",
        "columns": [
            ["network", "text"],
            ["nodes", "n"],
            ["ports", "n"],
            ["switches", "n"],
            [f"{rivalry.prices.currency} a node", "n"],
            ["steps", "n"],
            ["T_B in M/B", "x"],
            ["all-to-all in B", "x"],
        ],
        "rows": [
            [
                row.name,
                row.nodes,
                row.ports,
                row.switches,
                round(float(row.price_per_node)),
                row.steps,
                float(row.t_b),
                row.alltoall,
            ]
            for row in rivalry.rows
        ],
        "leftOut": "all-to-all: algbw over the bandwidth of all ports of a node; of some networks an upper "
        "bound by distances.",
    }


def _fabrics(points: Sequence[ChartPoint]) -> dict[str, object]:
    kinds = {"frontier": "frontier", "known": "known", "other": "found"}
    return {
        "id": "fabrics",
        "title": "Fabrics",
        "note": "found: by the finder, beaten or no better",
        "columns": [
            ["", "text"],
            ["fabric", "text"],
            ["what", "text"],
            ["nodes", "n"],
            ["ports", "n"],
            ["steps", "n"],
            ["T_B in M/B", "x"],
            ["", "text"],
        ],
        "rows": [
            [
                one.key,
                one.name if one.kind != "frontier" else f"{one.name}: {one.note}",
                kinds[one.kind],
                one.nodes,
                one.ports,
                one.steps,
                float(one.t_b),
                "" if one.kind == "frontier" else one.note,
            ]
            for one in points
        ],
        "leftOut": "T_B: mean of allgather and reduce-scatter, B of all ports of a node.",
    }


def _totals(built: BuiltFabric) -> dict[str, object]:
    placed, plain = built.totals, built.in_order
    assert placed is not None
    assert plain is not None
    rows = [
        ["metres in all", float(placed.metres), float(plain.metres)],
        ["longest, metres", float(placed.longest), float(plain.longest)],
        ["cables within racks", placed.in_rack, plain.in_rack],
        ["pairs of racks that cables join", placed.bundles, plain.bundles],
    ]
    return {
        "id": "placement",
        "title": "Placement",
        "note": "so that cables are short; good, not proved the best",
        "columns": [["", "text"], ["placed", "x"], ["in order of numbers", "x"]],
        "rows": rows,
    }


def _lengths(built: BuiltFabric) -> list[dict[str, object]]:
    """Cables by length, a metre a row."""
    sheet = built.sheet
    counts: dict[int, list[int]] = {}
    for length, medium in zip(sheet.metres, sheet.media, strict=True):
        counts.setdefault(int(length), [0, 0])[medium != COPPER] += 1
    return [
        {
            "id": "lengths",
            "title": "Cables by length",
            "columns": [["metres", "text"], ["copper", "n"], ["optical", "n"]],
            "rows": [[f"{metre} to {metre + 1}", *counts[metre]] for metre in sorted(counts)],
        }
    ]


def _facts(result: DesignResult, chosen: DesignRow, built: BuiltFabric) -> list[list[str]]:
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
