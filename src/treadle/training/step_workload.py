"""What a step communicates as a workload (TOML) that `design` chooses a fabric for."""

from __future__ import annotations

from collections import Counter

from treadle.errors import ScheduleError
from treadle.finder.workload import MAX_CALLS, Call, Exchange
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.timeline.task import Task
from treadle.training.timeline.timeline import Timeline

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
    counted = {
        device: Counter(_asked(task) for task in timeline.tasks if _is_of(task, device))
        for device in timeline.devices
    }
    calls = max(counted.values(), key=lambda found: found.total(), default=Counter[_Asked]())
    sends = sum(1 for task in timeline.tasks if task.traffic is not None and task.traffic[0] is None)
    if not 1 <= len(calls) <= MAX_CALLS:
        raise ScheduleError(
            f"workload: the step has {len(calls)} different collectives, expected 1 to {MAX_CALLS}"
        )
    lines = [f"name = {_quoted(name)}", ""]
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


def _is_of(task: Task, device: int) -> bool:
    return (
        task.device == device
        and task.traffic is not None
        and task.traffic[0] is not None
        and task.size_bytes >= 1
    )


def _asked(task: Task) -> _Asked:
    assert task.traffic is not None, "a collective"
    kind, axes = task.traffic
    assert kind is not None, "a collective"
    return kind, axes, round(task.size_bytes)


def _spacing(mesh: Mesh, axes: tuple[str, ...], kind: CollectiveKind, size: int) -> tuple[int, int]:
    """Ranks of a group, and how far apart they are; ScheduleError if that is not even."""
    real = tuple(name for name, n in zip(mesh.axis_names, mesh.shape, strict=True) if name in axes and n > 1)
    groups = mesh.groups(real)
    first = groups[0]
    call = Call(
        Exchange(kind.value),
        size,
        group_size=len(first),
        stride=first[1] - first[0] if len(first) < mesh.n_ranks else 1,
    )
    alike = {frozenset(group) for group in groups}
    try:
        same = {frozenset(group) for group in call.groups(mesh.n_ranks)} == alike
    except ScheduleError:
        same = False
    if not same:
        raise ScheduleError(
            f"workload: groups over {','.join(real)} of mesh {mesh.text} are not evenly apart, which a "
            f"workload cannot say; let these axes stand next to each other in --mesh"
        )
    return len(first), call.stride


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
