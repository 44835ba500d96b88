"""What a schedule asks of a fabric: of all ranks, or of one box where all boxes do the same."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower_groups
from treadle.program.trees.box_program import lower_box
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.topologies.topology import Topology

MOST_WHOLE = 512
"""Ranks up to which all of them are simulated. A thousand have a million messages: a graph takes a minute."""


def schedule_graph(
    topology: Topology, collective: Collective, schedule: Schedule, *, may_be_whole: bool = True
) -> TaskGraph:
    """Tasks of all ranks; of trees on more than `MOST_WHOLE` ranks those of one box, if all do the same.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule
        Verified.
    may_be_whole : bool
        Also of trees on so many ranks of which one box does not stand for all.

    Raises
    ------
    ScheduleError
        If they have to be whole and may not; as `lower_groups`.

    Notes
    -----
    Tasks of one box on links that stand for those of all (`program.trees.box_program`) take as long as all
    tasks on all links: what happens in one box happens in each at the same time, if links choose alike
    between messages that come at once.
    """
    if collective.n_ranks > MOST_WHOLE and isinstance(schedule, ForestSchedule | FactoredSchedule):
        box = lower_box(topology, collective, schedule)
        if box is None and isinstance(schedule, FactoredSchedule):
            schedule = written_out(schedule)
            assert isinstance(schedule, ForestSchedule)
            box = lower_box(topology, collective, schedule)
        if box is not None:
            return task_graph(topology, box.program, partner=box.partner, link_of=box.link_of)
        if not may_be_whole:
            raise ScheduleError(
                f"boxes differ in what they do: more than {MOST_WHOLE} ranks are simulated by one box"
            )
    return task_graph(topology, lower_groups(topology, collective, schedule).lists)
