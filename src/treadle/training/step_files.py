"""Files of a simulated step: trace, plot, Chakra traces, workload of a design."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from treadle.atomic import new_folder, write_bytes
from treadle.errors import FormatError, ScheduleError
from treadle.finder.workload import MAX_CALLS, Call, Exchange
from treadle.formats.chakra.step_traces import StepNode, emit_step_trace
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.traces.timed_lanes import Detail, Trace
from treadle.training.forms.axes import ParallelLayout
from treadle.training.step_trace import step_drawing, step_trace
from treadle.training.timeline.timeline import Timeline
from treadle.training.train_result import TrainResult, TrainRow

MOST_TRACED_RANKS = 4096
"""Most files of a folder of Chakra traces."""
_MOST_NODES = 10**7
"""Most nodes of all ranks' traces together."""


def step_trace_of(result: TrainResult, row: TrainRow) -> Trace:
    """Return the row's timeline as a trace (`step_trace.step_trace`).

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound")
    >>> planning.write_trace("step.json", planning.step_trace_of(found, found.rows[0]))
    """
    about: dict[str, Detail] = {
        "model": result.model.name,
        "fabric": row.fabric,
        "schedule": row.schedule,
        "mesh": result.mesh.notation,
        "gpu": result.setup.device.name,
        "step_s": float(row.outcome.iteration_s),
    }
    return step_trace(row.outcome.timeline, about)


def draw_step(result: TrainResult, row: TrainRow, *, file_format: str = "png") -> bytes:
    """Plot the row's timeline (`step_trace.step_drawing`).

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound")
    >>> planning.draw_step(found, found.rows[0])[1:4]
    b'PNG'
    """
    title = (
        f"{result.model.name} on {row.fabric}, {result.mesh.notation}, {row.schedule}: "
        f"{float(row.outcome.iteration_s) * 1e3:.1f} ms"
    )
    return step_drawing(row.outcome.timeline, title, file_format=file_format)


def step_workload_of(result: TrainResult, row: TrainRow) -> str:
    """Return the collectives of the row's step as TOML for ``treadle design --workload``.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound")
    >>> planning.step_workload_of(found, found.rows[0]).splitlines()[2:6]
    ['[[collectives]]', 'kind = "allreduce"', 'size = "4723200B"', 'count = 12']
    """
    return step_workload(
        row.outcome.timeline, result.mesh, f"a step of {result.model.name}, {result.mesh.notation}"
    )


