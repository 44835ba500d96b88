"""Views of ``simulate``, ``run`` and ``diagnose``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.inputs.problem import format_exact
from treadle.render.files import describe_gap, gap_values
from treadle.render.names import describe_links
from treadle.render.problems import (
    group_rows,
    library_rows,
    mesh_rows,
    problem_rows,
    range_of_set,
    simulated_values,
    throughput,
    throughput_rows,
)
from treadle.render.quantities import AS_THEY_COME, Rates, counted, percent
from treadle.render.rows import (
    Column,
    Row,
    Rows,
    facts,
    fields_of,
    framed,
    given,
    labelled,
    row,
    table_of,
)
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology
from treadle.units import format_size
from treadle.verification.schedules import pipelined_algbw

if TYPE_CHECKING:
    from treadle.api.run import RunResult, RuntimeName, SweepRow
    from treadle.diagnosis.cause import Cause
    from treadle.diagnosis.diagnosed import CheckedTable, Diagnosis, ReferenceBandwidth
    from treadle.diagnosis.log_lines import LogLine
    from treadle.schedulers.shared_rates import SharedRates
    from treadle.schedulers.third_party.placed_schedules import PlacedSchedule
    from treadle.simulation.calibration.cross_check import CrossCheck, CrossCheckRow
    from treadle.simulation.cost_models import CostModel
    from treadle.simulation.simulated_plans import SimulatedRow, SimulationOptions, SimulationRun

_MOST_LINKS = 64
"""Links of a cut that JSON lists."""


def _plan_rows(
    plan: Plan | PlacedSchedule, rates: Rates, *omitted: str, rows: Sequence[SimulatedRow] = ()
) -> Iterator[Row]:
    """Problem, optimum and throughput of a plan (by size: that of `rows`); JSON has no `omitted` keys."""
    omitted = ("nodes", "links", "forwarders", "root", "weights", *omitted)
    for one in problem_rows(plan.topology, plan.collective):
        yield Row(one.label, one.text, {key: one.facts[key] for key in one.facts if key not in omitted})
    if plan.optimal_algbw is not None:
        yield row("optimum", rates.both(plan.optimal_algbw, plan.collective))
    if isinstance(plan, Plan):
        pipelined = pipelined_algbw(plan.topology, plan.collective, plan.entries[-1].schedule)
    else:
        pipelined = plan.report.pipelined_algbw
    found, known = throughput(plan, pipelined), f"verified ({plan.algorithm})"
    if len(plan.entries) == 1:
        yield from throughput_rows(plan.collective, plan.algbw, pipelined, rates, found, known=known)
        return
    text = f"{len(plan.entries)} schedules by size"
    if rows:
        shares = [one.efficiency for one in rows if one.efficiency is not None]
        text = range_of_set(len(plan.entries), [one.algbw_bytes_per_s for one in rows], rates, *shares)
    yield Row("schedule", f"{text}, {known}", found)


# ``simulate``


def simulation_rows(
    plan: Plan | PlacedSchedule,
    options: SimulationOptions,
    result: SimulationRun,
    model: CostModel | None,
    rates: Rates,
    *,
    shared: SharedRates | None = None,
    mesh: str | None = None,
    axes: str | None = None,
    path: Sequence[str] = (),
) -> Rows:
    """View of the cost model, the times, and the critical path of the last size (`path`)."""
    yield from _plan_rows(plan, rates, "model", rows=result.rows)
    yield facts(algorithm=plan.algorithm)
    yield from mesh_rows(mesh, axes)
    if shared is not None:
        yield from group_rows(plan.topology, plan.collective, shared, rates)
    yield _cost_model_row(int(plan.topology.latencies_ns.max(initial=0)), options, model)
    yield from labelled("note", getattr(plan, "notes", ()))
    yield from _simulated_rows(result, rates, has_protocols=model is not None and len(model.protocols) > 1)
    if path:
        yield row("critical path", f"of {format_size(result.last.size_bytes)}: " + "\n".join(path))
    yield facts(rows=[_simulated_values(one) for one in result.rows])
    yield from library_rows(plan.topology, plan.collective, [one.size_bytes for one in result.rows])


def _cost_model_row(latency_ns: int, options: SimulationOptions, model: CostModel | None) -> Row:
    """The costs of messages and how they share links; `latency_ns` is the longest of a link."""
    name = f"alpha {options.alpha_ns / 1000:g}us per message"
    more: dict[str, object] = {"alpha_s": options.alpha_ns / 1e9}
    if model is not None:
        name = f"{model.name}: {model.source}"
        more = {"cost_model": model.name, "cost_model_source": model.source}
    elif latency_ns:
        name += f" and up to {latency_ns / 1000:g}us per link"
    return Row(
        "cost model",
        f"{name}\n{options.latency_model}; {options.forwarding}; links shared {options.sharing}",
        {
            **more,
            "link_latency_s": latency_ns / 1e9,
            "least_slice_bytes": options.least_slice_bytes,
            "latency_model": options.latency_model.value,
            "forwarding": options.forwarding.value,
            "sharing": options.sharing.value,
            "simulated_on": "the modelled fabric",
        },
    )


def _simulated_rows(result: SimulationRun, rates: Rates, *, has_protocols: bool) -> Rows:
    """The times at all sizes."""
    # here, because `run` simulates nothing
    from treadle.simulation.simulated_plans import SliceLimit

    protocols: list[Column[SimulatedRow]] = [("protocol", lambda one: one.protocol)] if has_protocols else []
    columns: list[Column[SimulatedRow]] = [
        ("size", lambda one: format_size(one.size_bytes)),
        ("slices", lambda one: one.slices),
        ("time (us)", lambda one: _in_microseconds(one.time)),
        (f"algbw ({rates.column})", lambda one: rates.number(one.algbw_bytes_per_s, 3)),
        (f"busbw ({rates.column})", lambda one: rates.number(one.busbw_bytes_per_s, 3)),
        ("% bound", lambda one: percent(one.efficiency)),
        *protocols,
        ("alpha-beta (us)", lambda one: _in_microseconds(one.alpha_beta)),
        ("busiest link", lambda one: f"{one.utilisation:.0%} {one.busiest}"),
    ]
    least = ("alpha-beta (us)", *(heading for heading, _ in protocols), "slices", "busiest link")
    yield from framed(table_of(result.rows, columns, 0, least))
    yield row("% bound", "lower bound on the time at this size over the simulated time")
    limited = [format_size(one.size_bytes) for one in result.rows if one.slice_limit is SliceLimit.MESSAGES]
    if limited:
        sizes = limited[0] if len(limited) == 1 else f"{limited[0]} to {limited[-1]}"
        yield row("slices", f"{sizes}: more would be too many messages to try; --slices N takes N")


def _in_microseconds(time: Fraction | None) -> str | None:
    return None if time is None else f"{float(time) * 1e6:.2f}"


def _simulated_values(one: SimulatedRow) -> dict[str, object]:
    return {
        **simulated_values(one),
        **given(
            time_exact=format_exact(one.time) if one.is_exact else None,
            alpha_beta_s=None if one.alpha_beta is None else float(one.alpha_beta),
            transfers=one.transfers,
            slices_limited_by=None if one.slice_limit is None else one.slice_limit.value,
        ),
    }


def cross_check_rows(simulator: CrossCheck, found: Sequence[CrossCheckRow]) -> Rows:
    """Times of an independent simulator next to Treadle's."""
    alpha = f"alpha {found[0].alpha_ns / 1000:g}us per message" if found else "no sizes"
    yield row(None, "")
    text = f"{simulator}: {alpha}, whole messages, links shared fairly; elements moved and checked"
    yield row("cross-check", text, referee=simulator.value)
    columns: list[Column[CrossCheckRow]] = [
        ("size", lambda one: format_size(one.size_bytes)),
        (f"{simulator} (us)", lambda one: f"{one.referee_s * 1e6:.2f}"),
        ("Treadle (us)", lambda one: f"{one.own_s * 1e6:.2f}"),
        ("difference", lambda one: f"{one.difference:+.3%}"),
        ("wrong elements", lambda one: one.wrong),
    ]
    yield table_of(found, columns, 0)
    keys = ("size_bytes", "referee_s", "own_s", "wrong")
    rows = [{**fields_of(one, *keys), "alpha_s": one.alpha_ns / 1e9} for one in found]
    yield facts(refereed=rows)


