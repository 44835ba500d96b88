"""Ranks that failures cut off from their boxes, and their network cards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from treadle.arrays import Int64Array
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_relays import Deliveries, Meetings, deliveries
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.tight_cuts import with_hosts
from treadle.topologies.catalogue.platforms import dgx_a100, dgx_a100_flat
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

FAILED = "box3.gpu0--box3.nvswitch"
LONE = ("box3.gpu0", "box3.nic0")


def sent_by(found: Deliveries, blocks: list[int]) -> Int64Array:
    """Blocks that each child sends to each other, its own and for others, shape (n, n)."""
    table = np.repeat(np.array(blocks)[:, None], len(blocks), axis=1)
    np.fill_diagonal(table, 0)
    np.add.at(table, (found.by, found.child), 1)
    np.subtract.at(table, (found.root, found.child), 1)
    return table


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


@pytest.mark.parametrize(
    ("build", "kind"), [(dgx_a100, CollectiveKind.ALLGATHER), (dgx_a100_flat, CollectiveKind.REDUCE_SCATTER)]
)
@pytest.mark.parametrize("failures", [(FAILED,), (FAILED, "box1.gpu4--box1.nvswitch")])
def test_a_lone_rank_beside_boxes(
    build: Callable[[int], Topology], failures: tuple[str, ...], kind: CollectiveKind
) -> None:
    topology = with_failed_links(build(6), *failures)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "breadth-first" not in found.summary.split(",")[0]
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations
        assert report.height_max <= 4


@pytest.mark.parametrize(("boxes", "lone"), [(24, [(3, 0)]), (32, [(3, 0), (17, 5)]), (40, [(0, 1), (3, 0)])])
def test_lone_ranks_on_different_planes(boxes: int, lone: list[tuple[int, int]]) -> None:
    failures = [f"box{box}.gpu{gpu}--box{box}.nvswitch" for box, gpu in lone]
    topology = with_failed_links(dgx_a100(boxes), *failures)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by class trees" in found.summary
    assert found.algbw == optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=found.algbw)
        assert not report.violations
        assert report.height_max <= 3


def everywhere(n: int) -> Meetings:
    return Meetings(np.ones((n, 2), dtype=bool), np.ones((n, 2), dtype=bool))


def check_deliveries(found: Deliveries, blocks: list[int], exits: list[int]) -> None:
    """Every child sends what its exits allow, and is sent every block of others once."""
    sent = sent_by(found, blocks)
    assert sent.min() >= 0
    np.testing.assert_array_equal(sent.sum(axis=1), exits)
    np.testing.assert_array_equal(sent.sum(axis=0), sum(blocks) - np.array(blocks))
    rows = list(zip(*(column.tolist() for column in vars(found).values()), strict=True))
    given = {(root, block, child) for root, block, child, _ in rows}
    assert len(given) == len(rows)
    for root, block, child, by in rows:
        assert len({root, child, by}) == 3
        assert (root, block, by) not in given
        assert block < blocks[root]


def test_deliveries_by_others_are_spread_evenly() -> None:
    blocks = [8] * 30 + [1, 7]
    exits = [sum(blocks) - count for count in blocks]
    found = deliveries(np.array(blocks), np.array(exits), everywhere(32))
    assert isinstance(found, Deliveries)
    check_deliveries(found, blocks, exits)
    by_lone = sent_by(found, blocks)[30, :30]
    assert by_lone.max() - by_lone.min() <= 1


def test_deliveries_between_children_that_no_plane_joins() -> None:
    blocks = [2] * 20 + [1, 1]
    exits = [sum(blocks) - count for count in blocks]
    meets = everywhere(22)
    for child, plane in ((20, 0), (21, 1)):
        for side in (meets.out, meets.into):
            side[child, plane] = False
    found = deliveries(np.array(blocks), np.array(exits), meets)
    assert isinstance(found, Deliveries)
    check_deliveries(found, blocks, exits)
    sent = sent_by(found, blocks)
    assert not sent[20, 21]
    assert not sent[21, 20]


def test_too_many_deliveries_are_refused() -> None:
    blocks = [1, 4, 1, 4, 1, 4, 4, 4]
    exits = [sum(blocks) - count for count in blocks]
    assert "too many" in str(deliveries(np.array(blocks), np.array(exits), everywhere(8)))