def write_step_chakra(folder: Path | str, result: TrainResult, row: TrainRow) -> list[Path]:
    """Write a Chakra execution trace for each rank, ``step.RANK.et``, and ``groups.json`` with named groups.

    Raises
    ------
    FormatError
        If the folder is a file.
    ScheduleError
        If there would be too many nodes.
    MissingDependencyError
        Without protobuf.

    Notes
    -----
    Tests read these files back by their schema; no simulator has loaded them.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound")
    >>> files = planning.write_step_chakra("traces", found, found.rows[0])
    >>> [file.name for file in files][:2]
    ['step.0.et', 'step.1.et']
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise FormatError("is a file; expected a folder, or a name that is free", source=str(folder))
    mesh, timeline = result.mesh, row.outcome.timeline
    n_tasks = len(timeline.tasks)
    if mesh.n_ranks > MOST_TRACED_RANKS or n_tasks * mesh.n_ranks > _MOST_NODES * len(timeline.devices):
        raise ScheduleError(
            f"Chakra: {mesh.n_ranks} ranks with {n_tasks} tasks; expected at most {MOST_TRACED_RANKS} ranks "
            f"and {_MOST_NODES} nodes in total"
        )
    groups: dict[str, list[int]] = {}
    traces = enumerate(_rank_traces(mesh, timeline, groups))
    files = {f"step.{rank}.et": emit_step_trace(rank, nodes) for rank, nodes in traces}
    files["groups.json"] = (json.dumps(groups) + "\n").encode()
    with new_folder(place):
        for name, data in files.items():
            write_bytes(place / name, data)
    return [place / name for name in files]


def _rank_traces(mesh: Mesh, timeline: Timeline, groups: dict[str, list[int]]) -> Iterator[list[StepNode]]:
    """Yield the tasks of each rank in the order of their start, and add its groups by name to `groups`.

    A rank has the tasks of its stage. Data from other stages is received by separate nodes.
    """
    tasks = timeline.tasks
    order: dict[int, list[int]] = {device: [] for device in timeline.devices}
    for place in sorted(range(len(tasks)), key=lambda one: (timeline.starts[one], one)):
        order[tasks[place].device].append(place)
    # the stage to which a task sends is that of a task that waits for it elsewhere
    target_of = {
        wait: task.device for task in tasks for wait in task.waits_for if tasks[wait].device != task.device
    }
    lines = mesh.groups("pp") if ParallelLayout(mesh).size("pp") > 1 else ()
    line_of = {rank: line for line in lines for rank in line}  # ranks of all stages in order
    group_of: dict[tuple[tuple[str, ...], int], str] = {}
    for rank in range(mesh.n_ranks):
        line = line_of.get(rank, (rank,))
        number: dict[int, int] = {}
        last: dict[str, int] = {}
        nodes: list[StepNode] = []
        for place in order[line.index(rank)]:
            task = tasks[place]
            for wait in task.waits_for:
                if wait not in number:
                    number[wait] = len(nodes)
                    name, size = f"{tasks[wait].name} (receive)", round(tasks[wait].size_bytes)
                    ends: dict[str, Any] = {"source": line[tasks[wait].device], "target": rank, "tag": wait}
                    nodes.append(StepNode(name, 0.0, (), size_bytes=size, **ends))
            waits = {number[wait] for wait in task.waits_for}
            if task.stream in last:  # a stream runs one task at a time
                waits.add(last[task.stream])
            number[place] = last[task.stream] = len(nodes)
            kind, axes = task.traffic or (None, ())
            about: dict[str, Any] = {"size_bytes": round(task.size_bytes)} if task.traffic else {}
            if kind is not None:
                if (axes, rank) not in group_of:
                    for group in mesh.groups(axes):
                        name = str(len(groups))
                        groups[name] = list(group)
                        group_of |= {(axes, member): name for member in group}
                about |= {"kind": kind, "group": group_of[axes, rank]}
            elif task.traffic is not None:
                target = line[target_of[place]] if place in target_of else rank
                about |= {"source": rank, "target": target, "tag": place}
            seconds = 0.0 if task.traffic else float(task.seconds)
            nodes.append(StepNode(task.name, seconds, tuple(sorted(waits)), **about))
        yield nodes


_Call = tuple[CollectiveKind, tuple[str, ...], int]
"""Kind, axes and size of a collective."""


def step_workload(timeline: Timeline, mesh: Mesh, name: str) -> str:
    """Return TOML with a table for each collective of the device that communicates most.

    `name` is that of the workload, on one line. Sends of pipelines are not collectives; a comment counts
    them. Raises ScheduleError if groups are not evenly spaced, or the step has no collectives or too many.
    """
    counted = {device: Counter[_Call]() for device in timeline.devices}
    for task in timeline.tasks:
        kind, axes = task.traffic or (None, ())
        if kind is not None and task.size_bytes >= 1:
            counted[task.device][kind, axes, round(task.size_bytes)] += 1
    calls = max(counted.values(), key=lambda found: found.total(), default=Counter[_Call]())
    sends = sum(1 for task in timeline.tasks if task.traffic is not None and task.traffic[0] is None)
    if not 1 <= len(calls) <= MAX_CALLS:
        raise ScheduleError(
            f"workload: the step has {len(calls)} different collectives, expected 1 to {MAX_CALLS}"
        )
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'name = "{escaped}"', ""]
    if sends:
        lines += [f"# and {sends} sends from stage to stage, which are no collectives", ""]
    for (kind, axes, size), count in calls.items():
        lines += ["[[collectives]]", f'kind = "{kind.value}"', f'size = "{size}B"', f"count = {count}"]
        group_size, stride = _spacing(mesh, axes, kind, size)
        if group_size < mesh.n_ranks:
            lines += [f"group_size = {group_size}", f"stride = {stride}"]
        lines.append(f"# over {','.join(axes)}")
        lines.append("")
    return "\n".join(lines)


def _spacing(mesh: Mesh, axes: tuple[str, ...], kind: CollectiveKind, size: int) -> tuple[int, int]:
    """Return the size of groups and the stride between their ranks; ScheduleError if it varies."""
    real = tuple(name for name, n in zip(mesh.axis_names, mesh.shape, strict=True) if name in axes and n > 1)
    groups = mesh.groups(real)
    first = groups[0]
    stride = first[1] - first[0] if len(first) < mesh.n_ranks else 1
    call = Call(Exchange(kind.value), size, group_size=len(first), stride=stride)
    is_equal = False
    with suppress(ScheduleError):
        is_equal = set(map(frozenset, call.groups(mesh.n_ranks))) == set(map(frozenset, groups))
    if not is_equal:
        raise ScheduleError(
            f"workload: groups over {','.join(real)} of mesh {mesh.notation} are not evenly spaced, which a "
            f"workload cannot express; put these axes next to each other in --mesh"
        )
    return len(first), call.stride
