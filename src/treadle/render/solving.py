"""Views of ``solve``, ``bound``, ``pareto`` and ``repair``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from treadle.inputs.problem import format_exact
from treadle.render.names import describe_links
from treadle.render.problems import (
    assumption,
    below,
    both_values,
    bound_rows,
    bound_values,
    certificate_values,
    describe_certificate,
    expectation_rows,
    format_topology,
    group_rows,
    library_rows,
    problem_rows,
    range_of_set,
    rate_rows,
    saturated_links,
    seconds_row,
    shape_row,
    throughput,
    throughput_rows,
    verified_row,
    written_row,
)
from treadle.render.quantities import AS_THEY_COME, Rates, busbw, counted, percent
from treadle.render.rows import (
    Column,
    Later,
    Row,
    Rows,
    Table,
    facts,
    fields_of,
    file_row,
    framed,
    given,
    labelled,
    rate_values,
    row,
    table_of,
    values,
)
from treadle.schedulers.shared_rates import shared_rates
from treadle.schedules.collective import Collective, busbw_factor
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.steps.steps import StepSchedule
from treadle.spelling import listing
from treadle.topologies.topology import Topology
from treadle.units import format_fraction, format_size

if TYPE_CHECKING:
    from treadle.api.harden import HardenedRow
    from treadle.api.repair import RepairResult
    from treadle.api.routes import RoutesResult
    from treadle.schedulers.bound_results import BoundResult, CutOffGroupError
    from treadle.schedulers.jobs.job_plans import JobsResult
    from treadle.schedulers.repairing.repair_candidates import CandidateSet
    from treadle.schedulers.sizes.size_sets import SizedChoice, SizeSet
    from treadle.schedulers.solving import SolveResult
    from treadle.schedulers.tree_front import TreeFront, TreePoint
    from treadle.schedules.jobs import Job
    from treadle.schedules.plan import Plan, PlanEntry
    from treadle.simulation.size_bounds.size_certificate import SizeBound
    from treadle.synthesis.steps.exact import ParetoFront, ParetoPoint

_SHOWN_JOBS, _SHOWN_NAMES = 20, 4


def solve_rows(
    result: SolveResult,
    rates: Rates = AS_THEY_COME,
    *,
    mesh: str | None = None,
    axes: str | None = None,
    path: object = None,
    explain: bool = False,
) -> Rows:
    """View of ``solve`` of one schedule."""
    topology, collective, bound = result.topology, result.collective, result.bound
    yield from problem_rows(topology, collective, mesh, axes)
    if bound is not None:
        shared = None if collective.blocks is None else shared_rates(result)
        yield from bound_rows(topology, collective, bound, rates, shared)
        yield from expectation_rows(topology, collective, rates)
    yield from schedule_rows(result, rates)
    if explain:
        yield from _packing_rows(result)
    yield verified_row(result.report)
    yield from labelled("note", result.notes)
    yield seconds_row(result.seconds, explain=explain)
    yield written_row(path, result.seconds)


def schedule_rows(result: SolveResult, rates: Rates) -> Iterator[Row]:
    """The schedule: its throughput, gap and shape."""
    plan, bound, pipelined = result.plan, result.bound, result.report.pipelined_algbw
    limit, rate = None if bound is None else bound.algbw, pipelined or plan.algbw
    gap = below(rate, limit, is_tight=bound is None or bound.is_tight)
    gap = "optimal" if result.is_optimal else gap
    found = {"algorithm": plan.algorithm, **throughput(plan, pipelined), "optimal": result.is_optimal}
    yield from throughput_rows(plan.collective, plan.algbw, pipelined, rates, found, gap=gap)
    if limit is not None:
        yield facts({"gap": float(1 - rate / limit)})
    schedule = plan.entries[-1].schedule
    yield shape_row(schedule, plan.algorithm, report=result.report, per_root=result.trees_per_root)
    if saturated := saturated_links(plan):
        yield row("saturated", describe_links(plan.topology, saturated, rates))
    if result.traffic is not None:
        before, after = result.traffic.traffic_before, result.traffic.traffic_after
        saved = f" ({1 - after / before:.1%} less)" if before else ""
        text = f"{after:.4g} x size over all links after pruning, {before:.4g} before{saved}"
        yield row("traffic", text, traffic_before=before, traffic_after=after)
    yield facts(
        trees_per_root=result.trees_per_root,
        exact_trees_per_root=result.exact_trees_per_root,
        exact_trees=result.exact_trees,
        alternatives=[
            given(option=one.option, gap=float(one.loss), trees_per_root=one.trees_per_root, trees=one.trees)
            for one in result.alternatives
        ]
        or None,
        packer=result.packer,
        packing=None
        if result.packer is None
        else [{"packer": str(one.packer), "outcome": one.outcome} for one in result.packing],
        decomposition=result.decomposition or None,
        height_lower_bound=result.height_bound,
        notes=list(result.notes),
        time_limit_reached=result.is_late,
    )


def _packing_rows(result: SolveResult) -> Iterator[Row]:
    """Rows on the packer of ForestColl's trees, the other packers, and the height bound."""
    if result.decomposition:
        yield row("tight cuts", result.decomposition)
    if not isinstance(result.plan.entries[-1].schedule, FactoredSchedule):
        attempts = [f"{one.packer}: {one.outcome}" for one in result.packing]
        packer = result.packer or "none: this construction does not pack trees per root"
        yield row("packer", "\n".join([str(packer), *(attempts if result.packer is not None else ())]))
    if result.report.height_max is not None and result.height_bound is not None:
        most = "" if result.report.height_is_exact else "at most "
        yield row("height", f"{most}{result.report.height_max}; lower bound {result.height_bound}")