# ``run``


def run_rows(
    plan: Plan,
    runtime: RuntimeName,
    result: RunResult,
    rates: Rates,
    *,
    shared: SharedRates | None = None,
    mesh: str | None = None,
    axes: str | None = None,
) -> Rows:
    """The measured times in the columns of nccl-tests, whether the data is right, and the modelled fabric."""
    rows = result.rows
    text = f"on {result.measured_on} ({runtime}), not on the modelled fabric"
    yield row("measured", text, runtime=runtime.value, measured_on=result.measured_on)
    columns = _run_columns(rows, rates)
    yield from framed(table_of(rows, columns, 0, ("root", "redop", "type", "count\n(elements)")))
    wrong = sum(one.wrong for one in rows)
    checked = "every element is correct"
    if wrong:
        worst = next((one.worst_group for one in rows if one.worst_group is not None), None)
        place = "" if worst is None else f", most of them in group {worst}"
        checked = f"{counted(wrong, 'element')} WRONG{place}"
    elif not any(one.count for one in rows):
        checked = "nothing was moved: no size reaches one element for each rank"
    yield row("checked", checked, wrong=result.wrong)
    yield from _plan_rows(plan, rates)
    yield from mesh_rows(mesh, axes)
    if shared is not None:
        yield from group_rows(plan.topology, plan.collective, shared, rates)
    if result.shortfall is not None:
        yield row("note", describe_gap(plan, result.shortfall, f"the {runtime} runtime", rates))
    yield facts(gap_values(result.shortfall), rows=[_run_values(one) for one in rows])


