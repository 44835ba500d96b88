"""What is written of a simulated step: trace, picture, Chakra traces, workload of a design."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

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
"""Files of a folder of Chakra traces."""
_MOST_NODES = 10**7
"""Of all ranks' traces together."""


def step_trace_of(result: TrainResult, row: TrainRow) -> Trace:
    """The row's timeline, for viewers of traces (`step_trace.step_trace`).

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
    """The row's timeline as a picture (`step_trace.step_drawing`).

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
    """What the row's step communicates, as TOML for ``treadle design --workload``.

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
    """A Chakra execution trace for each rank, ``step.RANK.et``, and ``groups.json`` with the named groups.

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
    Nothing has loaded these into a simulator here: they are read back by the schema only.

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
            f"and {_MOST_NODES} nodes in all"
        )
    traces = _RankTraces(mesh, timeline)
    files = {f"step.{rank}.et": emit_step_trace(rank, traces.nodes(rank)) for rank in range(mesh.n_ranks)}
    files["groups.json"] = (json.dumps(traces.groups) + "\n").encode()
    with new_folder(place):
        for name, data in files.items():
            write_bytes(place / name, data)
    return [place / name for name in files]


class _RankTraces:
    """Tasks of each rank: those of its stage, with the groups and neighbours that are its own."""

    def __init__(self, mesh: Mesh, timeline: Timeline) -> None:
        self._mesh, self._tasks = mesh, timeline.tasks
        self.groups: dict[str, list[int]] = {}
        """Ranks by the group's name."""
        self._group_of: dict[tuple[tuple[str, ...], int], str] = {}
        self._order: dict[int, list[int]] = {device: [] for device in timeline.devices}
        for place in sorted(range(len(self._tasks)), key=lambda one: (timeline.starts[one], one)):
            self._order[self._tasks[place].device].append(place)
        self._target: dict[int, int] = {}
        """Stage to which a task sends: that of whoever waits for it elsewhere."""
        for task in self._tasks:
            for wait in task.waits_for:
                if self._tasks[wait].device != task.device:
                    self._target[wait] = task.device
        lines = mesh.groups("pp") if ParallelLayout(mesh).size("pp") > 1 else ()
        self._line = {rank: line for line in lines for rank in line}
        """Ranks of all stages in order, by rank."""

    def nodes(self, rank: int) -> list[StepNode]:
        """In the order of their start; what comes from other stages is received by nodes of its own."""
        line = self._line.get(rank, (rank,))
        stage = line.index(rank)
        number: dict[int, int] = {}
        last: dict[str, int] = {}
        found: list[StepNode] = []
        for place in self._order[stage]:
            task = self._tasks[place]
            for wait in task.waits_for:
                if wait not in number:
                    number[wait] = len(found)
                    found.append(self._received(wait, line, rank))
            waits = {number[wait] for wait in task.waits_for}
            if task.stream in last:  # a stream runs one task at a time
                waits.add(last[task.stream])
            number[place] = last[task.stream] = len(found)
            found.append(self._node(place, line, rank, tuple(sorted(waits))))
        return found

    def _received(self, place: int, line: tuple[int, ...], rank: int) -> StepNode:
        task = self._tasks[place]
        size = round(task.size_bytes)
        return StepNode(
            f"{task.name} (receive)",
            0.0,
            (),
            size_bytes=size,
            source=line[task.device],
            target=rank,
            tag=place,
        )

    def _node(self, place: int, line: tuple[int, ...], rank: int, waits: tuple[int, ...]) -> StepNode:
        task = self._tasks[place]
        if task.traffic is None:
            return StepNode(task.name, float(task.seconds), waits)
        kind, axes = task.traffic
        size = round(task.size_bytes)
        if kind is None:
            target = line[self._target[place]] if place in self._target else rank
            return StepNode(task.name, 0.0, waits, size_bytes=size, source=rank, target=target, tag=place)
        return StepNode(task.name, 0.0, waits, kind=kind, size_bytes=size, group=self._group(axes, rank))

    def _group(self, axes: tuple[str, ...], rank: int) -> str:
        """Name of the rank's group over these axes."""
        if (axes, rank) not in self._group_of:
            for group in self._mesh.groups(axes):
                name = str(len(self.groups))
                self.groups[name] = list(group)
                for member in group:
                    self._group_of[axes, member] = name
        return self._group_of[axes, rank]


_Asked = tuple[CollectiveKind, tuple[str, ...], int]


def step_workload(timeline: Timeline, mesh: Mesh, name: str) -> str:
    """TOML with a table for each collective of the step, of the device that communicates most.

    Parameters
    ----------
    timeline : Timeline
    mesh : Mesh
    name : str
        Of the workload; one line.

    Raises
    ------
    ScheduleError
        If groups are not evenly apart, or there are no collectives, or too many.

    Notes
    -----
    Sends of pipelines are no collectives; a comment counts them.
    """
    counted = {device: Counter[_Asked]() for device in timeline.devices}
    for task in timeline.tasks:
        kind, axes = task.traffic or (None, ())
        if kind is not None and task.size_bytes >= 1:
            counted[task.device][kind, axes, round(task.size_bytes)] += 1
    calls = max(counted.values(), key=lambda found: found.total(), default=Counter[_Asked]())
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
    """Ranks of a group, and how far apart they are; ScheduleError if that is not even."""
    real = tuple(name for name, n in zip(mesh.axis_names, mesh.shape, strict=True) if name in axes and n > 1)
    groups = mesh.groups(real)
    first = groups[0]
    stride = first[1] - first[0] if len(first) < mesh.n_ranks else 1
    call = Call(Exchange(kind.value), size, group_size=len(first), stride=stride)
    alike = False
    with suppress(ScheduleError):
        alike = set(map(frozenset, call.groups(mesh.n_ranks))) == set(map(frozenset, groups))
    if not alike:
        raise ScheduleError(
            f"workload: groups over {','.join(real)} of mesh {mesh.notation} are not evenly apart, which a "
            f"workload cannot say; let these axes stand next to each other in --mesh"
        )
    return len(first), call.stride