def bound_result_rows(
    result: BoundResult,
    rates: Rates = AS_THEY_COME,
    *,
    mesh: str | None = None,
    axes: str | None = None,
) -> Rows:
    """View of ``bound``."""
    topology, collective, bound = result.topology, result.collective, result.bound
    yield from problem_rows(topology, collective, mesh, axes)
    shared = shared_rates(result)
    if shared is None and result.rate is not None:
        yield Row(None, None, Later(bound_values, bound, topology, collective))
    else:
        yield from bound_rows(topology, collective, bound, rates, shared)
    yield from labelled("note", result.notes if shared is not None else ())
    if result.rate is not None:
        yield from rate_rows(result.rate, rates, is_alone=shared is None)
    if not result.at_sizes:
        yield from expectation_rows(topology, collective, rates)
    yield from _size_rows(result, rates)
    if mesh is not None and result.groups is None and result.rate is None:
        # axes over all ranks make one group, whose rate alone is that of all groups together
        yield facts(rate_values("alone", result.algbw), rate_values("together", result.algbw))
    yield seconds_row(result.seconds)


def _size_rows(result: BoundResult, rates: Rates) -> Rows:
    """The lower bound on the time at each size, by its proofs."""
    if not result.at_sizes:
        return
    # here, as these modules are many
    from treadle.simulation.size_bounds.problem_bounds import PROOF_KINDS, size_bounds_summary, size_reasons

    assert result.cost_model is not None
    yield row("cost model", result.cost_model.name)
    factor = float(busbw_factor(result.collective.kind, result.collective.group_size))
    found = {proof.certificate.kind for one in result.at_sizes for proof in one.proofs}
    kinds = [kind for kind in PROOF_KINDS if kind in found]

    def busbw_at(one: SizeBound) -> float:
        return one.size_bytes / float(one.time) * factor if one.time else 0.0

    def proved(one: SizeBound, kind: str) -> str | None:
        return None if (time := one.time_by(kind)) is None else f"{float(time) * 1e6:.2f}"

    columns: list[Column[SizeBound]] = [
        ("size", lambda one: format_size(one.size_bytes)),
        ("bound (us)", lambda one: f"{float(one.time) * 1e6:.2f}"),
        (f"busbw ({rates.column})", lambda one: rates.number(busbw_at(one), 3)),
        ("by", lambda one: one.reason),
        *((kind, partial(proved, kind=kind)) for kind in kinds),
    ]
    if any(one.protocol for one in result.at_sizes):
        columns.append(("protocol", lambda one: one.protocol))
    yield from framed(table_of(result.at_sizes, columns, 0, [heading for heading, _ in columns[4:]]))
    for kind, reason in size_reasons(result.topology, result.collective, result.at_sizes):
        yield row(kind, reason)
    yield facts(size_bounds_summary(result.at_sizes, result.cost_model))
    yield from library_rows(result.topology, result.collective, [one.size_bytes for one in result.at_sizes])