def _run_columns(rows: Sequence[SweepRow], rates: Rates) -> list[Column[SweepRow]]:
    """The columns of nccl-tests, and those of protocols and of MPI's own times if there are any."""
    columns: list[Column[SweepRow]] = [
        ("size\n(B)", lambda one: one.size_bytes),
        ("count\n(elements)", lambda one: one.count),
        ("type", lambda one: one.element.value),
        ("redop", lambda one: "none" if one.reduction is None else one.reduction.value),
        ("root", lambda one: one.root),
        ("time\n(us)", lambda one: f"{one.time_s * 1e6:.1f}"),
        (f"algbw\n({rates.column})", lambda one: rates.number(one.algbw_bytes_per_s, 2)),
        (f"busbw\n({rates.column})", lambda one: rates.number(one.busbw_bytes_per_s, 2)),
        ("#wrong", lambda one: one.wrong),
    ]
    if any(one.protocol for one in rows):
        columns.append(("protocol", lambda one: one.protocol))
    if any(one.reference_time_s is not None for one in rows):
        columns.append(("library\n(us)", lambda one: f"{(one.reference_time_s or 0.0) * 1e6:.1f}"))
    return columns


def _run_values(one: SweepRow) -> dict[str, object]:
    keys = ("size_bytes", "count", "root", "time_s", "iterations", "algbw_bytes_per_s", "busbw_bytes_per_s")
    return {
        **fields_of(one, *keys),
        "type": one.element.value,
        "redop": "none" if one.reduction is None else one.reduction.value,
        "wrong": one.wrong,
        **given(**fields_of(one, "worst_group", "protocol", "reference_time_s")),
    }


