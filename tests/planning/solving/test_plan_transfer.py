"""Schedules taken from one fabric to another by the names of nodes and links."""

from __future__ import annotations

import numpy as np
import pytest

from samples import greedy_steps as samples
from treadle.errors import ScheduleError
from treadle.planning import make_problem, solve
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.steps.steps import Steps
from treadle.schedules.transfer import _link_numbers, transfer_collective, transfer_schedule
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify as verify_schedule


def shuffled(topology: Topology, seed: int) -> Topology:
    """The same nodes and links by name, in another order; every third link twice."""
    rng = np.random.default_rng(seed)
    node = rng.permutation(topology.n_nodes)
    arcs = rng.permutation(np.concatenate([np.arange(topology.n_links), np.arange(topology.n_links)[::3]]))
    names = [""] * topology.n_nodes
    for old, new in enumerate(node):
        names[new] = topology.node_names[old]
    return from_arcs(
        "shuffled",
        node[topology.tails[arcs]],
        node[topology.heads[arcs]],
        n=topology.n_nodes,
        node_names=names,
    )


def named_sends(topology: Topology, steps: Steps) -> list[tuple[int, str, str, int, int, int]]:
    names = topology.node_names
    return [
        (int(v), names[topology.tails[e]], names[topology.heads[e]], int(t), int(low), int(high))
        for v, e, t, low, high in zip(
            steps.shard, steps.link, steps.send_steps(), steps.low, steps.high, strict=True
        )
    ]


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_step_schedules_keep_their_links_by_name(kind: CollectiveKind) -> None:
    source = samples.ring(5, links=2, both=True)
    collective, schedule = samples.greedy_schedule(source, kind, seed=3)
    target = shuffled(source, 1)
    moved = transfer_schedule(schedule, source, target)
    assert moved != schedule
    assert [target.node_names[v] for v in transfer_collective(collective, source, target).ranks] == [
        source.node_names[v] for v in collective.ranks
    ]
    for one, other in zip(schedule.phases, moved.phases, strict=True):
        assert named_sends(source, one) == named_sends(target, other)
        for link in set(one.link.tolist()):  # parallel links stay apart
            assert len(set(other.link[one.link == link].tolist())) == 1
        assert len(set(other.link.tolist())) == len(set(one.link.tolist()))


def test_missing_links_are_named() -> None:
    source = samples.ring(4, both=True)
    _, schedule = samples.greedy_schedule(source, CollectiveKind.ALLGATHER)
    with pytest.raises(ScheduleError, match=r"uses link n\d->n\d, which ring4x1 does not have"):
        transfer_schedule(schedule, source, samples.ring(4))
    with pytest.raises(ScheduleError, match=r"uses link number [4-7], ring4x1 has 4 links"):
        transfer_schedule(schedule, samples.ring(4), source)


def test_parallel_links_meet_in_their_order() -> None:
    """a to b three times here and twice there; c is not there, and neither is the way back."""
    source = from_arcs("s", [0, 1, 0, 2, 0], [1, 0, 1, 0, 1], n=3, node_names=["a", "b", "c"])
    target = from_arcs("t", [1, 0, 1, 2], [2, 1, 2, 1], n=3, node_names=["d", "a", "b"])
    assert _link_numbers(source, target).tolist() == [0, 3, 2, -1, -1]
    assert _link_numbers(source, source).tolist() == [0, 1, 2, 3, 4]
    back = from_arcs("t", [2], [1], n=3, node_names=["d", "a", "b"])
    assert _link_numbers(source, back).tolist() == [-1, 0, -1, -1, -1]


@pytest.mark.parametrize(
    ("kind", "algorithm", "words"),
    [
        ("allgather", "forestcoll", {}),
        ("allreduce", "forestcoll", {}),
        ("allgather", "forestcoll", {"mesh": "2,4", "axes": "1"}),
        ("alltoall", "routes", {}),
        ("alltoall", "routes", {"max_flows": 2}),
        ("alltoall", "pipelined", {}),
        ("reduce", "forestcoll", {"root": 3}),
    ],
)
def test_schedules_of_every_form_are_true_on_a_fabric_in_another_order(
    kind: str, algorithm: str, words: dict[str, object]
) -> None:
    """Links there are those of the same ends; links that are given by number are taken so."""
    posed = {name: value for name, value in words.items() if name in ("mesh", "axes", "root")}
    problem = make_problem("hypercube:3", kind, **posed)  # type: ignore[arg-type]
    source = problem.topology
    plan = solve("hypercube:3", kind, algorithm=algorithm, **words).plan  # type: ignore[arg-type]
    order = np.random.default_rng(5).permutation(source.n_links)
    target = from_arcs(
        "other",
        source.tails[order],
        source.heads[order],
        n=source.n_nodes,
        node_names=list(source.node_names),
    )
    schedule = plan.entries[0].schedule
    moved = transfer_schedule(schedule, source, target)
    report = verify_schedule(target, transfer_collective(problem.collective, source, target), moved)
    assert (report.violations, report.algbw) == ((), plan.algbw)
    assert transfer_schedule(moved, target, source) == schedule
    numbers = np.argsort(order).astype(np.int32)
    assert transfer_schedule(schedule, source, target, numbers) == moved
