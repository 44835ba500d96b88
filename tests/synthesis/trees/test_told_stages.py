"""Stages that long work tells of while it goes on, and that it ends at when its time is up."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.allreduce_fabrics import allreduce
from treadle.context import Context, TimeLimitError, under
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce import UnitLimits, solve_allreduce
from treadle.synthesis.trees.fixed_trees import Cut
from treadle.synthesis.trees.groups.group_optimum import group_optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.tight_cuts import _choices
from treadle.topologies import parse

OF_THE_CORE = {
    *("cut search", "shortest paths", "switch removal", "tree packing", "trees of two hops"),
    "vertex matching",
}
"""Short work of the C++ core, which reports only where it takes over a millisecond, as on a busy machine."""


BY_STAGES = {
    "height bound",
    "height first",
    "local search",
    "optimum",
    "paths",
    "tight cuts",
    "tree packing",
    "trees per root",
}
"""Stages of packing, which depend on the trees."""


def told(run: object) -> set[str]:
    """Stages of a run, without short ones; what is done is never beyond the total, where one is known."""
    stages = set()

    def progress(stage: str, done: int, total: int) -> None:
        assert done >= 0
        assert not total or done <= total
        stages.add(stage)

    assert callable(run)
    with under(Context(progress=progress)):
        run()
    return stages - OF_THE_CORE


@pytest.mark.parametrize(
    ("fabric", "stages"),
    [
        ("dgx_a100(3)", {"tight cuts", "units of equal children"}),
        (
            "with_failed_links(leaf_spine(3,2,gpus_per_leaf=2),'leaf1--spine0')",
            {"tight cuts", "planes shared by children", "units of children"},
        ),
        (
            "with_failed_links(dgx_a100(3),'box0.gpu0--box0.nvswitch')",
            {"tight cuts", "paths of trees"},
        ),
    ],
)
def test_stages_of_decompositions(fabric: str, stages: set[str]) -> None:
    topology = parse(fabric)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    assert told(lambda: decompose(topology, collective)) == stages


@pytest.mark.parametrize(
    ("packed", "limits", "stage"),
    [(True, None, None), (True, UnitLimits(6), "whole trees"), (False, None, "allreduce trees")],
)
def test_stages_of_an_allreduce(packed: bool, limits: UnitLimits | None, stage: str | None) -> None:
    ring = parse("ring(4)")
    pack = pack_forest if packed else None
    found = told(lambda: solve_allreduce(ring, allreduce(ring), pack=pack, limits=limits))
    assert found - BY_STAGES == {"cuts of ranks", "allreduce cuts"} | ({stage} if stage else set())


def test_late_work_ends_at_its_first_stage() -> None:
    """Stage by stage, by the words of the error."""
    late = Context(deadline=0.0)
    boxes, ring = parse("dgx_a100(3)"), parse("ring(4)")
    gather = on_all_ranks(boxes, CollectiveKind.ALLGATHER)
    one = Cut({3: 1}, 2, (0,))  # type: ignore[arg-type]
    for stage, run in (
        ("tight cuts", lambda: decompose(boxes, gather)),
        ("tight cuts", lambda: list(_choices([one], one, [1], Fraction(1, 2)))),
        ("cuts of ranks", lambda: solve_allreduce(ring, allreduce(ring))),
        ("refinement of groups", lambda: group_optimum(boxes, gather)),
    ):
        with pytest.raises(TimeLimitError) as ended, under(late):
            run()
        assert str(ended.value) == stage
