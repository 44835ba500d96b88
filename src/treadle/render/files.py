"""Views of ``verify`` and ``lower``, of plans and of runtime files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.render.problems import (
    below,
    certificate_values,
    describe_certificate,
    problem_rows,
    range_of_set,
    shape_row,
    throughput,
    throughput_rows,
    verification_values,
    verified_row,
    violations_row,
)
from treadle.render.quantities import AS_THEY_COME, Rates, counted
from treadle.render.rows import Row, facts, fields_of, labelled, rate_values, row
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes, routes_in
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.spelling import listing
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import hosts_passed
from treadle.units import format_fraction, format_size

if TYPE_CHECKING:
    from treadle.formats.format import Format
    from treadle.formats.loading import Loading
    from treadle.inputs.runtime_files import FileVerification
    from treadle.inputs.verification import VerifyResult
    from treadle.lowering.lower_set import LoweredSet
    from treadle.lowering.lowered import Lowered
    from treadle.lowering.set_folder import SavedSet
    from treadle.schedulers.jobs.jobs_folder import StoredJobs
    from treadle.schedules.plan import Plan
    from treadle.simulation.point_to_point import PointToPointGap
    from treadle.verification.jobs_check import JobsReport

_MOST_RANKS = 16
"""Ranks of a group that a line lists."""


def verify_rows(result: VerifyResult, plan: Plan, path: Path, rates: Rates) -> Iterator[Row]:
    """View of ``verify`` of a plan."""
    topology, collective, best = result.topology, plan.collective, plan.optimal_algbw
    report, whole = result.report, result.full_report
    yield from problem_rows(topology, collective)
    yield _fabric_row(topology.name, result.topology_hash, "plan", is_embedded=result.is_embedded)
    if result.n_absent:
        absent = counted(result.n_absent, "compute node")
        text = f"{absent} of this topology are not in the plan; its claims concern the rest"
        yield row("note", text, absent_compute_nodes=result.n_absent)
    in_turn = "" if report.pipelined_algbw in (None, report.algbw) else " step by step"
    yield Row(
        "claimed",
        f"{rates.both(plan.algbw, collective)}{in_turn} ({plan.algorithm})",
        {"algorithm": plan.algorithm, **throughput(plan, report.pipelined_algbw)},
    )
    if best is not None:
        yield row("", f"optimum {rates.both(best, collective)}")
    known = [one.rate for one in result.reports if one.rate is not None]
    if len(plan.entries) > 1 and known:
        yield row("schedule", range_of_set(len(plan.entries), known, rates))
    elif in_turn and report.algbw is not None and report.pipelined_algbw is not None:
        gap = below(report.pipelined_algbw, report.bound)
        yield from throughput_rows(collective, report.algbw, report.pipelined_algbw, rates, {}, gap=gap)
    schedule = plan.entries[-1].schedule
    shape = shape_row(schedule, plan.algorithm, report=report)
    if isinstance(schedule, FactoredSchedule):
        yield shape
        if report.is_ok and plan.certificate is not None and best is not None:
            cut = describe_certificate(plan.topology, collective, plan.certificate, best, rates)
            yield row("bottleneck", cut)
        yield row("file", format_size(path.stat().st_size))
    yield facts(
        shape.facts,
        {} if plan.certificate is None else {"witness": certificate_values(plan.certificate, plan.topology)},
        # below the bound of a certificate nothing is known: another certificate might prove less
        {"optimal": True if whole.is_optimal else None},
        gap=float(1 - whole.rate / whole.bound) if whole.rate and whole.bound is not None else None,
    )
    for one in result.reports:
        yield row("verified", verified_row(one).text)
    if result.is_sound and not result.is_ok:
        rate = "" if report.algbw is None else f", {rates.both(report.algbw, collective)}"
        yield row("note", f"the schedule performs its collective here{rate}; only claims are false")
    if report.is_optimal:
        yield row("optimal", "yes: the schedule attains the bound that its certificate proves")
    yield facts(
        {**verification_values(whole), "verified": result.is_ok},
        {} if result.is_ok else {"sound": result.is_sound},
        notes=list(result.notes) or None,
        plan=str(path),
    )


def _fabric_row(name: str, fingerprint: str, holder: str, *, is_embedded: bool) -> Row:
    """The topology against which a plan was verified: its own, or one that was given."""
    text = f"the topology in the {holder}, {fingerprint[:16]} (--topology checks against another)"
    given = f"{name}, {fingerprint[:16]}"
    values = {"topology_hash": fingerprint, "topology_embedded": is_embedded}
    return Row("assumed", text, values) if is_embedded else Row("against", given, values)


def verify_jobs_rows(
    stored: StoredJobs, found: JobsReport, topology: Topology | None, folder: Path
) -> Iterator[Row]:
    """View of ``verify`` of the plans of concurrent jobs."""
    fabric = stored.topology if topology is None else topology
    yield facts(topology=fabric.name)
    yield _fabric_row(fabric.name, topology_hash(fabric), "folder", is_embedded=topology is None)
    jobs = [
        {"name": job.name, "reached_exact": f"{rate.numerator}/{rate.denominator}"}
        for job, rate in zip(stored.jobs, stored.rates, strict=True)
    ]
    yield row("jobs", f"{len(stored.jobs)} concurrent", jobs=jobs)
    keys = ("verified", "violations", "n_violations")
    values = verification_values(found.report)
    yield Row("verified", verified_row(found.report).text, {key: values[key] for key in keys})
    if found.is_max_min:
        yield row("optimal", "yes: links carry all jobs at these rates, and no rates are fairer")
    elif found.proved is not None:
        loss = format_fraction(found.loss)
        yield row("optimal", f"no: {loss} below the max-min rates, which the levels prove")
    if found.proved is not None:
        yield facts(optimal=found.is_max_min, gap=float(found.loss))
    yield facts(plan=str(folder))


def verify_file_rows(path: Path, found: FileVerification) -> Iterator[Row]:
    """View of ``verify`` of a runtime file."""
    # here, because formats are many modules
    from treadle.formats.verdict import Check

    contents = ", ".join(counted(count, noun) for noun, count in found.counts)
    counts: dict[str, Any] = {f"{noun.replace(' ', '_')}s": count for noun, count in found.counts}
    is_executed, is_ok = found.check is Check.EXECUTED, not found.violations
    yield row(
        "file",
        f"{path}: {found.format}, {counted(found.n_ranks, 'rank')}, {contents}",
        format=found.format,
        judged=found.check.value,
        collective=found.collective or None,
        ranks=found.n_ranks,
        **counts,
    )
    checked = "parsed as its runtime does; it holds no program, and nothing was executed"
    if is_executed:
        checked = f"{found.collective} executed on integer contributions by Treadle, not by the runtime"
    if is_executed and found.is_part:
        checked = f"{found.collective}: this rank alone was executed, as if the others did their parts"
    yield row("checked", checked)
    if is_ok:
        text = "yes: no violations" if is_executed else "yes, as far as the file alone shows: no violations"
        yield row("verified", text)
    else:
        yield violations_row(found.violations, len(found.violations), {})
    yield from labelled("note", found.notes)
    yield facts(
        verified=is_ok if is_executed or not is_ok else None,
        violations=list(found.violations),
        n_violations=len(found.violations),
        notes=list(found.notes) or None,
        path=str(path),
    )


def describe_gap(plan: Plan, lacking: PointToPointGap, what: str, rates: Rates = AS_THEY_COME) -> str:
    """Return the warning that `what` moves data between ranks where the plan uses switches."""
    known = "by how much is not known"
    if lacking.algbw is not None:
        in_steps = any(isinstance(entry.schedule, StepSchedule) for entry in plan.entries)
        what_reaches = "transfers that no step delays" if in_steps else "these trees"
        known = f"{what_reaches} reach {rates.exact(lacking.algbw)}, each transfer on a shortest path"
    return (
        f"{what} sends point to point where the plan leaves copies or reductions to switches, so the plan's "
        f"{rates.exact(plan.algbw)} do not hold for it; {known}"
    )


def gap_values(lacking: PointToPointGap | None) -> dict[str, object]:
    """Copies and reductions that a plan leaves to the network, for JSON."""
    sends: dict[str, object] = {"in_network_sends": 0 if lacking is None else lacking.n_sends}
    return sends if lacking is None else {**sends, **rate_values("point_to_point_algbw", lacking.algbw)}


def lower_rows(
    plan: Plan, results: Sequence[Lowered], places: Sequence[Path | None], target: Format
) -> Iterator[Row]:
    """View of ``lower``: what was written, how it was checked, what it supports, how to load it."""
    first = results[0]
    runtime = f"the {first.dialect} runtime" if first.dialect else first.loading.runtime.split(" (")[0]
    contents = ", ".join(counted(count, noun) for noun, count in first.counts)
    yield row("written", f"{places[0] or ''}: {target.name} for {first.dialect or runtime}, {contents}")
    yield row("checked", f"{first.checked}; not yet loaded by {runtime}")
    if first.group is not None:
        ranks = listing(first.group.ranks, _MOST_RANKS)
        yield row(
            "group",
            f"{first.group.number} of {plan.collective.n_groups}: for a communicator of "
            f"{counted(len(first.group.ranks), 'rank')}, the plan's {ranks} in this order; "
            "no other loads it",
        )
    yield from _size_rows(first)
    yield from _loading_rows(first.loading)
    yield from _notes_of(plan, first, target)
    for result, place in zip(results[1:], places[1:], strict=True):
        assert result.group is not None
        ranks = listing(result.group.ranks, _MOST_RANKS)
        yield row("written", f"{place or ''}: group {result.group.number}, the plan's {ranks}")
        yield from labelled("warning", result.cautions)


def _size_rows(result: Lowered) -> Iterator[Row]:
    """The sizes that runtimes run with the file, and what others would cost."""
    if result.plan_chunks is not None and result.n_chunks != result.plan_chunks:
        text = f"{result.n_chunks} instead of {result.plan_chunks}, which support more sizes: "
        yield row("chunks", f"{text}{float(result.rounding_loss):.2%} slower (--chunks plan keeps them)")
    texts = [
        f"{f'with {one.selector}: ' if number else ''}{one.summary} ({one.rule})"
        for number, one in enumerate(result.supported)
    ]
    if (better := result.friendlier) is not None:
        cost = f"{float(better.loss):.2%} slower or more" if better.loss else "no slower by their bound"
        texts.append(
            f"{counted(better.trees, 'tree')} per root (solve --trees {better.trees}) would support "
            f"{better.n_supported}: {cost}"
        )
    yield row("supported", "\n".join(texts) or None)


def _loading_rows(loading: Loading, start: str = "") -> Iterator[Row]:
    """Rows on what to run and set, how to check it, and which calls the runtime does not support."""
    lines = (*loading.prepare, *(f"{name}={value}" for name, value in loading.environment), *loading.code)
    lines = (start, *loading.code) if start else lines
    yield row("not supported", loading.fallback)
    first = f"{loading.runtime}{':' if lines else ''}"
    yield row("how to load", "\n".join([first, *(f"    {one}" for one in lines)]))
    yield row("how to check", loading.check)


def _notes_of(plan: Plan, result: Lowered, target: Format) -> Iterator[Row]:
    yield from labelled("warning", result.cautions)
    if result.instances > 1:
        yield row("instances", f"{result.instances} of the schedule, each with its part of the data")
    if result.carried_algbw is not None:
        # here, because other commands need no formats
        from treadle.formats.selection.block_rate import BLOCK_BYTES_PER_S

        carried, block = float(result.carried_algbw) / 1e9, BLOCK_BYTES_PER_S / 1e9
        text = f"its thread blocks carry {carried:.4g} GB/s algbw at {block:g} GB/s each"
        yield row("note", f"{text} (a channel of NCCL's slowest preset)")
    if result.shortfall is not None:
        yield row("note", describe_gap(plan, result.shortfall, "the file"))
    if _passes_no_hosts(plan) and not target.holds_routes:
        yield row("note", "the file holds no routes: NICs need them too (treadle routes PLAN -o FILE)")


def _passes_no_hosts(plan: Plan) -> bool:
    """Whether a plan has routes that pass no host, so that NICs need them too."""
    schedule = plan.entries[-1].schedule
    if not isinstance(schedule, RouteSchedule | TimedRoutes):
        return False
    routes = routes_in(schedule, plan.algorithm)
    return not hosts_passed(plan.topology, routes.path_offset, routes.path_links).size


def lowered_values(result: Lowered, path: Path | None, rank: int | None) -> dict[str, object]:
    """One runtime file for JSON: contents, chunks, sizes, checks and loading."""
    group, loading, better = result.group, result.loading, result.friendlier
    rounding = None if result.plan_chunks is None else float(result.rounding_loss)
    served = [
        {"by": one.selector.value, "rule": one.rule, "sizes_bytes": list(one.sizes)}
        for one in result.supported
    ]
    return dict(
        facts(
            gap_values(result.shortfall),
            {f"{noun.replace(' ', '_')}s": count for noun, count in result.counts},
            rate_values("thread_blocks_algbw", result.carried_algbw),
            group=group and group.number,
            group_ranks=group and list(group.ranks),
            profile=result.dialect or None,
            judged=result.verdict.check.value,
            checked=result.checked,
            interpreted=result.is_executed,
            operations=result.n_operations,
            chunks=result.n_chunks,
            plan_chunks=result.plan_chunks,
            rounding_loss=rounding,
            served_sizes_bytes=list(result.supported[0].sizes) if served else None,
            served=served or None,
            friendlier_trees=better
            and {
                "trees_per_root": better.trees,
                "served_sizes": better.n_supported,
                "loss_at_least": float(better.loss),
            },
            cautions=list(result.cautions),
            prepare=list(loading.prepare),
            environment=dict(loading.environment),
            code=list(loading.code),
            check=loading.check,
            rank=rank,
            loaded_by_runtime=False,
            path=None if path is None else str(path),
        ).facts
    )


def lower_set_rows(plan: Plan, sets: Sequence[tuple[LoweredSet, SavedSet]]) -> Iterator[Row]:
    """View of ``lower`` of a plan with several size ranges."""
    # here, because other commands need no formats
    from treadle.lowering.ranges import format_range

    values = []
    for made, saved in sets:
        loading = saved.delivery.loading
        kept = len(saved.texts) - len(made.files_by_range)
        others = f", next to {counted(kept, 'file')} of other plans" if kept else ""
        count, runtime = counted(len(made.files_by_range), "file"), loading.runtime
        yield row(
            "written", f"{saved.folder}: {count} of {made.format} for {made.dialect or runtime}{others}"
        )
        followed = "the choice was followed at both ends of each range"
        yield row("checked", f"{made.ranges[0].made.checked}; {followed}; not yet loaded by {runtime}")
        for one in sorted(made.ranges, key=lambda one: (one.text.min_bytes, one.text.fills_in)):
            text, served = one.text, one.made.supported[0]
            parts = (one.algorithm, one.protocol, counted(text.n_chunks, "chunk"))
            named = ", ".join(part for part in parts if part)
            if text.fills_in:
                yield row("", f"otherwise {named}: {served.rule}\n{text.file}")
            else:
                yield row("range", f"{one.sizes}: {named}\n{text.file}\n{served.summary} ({served.rule})")
        for first, last, why in made.left_out:
            yield row("not supported", f"{format_range(first, last)}: {why}")
        yield from _loading_rows(loading, f"sh {saved.folder}/load.sh COMMAND...")
        cautions = [caution for one in made.ranges for caution in one.made.cautions]
        yield from labelled("warning", dict.fromkeys(cautions))
        lacking = next((one.made.shortfall for one in made.ranges if one.made.shortfall is not None), None)
        if lacking is not None:
            yield row("note", describe_gap(plan, lacking, "some file"))
        values.append(_set_values(made, saved))
    yield facts({**throughput(plan), **gap_values(None)}, format=sets[0][0].format, sets=values)


def _set_values(made: LoweredSet, saved: SavedSet) -> dict[str, object]:
    loading = saved.delivery.loading
    return {
        "folder": str(saved.folder),
        **({"profile": made.dialect} if made.dialect else {}),
        "ranges": [
            {
                **fields_of(one.text, "file", "min_bytes", "max_bytes", "fills_in"),
                "algorithm": one.algorithm,
                **({"protocol": one.protocol} if one.protocol else {}),
                "chunks": one.text.n_chunks,
                "served_sizes_bytes": list(one.made.supported[0].sizes),
                **gap_values(one.made.shortfall),
            }
            for one in made.ranges
        ],
        "left_out": [
            {"min_bytes": first, "max_bytes": last, "reason": why} for first, last, why in made.left_out
        ],
        "files": [name for name, _ in saved.delivery.files],
        "environment": dict(loading.environment),
        "code": list(loading.code),
        "check": loading.check,
        "loaded_by_runtime": False,
    }
