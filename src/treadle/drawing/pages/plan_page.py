"""A plan as a page: what is claimed and why, where data go, how long it takes at every size."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.drawing.draw import CutWords, cut_words
from treadle.drawing.pages.arrivals import WORDS, arrivals
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.link_kinds import link_kinds
from treadle.drawing.pages.link_times import timeline
from treadle.drawing.plan_loads import busy_links
from treadle.drawing.tree_hops import tree_depths
from treadle.errors import FormatError, ScheduleError
from treadle.program.program import Program
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.simulation.simulated_plans import SimulationRun
from treadle.units import format_bandwidth, format_share, format_size
from treadle.viz.fabric_layout import MOST_COLLAPSED

SHOWN_SIZE = "64M"
"""Of which the page shows the course in time."""


def page_of_result(result: object) -> str:
    """Of steps and of plans that shard models; "" for what has a plan of a collective."""
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


def check_alike(own: Plan, other: Plan) -> None:
    """Refuse to put plans of different problems on one page."""
    for what, one, found in (
        ("collective", own.collective.kind.value, other.collective.kind.value),
        ("ranks", own.collective.n_ranks, other.collective.n_ranks),
    ):
        if one != found:
            raise FormatError(f"report: another plan has {what} {found}, expected {one} as the first")


def shown_names(own: Plan, others: Sequence[Plan]) -> list[str]:
    """Algorithms, with the fabric where that differs, told apart."""
    names: list[str] = []
    for plan in (own, *others):
        name = plan.algorithm
        if plan.topology.name != own.topology.name:
            name += f" on {plan.topology.name}"
        same = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({same + 1})" if same else name)
    return names


def static_values(plan: Plan, fabric: DrawnFabric) -> dict[str, object]:
    """All that needs no simulation."""
    try:
        busy, full = busy_links(plan)
    except ScheduleError:  # of several groups, or with a timetable: loads are only simulated
        busy, full = None, None
    words = _cut(plan)
    return {
        "title": f"{plan.collective.kind.value} on {plan.topology.name}",
        "lede": "" if words is None else words.words,
        "tiles": _tiles(plan),
        "facts": _facts(plan, full),
        "fabric": fabric.values(),
        "marksOfRanks": [int(fabric.mark_of[node]) for node in plan.collective.ranks]
        if plan.collective.n_ranks <= MOST_COLLAPSED
        else [],
        "ranks": [plan.topology.node_names[node] for node in plan.collective.ranks]
        if plan.collective.n_ranks <= MOST_COLLAPSED
        else [],
        "load": None if busy is None or full is None else _loads(fabric, busy, full),
        "cut": None if words is None else _cut_values(fabric, words),
        "kinds": link_kinds(fabric, busy, full),
        "hops": _hops(plan),
    }


def _cut(plan: Plan) -> CutWords | None:
    try:
        return cut_words(plan)
    except ScheduleError:
        return None


def _tiles(plan: Plan) -> list[list[str]]:
    """What is most worth knowing: a value, what it is, and whether it is good news."""
    best = plan.optimal_algbw
    if best is None:
        verdict = ["no bound", "nothing is proved of the best", ""]
    elif best == plan.algbw:
        verdict = ["optimal", "proved: no schedule is faster at large sizes", "good"]
    else:
        verdict = [format_share(plan.algbw / best), "of the proved bound", ""]
    switches = plan.topology.n_nodes - len(plan.topology.compute_nodes)
    what = f"ranks, {switches:,} switch{'' if switches == 1 else 'es'}" if switches else "ranks, no switch"
    return [
        [format_bandwidth(plan.algbw), "algorithm bandwidth at large sizes", ""],
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


def _cut_values(fabric: DrawnFabric, found: CutWords) -> dict[str, object]:
    marks = fabric.layout.marks
    return {
        "words": found.words,
        "lines": sorted({abs(line) for line in fabric.lines_of(np.flatnonzero(found.crossing).tolist())}),
        "marks": [n for n, mark in enumerate(marks) if mark.nodes and found.inside[list(mark.nodes)].all()],
    }


def _hops(plan: Plan) -> list[int]:
    """Ranks that the first tree of rank 0 reaches at each hop; empty for plans without trees."""
    schedule = plan.entries[-1].schedule
    if not isinstance(schedule, ForestSchedule | FactoredSchedule):
        return []
    tree = next(iter(schedule.forests[-1].trees(_first_root(schedule))))
    return [int(number) for number in np.bincount(tree_depths(tree))]


def _first_root(schedule: ForestSchedule | FactoredSchedule) -> int:
    return int(np.flatnonzero(schedule.root_multiplicity)[0])


def course_values(plan: Plan, fabric: DrawnFabric, size: int, run: SimulationRun) -> dict[str, object]:
    """What happens when, at one size."""
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
