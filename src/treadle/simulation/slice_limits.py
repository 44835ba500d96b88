"""Into how many slices messages may be cut where the best number is looked for."""

from __future__ import annotations

from enum import StrEnum

from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph

MAX_AUTO_SLICES = 64
MAX_AUTO_TASKS = 2**19
"""Tasks of one trial: a few tenths of a second of CPU time."""


class SliceLimit(StrEnum):
    """Why no more slices were tried, though one more doubling might have helped.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.SliceLimit]
    ['least slice', 'most slices', 'messages']
    """

    LEAST_SLICE = "least slice"
    """The smallest message would be cut into parts below the options' least."""
    MOST_SLICES = "most slices"
    """`MAX_AUTO_SLICES`."""
    MESSAGES = "messages"
    """`MAX_AUTO_TASKS`: a trial would take too long."""


def slices_at_most(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, most_tasks: int | None = None
) -> int:
    """The most slices, a power of two, that a trial at a size may have; see `slice_limit`."""
    slices, most = 1, MAX_AUTO_TASKS if most_tasks is None else most_tasks
    while slice_limit(graph, size_bytes, options, 2 * slices, most) is None:
        slices *= 2
    return slices


def slice_limit(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, slices: int, most_tasks: int
) -> SliceLimit | None:
    """What forbids so many slices, a power of two, if anything."""
    smallest = int(graph.chunks[graph.resource >= 0].min(initial=graph.program.n_chunks))
    if smallest * size_bytes < options.least_slice_bytes * slices * graph.program.n_chunks:
        return SliceLimit.LEAST_SLICE
    if slices > MAX_AUTO_SLICES:
        return SliceLimit.MOST_SLICES
    return SliceLimit.MESSAGES if slices * graph.n_tasks > most_tasks else None