def cut_off_rows(
    error: CutOffGroupError, rates: Rates, *, mesh: str | None = None, axes: str | None = None
) -> Iterator[Row]:
    """A group that is cut off, and what all groups reach where compute nodes forward."""
    yield from problem_rows(error.problem.topology, error.problem.collective, mesh, axes)
    zero = [rate_values(key, Fraction(0)) for key in ("optimal_algbw", "optimal_busbw", "together", "alone")]
    cut = {"witness": {"kind": "cut", "nodes": list(error.cut)}, "cut_off_group": error.group}
    yield Row("optimum", "0: a group is cut off", facts(*zero, cut).facts)
    if (forwarding := error.forwarding) is not None:
        text = f"{rates.both(forwarding.algbw, forwarding.collective)} of each group with --forward"
        yield Row("", text, rate_values("forwarding", forwarding.algbw))


def route_rows(result: RoutesResult, rates: Rates = AS_THEY_COME) -> Iterator[Row]:
    """View of ``solve --routes``."""
    plan, best, gap = result.plan, dict[str, object](), ""
    yield from problem_rows(plan.topology, plan.collective)
    if result.bound is not None:
        is_met = result.algbw == result.bound
        share = float(1 - result.algbw / result.bound)
        best = {"optimal_algbw_bytes_per_s": float(result.bound), "gap": share}
        best |= {"optimal": True if is_met else None}
        name, known = ("optimum", "(exact)") if is_met else ("upper bound", "(may not be tight)")
        yield row(name, f"{rates.both(result.bound, plan.collective)} {known}")
        gap = f", {below(result.algbw, result.bound, is_tight=False)}"
    found = both_values(result.algbw, plan.collective) | best
    yield Row("schedule", f"{rates.both(result.algbw, plan.collective)}{gap}", found, is_key=True)
    shape = shape_row(result.schedule, plan.algorithm)
    yield Row("routes", shape.text, {**shape.facts, "layers": result.schedule.n_layers})
    yield row("verified", verified_row(result.report).text, verified=result.report.is_ok)
    yield from labelled("note", result.notes)
    yield facts(notes=list(result.notes), time_limit_reached=result.is_late)
    yield seconds_row(result.seconds)


# Sets by size: ``solve --size`` and ``solve --retune``.


