"""Breadth first in boxes of direct links: verified, damaged ones refused, less loaded than ways, data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.switched_ranks import linked_boxes
from treadle.planning import run, solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize(
    "fabric",
    [
        linked_boxes(2, 2),
        linked_boxes(2, 5),
        linked_boxes(3, 4),
        linked_boxes(4, 3),
        linked_boxes(3, 5, chords=2),
    ],
    ids=lambda one: one.name,
)
def test_boxes_of_rings(fabric: Topology) -> None:
    for kind in GATHERING:
        found = solve(fabric, kind, algorithm="box-bfb")
        assert found.report.is_ok
        assert found.algbw <= found.optimal_algbw
        assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def test_mi250() -> None:
    """6 steps to and 6 back, of which one across; the direct exchange loads links of the box far more."""
    for kind, steps in zip(GATHERING, (6, 6, 11), strict=True):
        found = solve("mi250(2)", kind, algorithm="box-bfb")
        assert found.report.is_ok
        assert found.report.n_steps == steps

    across = solve("mi250(2)", "allreduce", algorithm="factor-allreduce")
    assert found.algbw > 2 * across.algbw


def test_damaged_ones_are_refused() -> None:
    fabric = linked_boxes(3, 4)
    collective = on_all_ranks(fabric, CollectiveKind.ALLREDUCE)
    (entry,) = solve(fabric, "allreduce", algorithm="box-bfb").plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    steps, chance = entry.schedule.reduce, np.random.default_rng(5)
    assert steps is not None
    for _ in range(40):
        send = int(chance.integers(steps.n_sends))
        columns = {key: np.delete(getattr(steps, key), send) for key in ("shard", "link", "low", "high")}
        offset = steps.step_offset - (steps.step_offset > send)
        mutant = replace(entry.schedule, reduce=replace(steps, step_offset=offset, **columns))
        assert not verify(fabric, collective, mutant).is_ok
