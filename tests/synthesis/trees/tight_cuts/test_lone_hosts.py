"""Ranks that failures cut off from their boxes, and their network cards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies.catalogue.platforms import dgx_a100, dgx_a100_flat
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

FAILED = "box3.gpu0--box3.nvswitch"


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
