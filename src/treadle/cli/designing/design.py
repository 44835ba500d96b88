"""``treadle design``: the topology finder."""

from __future__ import annotations

from collections.abc import Iterator

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.building.cabling import check_racks
from treadle.cli.output import Output, ProgressLine
from treadle.errors import FormatError
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network, Workload, allreduce_of, load_workload
from treadle.inputs.problem import resolve_kind
from treadle.options.building import Racks
from treadle.options.designing import Design, Finder
from treadle.options.rows import keywords
from treadle.options.shared import Seed
from treadle.render.building import cabling_rows, expansion_row, reference_rows, rewiring_row
from treadle.render.designing import design_rows
from treadle.render.problems import plan_values, seconds_row
from treadle.render.quantities import counted
from treadle.render.rows import Row, Table, facts, file_row
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files.archive import save_plan
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.units import parse_bandwidth, parse_time_ns

_PLANNED = (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


def command(o: Design) -> int:
    """Find the best topologies for N nodes of degree D, and their schedules."""
    output = Output.of(o)
    if o.output is not None and o.cabling is not None and o.output.resolve() == o.cabling.resolve():
        raise FormatError(f"--output and --cabling are both {o.output}; expected two files")
    check_racks(o)
    _check_changes(o)
    if o.report is not None:
        planning.check_page_name(o.report, "--report FILE")
    job, network = _problem(o)
    kind = _kind(o.collective)
    nodes, degree = _size_of_fabric(o.nodes, o.degree, o.topology)
    options = keywords(o, Finder, but=("search",))
    if o.search is not None:
        options["search"] = _limit(o.search)
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.design(nodes, degree, network=network, workload=job, progress=progress, **options)
    if o.pick is not None and not 1 <= o.pick <= len(result.rows):
        raise FormatError(f"--pick {o.pick}: the frontier has {counted(len(result.rows), 'row')}")
    chosen = result.best if o.pick is None else result.rows[o.pick - 1]
    has_delay = o.reconfiguration_delay_s is not None
    rows = [*design_rows(result, chosen, output.rates, with_reconfiguration=has_delay)]
    if o.json:
        rows.append(facts(planning.beaten_summary(result)))
    with ProgressLine(quiet=output.is_silent) as progress:
        rows += _requested_rows(o, result, chosen, progress)
    if o.output is not None:
        plan, from_cache = planning.design_plan(result, kind, row=chosen, use_cache=o.use_cache)
        save_plan(o.output, plan)
        source = "cached, verified again" if from_cache else "verified"
        values = {"plan": str(o.output), "plan_from_cache": from_cache, **plan_values(plan)}
        rows.append(Row("plan", f"{o.output}: {kind}, {source}", values))
    output.show([*rows, seconds_row(result.seconds)])
    return 0


def _requested_rows(
    o: Design, result: planning.DesignResult, chosen: planning.DesignRow, progress: ProgressLine
) -> Iterator[Row | Table]:
    """Compute what was requested about the chosen fabric, and write its files."""
    built = references = None
    if o.cabling is not None or o.rack_size is not None or o.ocs is not None:
        built = planning.cabling(result.topology(chosen), progress=progress, **keywords(o, Racks, Seed))
        yield from cabling_rows(built)
        if o.cabling is not None:
            write_bytes(o.cabling, built.sheet.csv().encode())
            yield file_row(
                "cabling", o.cabling, "cabling", more=f": {counted(len(built.sheet.wires), 'cable')}"
            )
    if o.placement is not None:
        write_bytes(o.placement, chosen.placement_summary().encode())
        yield file_row("ranks", o.placement, "placement_file", more=": the node of each rank")
    if o.against:
        references = planning.compare_references(
            chosen.option.topology,
            **({} if o.rack_size is None else {"rack_size": o.rack_size}),
            floor=o.floor,
            box=o.ocs,
            prices=o.costs,
            seed=o.seed,
            progress=progress,
        )
        yield from reference_rows(references, chosen.option.label)
    if o.report is not None:
        page = planning.design_page(
            result,
            chosen,
            built=built,
            rack_size=o.rack_size,
            seed=o.seed,
            rivalry=references,
            progress=progress,
        )
        write_bytes(o.report, page.encode())
        yield file_row("report", o.report, "report")
    if o.grow is not None or o.reconfigure is not None:
        yield from _changes(result.topology(chosen), o, progress)


def _size_of_fabric(nodes: int | None, degree: int | None, topology: str | None) -> tuple[int, int]:
    """N and d, of the fabric where one is named."""
    if topology is not None:
        fabric = parse(topology)
        own_degree = fabric.n_links // fabric.n_nodes
        return fabric.n_nodes if nodes is None else nodes, own_degree if degree is None else degree
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


def _limit(text: str) -> SearchLimit | None:
    """A bare number counts sets, 0 turns the search off, anything else is a time."""
    if text == "0":
        return None
    if text.isascii() and text.isdigit() and len(text) < 12:
        return SearchLimit(sets=int(text))
    return SearchLimit(seconds=parse_time_ns(text) / 10**9)


def _kind(name: str) -> CollectiveKind:
    kind = resolve_kind(name)
    if kind not in _PLANNED:
        raise FormatError(f"--collective {name[:40]!r}: expected one of {', '.join(_PLANNED)}")
    return kind


def _check_changes(o: Design) -> None:
    """FormatError for changes of two kinds, or a file that nothing uses."""
    if o.grow is not None and o.reconfigure is not None:
        raise FormatError("--grow and --reconfigure exclude each other; plan one after the other")
    if o.changes is not None and o.grow is None and o.reconfigure is None:
        raise FormatError("--changes is the file of --grow or --reconfigure; give one of them too")
    if o.costs is not None and not (o.against or o.cabling or o.rack_size or o.ocs):
        raise FormatError("--costs: nothing is priced; give --against, --cabling, --rack-size or --ocs too")


def _changes(fabric: Topology, o: Design, progress: ProgressLine) -> Iterator[Row]:
    """Plan an expansion or a reconfiguration, and write it."""
    if o.grow is not None:
        plan = planning.grow(fabric, o.grow, seed=o.seed, progress=progress)
        yield expansion_row(plan, fabric.n_nodes)
        text = plan.csv()
    else:
        assert o.reconfigure is not None
        rewired = planning.reconfigure(fabric, o.reconfigure, seed=o.seed, progress=progress)
        yield rewiring_row(rewired)
        text = rewired.csv()
    if o.changes is not None:
        write_bytes(o.changes, text.encode())
        yield file_row("changes", o.changes, "changes_file")
