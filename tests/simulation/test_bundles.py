"""Messages of one step in one: as many bytes, fewer messages, nothing sent before all of it is there."""

from __future__ import annotations

from treadle.planning import program_of, solve
from treadle.simulation.tasks import coalesced, task_graph


def test_copies_in_the_network_stay_one_by_one() -> None:
    plan = solve("dgx_h100(1, gpus_per_box=4, nvls=True)", "allgather", algorithm="nvls").plan
    graph = task_graph(plan.topology, program_of(plan, 2**20))
    assert coalesced(graph) is graph
