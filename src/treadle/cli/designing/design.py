"""``treadle design``: the topology finder."""

from __future__ import annotations

from collections import Counter

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.building.cabling_report import check_changes, check_racks, print_cabling, print_changes
from treadle.cli.building.rivals_report import print_rivals
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.quantities import counted
from treadle.cli.solving.report import print_seconds
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network, Workload, allreduce_of, load_workload
from treadle.options.building import Racks
from treadle.options.designing import Design, Finder
from treadle.options.rows import keywords
from treadle.options.shared import Seed
from treadle.planning.problem import resolve_kind
from treadle.planning.summary import design_summary, plan_summary
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files.archive import save_plan
from treadle.topologies import parse
from treadle.units import format_size, parse_bandwidth, parse_time_ns

_SHOWN_RANKS = 8
_PLANNED = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


def command(o: Design) -> int:
    """Find the best topologies for N nodes of degree D, and their schedules."""
    output = Output.of(o)
    if o.output is not None and o.cabling is not None and o.output.resolve() == o.cabling.resolve():
        raise FormatError(f"--output and --cabling are both {o.output}; expected two files")
    check_racks(o)
    check_changes(o)
    if o.report is not None:
        planning.check_page_name(o.report, "--report FILE")
    job, network = _problem(o)
    kind = _kind(o.collective)
    size_asked = _size_of_fabric(o.nodes, o.degree, o.topology)
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.design(
            *size_asked,
            network=network,
            workload=job,
            search=None if o.search is None else _limit(o.search),
            progress=progress,
            **keywords(o, Finder, but=("search",)),
        )
    if o.pick is not None and not 1 <= o.pick <= len(result.rows):
        raise FormatError(f"--pick {o.pick}: the frontier has {counted(len(result.rows), 'row')}")
    chosen = result.best if o.pick is None else result.rows[o.pick - 1]
    _print_efforts(output, result)
    _print_frontier(output, result, chosen)
    if o.reconfiguration_delay_s is not None:
        _print_reconfiguration(output, result)
    values = design_summary(result, chosen)
    if o.json:
        values |= planning.beaten_summary(result)
    built = None
    if o.cabling is not None or o.rack_size is not None or o.ocs is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            built = planning.cabling(result.topology(chosen), progress=progress, **keywords(o, Racks, Seed))
        print_cabling(output, built)
        values |= planning.cabling_summary(built)
        if o.cabling is not None:
            write_bytes(o.cabling, built.sheet.text().encode())
            output.line(f"cabling     {o.cabling}: {counted(len(built.sheet.wires), 'cable')}")
            values["cabling"] = str(o.cabling)
    if o.placement is not None:
        write_bytes(o.placement, chosen.placement_text().encode())
        output.line(f"ranks       {o.placement}: the node of each rank")
        values["placement_file"] = str(o.placement)
    rivalry = None
    if o.against:
        with ProgressLine(quiet=output.is_silent) as progress:
            rivalry = planning.rivals(
                chosen.option.topology,
                **({} if o.rack_size is None else {"rack_size": o.rack_size}),
                floor=o.floor,
                box=o.ocs,
                prices=o.costs,
                seed=o.seed,
                progress=progress,
            )
        print_rivals(output, rivalry, chosen.option.label)
        values |= planning.rivalry_summary(rivalry)
    if o.report is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            page = planning.design_page(
                result,
                chosen,
                built=built,
                rack_size=o.rack_size,
                seed=o.seed,
                rivalry=rivalry,
                progress=progress,
            )
        write_bytes(o.report, page.encode())
        output.line(f"report      {o.report}")
        values["report"] = str(o.report)
    if o.grow is not None or o.reconfigure is not None:
        with ProgressLine(quiet=output.is_silent) as progress:
            values |= print_changes(output, result.topology(chosen), o, progress)
    if o.output is not None:
        try:
            made, from_cache = planning.design_plan(result, kind, row=chosen, use_cache=o.use_cache)
        except planning.RejectedError as error:
            warn(str(error))
            return FAILED
        save_plan(o.output, made)
        source = "kept from before, verified again" if from_cache else "built and verified"
        output.line(f"plan        {o.output}: {kind}, {source}")
        values |= {"plan": str(o.output), "plan_from_cache": from_cache, **plan_summary(made)}
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


def _problem(o: Design) -> tuple[Workload, Network]:
    """The workload, and the network by the options, else the file, else `reference` and 100 Gbit/s a node."""
    if o.workload is not None and o.size is not None:
        raise FormatError("--size and --workload exclude each other; the file has the sizes")
    job = allreduce_of(o.size or 2**20) if o.workload is None else load_workload(o.workload)
    alpha_s = job.alpha_s if o.alpha_s is None else o.alpha_s
    rate = job.bandwidth_bytes_per_s if o.bandwidth is None else o.bandwidth
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