def size_set_rows(result: SizeSet, rates: Rates = AS_THEY_COME, *, path: object = None) -> Rows:
    """View of size ranges, the schedule of each, and the uncertain choices."""
    plan, model = result.plan, result.cost_model
    yield from problem_rows(plan.topology, plan.collective)
    if result.bound is not None:
        for one in bound_rows(plan.topology, plan.collective, result.bound, rates):
            yield Row(one.label, one.text)
    yield row("cost model", model.name, cost_model=model.name, cost_model_source=model.source)
    algbws = [one.size_bytes / one.seconds for one in result.rows]
    shares = [float(one.bound.time) / one.seconds for one in result.rows if one.bound is not None]
    yield row("schedule", range_of_set(len(plan.entries), algbws, rates, *shares), key=True)
    text = f"{counted(result.n_candidates, 'candidate')}, all verified, {result.n_timed} of them simulated"
    yield row("", text, candidates=result.n_candidates, timed=result.n_timed)
    yield row("not run", ", ".join(result.left_out) or None, left_out=list(result.left_out))
    cells = [_range_cells(entry, result) for entry in plan.entries]
    headings = ("sizes", "schedule", "slices", "simulated us", "best baseline", "% bound")
    yield from framed(Table(headings, cells, 2, ("slices", "best baseline")))
    if result.worst_ratio > 1:
        text = f"{result.worst_ratio:.3f} times the fastest candidate at worst, {result.mean_ratio:.3f} on"
        yield row("loss", f"{text} average over {counted(len(result.rows), 'size')}")
    yield row("note", _doubt_text(result))
    every = counted(len(result.reports), "schedule")
    yield row("verified", f"yes: {every}, by an independent verifier")
    yield facts(_size_set_values(result))
    yield from library_rows(plan.topology, plan.collective, [one.size_bytes for one in result.rows])
    yield seconds_row(result.seconds)
    yield written_row(path, result.seconds)


def _range_cells(entry: PlanEntry, result: SizeSet) -> tuple[str, ...]:
    first, last = entry.min_bytes, entry.max_bytes
    end = inf if last is None else last
    rows = [one for one in result.rows if first <= one.size_bytes <= end]
    if last is None:
        sizes = f"{format_size(first)} and more" if first else "all"
    else:
        sizes = f"{format_size(first)} to {format_size(last)}" if first else f"up to {format_size(last)}"
    times = [rows[0].seconds * 1e6, rows[-1].seconds * 1e6] if rows else []
    # the baseline that comes nearest, and how near the bound of each size the range comes
    near = [(one.baseline_seconds / one.seconds, one.baseline) for one in rows if one.baseline_seconds]
    shares = sorted(float(one.bound.time) / one.seconds for one in rows if one.bound is not None)
    return (
        sizes,
        entry.title,
        _span([str(number) for number in sorted({one.slices for one in rows})]),
        _span([f"{value:.4g}" for value in dict.fromkeys(times)]),
        f"{min(near)[1]} {min(near)[0]:.2f}x" if near else "-",
        _span(list(dict.fromkeys(f"{share:.0%}" for share in (*shares[:1], *shares[-1:])))),
    )


def _span(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}" if texts else "-"


def _doubt_text(result: SizeSet) -> str:
    if not result.cost_model.bands:
        return "the cost model has no error ranges, so how certain these choices are is not known"
    if not result.doubts:
        return "no choice changes within the error ranges of the cost model"
    most = max(result.doubts, key=lambda one: one.gain)
    return (
        f"{counted(len(result.doubts), 'choice')} may change within the error ranges of the cost model, most "
        f"at {format_size(most.size_bytes)}: {most.other} would save {most.gain:.1%} of {most.chosen} "
        f"({most.corner})"
    )


def _size_set_values(result: SizeSet) -> dict[str, object]:
    plan = result.plan
    return {
        "algorithm": plan.algorithm,
        **both_values(plan.algbw, plan.collective),
        "entries": [
            {
                **fields_of(entry, "min_bytes", "max_bytes", "algorithm", "options"),
                "pipelining": [fields_of(one, "min_bytes", "slices", "protocol") for one in entry.pipelining],
            }
            for entry in plan.entries
        ],
        "rows": [_choice_values(one) for one in result.rows],
        "worst_ratio": result.worst_ratio,
        "mean_ratio": result.mean_ratio,
        "doubts": [
            {
                "size_bytes": one.size_bytes,
                "schedule": one.chosen,
                **fields_of(one, "other", "gain", "corner"),
            }
            for one in result.doubts
        ],
        "verified": all(report.is_ok for report in result.reports),
        "violations": [str(one) for report in result.reports for one in report.violations],
        "n_violations": sum(report.n_violations for report in result.reports),
        "time_limit_reached": result.is_late,
    }


