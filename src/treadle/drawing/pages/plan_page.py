"""A plan as a page: what is claimed and why, where data go, how long it takes at every size."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, distinct
from treadle.context import Progress
from treadle.drawing.draw import CutDescription, describe_cut
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.plan_loads import busy_links
from treadle.drawing.tree_hops import links_by_hop, tree_depths
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.program.operation_lists import OperationKind
from treadle.program.program import Program
from treadle.schedulers.expectations import Expectations, expectations_of
from treadle.schedulers.solving import solve_problem
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction, ForestSchedule, Tree, Trees, TreeSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.simulation.cost_models import default_cost_model
from treadle.simulation.result import Simulation
from treadle.simulation.simulated_plans import SimulatedRow, SimulationRun, simulate_plan
from treadle.simulation.utilization_drawing import MAX_LANES, utilisation_over_time
from treadle.spelling import counted
from treadle.units import format_bandwidth, format_fraction, format_size
from treadle.verification.schedules import pipelined_algbw
from treadle.viz.fabric_layout import MOST_COLLAPSED

SHOWN_SIZE = "64M"
"""Largest number of ranks whose activity over time is shown."""


def page_of_result(result: object) -> str:
    """Write the report of a step, a sharding plan or a design; "" for a plan of a collective."""
    from treadle.finder.designing.design_result import DesignResult
    from treadle.parallelism.searching.parallel_result import ParallelizeResult
    from treadle.training.train_result import TrainResult

    if isinstance(result, TrainResult):
        from treadle.drawing.pages.step_page import step_page

        return step_page(result)
    if isinstance(result, ParallelizeResult):
        from treadle.drawing.pages.parallel_page import parallel_page

        return parallel_page(result)
    if isinstance(result, DesignResult):
        from treadle.drawing.pages.design_page import design_page

        return design_page(result)
    return ""


def check_same_problem(own: Plan, other: Plan) -> None:
    """Raise an error for plans of different problems."""
    for what, one, found in (
        ("collective", own.collective.kind.value, other.collective.kind.value),
        ("ranks", own.collective.n_ranks, other.collective.n_ranks),
    ):
        if one != found:
            raise FormatError(f"report: another plan has {what} {found}, expected {one} as the first")


def display_names(own: Plan, others: Sequence[Plan]) -> list[str]:
    """Return distinct names: algorithms, with the fabric where fabrics differ."""
    names: list[str] = []
    for plan in (own, *others):
        name = plan.algorithm
        if plan.topology.name != own.topology.name:
            name += f" on {plan.topology.name}"
        same = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({same + 1})" if same else name)
    return names


def static_values(plan: Plan, fabric: DrawnFabric) -> dict[str, object]:
    """Return the part of a report that needs no simulation."""
    busy = full = None
    with suppress(ScheduleError):  # several groups, or a timetable: loads are only simulated
        busy, full = busy_links(plan)
    words = _cut(plan)
    shown = plan.collective.ranks if plan.collective.n_ranks <= MOST_COLLAPSED else ()
    return {
        "title": f"{plan.collective.kind.value} on {plan.topology.name}",
        "lede": "" if words is None else words.words,
        "tiles": tiles(plan),
        "facts": _facts(plan, full),
        "fabric": fabric.values(),
        "marksOfRanks": [int(fabric.mark_of[node]) for node in shown],
        "ranks": [plan.topology.node_names[node] for node in shown],
        "load": None if busy is None or full is None else _loads(fabric, busy, full),
        "cut": None if words is None else _cut_values(fabric, words),
        "kinds": link_kinds(fabric, busy, full),
        "hops": _hops(plan),
    }


def tiles(plan: Plan, rows: Sequence[SimulatedRow] = ()) -> list[list[str]]:
    """Return the key facts: a value, its meaning, and whether it is good.

    `rows` are the simulated sizes, which a set by size is described by.
    """
    best = plan.optimal_algbw
    pipelined = pipelined_algbw(plan.topology, plan.collective, plan.entries[-1].schedule)
    rate = pipelined or plan.algbw
    in_turn = "" if rate == plan.algbw else f", {format_bandwidth(plan.algbw)} step by step"
    reached = [format_bandwidth(rate), f"algorithm bandwidth at large sizes{in_turn}", ""]
    if len(plan.entries) > 1:
        found = sorted(Fraction(row.algbw_bytes_per_s) for row in rows)
        span = [format_bandwidth(value) for value in (*found[:1], *found[-1:])]
        shares = sorted(Fraction(row.efficiency) for row in rows if row.efficiency is not None)
        reached = [" to ".join(span) or str(len(plan.entries)), "algorithm bandwidth, by size", ""]
        ends = " to ".join(map(format_fraction, (*shares[:1], *shares[-1:])))
        verdict = [ends, "of the bound of each size", ""]
    elif best is None:
        verdict = ["no bound", "nothing is proved of the best", ""]
    elif best == rate:
        verdict = ["optimal", "proved: no schedule is faster at large sizes", "good"]
    else:
        verdict = [format_fraction(rate / best), "of the proved bound", ""]
    switches = plan.topology.n_nodes - len(plan.topology.compute_nodes)
    what = f"ranks, {switches:,} switch{'' if switches == 1 else 'es'}" if switches else "ranks, no switch"
    return [
        reached,
        verdict,
        [f"{plan.collective.n_ranks:,}", what, ""],
        ["verified", "schedule and claims recomputed", "good"],
    ]


def _facts(plan: Plan, full: Any) -> list[list[str]]:
    topology, schedule = plan.topology, plan.entries[-1].schedule
    rows = [
        ["Algorithm", plan.algorithm],
        ["Fabric", f"{topology.n_nodes:,} nodes, {topology.n_links:,} links"],
    ]
    if plan.optimal_algbw is not None:
        rows.append(["Proved bound", format_bandwidth(plan.optimal_algbw)])
    if isinstance(schedule, ForestSchedule | FactoredSchedule):
        most = int(schedule.root_multiplicity.max())
        rows.append(["Trees a rank", f"{most:,} of equal weight"])
    if isinstance(schedule, GroupSchedule):
        rows.append(["Groups", f"{len(schedule.groups)} at once"])
    if full is not None:
        rows.append(["Busy all the time", f"{int(full.sum()):,} of {len(full):,} links"])
    if len(plan.entries) > 1:
        rows.append(["Schedules by size", f"{len(plan.entries)}; pictures show the one for large sizes"])
    return rows


def _loads(fabric: DrawnFabric, busy: Any, full: Any) -> dict[str, object]:
    lines = fabric.layout.lines
    return {
        "share": [round(float(busy[list(line.links)].max()), 4) for line in lines],
        "full": [int(full[list(line.links)].any()) for line in lines],
    }


def _cut_values(fabric: DrawnFabric, found: CutDescription) -> dict[str, object]:
    marks = fabric.layout.marks
    return {
        "words": found.words,
        "lines": sorted({abs(line) for line in fabric.lines_of(np.flatnonzero(found.crossing).tolist())}),
        "marks": [n for n, mark in enumerate(marks) if mark.nodes and found.inside[list(mark.nodes)].all()],
    }


def _hops(plan: Plan) -> list[int]:
    """Return the ranks that the first tree of rank 0 reaches at each hop; empty for plans without trees."""
    schedule = plan.entries[-1].schedule
    if not isinstance(schedule, ForestSchedule | FactoredSchedule):
        return []
    tree = next(iter(schedule.forests[-1].trees(int(np.flatnonzero(schedule.root_multiplicity)[0]))))
    return [int(number) for number in np.bincount(tree_depths(tree))]


def course_values(plan: Plan, fabric: DrawnFabric, size: int, run: SimulationRun) -> dict[str, object]:
    """Return the activity over time at one size."""
    values: dict[str, object] = {
        "size": format_size(size),
        "slices": run.last.options.slices,
        "timeline": timeline(run.last, fabric),
    }
    program = run.last.graph.program
    if isinstance(program, Program):  # of one group
        kind = plan.collective.kind
        seconds = arrivals(run.last, program)
        moving = seconds[seconds >= 0]
        low, most = (float(moving.min()), float(moving.max())) if moving.size else (0.0, 0.0)
        cells = np.where(seconds < 0, 0, np.round((seconds - low) / ((most - low) or 1) * 254) + 1)
        values["arrivals"] = {
            "rows": cells.shape[0],
            "columns": cells.shape[1],
            "from": low,
            "to": most,
            "cells": base64.b64encode(cells.astype(np.uint8).tobytes()).decode(),
            "what": WORDS[kind],
        }
    return values


# How data spread, as pictures one after another: hops of a tree, steps, links of a route

Frames = list[list[int]]

MOST_NUMBERS = 60_000
"""Lines named in all scenes of a page; about four bytes each."""


def scenes(plan: Plan, fabric: DrawnFabric) -> dict[str, object] | None:
    """Return the animation data of the fabric; None for plans of several groups.

    Returns
    -------
    mapping
        ``kind``: "tree", "step" or "route"; ``what``: words for the reader; ``roots``: for each rank its
        scenes as [label, frames], or, of routes, for each source and target a list of [label, frames];
        ``leftOut``: what does not fit, in words, or "".
    """
    schedule = plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule | FactoredSchedule):
        return _tree_scenes(schedule, fabric)
    if isinstance(schedule, StepSchedule):
        words = {Direction.REDUCE: "is summed up", Direction.BROADCAST: "spreads"}
        rows = [
            [[words[steps.direction], _step_frames(steps, root, fabric)] for steps in schedule.phases]
            for root in range(schedule.n_ranks)
        ]
        return _within("step", "sends of the data of a rank, step by step", rows)
    if isinstance(schedule, RouteSchedule | TimedRoutes):
        return _route_scenes(schedule.routes if isinstance(schedule, TimedRoutes) else schedule, fabric)
    if isinstance(schedule, ExchangeSchedule):
        rows = [
            [["its data", _step_frames(schedule.sends, root, fabric)]] for root in range(schedule.n_ranks)
        ]
        return _within("step", "sends of what a rank has for all others, step by step", rows)
    return None


def _tree_scenes(schedule: TreeSchedule, fabric: DrawnFabric) -> dict[str, object]:
    """Return the heaviest trees of each root, as many as fit."""
    n_ranks = schedule.forests[-1].n_ranks
    by_root = [
        [sorted(forest.trees(root), key=lambda tree: -tree.multiplicity) for forest in schedule.forests]
        for root in range(n_ranks)
    ]
    most = max(len(trees) for forests in by_root for trees in forests)
    rows: list[list[list[object]]] = [[] for _ in range(n_ranks)]
    used, place = 0, 0
    while place < most and used <= MOST_NUMBERS:
        for root, forests in enumerate(by_root):
            for forest, trees in zip(schedule.forests, forests, strict=True):
                if place < len(trees):
                    frames = _tree_frames(forest, trees[place], fabric)
                    used += sum(map(len, frames))
                    rows[root].append([_tree_words(forest, trees, place, len(forests)), frames])
        place += 1
    left_out = "" if place >= most else f"the heaviest {place} of {counted(most, 'tree')} a rank are shown"
    return {"kind": "tree", "what": "a tree of a rank's data, hop by hop", "roots": rows, "leftOut": left_out}


def _tree_words(forest: Trees, trees: Sequence[Tree], place: int, n_forests: int) -> str:
    units = sum(tree.multiplicity for tree in trees)
    share = 100 * trees[place].multiplicity / units
    way = "" if n_forests == 1 else " sums up" if forest.direction is Direction.REDUCE else " spreads"
    return f"tree {place + 1} of {len(trees)}{way}: {share:.3g}% of its data"


def _tree_frames(forest: Trees, tree: Tree, fabric: DrawnFabric) -> Frames:
    frames: list[dict[int, None]] = [{} for _ in range(max(tree_depths(tree)))]
    for depth, links in links_by_hop(forest, tree):
        frames[depth - 1].update(dict.fromkeys(fabric.lines_of(links)))
    if forest.direction is Direction.REDUCE:
        frames.reverse()  # the deepest send first
    return [list(frame) for frame in frames]


def _step_frames(steps: Steps, root: int, fabric: DrawnFabric) -> Frames:
    is_own = np.asarray(steps.homes)[steps.shard] == root
    frames: Frames = []
    for step in range(steps.n_steps):
        span = steps.span(step)
        own = span.start + np.flatnonzero(is_own[span])
        frames.append(
            fabric.lines_of(link for send in own.tolist() for link in steps.links_of(send).tolist())
        )
    return frames


def _within(kind: str, what: str, rows: Sequence[Sequence[Sequence[Any]]]) -> dict[str, object]:
    """Return as many ranks as fit."""
    used, kept = 0, []
    for row in rows:
        kept.append(row)
        used += sum(len(frame) for _, frames in row for frame in frames)
        if used > MOST_NUMBERS:
            break
    left_out = "" if len(kept) == len(rows) else f"data of {len(kept)} of {len(rows)} ranks are shown"
    return {"kind": kind, "what": what, "roots": kept, "leftOut": left_out}


def _route_scenes(routes: RouteSchedule, fabric: DrawnFabric) -> dict[str, object]:
    n_ranks, used, rows = routes.n_ranks, 0, []
    for source in range(n_ranks):
        row = []
        for target in range(n_ranks):
            span = routes.span(source, target)
            numbers = sorted(range(span.start, span.stop), key=lambda path: -int(routes.units[path]))
            units = int(routes.units[span].sum())
            scenes_of_pair = []
            for number in numbers:
                frames = [[line] for link in routes.path(number).tolist() for line in fabric.lines_of([link])]
                used += len(frames)
                share = 100 * int(routes.units[number]) / units
                scenes_of_pair.append([f"{share:.3g}%, {counted(len(routes.path(number)), 'link')}", frames])
            row.append(scenes_of_pair)
        rows.append(row)
        if used > MOST_NUMBERS:
            break
    left_out = "" if len(rows) == n_ranks else f"routes from {len(rows)} of {n_ranks} ranks are shown"
    return {"kind": "route", "what": "routes of a pair, link by link", "roots": rows, "leftOut": left_out}


# Simulated time by size, of plans beside each other

SIZES = tuple(2**power for power in range(10, 31, 2))
"""1 KiB to 1 GiB."""
_MANY_RANKS = 64
"""Number of ranks above which every other size suffices, since simulation takes long."""


def display_sizes(plan: Plan) -> tuple[int, ...]:
    """Return the `SIZES` at which a plan is simulated."""
    return SIZES if plan.collective.n_ranks <= _MANY_RANKS else SIZES[::2]


def size_curves(
    plan: Plan,
    sizes: Sequence[int],
    own: SimulationRun,
    others: Sequence[Plan],
    names: Sequence[str],
    *,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Return the seconds at each size with the best number of slices, and the bound of each size.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
    own : SimulationRun
        Of the plan, at these sizes and whatever follows them.
    others : sequence of Plan
    names : sequence of str
        Of all.
    """
    first, rows = own.last.options, own.rows[: len(sizes)]
    bounds = _bounds(rows)
    costs = f"alpha {first.alpha_ns / 1000:g} us a message"
    if first.costs is not None:
        costs = f"costs {default_cost_model(own.last.graph.topology).name}"
    series = [rows, *(simulate_plan(plan, sizes, progress=progress).rows for plan in others)]
    return {
        "sizes": list(sizes),
        "series": [
            {"name": name, "seconds": _seconds(found), "slices": [row.slices for row in found]}
            for name, found in zip(names, series, strict=True)
        ]
        + list(_reference_curves(plan, sizes, progress=progress)),
        "bound": bounds,
        "note": _note(f"{costs}, {first.sharing.value} links", bounds),
    }


