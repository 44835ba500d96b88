"""A step's tasks over time, as compact integers for a report, in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.spelling import counted
from treadle.training.costs import format_traffic
from treadle.training.step_trace import tracks_of
from treadle.training.timeline.task import Category
from treadle.training.timeline.timeline import Timeline
from treadle.units import format_seconds, format_size
from treadle.viz.painting import TASKS

MOST_BARS = 18_000
"""Largest number of tasks of all timelines of a report; about 40 bytes each."""
_MOST_LANES = 64
_FINEST, _ALIKE, _COARSEST = 8000, 1000, 25
"""Parts of a step. What is shorter may be drawn as one with its neighbours: from the first on, up to the
second if they have one category, up to the third in any case."""
_LETTERS = {
    Category.FORWARD: "F",
    Category.RECOMPUTE: "C",
    Category.BACKWARD: "B",
    Category.OPTIMIZER: "O",
    Category.ALLGATHER: "AG",
    Category.REDUCE_SCATTER: "RS",
    Category.ALLREDUCE: "AR",
    Category.ALLTOALL: "A2A",
    Category.SEND: "S",
}
_KINDS = tuple(Category)
KIND_VALUES = [[kind.value, _LETTERS[kind], style.name] for kind, style in zip(_KINDS, TASKS, strict=True)]
"""Label, short label and style of each category."""

_Bar = list[int]
"""Begin and end in nanoseconds, numbers of name, category and detail (-1: none), and tasks drawn as one."""


def task_tracks(timelines: Iterable[tuple[str, Timeline]]) -> dict[str, object]:
    """Pack timelines for a report.

    Parameters
    ----------
    timelines : iterable of (str, Timeline)
        With what each is called.

    Returns
    -------
    mapping
        ``choices``: the tracks of each, six numbers per bar: nanoseconds since the bar before ended, and
        that it takes; places of its name in ``names``, of its category in ``kinds`` and of what it
        communicates in ``details`` (-1: nothing); how many tasks it stands for.
    """
    given = list(timelines)
    names: dict[str, int] = {}
    details: dict[str, int] = {}
    room = MOST_BARS // max(1, len(given))
    return {
        "choices": [_choice(name, timeline, names, details, room) for name, timeline in given],
        "names": list(names),
        "details": list(details),
        "kinds": KIND_VALUES,
    }


def _choice(
    name: str, timeline: Timeline, names: dict[str, int], details: dict[str, int], room: int
) -> dict[str, object]:
    lanes = tracks_of(timeline)
    shown = lanes[:_MOST_LANES]
    bars: dict[tuple[int, str], list[_Bar]] = {lane: [] for lane in shown}
    for place, task in enumerate(timeline.tasks):
        lane = bars.get((task.device, task.stream))
        begin, end = (round(float(at[place]) * 1e9) for at in (timeline.starts, timeline.ends))
        if lane is None or begin == end:
            continue
        detail = -1
        if task.traffic is not None:
            words = f"{format_traffic(task.traffic)}, {format_size(task.size_bytes)}"
            detail = details.setdefault(words, len(details))
        number = names.setdefault(task.name, len(names))
        lane.append([begin, end, number, _KINDS.index(task.category), detail, 1])
    for lane in bars.values():
        lane.sort()
    whole = round(float(timeline.total_s) * 1e9)
    finest, drawn = 0, list(bars.values())
    while sum(map(len, drawn)) > room and finest * _COARSEST < whole:
        finest = finest * 2 or max(1, whole // _FINEST)
        drawn = [_joined(lane, finest, of_a_kind=finest * _ALIKE < whole) for lane in drawn]
    until = whole
    if sum(map(len, drawn)) > room:
        until = sorted(bar[0] for lane in drawn for bar in lane)[room]
        drawn = [[bar for bar in lane if bar[0] < until] for lane in drawn]
    several = len(timeline.devices) > 1
    return {
        "name": name,
        "seconds": float(timeline.total_s),
        "lanes": [
            [f"{device}: {stream}" if several else stream, _packed(lane)]
            for (device, stream), lane in zip(shown, drawn, strict=True)
        ],
        "leftOut": _left_out(len(shown), len(lanes), finest, until / whole if whole else 1.0),
    }


def _joined(bars: Sequence[_Bar], finest: int, *, of_a_kind: bool) -> list[_Bar]:
    """Join short bars that follow each other, with the name and kind of the longest."""
    found: list[_Bar] = []
    longest = 0
    for bar in bars:
        last = found[-1] if found else None
        seconds = bar[1] - bar[0]
        if (
            last is not None
            and (last[3] == bar[3] or not of_a_kind)
            and bar[0] - last[1] < finest
            and seconds < finest
            and longest < finest
            and bar[1] - last[0] < 2 * finest
        ):
            shown = bar if seconds > longest else last
            found[-1] = [last[0], bar[1], shown[2], shown[3], -1, last[5] + bar[5]]
            longest = max(longest, seconds)
        else:
            found.append(bar)
            longest = seconds
    return found


def _packed(bars: Sequence[_Bar]) -> list[int]:
    numbers: list[int] = []
    now = 0
    for begin, end, *rest in bars:
        numbers += [begin - now, end - begin, *rest]
        now = end
    return numbers


def _left_out(shown: int, lanes: int, finest: int, share: float) -> str:
    words = []
    if share < 1:
        words.append(f"The first {share:.1%} of the time are shown.")
    if shown < lanes:
        words.append(f"The first {shown} of {counted(lanes, 'stream')} are shown.")
    if finest:
        words.append(
            f"Tasks shorter than {format_seconds(finest / 1e9)} that follow each other are drawn as one, as "
            "what takes longest of them."
        )
    return " ".join(words)
