"""Task graph of a schedule: of all ranks, or of one box if all boxes do the same."""

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
"""Most ranks that are all simulated. A thousand have a million messages, whose graph takes a minute."""


def schedule_graph(
    topology: Topology, collective: Collective, schedule: Schedule, *, may_be_whole: bool = True
) -> TaskGraph:
    """Return the tasks of a verified schedule.

    For trees on more than `MOST_WHOLE` ranks, these are the tasks of one box if all boxes do the same. They
    take as long as all tasks (`program.trees.box_program`), because the same happens in each box at the same
    time, if links choose equally between messages that arrive together. If boxes differ, all ranks' tasks are
    returned, or ScheduleError is raised if not `may_be_whole`.
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