_BASELINES = ("ring", "double-binary-tree")


def _reference_curves(
    plan: Plan, sizes: Sequence[int], *, progress: Progress | None
) -> Iterator[dict[str, object]]:
    """Yield what is achievable with its band, the library's choice, and the better of rings and trees."""
    found = expectations_of(plan.topology, plan.collective, sizes)
    if isinstance(found, Expectations):
        if found.achievable:
            columns = zip(*((one.time_s, one.low_s, one.high_s) for one in found.achievable), strict=True)
            seconds, low, high = ([_rounded(time) for time in column] for column in columns)
            yield {"name": "achievable, with its band of 90%", "seconds": seconds, "low": low, "high": high}
        if found.picks:
            seconds = [_rounded(pick.time_s) for pick in found.picks]
            yield {"name": f"predicted by {found.model}", "seconds": seconds}
    times = []
    for name in _BASELINES:
        if plan.algorithm == name:
            return
        try:
            baseline = solve_problem(Problem(plan.topology, plan.collective), name).plan
            times.append(_seconds(simulate_plan(baseline, sizes, progress=progress).rows))
        except TreadleError:  # it does not serve the collective, or is too large to simulate
            continue
    if times:
        best = [min(column) for column in zip(*times, strict=True)]
        yield {"name": "best baseline (ring or tree), simulated", "seconds": best}