# ``diagnose``


def diagnosis_rows(found: Diagnosis, rates: Rates = AS_THEY_COME) -> Rows:
    """View of a log: each measured value next to its limits, and the likely causes of a low one."""
    log, tables = found.log, found.checked_tables
    yield from _log_rows(found)
    for one in tables:
        yield row(None, "")
        yield from _table_rows(found, one, rates)
    for table, reason in found.unchecked_tables:
        peak = table.peak
        value = f"{_busbw(peak.busbw, rates)} busbw at {format_size(peak.size)} (line {peak.line.number})"
        yield row("measured", f"{value}\nnot assessed: {reason}")
    if not log.tables:
        yield row("measured", "nothing: the log has no table of nccl-tests, so only its lines are assessed")
    yield row(None, "")
    if not found.causes:
        none = "none (those that need a measured value were not sought)"
        yield row("causes", "no line of the log explains a low value" if tables else none)
    for number, cause in enumerate(found.causes, start=1):
        lines = [f"line {line.number}: {line.text}" for line in cause.lines]
        yield row(f"cause {number}", "\n".join([cause.text, *lines, f"fix: {cause.fix}"]))
    if log.n_warnings:
        first, count = log.warnings[0], counted(log.n_warnings, "warning")
        yield row("warnings", f"{count} of NCCL; the first, line {first.number}: {first.text}")
    yield from labelled("verdict", (_verdict_text(one, rates) for one in tables))
    unchecked = [
        {"line": one.rows[0].line.number, "reason": reason} for one, reason in found.unchecked_tables
    ]
    if not tables:
        reason = found.missing or (str(unchecked[0]["reason"]) if unchecked else "nothing was measured")
        yield row("verdict", f"cannot say: {reason}")
    yield facts(
        judgements=[_table_values(one) for one in tables],
        unjudged=unchecked,
        suspects=[_cause_values(cause) for cause in found.causes],
        nccl_warnings=log.n_warnings,
        warnings=[_line_values(line) for line in log.warnings],
        late=list(found.late) or None,
        missing=found.missing or None,
    )


def _log_rows(found: Diagnosis) -> Iterator[Row]:
    """The log, and the fabric that it was compared with."""
    log, imported = found.log, found.imported
    words = [counted(log.n_lines, "line"), counted(len(log.tables), "table")]
    words += [f"NCCL {log.version}"] if log.version else []
    words += [counted(len(log.hosts), "host")] if log.hosts else []
    values = {"log": log.source, "lines": log.n_lines, "nccl_version": log.version or None}
    yield Row("log", f"{log.source}: {', '.join(words)}", values | {"tables": len(log.tables)})
    if found.topology is not None:
        nics = ""
        if found.used_nics < found.fabric_nics:
            nics = f", {found.used_nics} of {found.fabric_nics} NICs of a box used"
        elif found.fabric_nics:
            nics = f", {counted(found.fabric_nics, 'NIC')} of a box"
        name = found.topology.name if imported is None else "from the system tree in the log"
        ranks = len(found.topology.compute_nodes)
        yield row(
            "topology",
            f"{name}: {counted(ranks, 'rank')}{nics}",
            topology=found.topology.name,
            ranks=ranks,
            from_log=imported is not None,
            assumed=list(found.assumed),
        )
        yield row("assumed", "\n".join(found.assumed) or None)
    if imported is not None:
        yield from labelled("note", (*imported.defaulted, *imported.warnings))
        yield facts(
            recognised=dict(imported.recognised),
            defaulted=list(map(str, imported.defaulted)),
            doubts=list(map(str, imported.warnings)),
        )
    if found.fabric_nics:
        yield facts(nics_used=found.used_nics, nics_of_fabric=found.fabric_nics)


def _cause_values(cause: Cause) -> dict[str, object]:
    evidence = [_line_values(line) for line in cause.lines]
    return {"suspect": cause.name, "text": cause.text, "evidence": evidence, "remedy": cause.fix}


