"""``treadle design``: the topology finder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.building.cabling_report import (
    AgainstOption,
    ChangesOption,
    CostsOption,
    FloorOption,
    GrowOption,
    ObjectiveOption,
    OcsOption,
    RackSizeOption,
    ReconfigureOption,
    check_changes,
    check_racks,
    print_cabling,
    print_changes,
)
from treadle.cli.building.rivals_report import print_rivals
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, UnitOption, warn
from treadle.cli.quantities import Rates, counted
from treadle.cli.solving.report import print_seconds
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network, Workload, allreduce_of, load_workload
from treadle.planning.designing.design_flow import AlltoallFigures
from treadle.planning.problem import resolve_kind
from treadle.planning.summary import design_summary, plan_summary
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files.archive import save_plan
from treadle.topologies import parse
from treadle.units import format_size, parse_bandwidth, parse_size, parse_time_ns

_SHOWN_RANKS = 8
_PLANNED = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


def command(
    nodes: Annotated[int | None, typer.Option(help="Compute nodes.", metavar="N")] = None,
    degree: Annotated[
        int | None, typer.Option(help="Links out of (and into) each node.", metavar="D")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--topology",
            help="Only this fabric: an expression of the catalogue, or as papers write it, L^2(Diamond^2).",
            metavar="EXPR",
        ),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Latency of a hop; default 1.55us.", metavar="TIME")
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(help="Of a node, all its links together, one way; default 100Gbit/s.", metavar="RATE"),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Choose for an allreduce of this size; default 1MB.", metavar="SIZE")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(help="Choose for this workload (TOML).", metavar="FILE")
    ] = None,
    bidirectional: Annotated[
        bool, typer.Option("--bidirectional", help="Only fabrics whose links come in opposite pairs.")
    ] = False,
    reconfiguration_delay: Annotated[
        str | None,
        typer.Option(help="Also consider a topology per collective, changed in this time.", metavar="TIME"),
    ] = None,
    pick: Annotated[
        int | None, typer.Option(help="Take this row of the frontier (from 1), not the best.", metavar="ROW")
    ] = None,
    cabling: Annotated[
        Path | None, typer.Option(help="Cabling list (CSV) to write.", metavar="FILE", writable=True)
    ] = None,
    placement: Annotated[
        Path | None,
        typer.Option(help="Node of each rank (CSV) to write.", metavar="FILE", writable=True),
    ] = None,
    rack_size: RackSizeOption = None,
    floor: FloorOption = None,
    objective: ObjectiveOption = None,
    ocs: OcsOption = None,
    costs: CostsOption = None,
    against: AgainstOption = False,
    grow: GrowOption = None,
    reconfigure: ReconfigureOption = None,
    changes: ChangesOption = None,
    plan: Annotated[
        Path | None, typer.Option("-o", "--output", help="Plan file to write.", writable=True)
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Page: steps against bandwidth beside known fabrics, times by size, cables by racks: .html.",
            metavar="FILE",
            writable=True,
        ),
    ] = None,
    alltoall: Annotated[
        AlltoallFigures,
        typer.Option(
            help="Time of an all-to-all: of an optimal flow where that takes seconds, or its bound."
        ),
    ] = AlltoallFigures.FLOW,
    search: Annotated[
        str | None,
        typer.Option(
            help="Look for better graphs first: for this time, or this number of sets of each kind, which "
            "gives the same graphs each time.",
            metavar="TIME|SETS",
        ),
    ] = None,
    collective: Annotated[
        str, typer.Option(help="Of the plan: allreduce, allgather or reduce-scatter.", metavar="NAME")
    ] = "allreduce",
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Keep plans and rates, and look for kept ones.")
    ] = True,
    seed: SeedOption = 0,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Find the best topologies for N nodes of degree D, and their schedules."""
    output = Output(json, quiet, Rates(unit or ""))
    if plan is not None and cabling is not None and plan.resolve() == cabling.resolve():
        raise FormatError(f"--output and --cabling are both {plan}; expected two files")
    check_racks(rack_size, {"--floor": floor, "--objective": objective})
    check_changes(grow, reconfigure, changes)
    if report is not None:
        planning.check_page_name(report, "--report FILE")
    job, network = _problem(alpha, bandwidth, size, workload)
    kind = _kind(collective)
    delay = None if reconfiguration_delay is None else parse_time_ns(reconfiguration_delay) / 10**9
    size_asked = _size_of_fabric(nodes, degree, only)
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.design(
            *size_asked,
            topology=only,
            network=network,
            workload=job,
            bidirectional=bidirectional,
            reconfiguration_delay_s=delay,
            alltoall=alltoall,
            search=None if search is None else _limit(search),
            seed=seed,
            use_cache=cache,
            progress=progress,
        )
    if pick is not None and not 1 <= pick <= len(result.rows):
        raise FormatError(f"--pick {pick}: the frontier has {counted(len(result.rows), 'row')}")
    chosen = result.best if pick is None else result.rows[pick - 1]
    _print_efforts(output, result)
    _print_frontier(output, result, chosen)
    if delay is not None:
        _print_reconfiguration(output, result)
    values = design_summary(result, chosen)
    if json:
        values |= planning.beaten_summary(result)
    built = None
    if cabling is not None or rack_size is not None or ocs is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            built = planning.cabling(
                result.topology(chosen),
                rack_size=rack_size,
                floor=floor,
                objective=objective or planning.Objective.METRES,
                ocs=ocs,
                costs=costs,
                seed=seed,
                progress=progress,
            )
        print_cabling(output, built)
        values |= planning.cabling_summary(built)
        if cabling is not None:
            write_bytes(cabling, built.sheet.text().encode())
            output.line(f"cabling     {cabling}: {counted(len(built.sheet.wires), 'cable')}")
            values["cabling"] = str(cabling)
    if placement is not None:
        write_bytes(placement, chosen.placement_text().encode())
        output.line(f"ranks       {placement}: the node of each rank")
        values["placement_file"] = str(placement)
    rivalry = None
    if against:
        with ProgressLine(quiet=output.is_silent) as progress:
            rivalry = planning.rivals(
                chosen.option.topology,
                **({} if rack_size is None else {"rack_size": rack_size}),
                floor=floor,
                box=ocs,
                prices=costs,
                seed=seed,
                progress=progress,
            )
        print_rivals(output, rivalry, chosen.option.label)
        values |= planning.rivalry_summary(rivalry)
    if report is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            page = planning.design_page(
                result,
                chosen,
                built=built,
                rack_size=rack_size,
                seed=seed,
                rivalry=rivalry,
                progress=progress,
            )
        write_bytes(report, page.encode())
        output.line(f"report      {report}")
        values["report"] = str(report)
    if grow is not None or reconfigure is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            asked = (grow, reconfigure, changes)
            values |= print_changes(output, result.topology(chosen), asked, seed=seed, progress=progress)
    if plan is not None:
        try:
            made, from_cache = planning.design_plan(result, kind, row=chosen, use_cache=cache)
        except planning.RejectedError as error:
            warn(str(error))
            return FAILED
        save_plan(plan, made)
        source = "kept from before, verified again" if from_cache else "built and verified"
        output.line(f"plan        {plan}: {kind}, {source}")
        values |= {"plan": str(plan), "plan_from_cache": from_cache, **plan_summary(made)}
    print_seconds(output, result.seconds)
    output.result(values)
    return 0


