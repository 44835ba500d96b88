"""How data spread, as pictures one after another: hops of a tree, steps, links of a route.

A scene is a list of frames, a frame a list of lines of the picture by number from 1, negative where data move
against the line's direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.tree_hops import tree_depths
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction, ForestSchedule, Tree, Trees, TreeSchedule
from treadle.spelling import counted

Frames = list[list[int]]

MOST_NUMBERS = 60_000
"""Lines named in all scenes of a page; about four bytes each."""


def scenes(plan: Plan, fabric: DrawnFabric) -> dict[str, object] | None:
    """What can be played on the fabric; None for plans of several groups.

    Returns
    -------
    mapping
        ``kind``: "tree", "step" or "route"; ``what``: words for the reader; ``roots``: for each rank its
        scenes as [label, frames], or, of routes, for each source and target a list of [label, frames];
        ``leftOut``: what has no room, in words, or "".
    """
    schedule = plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule | FactoredSchedule):
        return _tree_scenes(schedule, fabric)
    if isinstance(schedule, StepSchedule):
        rows = [_phase_scenes(schedule.phases, root, fabric) for root in range(schedule.n_ranks)]
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
    """The heaviest trees of each root, as many for each as there is room for."""
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
    shown, of = place, most
    left_out = "" if shown >= of else f"the heaviest {shown} of {counted(of, 'tree')} a rank are shown"
    return {"kind": "tree", "what": "a tree of a rank's data, hop by hop", "roots": rows, "leftOut": left_out}


def _tree_words(forest: Trees, trees: Sequence[Tree], place: int, n_forests: int) -> str:
    units = sum(tree.multiplicity for tree in trees)
    share = 100 * trees[place].multiplicity / units
    way = "" if n_forests == 1 else " sums up" if forest.direction is Direction.REDUCE else " spreads"
    return f"tree {place + 1} of {len(trees)}{way}: {share:.3g}% of its data"


def _tree_frames(forest: Trees, tree: Tree, fabric: DrawnFabric) -> Frames:
    depth = tree_depths(tree)
    frames: list[dict[int, None]] = [{} for _ in range(max(depth))]
    for child, level in enumerate(depth):
        for entry in range(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1])):
            links = forest.path(int(tree.entry_path[entry])).tolist()
            frames[level - 1].update(dict.fromkeys(fabric.lines_of(links)))
    if forest.direction is Direction.REDUCE:
        frames.reverse()  # the deepest send first
    return [list(frame) for frame in frames]


def _phase_scenes(phases: Sequence[Steps], root: int, fabric: DrawnFabric) -> list[list[object]]:
    words = {Direction.REDUCE: "is summed up", Direction.BROADCAST: "spreads"}
    return [[words[steps.direction], _step_frames(steps, root, fabric)] for steps in phases]


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


def _within(kind: str, what: str, rows: Sequence[Sequence[Sequence[object]]]) -> dict[str, object]:
    """As many ranks as there is room for."""
    used, kept = 0, []
    for row in rows:
        kept.append(row)
        used += sum(len(frame) for _, frames in row for frame in _frames(frames))
        if used > MOST_NUMBERS:
            break
    left_out = "" if len(kept) == len(rows) else f"data of {len(kept)} of {len(rows)} ranks are shown"
    return {"kind": kind, "what": what, "roots": kept, "leftOut": left_out}


def _frames(value: object) -> Iterator[list[int]]:
    assert isinstance(value, list)
    yield from value


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