def _bounds(rows: Sequence[SimulatedRow]) -> list[float] | None:
    """Return the bound of each size; None where nothing is proved."""
    times = [None if row.bound is None else row.bound.time for row in rows]
    known = [time for time in times if time is not None]
    return [_rounded(float(time)) for time in known] if len(known) == len(times) else None


def _seconds(rows: Sequence[SimulatedRow]) -> list[float]:
    return [_rounded(float(row.time)) for row in rows]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.6g}")


# When each rank has each shard, of a simulated plan

WORDS = {
    CollectiveKind.ALLGATHER: "when the rank of a row has all of the shard of a column",
    CollectiveKind.BROADCAST: "when the rank of a row has all of the part of a column",
    CollectiveKind.ALLTOALL: "when the rank of a row has what the rank of a column has for it",
    CollectiveKind.ALLREDUCE: "when the rank of a row has the sum of the part of a column",
    CollectiveKind.REDUCE_SCATTER: "when the rank of a row has sent what it adds to the shard of a column",
    CollectiveKind.REDUCE: "when the rank of a row has sent what it adds to the part of a column",
}
"""Meaning of a number of the matrix."""


def arrivals(simulation: Simulation, program: Program) -> NDArray[np.float64]:
    """Return the seconds from the start of the first message, by rank and shard; -1 where nothing moves.

    Parameters
    ----------
    simulation : Simulation
        Of the program.
    program : Program

    Returns
    -------
    array of float, shape (N, N)
        Of an all-to-all by target and source, else by rank and shard owner. See `WORDS`.
    """
    n = program.n_ranks
    _, end = simulation.operation_spans()
    is_summed = program.kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE)
    kinds = (OperationKind.SEND,) if is_summed else (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)
    chosen = np.flatnonzero(np.isin(program.operation_kind, kinds))
    bounds = np.asarray(program.shard_offset)
    ranks = program.operation_rank[chosen]
    first, past = program.first[chosen], program.first[chosen] + program.count[chosen]
    low = np.searchsorted(bounds, first, side="right") - 1
    high = np.searchsorted(bounds, past, side="left")
    latest = np.full((n, len(bounds) - 1), -1, dtype=np.int64)
    for step in range(int((high - low).max(initial=0))):
        inside = low + step < high
        np.maximum.at(latest, (ranks[inside], low[inside] + step), end[chosen[inside]])
    if program.kind is CollectiveKind.ALLTOALL:  # shards are of pairs, source first
        latest = np.stack([latest[target, target::n] for target in range(n)])
    return np.where(latest < 0, -1.0, latest * float(simulation.tick_s))