def _size_of_fabric(nodes: int | None, degree: int | None, topology: str | None) -> tuple[int, int]:
    """N and d, of the fabric where one is named."""
    if topology is not None:
        fabric = parse(topology)
        found = fabric.n_nodes, fabric.n_links // fabric.n_nodes
        return (found[0] if nodes is None else nodes, found[1] if degree is None else degree)
    if nodes is None:
        raise FormatError("--nodes N is missing: how many (with --degree); or --topology, a fabric by name")
    if degree is None:
        raise FormatError("--degree D is missing: links out of (and into) each node")
    return nodes, degree


def _problem(
    alpha: str | None, bandwidth: str | None, size: str | None, path: Path | None
) -> tuple[Workload, Network]:
    """The workload, and the network by the options, else the file, else `reference` and 100 Gbit/s a node."""
    if path is not None and size is not None:
        raise FormatError("--size and --workload exclude each other; the file has the sizes")
    job = allreduce_of(_size("1MB" if size is None else size)) if path is None else load_workload(path)
    alpha_s = job.alpha_s if alpha is None else parse_time_ns(alpha) / 10**9
    rate = job.bandwidth_bytes_per_s if bandwidth is None else parse_bandwidth(bandwidth)
    return job, Network(
        alpha_s=planning.reference_hop_ns() / 10**9 if alpha_s is None else alpha_s,
        bandwidth_bytes_per_s=parse_bandwidth("100Gbit/s") if rate is None else rate,
    )


def _limit(text: str) -> SearchLimit:
    """A bare number counts sets, anything else is a time."""
    if text.isascii() and text.isdigit() and len(text) < 12:
        return SearchLimit(sets=int(text))
    return SearchLimit(seconds=parse_time_ns(text) / 10**9)


def _print_efforts(output: Output, result: planning.DesignResult) -> None:
    """What was searched, and what of it the library does not have."""
    for effort in result.efforts:
        output.line(f"searched    {effort.kind}: {counted(effort.tried, effort.unit)}")
    if result.kept:
        places = [place for place, row in enumerate(result.rows, 1) if result.is_kept(row)]
        output.line(f"kept        {_rows(places)}, found by an earlier search and valued anew")
        output.line()
    if not result.efforts:
        return
    fresh = [place for place, row in enumerate(result.rows, start=1) if result.is_fresh(row)]
    output.line(
        f"found       {_rows(fresh)}, better than the library" if fresh else "found       nothing better"
    )
    output.line()


