"""Schedules taken from one fabric to another by the names of nodes and links."""

from __future__ import annotations

import numpy as np
import pytest

from samples import greedy_steps as samples
from treadle.errors import ScheduleError
from treadle.planning.solving.transfer import transfer_collective, transfer_schedule
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.steps.steps import Steps
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology


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
