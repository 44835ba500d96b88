"""Ranks that failures cut off from their boxes, and their network cards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.verify import verify
from treadle.synthesis.forestcoll import optimum
from treadle.synthesis.forestcoll.decomposition.decompose import decompose
from treadle.synthesis.forestcoll.decomposition.family import Family
from treadle.synthesis.forestcoll.decomposition.hosts import with_hosts
from treadle.synthesis.forestcoll.instance import Instance, instance_of
from treadle.topologies.platforms import dgx_a100, dgx_a100_flat
from treadle.topologies.topology import Topology
from treadle.topologies.transforms import with_failed_links

FAILED = "box3.gpu0--box3.nvswitch"


LONE = ("box3.gpu0", "box3.nic0")


def boxes_of(topology: Topology) -> tuple[Instance, Family]:
    """A set for each box, without what failures cut off."""
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    names = topology.node_names
    number = [
        int(name[3 : name.index(".")]) + 1 if name.startswith("box") and name not in LONE else 0
        for name in names
    ]
    innermost = np.array(number, dtype=np.int32)
    outer = np.zeros(innermost.max() + 1, dtype=np.int32)
    outer[0] = -1
    return problem, Family(outer, innermost)


def test_a_lone_rank_and_its_card_are_a_set() -> None:
    topology = with_failed_links(dgx_a100(5), FAILED)
    problem, family = boxes_of(topology)
    hosted = with_hosts(problem, family)
    assert hosted.n_sets == family.n_sets + 1
    assert {topology.node_names[node] for node in hosted.members(family.n_sets).tolist()} == set(LONE)
    np.testing.assert_array_equal(hosted.outer[: family.n_sets], family.outer)


def test_a_lone_rank_without_a_card_stays() -> None:
    problem, family = boxes_of(with_failed_links(dgx_a100_flat(5), FAILED))
    assert family.innermost[problem.terminals].min() == 0
    assert with_hosts(problem, family) is family


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
@pytest.mark.parametrize("build", [dgx_a100, dgx_a100_flat])
@pytest.mark.parametrize("failures", [(FAILED,), (FAILED, "box1.gpu4--box1.nvswitch")])
def test_a_lone_rank_beside_boxes(
    build: Callable[[int], Topology], failures: tuple[str, ...], kind: CollectiveKind
) -> None:
    topology = with_failed_links(build(6), *failures)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, str)
    assert "breadth-first" not in found.summary.split(",")[0]
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations
        assert report.height_max <= 4