def _choice_values(one: SizedChoice) -> dict[str, object]:
    from treadle.simulation.size_bounds.problem_bounds import size_bound_values

    known = one.baseline_seconds is not None
    return {
        "size_bytes": one.size_bytes,
        "schedule": one.title,
        "slices": one.slices,
        "time_s": one.seconds,
        "best_time_s": one.best_seconds,
        **({"protocol": one.protocol} if one.protocol else {}),
        **({"baseline": one.baseline, "baseline_time_s": one.baseline_seconds} if known else {}),
        **size_bound_values(one.bound),
    }


# Concurrent collectives: ``--jobs FILE``.


def jobs_rows(result: JobsResult, rates: Rates = AS_THEY_COME, *, folder: object = None) -> Rows:
    """The rate of each job alone and concurrently, and what limits them."""
    from treadle.schedulers.jobs.job_plans import MODEL

    fabric = result.topology
    yield row("topology", format_topology(fabric), key=True, topology=fabric.name)
    yield row("jobs", f"{len(result.jobs)} concurrent; {assumption(MODEL)}", model=MODEL)
    yield from _job_rows(result, rates)
    most = max(job.weight for job in result.jobs)
    common = f"{rates(result.common_rate * most)} for the largest weight (exact)"
    yield row("optimum", common, common_rate_exact=format_exact(result.common_rate))
    if result.loss:
        taken, needed = _count(max(result.grids)), _count(max(result.exact_grids))
        text = (
            f"{format_fraction(result.loss)} below the optimum, with up to {taken} trees per root or chunks"
        )
        yield row("schedule", f"{text} per unit of demand; the optimum takes {needed}")
    levels, texts = [], []
    for level in result.levels:
        links = [fabric.link_name(link) for link, length in enumerate(level.lengths) if length]
        limited = [result.jobs[job].name for job in level.limited]
        levels.append({"rate_exact": format_exact(level.rate), "limited": limited, "links": links})
        texts.append(f"of {listing(limited, 3)}: {listing(links, 3)}")
    yield row("bottleneck", "\n".join(texts) or None, levels=levels)
    if result.report is not None:
        best = "; no rates are fairer" if result.report.is_max_min else ""
        found = {"verified": result.report.report.is_ok, "optimal": result.report.is_max_min}
        text = f"yes: every plan, and the loads of all together{best}"
        yield Row("verified", text, {**found, "gap": float(result.loss)})
    yield seconds_row(result.seconds)
    yield file_row("plan", folder, "plan", more=f": {counted(len(result.plans), 'plan')} and jobs.json")


def _job_rows(result: JobsResult, rates: Rates) -> Rows:
    """The rates of each job alone and concurrent with the others."""
    each = list(zip(result.jobs, result.alone, result.together, strict=True))
    columns: list[Column[tuple[Job, Fraction, Fraction]]] = [
        ("job", lambda one: one[0].name),
        ("collective", lambda one: one[0].collective.kind.value),
        ("ranks", lambda one: one[0].collective.n_ranks),
        ("weight", lambda one: _weight_text(one[0].weight)),
        ("alone", lambda one: rates(one[1])),
        ("concurrent", lambda one: rates(one[2])),
        ("share", lambda one: f"{float(one[2] / one[1]):.3g}"),
    ]
    yield row(None, "")
    yield table_of(each[:_SHOWN_JOBS], columns, 2, ("weight", "share"))
    if len(each) > _SHOWN_JOBS:
        yield row(None, f"and {counted(len(each) - _SHOWN_JOBS, 'more job')} (see --json)")
    yield row(None, "")
    planned = zip(result.reached, result.grids, strict=True) if result.plans else [None] * len(each)
    yield facts(
        jobs=[
            {
                "name": job.name,
                "collective": job.collective.kind.value,
                "ranks": job.collective.n_ranks,
                "weight_exact": format_exact(job.weight),
                **rate_values("alone", alone),
                **rate_values("together", together),
                **({} if plan is None else rate_values("reached", plan[0])),
                **({} if plan is None else {"trees_per_root_exact": format_exact(plan[1])}),
            }
            for (job, alone, together), plan in zip(each, planned, strict=True)
        ]
    )


