"""Outermost pieces on several planes that serve unequal children in the same shares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece, planes_star
from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import RelayPlanes
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.even_planes import relay_planes
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.topologies.catalogue.platforms import add_box
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def mixed(sizes: list[int], planes: int) -> Topology:
    """Boxes of these sizes, GPU j of each on plane j mod planes."""
    builder = TopologyBuilder("mixed boxes")
    tops = [builder.switch(f"ib{i}") for i in range(planes)]
    for i, size in enumerate(sizes):
        for j, name in enumerate(add_box(builder, f"box{i}", size, 300)):
            builder.duplex(name, tops[j % planes], 25)
    return builder.build()


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
@pytest.mark.parametrize(
    ("sizes", "planes"), [([8, 4, 6, 2, 4], 2), ([3, 6, 9, 3, 6], 3), ([2, 4, 6, 8, 2, 4], 2)]
)
def test_mixed_boxes(sizes: list[int], planes: int, kind: CollectiveKind) -> None:
    topology = mixed(sizes, planes)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by relay planes" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations
        assert report.height_max <= 5


def shared(units: list[list[int]], block: int = 1) -> tuple[Topology, Collective, RelayPlanes | Unsupported]:
    """A star of planes; a rank has `units[s]` unit trees on plane s, which just fit."""
    trees = np.array(units).T * block
    into = trees.sum(axis=0) - trees
    topology = planes_star(into, into)
    weights = tuple(trees.sum(axis=1).tolist())
    collective = Collective(CollectiveKind.ALLGATHER, tuple(range(len(trees))), weights=weights)
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.array(weights))
    return topology, collective, relay_planes(Outermost.of(cutting, {}, block))


STARS = [
    [[1, 2, 1, 2], [1, 1, 2, 2]],
    [[3, 1, 2, 2, 0], [1, 2, 0, 1, 2]],
    [[2, 2, 2], [1, 1, 1], [2, 3, 1]],
    [[4, 4, 2, 2, 2, 2], [2, 4, 3, 1, 2, 2]],
]


@pytest.mark.parametrize("units", STARS)
@pytest.mark.parametrize("block", [1, 3])
def test_trees_on_planes_span_and_use_every_unit_once(units: list[list[int]], block: int) -> None:
    topology, collective, trees = shared(units, block)
    assert isinstance(trees, RelayPlanes)
    np.testing.assert_array_equal(trees.plane_units, np.array(units) * block)
    schedule = one_piece(topology, trees)
    for form in (schedule, schedule.explicit()):
        report = verify(topology, collective, form)
        assert not report.violations
        assert report.algbw == sum(collective.weights or ())
    check_lookups(trees, topology.n_links)


def sample() -> tuple[Topology, Collective, RelayPlanes]:
    topology, collective, trees = shared(STARS[0])
    assert isinstance(trees, RelayPlanes)
    assert len(trees.relay_plane)
    return topology, collective, trees


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("plane_units", lambda a: a + 1, "place has|expected"),
        ("place", lambda a: a * 0, "once each"),
        ("place", lambda a: a[:-1], "expected"),
        ("relay_plane", lambda a: a + 2, "found"),
        ("relay_count", lambda a: a + 1, "its trees take|more than"),
        ("out_offset", lambda a: a - 1, "found -1"),
    ],
)
def test_relay_planes_that_make_no_sense_are_refused(key: str, change: object, message: str) -> None:
    _, _, trees = sample()
    assert callable(change)
    with pytest.raises(ScheduleError, match=message):
        replace(trees, **{key: change(np.array(getattr(trees, key)))})


def test_the_verifier_sees_units_of_another_plane() -> None:
    topology, collective, trees = sample()
    swapped: Int64Array = np.array(trees.in_links)
    swapped[[0, 1]] = swapped[[0, 1]][:, ::-1]
    report = verify(topology, collective, one_piece(topology, replace(trees, in_links=swapped)))
    assert report.violations


def test_plan_files_round_trip(tmp_path: Path) -> None:
    topology, collective, trees = sample()
    schedule = one_piece(topology, trees)
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(12))
    save_plan(tmp_path / "plan", plan)
    assert load_plan(tmp_path / "plan") == plan