# Links by kind: the same bandwidth between the same sorts of nodes


def link_kinds(
    fabric: DrawnFabric, busy: NDArray[np.float64] | None, full: BoolArray | None
) -> list[dict[str, object]]:
    """Count, utilization and position in the drawing of each link class.

    Parameters
    ----------
    fabric : DrawnFabric
    busy : array of float, shape (links,), optional
        Share of the time for which each is busy.
    full : array of bool, shape (links,), optional
        Whether it is all the time, by exact numbers.
    """
    topology = fabric.topology
    words, sort = np.unique([_sort(name) for name in topology.node_names], return_inverse=True)
    widths, width = np.unique(topology.bandwidths, return_inverse=True)
    keys = (width * len(words) + sort[topology.tails]) * len(words) + sort[topology.heads]
    rows: list[dict[str, object]] = []
    for key in distinct(keys).tolist():
        own = np.flatnonzero(keys == key)
        tail, head = words[key // len(words) % len(words)], words[key % len(words)]
        rows.append(
            {
                "name": f"{tail} \N{RIGHTWARDS ARROW} {head}",
                "links": len(own),
                "bytesPerS": int(widths[key // len(words) ** 2]),
                "mean": None if busy is None else round(float(busy[own].mean()), 4),
                "most": None if busy is None else round(float(busy[own].max()), 4),
                "full": None if full is None else int(full[own].sum()),
                "lines": sorted({abs(line) for line in fabric.lines_of(own.tolist())}),
            }
        )
    return rows


def _sort(name: str) -> str:
    """Return a node's name without its box and without numbers: ``box3.gpu5`` is a gpu."""
    return re.sub(r"[0-9]+", "", name.rpartition(".")[2]).strip("_.-: ") or "node"


# How busy each link is over the time of a simulated collective, for a page

BINS = 200
"""Equal parts of the time."""


def timeline(simulation: Simulation, fabric: DrawnFabric) -> dict[str, object]:
    """Return the busiest links, one byte for each part of the time: 255 is always busy.

    Parameters
    ----------
    simulation : Simulation
    fabric : DrawnFabric
        Of the same topology.
    """
    graph = simulation.graph
    shares = utilisation_over_time(simulation, BINS)
    used = np.flatnonzero(simulation.busy)
    order = used[np.argsort(-simulation.busy[used], kind="stable")][:MAX_LANES]
    chosen = np.sort(order)
    levels = np.ceil(np.clip(shares[chosen], 0, 1) * 255).astype(np.uint8)
    n_links = graph.topology.n_links
    return {
        "bins": BINS,
        "seconds": float(simulation.finish * simulation.tick_s),
        "names": [graph.resource_name(link) for link in chosen.tolist()],
        "lines": [int(fabric.signed_line[link]) if link < n_links else 0 for link in chosen.tolist()],
        "shares": [round(float(simulation.utilisation[link]), 4) for link in chosen.tolist()],
        "levels": base64.b64encode(levels.tobytes()).decode(),
        "leftOut": f"the {len(chosen)} busiest of {len(used)} links" if len(chosen) < len(used) else "",
    }


def _note(model: str, bounds: list[float] | None) -> str:
    words = f"Simulated on this fabric's model, the best of several numbers of slices: {model}."
    return words if bounds is None else f"{words} The bound of each size is proved: no schedule ends before."


def _cut(plan: Plan) -> CutDescription | None:
    try:
        return describe_cut(plan)
    except ScheduleError:
        return None
