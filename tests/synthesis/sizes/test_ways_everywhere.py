"""Steps over ways wherever schedules go: texts for runtimes, pictures, other fabrics, simulation."""

from __future__ import annotations

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.drawing.tree_hops import hops_of
from treadle.errors import InfeasibleError
from treadle.planning import lower, solve
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.transfer import transfer_collective, transfer_schedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify

CASES = [
    ("allreduce", "factor-allreduce"),
    ("alltoall", "factor-exchange"),
    ("allgather", "routed-direct"),
    ("reduce-scatter", "routed-direct"),
]


def plan_of(kind: str, algorithm: str) -> Plan:
    return solve(in_boxes(3, 3), kind, algorithm=algorithm).plan


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
@pytest.mark.parametrize("text", ["msccl-xml", "mscclpp-json", "cpu-xml"])
def test_texts(kind: str, algorithm: str, text: str) -> None:
    lowered = lower(plan_of(kind, algorithm), to=text)
    assert lowered.files


def turned(fabric: Topology) -> Topology:
    """The same fabric with its links in another order."""
    builder = TopologyBuilder("turned")
    for node, name in enumerate(fabric.node_names):
        (builder.compute if fabric.is_compute[node] else builder.switch)(name)
    for link in range(fabric.n_links - 1, -1, -1):
        tail, head = int(fabric.tails[link]), int(fabric.heads[link])
        builder.link(fabric.node_names[tail], fabric.node_names[head], int(fabric.bandwidths[link]))
    return builder.build()


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
def test_on_a_fabric_with_other_link_numbers(kind: str, algorithm: str) -> None:
    plan = plan_of(kind, algorithm)
    (entry,) = plan.entries
    target = turned(plan.topology)
    moved = transfer_schedule(entry.schedule, plan.topology, target)
    collective = transfer_collective(plan.collective, plan.topology, target)
    report = verify(target, collective, moved)
    assert report.violations == ()
    assert report.algbw == plan.algbw
    assert not verify(target, collective, entry.schedule).is_ok


def test_pictures_show_every_link_of_a_way() -> None:
    plan = plan_of("allgather", "routed-direct")
    hops, _ = hops_of(plan, 0)
    (entry,) = plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    steps = entry.schedule.broadcast
    assert steps is not None
    own = np.flatnonzero(steps.shard == 0).tolist()
    assert set(hops) == {link for send in own for link in steps.links_of(send).tolist()}
    assert len(hops) > 5


def test_links_of_steps_without_ways_are_their_own() -> None:
    (entry,) = solve("ring(4)", "allgather", algorithm="bfb").plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    steps = entry.schedule.broadcast
    assert isinstance(steps, Steps)
    assert steps.crossed is steps.link
    assert [steps.links_of(send).tolist() for send in range(steps.n_sends)] == steps.link[:, None].tolist()


@pytest.mark.parametrize("kind", ["allreduce", "alltoall"])
def test_programs_of_others_than_ranks_are_refused(kind: str) -> None:
    algorithm = {"allreduce": "factor-allreduce", "alltoall": "factor-exchange"}[kind]
    plan = solve("path(3)", kind, algorithm=algorithm, ranks="n0,n2", forward=True).plan
    with pytest.raises(InfeasibleError, match="'n1', which is no rank"):
        lower(plan, to="msccl-xml")


def test_ways_stay_in_boxes() -> None:
    """Two links over the network join any two GPUs of an MI250 box, whose own links are up to five."""
    (entry,) = solve("mi250(2)", "allreduce", algorithm="factor-allreduce").plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    fabric, lengths = parse("mi250(2)"), set()
    for steps in entry.schedule.phases:
        for number in range(steps.n_paths):
            links = steps.path(number)
            nodes = [fabric.node_names[node] for node in (fabric.tails[links[0]], *fabric.heads[links])]
            is_within = len({name.partition(".")[0] for name in (nodes[0], nodes[-1])}) == 1
            assert ("ib0" in nodes) != is_within
            lengths.add((is_within, len(links)))
    assert lengths == {(False, 2), (True, 1), (True, 2), (True, 3), (True, 4), (True, 5)}
