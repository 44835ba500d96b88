"""The verifier accepts hand-made forests, and rejects every mutant that a slow checker cannot vouch for."""

from __future__ import annotations

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    ForestSchedule,
    TreeSpec,
    forest_from_trees,
)
from treadle.topologies.topology import TopologyBuilder
from treadle.verification.schedules import Report, ViolationKind, verify


def kinds(report: Report) -> set[ViolationKind]:
    return {violation.kind for violation in report.violations}


def test_wrapped_sum_of_units_is_no_multiplicity() -> None:
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "b", 1)
    topology = builder.build()
    # 4 * 2**62 + 7 is 7 modulo 2**64
    paths = {1: [((0,), 2**62)] * 4 + [((0,), 7)]}
    forest = forest_from_trees(Direction.BROADCAST, 2, [TreeSpec(0, 7, [-1, 0], paths)])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    report = verify(topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))
    assert kinds(report) == {ViolationKind.UNITS}
