"""What schedulers want to be tried with at sizes: options they heed, that make different right schedules."""

from __future__ import annotations

import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes
from treadle.planning import schedulers, solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import parse
from treadle.topologies.topology import Topology


@pytest.mark.parametrize(
    "fabric",
    [in_boxes(2, 3), linked_boxes(2, 4), parse("torus(2, 3)"), parse("ring(5)")],
    ids=lambda one: one.name,
)
def test_trials_are_right_schedules(fabric: Topology) -> None:
    for record in schedulers(plug_ins=False):
        for kind in record.collectives:
            collective = on_all_ranks(fabric, kind) if kind in _ALL else None
            if collective is None or record.unsupported(fabric, collective) is not None:
                continue
            first, *others = record.trials(fabric, collective)
            assert first == {}
            assert len(others) == len({str(sorted(one.items())) for one in others})
            for options in others:
                assert set(options) <= set(record.supported_options)
                found = solve(fabric, kind, algorithm=record.name, **options)  # type: ignore[arg-type]
                assert found.report.is_ok


_ALL = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