def _rows(places: list[int]) -> str:
    return f"{'row' if len(places) == 1 else 'rows'} {', '.join(map(str, places))}"


def _size(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise FormatError(f"--size {text}: expected at least 1 byte")
    return size


def _kind(name: str) -> CollectiveKind:
    kind = resolve_kind(name)
    if kind not in _PLANNED:
        raise FormatError(f"--collective {name[:40]!r}: expected one of {', '.join(_PLANNED)}")
    return kind


def _print_frontier(output: Output, result: planning.DesignResult, chosen: planning.DesignRow) -> None:
    network, limits = result.network, result.limits
    direction = "bidirectional" if result.is_bidirectional else "one-way or bidirectional links"
    output.line(f"fabrics     {result.nodes} nodes, degree {result.degree}, {direction}")
    output.line(
        f"network     {network.alpha_s * 1e6:g} us a hop, "
        f"{output.rates(network.bandwidth_bytes_per_s)} out of and into a node"
    )
    output.line(f"workload    {result.workload.name}")
    output.line()
    shown = format_size(result.shown_bytes)
    headings = (
        *("", "topology", "steps", "T_B", "diameter", "mean"),
        *("allreduce", "all-to-all", "workload", "least"),
    )
    # of calls over all nodes the time itself is as good as the bounds in the last line
    shown_columns = len(headings) - (not any(call.group_size for call in result.workload.calls))
    rows = [
        (
            f"{place}{'*' if row is chosen else ''}",
            row.option.label,
            str(row.option.candidate.steps) if row.option.parts == 1 else "-",
            f"{float(row.option.candidate.t_b_both / 2):.4f}" if row.option.parts == 1 else "-",
            "-" if row.option.diameter is None else str(row.option.diameter),
            "-" if row.option.mean_distance is None else f"{float(row.option.mean_distance):.3f}",
            "-" if row.allreduce_s is None else _microseconds(row.allreduce_s),
            _alltoall(row),
            "-" if row.seconds is None else _microseconds(row.seconds),
            "-" if row.least_s is None else _microseconds(row.least_s),
        )
        for place, row in enumerate(result.rows, start=1)
    ]
    rows.append(
        (
            "",
            "no fabric can beat",
            str(limits.steps),
            f"{float(limits.t_b):.4f}",
            str(limits.steps),
            f"{float(limits.mean_distance):.3f}",
            _microseconds(limits.allreduce_s),
            f">= {_microseconds(limits.alltoall_s)}",
            "",
            "",
        )
    )
    cut = [row[:shown_columns] for row in rows]
    least = ["least", "mean", "diameter", "all-to-all", "T_B"]
    output.table(headings[:shown_columns], cut, left=2, least=least[shown_columns < len(headings) :])
    output.line()
    output.line(f"            T_B in M/B, mean of allgather and reduce-scatter; times in us for {shown}")
    if shown_columns == len(headings):
        output.line("            least: what no schedules of the workload take less than on that topology")
    if any(row.option.flow for row in result.rows):
        output.line(
            "            all-to-all: of a flow within 0.1% of the optimum; >= are bounds by distances"
        )
    else:
        output.line("            all-to-all: bounds by distances")
    for place, row in enumerate(result.rows, start=1):
        if row.option.label != row.option.notation:
            output.line(f"named       row {place}: {row.option.notation}")
    _print_placements(output, result)
    output.line(f"{'best  ' if chosen is result.best else 'picked'}      {chosen.option.expression}")


def _print_placements(output: Output, result: planning.DesignResult) -> None:
    """What placed ranks save."""
    for place, row in enumerate(result.rows, start=1):
        if row.placement is not None and row.seconds is not None and row.own_order_s is not None:
            output.line(
                f"placed      row {place}: ranks on nodes {_first(row.placement)}; in the order of its own "
                f"numbers the workload takes {_microseconds(row.own_order_s)} us"
            )


def _first(nodes: tuple[int, ...]) -> str:
    text = ", ".join(map(str, nodes[:_SHOWN_RANKS]))
    return text if len(nodes) <= _SHOWN_RANKS else f"{text}, ..."


def _alltoall(row: planning.DesignRow) -> str:
    """The time of the flow, or the bound."""
    if row.alltoall_s is not None:
        return _microseconds(row.alltoall_s)
    return "-" if row.alltoall_bound_s is None else f">= {_microseconds(row.alltoall_bound_s)}"


def _print_reconfiguration(output: Output, result: planning.DesignResult) -> None:
    found = result.reconfiguration
    if found is None:
        output.line("changing    not known: the fabrics are too large for the time of some collective")
        return
    static = result.best.seconds
    gain = "" if static is None else f", {_microseconds(static)} us with one topology"
    output.line(
        f"changing    {_microseconds(found.seconds)} us an iteration with "
        f"{counted(found.changes, 'change')}{gain}"
    )
    for fabric, calls in Counter(found.fabrics).most_common():
        output.line(f"            {counted(calls, 'call')} on {fabric}")


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"
