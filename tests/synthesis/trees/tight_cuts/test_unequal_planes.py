"""Outermost pieces whose planes serve children unequally: judged as explicit trees, and in their own form."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece
from samples.factored.formula_stars import (
    plane_sample,
    shared_star,
    spread_at_random,
)
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    PlaneTrees,
)
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation import plane_allocation
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies.catalogue.platforms import dgx_a100
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_planes_on_a_star_span_and_use_every_unit_once(planes: int) -> None:
    rng = random.Random(planes)
    for n, trees, block in [(2, 2, 1), (3, 1, 1), (4, 6, 2), (5, 4, 4), (7, 3, 1)]:
        table = spread_at_random(rng, n, planes, trees)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        used = out.any(axis=0) | into.any(axis=0)
        out, into = out[:, used], into[:, used]
        topology, collective, found = shared_star(out, into, trees, block)
        if planes == 3 and isinstance(found, Unsupported):
            continue
        assert isinstance(found, PlaneTrees)
        schedule = one_piece(topology, found)
        for form in (schedule, schedule.explicit()):
            report = verify(topology, collective, form)
            assert not report.violations
            assert report.algbw is not None
            assert report.algbw >= n * trees
        check_lookups(found, topology.n_links)


def test_condition_c_does_not_suffice_for_planes() -> None:
    # docs/proofs/root-pieces.md, proposition 14 (d)
    sums = np.array([[3, 0], [3, 0], [1, 2], [1, 2]])
    assert "no direct forest" in str(plane_allocation(sums, sums, np.ones(4, dtype=np.int64)))


def failed_nics(boxes: int, *nics: tuple[int, int]) -> Topology:
    """DGX A100 boxes some of whose NICs have lost their rail."""
    return with_failed_links(dgx_a100(boxes), *(f"box{box}.nic{i}--ib{i % 2}" for box, i in nics))


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
@pytest.mark.parametrize(("boxes", "nics"), [(4, [(1, 3)]), (6, [(0, 0), (4, 7)]), (5, [(2, 1), (2, 3)])])
def test_boxes_with_failed_links_on_two_rails(
    boxes: int, nics: list[tuple[int, int]], kind: CollectiveKind
) -> None:
    topology = failed_nics(boxes, *nics)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by plane trees" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 3}, "make no such trees"),
        ({"place": [0, 0]}, "place must hold"),
        ({"group_units": [[[5, 2]]], "group": [0, 0, 0, 0]}, "must sum to the trees"),
        ({"group_units": [[[7, -1]]], "group": [0, 0, 0, 0]}, "found -1"),
        ({"group": [3, 1, 1, 0]}, "found 3"),
        ({"group": [0, 1, 0]}, "group has"),
        ({"group": [0, 1, 1, 0]}, "groups that all have children"),
        ({"group_units": np.zeros((3, 2, 2))}, "two axes of groups"),
        ({"native_units": [2, 2, 4, 2]}, "different numbers of unit trees"),
        ({"pair_root": [], "pair_child": [], "pair_units": np.zeros((0, 3))}, "3 columns, group_units 2"),
        ({"pair_root": []}, "pair_child has"),
        ({"out_offset": [[0]]}, "out_offset has shape"),
    ],
)
def test_plane_trees_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    _, _, trees = plane_sample()
    columns = {
        key: value if isinstance(value, int) else np.array(value, dtype=getattr(trees, key).dtype)
        for key, value in changes.items()
    }
    with pytest.raises(ScheduleError, match=message):
        replace(trees, **columns)


def test_the_verifier_sees_units_on_another_plane() -> None:
    topology, collective, trees = plane_sample()
    assert not verify(topology, collective, one_piece(topology, trees)).violations
    moved = np.array(trees.pair_units)
    moved[0] = moved[0][::-1]
    report = verify(topology, collective, one_piece(topology, replace(trees, pair_units=moved)))
    assert any("pass one switch" in str(one) for one in report.violations)