def _weight_text(weight: Fraction) -> str:
    return str(weight) if weight.denominator == 1 and weight < 10**6 else f"{float(weight):.4g}"


def _count(trees: Fraction) -> str:
    """Trees per root, which are fewer than one where groups have more ranks."""
    return str(ceil(trees)) if trees < 10**9 else f"{float(trees):.2g}"


# Fronts: ``pareto``.


def front_rows(topology: Topology, collective: Collective, front: ParetoFront) -> Rows:
    """Step schedules of which none is better in steps and in bandwidth."""
    yield from problem_rows(topology, collective)
    text = f"{front.least_steps} steps; {front.least_ratio} rounds per chunk"
    least = {"least_steps": front.least_steps, "least_rounds_per_chunk": format_exact(front.least_ratio)}
    yield Row("lower bound", text, least)
    yield row(None, "")
    columns: list[Column[ParetoPoint]] = [
        ("steps", lambda one: one.steps),
        ("rounds / chunks", lambda one: one.ratio),
        ("chunks", lambda one: one.chunks),
        ("rounds", lambda one: ",".join(map(str, one.rounds))),
        ("proved optimal", lambda one: "yes" if one.is_proved else "no"),
    ]
    yield table_of(front.points, columns, 0, ("chunks",))
    if not front.points:
        yield row(None, "no schedule within these limits")
    yield facts(
        points=[
            {
                "steps": one.steps,
                "rounds": list(one.rounds),
                "chunks_per_shard": one.chunks,
                "rounds_per_chunk": format_exact(one.ratio),
                "proved": one.is_proved,
            }
            for one in front.points
        ],
        excluded=[
            {
                "steps": one.steps,
                "total_rounds": one.total_rounds,
                "chunks_per_shard": one.chunks,
                "status": one.status.value,
                "reason": one.reason,
            }
            for one in front.excluded
        ],
    )


def tree_front_rows(topology: Topology, collective: Collective, front: TreeFront) -> Rows:
    """Throughput of trees by height and number per root."""
    yield from problem_rows(topology, collective)
    best = front.optimal_algbw
    yield Row("optimum", AS_THEY_COME.both(best, collective), rate_values("optimal_algbw", best))
    yield row(None, "")
    columns: list[Column[TreePoint]] = [
        ("height", lambda one: one.height),
        ("trees", lambda one: one.trees_per_root),
        ("algbw", lambda one: AS_THEY_COME(one.algbw)),
        ("% optimum", lambda one: percent(one.algbw / best, sign="%")),
        ("bound at height", lambda one: None if one.most is None else AS_THEY_COME(one.most)),
        ("certified", lambda one: "yes" if front.certified(one) else "no"),
    ]
    yield table_of(front.points, columns, 0, ("bound at height",))
    points = [
        {
            "height": one.height,
            "trees_per_root": one.trees_per_root,
            **rate_values("algbw", one.algbw),
            "share_of_bound": float(one.algbw / best),
            "most_bytes_per_s": None if one.most is None else float(one.most),
            "certified": front.certified(one),
        }
        for one in front.points
    ]
    yield facts(points=points)


# Failures: ``repair`` and ``repair --every-failure``.