def _busbw(gb_per_s: float, rates: Rates) -> str:
    """A value of nccl-tests, which is in GB/s with two decimals."""
    return rates(Fraction(round(gb_per_s * 100)) * 10**7)


def _curve_text(one: CheckedTable) -> str | None:
    """Return where the time has its floor and the value levels off, and what the library runs."""
    curve = one.curve
    if curve is None:
        return None
    model = "" if curve.model_floor_us is None else f" (NCCL's model {curve.model_floor_us:.1f} us)"
    sizes = [format_size(size) for size in (curve.floor_size, curve.half_size, curve.plateau_size)]
    text = (
        f"at least {curve.floor_us:.1f} us{model}, up to {sizes[0]}; half of the peak from {sizes[1]}, 90% "
    )
    text += f"from {sizes[2]}"
    if curve.choices:
        (_, first), *later = curve.choices
        parts = [first, *(f"{name} from {format_size(size)}" for size, name in later)]
        text += f"\n{'the log' if curve.is_stated else 'the model'}: {', '.join(parts)}"
    return text


def _verdict_text(one: CheckedTable, rates: Rates) -> str:
    """Return the outcome, what it compares, and the faults that would give the value."""
    verdict, peak = one.verdict, one.peak
    value = f"{one.collective} {_busbw(peak.busbw, rates)} at {format_size(peak.size)}"
    share = "" if verdict.share is None else f"{verdict.share:.0%} of "
    texts = [f"{verdict.outcome}: {value}: {share}{verdict.reason}"]
    if verdict.expected is not None:
        texts[0] += f"; healthy from {_busbw(verdict.expected.low, rates)} on"
    optimum, summed = one.reference("optimum"), one.reference("in-network")
    if optimum is not None and (optimum.share <= 1 or summed is None):
        texts[0] += f"; {optimum.share:.0%} of the optimum"
    elif summed is not None:
        texts[0] += f"; {summed.share:.0%} of the optimum with in-network reduction"
    for each in verdict.explanations:
        reach = "" if each.busbw is None else f" ({_busbw(each.busbw, rates)})"
        texts.append(f"{'matches' if each.busbw else 'could be'} {each.text}{reach}; check {each.check}")
    return "\n".join(texts)


def _verdict_values(one: CheckedTable) -> dict[str, object]:
    verdict, limit = one.verdict, one.with_nvls
    values = {"verdict": verdict.outcome, "reason": verdict.reason, **given(share=verdict.share)}
    reach = verdict.expected
    for key, each in () if reach is None else (("expected", reach), ("predicted", reach.model)):
        if each is not None:
            ends = ("low", "value", "high")
            rates = {f"{end}_busbw_bytes_per_s": getattr(each, end) * 1e9 for end in ends}
            values[key] = {"kind": each.kind, "source": each.source, **rates}
    values["explanations"] = [
        {
            **fields_of(each, "name", "text", "check"),
            **given(busbw_bytes_per_s=each.busbw and each.busbw * 1e9),
        }
        for each in verdict.explanations
    ]
    curve = one.curve
    if curve is not None:
        values["curve"] = {
            "floor_s": curve.floor_us / 1e6,
            **given(model_floor_s=curve.model_floor_us and curve.model_floor_us / 1e6),
            "floor_size_bytes": curve.floor_size,
            "half_size_bytes": curve.half_size,
            "plateau_size_bytes": curve.plateau_size,
            "choices": [{"size_bytes": size, "choice": name} for size, name in curve.choices],
            "choices_from_log": curve.is_stated,
        }
    return {**values, **given(nvls_busbw_bytes_per_s=None if limit is None else float(limit.busbw))}


def _line_values(line: LogLine) -> dict[str, object]:
    return {"line": line.number, "text": line.text}


