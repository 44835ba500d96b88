"""The verifier accepts hand-made forests, and rejects every mutant that a slow checker cannot vouch for."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    ForestSchedule,
    TreeSpec,
    forest_from_trees,
)
from treadle.topologies.catalogue.direct import from_arcs
from treadle.verification.schedules import ViolationKind, verify

WRAPPED = [*[((0,), 2**62)] * 4, ((0,), 7)]
"""4 * 2**62 + 7 units are 7 modulo 2**64."""


@pytest.mark.parametrize(
    ("n", "kind", "paths", "wrong"),
    [
        (2, "broadcast", [((0,), 7)], set()),
        (2, "broadcast", WRAPPED, {ViolationKind.UNITS}),
        (2, "reduce", [((0,), 7)], {ViolationKind.SHAPE}),
        (3, "broadcast", [((0,), 7)], {ViolationKind.SHAPE}),
    ],
)
def test_kind_ranks_and_units(n: int, kind: str, paths: Any, wrong: set[ViolationKind]) -> None:
    """Seven unit trees from rank 0 to rank 1."""
    topology = from_arcs("line", range(n - 1), range(1, n), n=n)
    collective = on_all_ranks(topology, CollectiveKind(kind), root=0)
    forest = forest_from_trees(Direction.BROADCAST, 2, [TreeSpec(0, 7, [-1, 0], {1: paths})])
    report = verify(topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))
    assert {violation.kind for violation in report.violations} == wrong
