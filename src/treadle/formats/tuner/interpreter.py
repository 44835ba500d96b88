"""Compares tuner tables with the plan: what the plugin would take at both ends of each range and between.

Where the plan's schedule is a ring, a double tree or NVLS, told by its arcs, the first row that serves a
call has to name it; elsewhere no row may serve. Shares no code with the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from treadle.formats.tuner.reader import TunerRow, read
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import PlanEntry
from treadle.schedules.trees.forest import ForestSchedule

_FAR = 2**40
"""Bytes: a size that only rows without limit serve."""
_Arcs = list[tuple[int, int]]
"""From parent to child."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Compare a table with the plan; without one, parse it.

    Raises
    ------
    FormatError
        If the plugin would misread it.
    """
    rows = read(files[0], terms)
    counts = (("row", len(rows)),)
    ranks = max(row.ranks for row in rows)
    if terms.planned is None:
        return Verdict(Check.PARSED, (), counts, max(ranks, 0))
    found = tuple(dict.fromkeys(_compared(rows, terms.planned)))
    detail = ", the plugin's choice followed at both ends of each range"
    return Verdict(Check.COMPARED, found, counts, terms.planned.collective.n_ranks, detail=detail)


def _compared(rows: Sequence[TunerRow], planned: Planned) -> Iterator[str]:
    collective, boxes = planned.collective, planned.boxes()
    spelt = collective.kind.value.replace("-", "")
    for row in rows:
        if row.collective != spelt:
            yield f"a row for {row.collective}, the plan is of {spelt}"
    ranges = planned.ranges or (PlanEntry(0, None, planned.schedule),)

    def taken_for(size: int) -> TunerRow | None:
        serving = (row for row in rows if row.supports(size, nodes=len(boxes), ranks=collective.n_ranks))
        return next(serving, None)

    for entry in ranges:
        meant = _meant(entry, collective.kind, boxes)
        last = _FAR if entry.max_bytes is None else entry.max_bytes
        for size in (entry.min_bytes, (entry.min_bytes + last) // 2, last):
            taken = taken_for(size)
            if taken is None:
                if meant is not None and entry.algorithm == _OWN[meant]:
                    yield f"{size} bytes: no row serves, and the plan's schedule is {meant}"
            elif taken.algorithm != meant:
                found = f"{taken.algorithm} is taken, and the plan's schedule is {meant or 'none of NCCL'}"
                yield f"{size} bytes: {found}"
            elif meant == "nvls" and taken.protocol != "simple":
                yield f"{size} bytes: NVLS has the protocol simple alone, found {taken.protocol}"
    first, last_of_all = ranges[0].min_bytes, ranges[-1].max_bytes
    for size in (first - 1, *([] if last_of_all is None else [last_of_all + 1])):
        if taken_for(size) is not None:
            yield f"{size} bytes: a row serves, and no schedule of the plan does"
    if any(row.ranks != collective.n_ranks for row in rows):
        yield f"a row serves other communicators than those of {collective.n_ranks} ranks"


_OWN: Mapping[str, str] = {"ring": "ring", "tree": "double-binary-tree", "nvls": "nvls"}
"""NCCL's names, and ours of the schedulers that imitate them."""


def _meant(entry: PlanEntry, kind: CollectiveKind, boxes: Sequence[Sequence[int]]) -> str | None:
    """NCCL's name of what an entry's schedule is by its arcs; None if it is none of them."""
    schedule = entry.schedule
    if not isinstance(schedule, ForestSchedule):
        return None
    box_of = {rank: number for number, ranks in enumerate(boxes) for rank in ranks}
    trees: list[_Arcs] = [
        [(int(parent), rank) for rank, parent in enumerate(tree.parent) if parent >= 0]
        for forest in schedule.forests
        for root in range(forest.n_ranks)
        for tree in forest.trees(root)
    ]
    n = len(box_of)
    fans = [Counter(parent for parent, _ in arcs) for arcs in trees]
    if all(len(fan) == n - 1 for fan in fans):  # every rank but one has a child: one each
        crossings = []
        for arcs in trees:  # a path lacks one arc of a cycle
            tails, heads = {a for a, _ in arcs}, {b for _, b in arcs}
            cycle = [*arcs, ((heads - tails).pop(), (tails - heads).pop())]
            crossings.append(sum(box_of[a] != box_of[b] for a, b in cycle))
        return "ring" if len(boxes) == 1 or all(count == len(boxes) for count in crossings) else None
    if all(len(fan) == 1 for fan in fans):
        return "nvls" if len(boxes) == 1 else None
    if kind is CollectiveKind.ALLREDUCE and all(_is_double(arcs, box_of, len(boxes)) for arcs in trees):
        return "tree"
    return None


def _is_double(arcs: _Arcs, box_of: Mapping[int, int], n_boxes: int) -> bool:
    """Whether arcs are chains in boxes below binary trees over boxes; of one box, a binary tree."""
    across = [(a, b) for a, b in arcs if box_of[a] != box_of[b]]
    within = Counter(a for a, b in arcs if box_of[a] == box_of[b])
    if n_boxes == 1:
        return max(within.values()) <= 2
    fans: dict[int, set[int]] = {}
    for a, _ in across:
        fans.setdefault(box_of[a], set()).add(a)
    per_box = Counter(box_of[a] for a, _ in across)
    return (
        len(across) == n_boxes - 1
        and max(per_box.values()) <= 2
        and all(len(ranks) == 1 for ranks in fans.values())
        and max(within.values(), default=0) <= 1
    )