def repair_rows(result: RepairResult, rates: Rates = AS_THEY_COME, *, path: object = None) -> Rows:
    """View of a repair: the failure, its cost, and the new plan."""
    old, new, solved = result.old, result.new, result.solved
    yield from problem_rows(new.topology, new.collective)
    ranks = f", {counted(len(result.lost_ranks), 'rank')}" if result.lost_ranks else ""
    names = listing([*result.links, *result.nodes], _SHOWN_NAMES)
    text = f"{names}: {counted(result.lost_links, 'directed link')}"
    yield row(
        "failed",
        f"{text}{ranks} lost",
        key=True,
        failed_links=list(result.links),
        failed_nodes=list(result.nodes),
        lost_links=result.lost_links,
        lost_ranks=list(result.lost_ranks),
    )
    before = {"topology": old.topology.name, "ranks": old.collective.n_ranks, "algorithm": old.algorithm}
    known = {} if old.certificate is None else {"witness": certificate_values(old.certificate, old.topology)}
    kinds = {} if result.subproblem_classes[0] is None else {"piece_kinds": result.subproblem_classes[0]}
    yield Row(
        "before", _optimum_text(old, rates), {"before": {**before, **throughput(old), **known, **kinds}}
    )
    yield row("after", _optimum_text(new, rates))
    yield row(
        "loss",
        _loss_text(result),
        throughput_loss=float(result.throughput_loss),
        optimum_loss=None if result.optimum_loss is None else float(result.optimum_loss),
        lone_bottleneck=result.lone_bottleneck,
    )
    if result.subproblem_classes[0] is not None and result.subproblem_classes[1] is not None:
        yield row("", "classes of subproblems: {} before, {} after".format(*result.subproblem_classes))
    if result.candidates is not None:
        yield _candidates_row(result.candidates)
    if solved.bound is not None:
        yield facts(bound_values(solved.bound, new.topology, new.collective))
    if new.collective.blocks is not None and (shared := shared_rates(solved)) is not None:
        yield facts(values(group_rows(new.topology, new.collective, shared, rates)))
    yield from schedule_rows(solved, rates)
    yield verified_row(solved.report)
    yield from labelled("note", solved.notes)
    yield seconds_row(result.seconds)
    yield written_row(path, result.seconds)


def _optimum_text(plan: Plan, rates: Rates) -> str:
    """A plan's optimum and bottleneck."""
    best = plan.optimal_algbw
    if best is None or plan.certificate is None:
        return f"{rates.both(plan.algbw, plan.collective)}, no bound known"
    in_turn = " step by step" if isinstance(plan.entries[-1].schedule, StepSchedule) else ""
    loss = format_fraction(1 - plan.algbw / best)
    gap = "" if plan.algbw == best else f"; the plan is {loss} below it{in_turn}"
    bottleneck = describe_certificate(plan.topology, plan.collective, plan.certificate, best, rates)
    return f"optimum {rates.both(best, plan.collective)}{gap}\nbottleneck {bottleneck}"


def _candidates_row(candidates: CandidateSet) -> Row:
    """Simulated times of all candidates, and why some have none."""
    texts = [
        f"simulated at {format_size(candidates.size_bytes)}: {candidates.old_seconds * 1e6:.1f} us before"
    ]
    entries: list[dict[str, object]] = []
    for one in candidates.outcomes:
        timed = one.seconds is not None and one.algbw is not None
        outcome = one.reason if one.seconds is None else f"{one.seconds * 1e6:.1f} us"
        texts.append(f"{one.algorithm}: {outcome}")
        entries.append(
            {
                "algorithm": one.algorithm,
                **({"time_s": one.seconds, "algbw_bytes_per_s": float(one.algbw or 0)} if timed else {}),
                **({"reason": one.reason} if one.reason else {}),
            }
        )
    known = {
        "size_bytes": candidates.size_bytes,
        "time_before_s": candidates.old_seconds,
        "contenders": entries,
    }
    return row("candidates", "\n".join(texts), contest=known)


