"""Views of ``cabling``, ``resilience``, and of ``design`` with racks, expansion and alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from treadle.finder.building.cabling_check import format_plug
from treadle.inputs.problem import format_exact
from treadle.render.problems import seconds_row
from treadle.render.quantities import AS_THEY_COME, Rates, counted
from treadle.render.rows import (
    Column,
    Row,
    Rows,
    Table,
    facts,
    fields_of,
    file_row,
    framed,
    labelled,
    row,
    table_of,
)

if TYPE_CHECKING:
    from treadle.finder.building.cabling_check import CablingReport, Replugging
    from treadle.finder.building.growth import GrowthPlan
    from treadle.finder.building.installed_fabric import InstalledFabric
    from treadle.finder.building.placement import CableTotals
    from treadle.finder.building.reference_topologies import ReferenceComparison
    from treadle.finder.building.resilience import FailureLevel, ResilienceResult
    from treadle.finder.building.rewiring import RewiringPlan

_SHOWN_HARMS = 3
"""Cables that are named for each level."""


def cabling_rows(built: InstalledFabric) -> Iterator[Row]:
    """Totals of the placement, and what optical switches hold."""
    sheet = built.sheet
    yield facts(cables=len(sheet.wires))
    if built.totals is not None and built.in_order is not None and sheet.placement is not None:
        now, before, place, media = built.totals, built.in_order, sheet.placement, Counter(sheet.media)
        saved = 1 - float(now.metres / before.metres)
        lines = [
            f"{counted(len(place.racks), 'rack')} of {place.rack_size}, for few {place.objective}: "
            f"{float(now.metres):.0f} m of cable, {counted(now.bundles, 'bundle')}",
            f"in the order of node numbers {float(before.metres):.0f} m, {before.bundles} "
            f"({saved:.1%} fewer metres)",
            f"{now.in_rack} of {counted(now.cables, 'cable')} stay in a rack, the longest has "
            f"{float(now.longest):.1f} m; {media['copper']} of copper, {media['optical']} optical",
        ]
        if sheet.planes is not None:
            metres = float(sum(sheet.metres))
            lines.append(f"{metres:.0f} m through optical switches in the middle of the floor")
        values = {
            "objective": str(place.objective),
            "racks": len(place.racks),
            "placed": _totals(now),
            "in_order": _totals(before),
            "copper_cables": media["copper"],
        }
        yield row("placement", "\n".join(lines), placement=values)
    if (planes := sheet.planes) is not None:
        held = Counter(planes.plane.tolist())
        used = [count for number, count in held.items() if number >= 0]
        price = "" if planes.price is None else f", {float(planes.price):,.0f} for all their ports"
        yield row(
            "planes",
            f"{planes.n_planes} of {planes.box.ports} ports hold {min(used, default=0)} to "
            f"{max(used, default=0)} cables each{price}",
            planes={
                "ports": planes.box.ports,
                "boxes": planes.n_planes,
                "cables_of_boxes": [held[number] for number in range(planes.n_planes)],
                "price": None if planes.price is None else float(planes.price),
            },
        )


def _totals(totals: CableTotals) -> dict[str, object]:
    return {
        "metres": float(totals.metres),
        **fields_of(totals, "bundles", "in_rack"),
        "longest_m": float(totals.longest),
    }


def cabling_list_rows(built: InstalledFabric, path: object = None) -> Iterator[Row]:
    """View of ``cabling list``."""
    name = built.sheet.topology.name
    yield row("topology", f"{name}: {counted(len(built.sheet.wires), 'cable')}", topology=name)
    yield from cabling_rows(built)
    yield file_row("written", path, "cabling")


def cabling_check_rows(report: CablingReport) -> Rows:
    """View of ``cabling check``."""
    yield row(
        "cables",
        f"{report.n_planned} planned, {report.n_seen} observed ({report.kind}), {report.n_right} right",
        planned=report.n_planned,
        seen=report.n_seen,
        right=report.n_right,
    )
    yield from labelled("warning", report.doubts)
    columns: list[Column[tuple[int, Replugging]]] = [
        ("", lambda one: one[0]),
        ("fault", lambda one: one[1].fault),
        ("do", lambda one: one[1].action),
        ("plug at", lambda one: format_plug(one[1].at)),
        ("to", lambda one: format_plug(one[1].to) + " (pull its plug first)" * one[1].is_held),
        ("other end stays", lambda one: "" if one[1].stays is None else format_plug(one[1].stays)),
    ]
    if report.steps:
        yield from framed(table_of(enumerate(report.steps, start=1), columns, 6))
    yield row(
        "to do",
        f"{counted(report.n_moves, 'plug')} to move, {counted(report.n_missing, 'cable')} to lay, "
        f"{report.n_surplus} to take out (the minimum)",
        moves=report.n_moves,
        missing=report.n_missing,
        surplus=report.n_surplus,
        kind=report.kind,
        doubts=list(report.doubts),
        repluggings=report.records(),
    )


def expansion_row(plan: GrowthPlan, nodes: int) -> Row:
    """View of ``design --grow``; `nodes` are those of the fabric before."""
    new, added = plan.topology.n_nodes - nodes, len(plan.moves) - plan.n_cut
    connected = "" if plan.is_connected else "NOT "
    text = (
        f"to {plan.topology.n_nodes} nodes: {plan.steps} steps, T_B {float(plan.t_b):.4f}; "
        f"{counted(plan.n_cut, 'cable')} pulled ({plan.n_cut / new:g} per new node), {added} added\n"
        f"{counted(plan.moves[-1].stage, 'stage')}, {connected}connected after every move"
    )
    values = {
        "nodes": plan.topology.n_nodes,
        "stages": plan.moves[-1].stage,
        "cut": plan.n_cut,
        "added": added,
        "steps": plan.steps,
        "t_b_exact": format_exact(plan.t_b),
        "connected": plan.is_connected,
        "duplex": plan.is_duplex,
    }
    return row("growth", text, growth=values)


def rewiring_row(plan: RewiringPlan) -> Row:
    """View of ``design --reconfigure``."""
    return row(
        "rewiring",
        f"to {plan.other.name}: {counted(plan.n_changed, 'cross-connect')} to make, {plan.n_in_order} with "
        "nodes in the order of their numbers",
        rewiring={
            "other": plan.other.name,
            "changed": plan.n_changed,
            "disconnected": len(plan.changes) - plan.n_changed,
            "changed_in_order": plan.n_in_order,
            "duplex": plan.is_duplex,
        },
    )


def resilience_rows(result: ResilienceResult, rates: Rates = AS_THEY_COME) -> Rows:
    """View of ``resilience``."""
    topology = result.topology
    loops = int((topology.tails == topology.heads).sum())
    more = f", and {loops} from a node to itself, which carry nothing" if loops else ""
    yield row(
        "topology",
        f"{topology.name}: {counted(result.cables, 'cable')}{more}",
        key=True,
        topology=topology.name,
        ranks=len(topology.compute_nodes),
        cables=result.cables,
    )
    optima = [
        {"collective": name, "busbw_bytes_per_s": float(rate), "busbw_exact": format_exact(rate)}
        for name, rate in result.whole.items()
    ]
    text = ", ".join(f"{name} {rates(rate)}" for name, rate in result.whole.items())
    yield row("optimum", f"{text} busbw without failures", key=True, optima=optima)
    columns: list[Column[FailureLevel]] = [
        ("collective", lambda one: one.collective),
        ("failed", lambda one: counted(one.cables or one.nodes, "cable" if one.cables else "node")),
        ("samples", lambda one: len(one.shares)),
        ("mean", lambda one: f"{one.mean:.1%}"),
        ("worst", lambda one: f"{one.worst:.1%}"),
        ("worst sample", lambda one: one.worst_fabric),
    ]
    yield from framed(table_of(result.levels, columns, 2))
    yield row("mean, worst", "optimal busbw of what is left, as a share of that without failures")
    harmed = [one for one in result.levels if one.harms]
    for one in harmed:
        worst = ", ".join(f"{harm.cable} {harm.regained:+.1%}" for harm in one.harms[:_SHOWN_HARMS])
        yield row("bottleneck", f"{one.collective}, {counted(one.cables, 'cable')}: {worst}")
    if harmed:
        yield row("", "(the gain if that cable alone is repaired in the worst sample)")
    yield facts(
        levels=[
            {
                **fields_of(one, "collective", "cables", "nodes"),
                "mean_share": one.mean,
                "worst_share": one.worst,
                "worst_fabric": one.worst_fabric,
                "shares": list(one.shares),
                "fabrics_left": list(one.fabrics),
                "harms": [{"cable": harm.cable, "regained_share": harm.regained} for harm in one.harms],
            }
            for one in result.levels
        ]
    )
    yield seconds_row(result.seconds)


def reference_rows(found: ReferenceComparison, notation: str) -> Rows:
    """View of ``design --against``, in two tables; the fabric is named by its notation."""
    cost, reached = [], []
    own = found.rows[0].name
    for one in found.rows:
        name = notation + one.name.removeprefix(own) if one.name.startswith(own) else one.name
        allreduce, exchange = found.for_equal_price(one)
        bound = "<= " if one.is_bound else ""
        cables, price = f"{one.cables / one.nodes:.1f}", f"{float(one.price_per_node):,.0f}"
        cost.append([name, str(one.nodes), str(one.ports), cables, str(one.switches), price])
        times = [str(one.steps), f"{float(one.t_b):.3f}", f"{bound}{one.alltoall:.3f}"]
        reached.append([name, *times, f"{allreduce:.2f}", f"{bound}{exchange:.2f}"])
    per_node = f"{found.prices.currency} per node"
    yield from framed(Table(("reference topology", "nodes", "ports", "cables", "switches", per_node), cost))
    yield Table(("", "steps", "T_B", "all-to-all", "allreduce*", "all-to-all*"), reached)
    yield row(None, "")
    yield row("ports, cables", "per node")
    meaning = "bandwidth time in M/B; all-to-all in B, B of all ports of a node; <= from distances only"
    yield row("T_B", meaning)
    yield row("*", "throughput at equal price, relative to the first row")
    yield row(
        "prices",
        found.prices.source,
        against=found.records(),
        price_source=found.prices.source,
        currency=found.prices.currency,
    )