def _table_rows(found: Diagnosis, one: CheckedTable, rates: Rates) -> Iterator[Row]:
    """A table's peak, its limits, and the bottleneck of each limit."""
    # here, because other commands read no logs
    from treadle.diagnosis.log_values import nvls_line

    peak = one.peak
    yield row("collective", f"{one.collective}, {one.n_ranks} ranks")
    values = f"{_busbw(peak.busbw, rates)} busbw, {_busbw(peak.algbw, rates)} algbw"
    yield row("measured", f"{values} at {format_size(peak.size)}, the peak (line {peak.line.number})")
    for reference in one.references:
        yield row(reference.name, _limit_text(one, reference, rates))
    reach = one.verdict.expected
    for each in () if reach is None else (reach, reach.model):
        if each is not None:
            text = f"{_busbw(each.value, rates):>12} {peak.busbw / each.value:>5.0%}  of {each.source}"
            yield row(each.kind, text)
            yield row("assumed", f"the library's graph: {each.graph}" if each.graph else None)
    if one.with_nvls is not None:
        text = f"with NVLink SHARP, NCCL's default, the optimum is {rates(one.with_nvls.busbw)}"
        yield row("note", text)
    if one.above:
        line = nvls_line(found.log)
        yield row("note", one.above + ("" if line is None else f"\nline {line.number}: {line.text}"))
    yield row("curve", _curve_text(one))
    texts: dict[str, str] = {}  # once where several limits have the same bottleneck
    for reference in one.references:
        limit = reference.limit
        place = reference.place if limit.is_priced else f"{reference.place}, {rates(limit.capacity)}"
        if not reference.is_whole and limit.links:
            texts.setdefault(
                place, f"{reference.name}: {place}: {describe_links(one.topology, limit.links, rates)}"
            )
    yield row("bottleneck", "\n".join(texts.values()) or None)


def _limit_text(one: CheckedTable, reference: ReferenceBandwidth, rates: Rates) -> str:
    from treadle.diagnosis.diagnosed import IN_NETWORK, OPTIMUM, RING

    is_part = any(other.is_whole for other in one.references)
    scope = "" if not is_part else ", all NICs" if reference.is_whole else ", NICs in use"
    what = {
        RING: "a ring at nominal link rates",
        OPTIMUM: "the optimum (exact)",
        IN_NETWORK: "the optimum with in-network reduction",
    }[reference.name]
    if reference.limit.is_upper_bound:
        what = "an upper bound with in-network reduction"
    return f"{rates(reference.limit.busbw):>12} {reference.share:>5.0%}  of {what}{scope}"


def _table_values(found: CheckedTable) -> dict[str, object]:
    peak, average = found.peak, found.table.average
    return {
        "line": found.table.rows[0].line.number,
        "collective": found.collective,
        "ranks": found.n_ranks,
        "peak": {
            "size_bytes": peak.size,
            "busbw_bytes_per_s": peak.busbw * 1e9,
            "algbw_bytes_per_s": peak.algbw * 1e9,
            "line": peak.line.number,
        },
        **given(average_busbw_bytes_per_s=None if average is None else average * 1e9),
        "yardsticks": [_limit_values(found.topology, one) for one in found.references],
        "healthy": not found.is_low,
        **_verdict_values(found),
        **({"above": found.above} if found.above else {}),
    }


def _limit_values(topology: Topology, found: ReferenceBandwidth) -> dict[str, object]:
    limit = found.limit
    values: dict[str, object] = {
        "name": found.name,
        "nics": "all" if found.is_whole else "in use",
        "busbw_bytes_per_s": float(limit.busbw),
        "busbw_exact": format_exact(limit.busbw),
        "share": found.share,
        "binds": found.place,
    }
    if limit.links and not found.is_whole:
        names = [topology.link_name(link) for link in limit.links[:_MOST_LINKS]]
        if limit.is_priced:
            return {**values, "priced_links": names}
        return {**values, "cut_bytes_per_s": limit.capacity, "cut_links": names}
    return values
