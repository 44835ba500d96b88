"""What a step communicates as a workload (TOML) that `design` chooses a fabric for."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from treadle.errors import ScheduleError
from treadle.finder.workload import MAX_CALLS, Call, Exchange
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
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
            f"workload: groups over {','.join(real)} of mesh {mesh.text} are not evenly apart, which a "
            f"workload cannot say; let these axes stand next to each other in --mesh"
        )
    return len(first), call.stride