def _loss_text(result: RepairResult) -> str:
    """Cost of the failure, in the optimum if both are known and in the plans' throughput."""
    text = f"{_share(result.throughput_loss)} of the plan's throughput"
    if result.optimum_loss is not None:
        more = f", {text}" if result.throughput_loss != result.optimum_loss else ""
        text = f"{_share(result.optimum_loss)} of the optimum{more}"
    if (name := result.lone_bottleneck) is not None:
        text += f"\n{name} alone limits the others; compare with --node {name}, which leaves it out"
    return text


def _share(loss: Fraction) -> str:
    """A share that is lost, or gained if it is negative."""
    return format_fraction(abs(loss)) + " more instead of less" * (loss < 0)


HARDEN_HEADINGS = ("failure", "algbw", "busbw", "optimum", "optimum\nloses", "plan\nloses", "CPU s", "plan")


def hardened_cells(one: HardenedRow, path: str, rates: Rates) -> tuple[str, ...]:
    """A failure's row of the table."""
    if one.result is None or one.loss is None:
        return one.failure.name, *("-" for _ in HARDEN_HEADINGS[1:])
    new = one.result.new
    optimum = "-" if new.optimal_algbw is None else rates(new.optimal_algbw)
    both = (rates(new.algbw), rates(busbw(new.algbw, new.collective)))
    both_losses = (one.optimum_loss, one.throughput_loss)
    losses = ("-" if loss is None else f"{float(loss):.1%}" for loss in both_losses)
    return one.failure.name, *both, optimum, *losses, f"{one.result.seconds['total']:.2f}", path or "-"


def hardened_values(one: HardenedRow, plan: str | None) -> dict[str, Any]:
    """A failure for JSON; `plan` is the name of the file with the plan for it."""
    found: dict[str, Any] = {"failure": one.failure.name, "kind": "node" if one.failure.is_node else "cable"}
    if one.result is None or one.loss is None:
        return {**found, "refusal": one.refusal, **({"late": True} if one.is_late else {})}
    solved, best = one.result.solved, one.optimum_loss
    found |= {**throughput(one.result.new), "optimal": solved.is_optimal, "verified": solved.report.is_ok}
    found |= {"loss": float(one.loss), **({} if best is None else {"optimum_loss": float(best)})}
    found |= {"throughput_loss": float(one.result.throughput_loss), "lost_ranks": list(one.result.lost_ranks)}
    found["seconds"] = one.result.seconds["total"]
    return found if plan is None else {**found, "plan": plan}


def hardened_rows(
    old: Plan, found: Sequence[dict[str, Any]], cells: Sequence[Sequence[str]], folder: object
) -> Rows:
    """View of the cost of each failure, on average and at worst."""
    yield from (Row(one.label, one.text) for one in problem_rows(old.topology, old.collective))
    yield from framed(Table(HARDEN_HEADINGS, cells, 1, ("CPU s", "optimum", "algbw")))
    failed = [one for one in found if "refusal" in one]
    losses: dict[tuple[float, ...], tuple[str, str]] = {}
    for key, of in (("optimum_loss", "the optimum"), ("throughput_loss", "the plan's throughput")):
        repaired = [one for one in found if key in one]
        if all_losses := tuple(float(one[key]) for one in repaired):
            # both losses are the same if the plan is optimal before and after
            name = f"{losses[all_losses][0]} and of {of}" if all_losses in losses else of
            losses[all_losses] = name, str(repaired[all_losses.index(max(all_losses))]["failure"])
    texts = [
        f"{sum(each) / len(each):.1%} of {of} on average over {counted(len(each), 'failure')}, "
        f"{max(each):.1%} at worst ({worst})"
        for each, (of, worst) in losses.items()
    ]
    yield row("loss", "\n".join(texts) or None)
    if failed:
        reasons = [f"{one['failure']}: {one['refusal']}" for one in failed]
        yield row("no plan", "\n".join([f"for {counted(len(failed), 'failure')}", *reasons]))
    yield row("plans", None if folder is None else f"{folder}; failures.json lists which is for what")
    yield facts(topology=old.topology.name, algorithm=old.algorithm, failures=list(found))
