"""Symmetries of groups: against all permutations of small fabrics, and what the optimum makes of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.groups.group_samples import grouped
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.synthesis.trees.groups import group_optimum as module
from treadle.synthesis.trees.groups import known_trees
from treadle.synthesis.trees.groups.group_optimum import group_optimum
from treadle.synthesis.trees.groups.known_trees import forests_of_trees
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.schedules import verify


def by_symmetries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No classes but those of known symmetries from here on."""
    monkeypatch.setattr(module, "_MIN_LINKS_PER_CLASS", 10**9)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize(
    ("fabric", "shape", "forward", "dead"),
    [
        ("torus(4,4)", (4, 4), True, "n0_0--n0_1"),
        ("generalized_kautz(3,12)", (4, 3), True, ""),
        ("leaf_spine(2,2,gpus_per_leaf=4,oversubscription=2)", (2, 4), False, ""),
        ("dgx_h100(2)", (2, 8), True, "box0.gpu0--ib0"),
    ],
)
def test_trees_of_a_vertex_are_the_schedule(
    fabric: str,
    shape: tuple[int, int],
    forward: bool,
    dead: str,
    kind: CollectiveKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology, collective = grouped(kind, fabric, shape, 0, forward)
    topology = without_failures(topology, dead) if dead else topology
    expected = group_optimum(topology, collective)
    by_symmetries(monkeypatch)
    found = group_optimum(topology, collective)
    assert found.has_trees
    assert found.lower == found.upper == expected.lower == expected.upper
    for group in range(collective.n_groups or 0):
        for reducing in found.families:
            assert sum(tree.bandwidth for tree in found.trees(group, reducing=reducing)) == found.lower
    report = verify(topology, collective, forests_of_trees(found))
    assert not report.violations
    assert report.algbw == found.lower


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_trees_of_too_many_units_are_rounded(kind: CollectiveKind, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, collective = grouped(kind, "random_regular_digraph(12,3)", (3, 4), 0, True)
    by_symmetries(monkeypatch)
    found = group_optimum(topology, collective)
    monkeypatch.setattr(known_trees, "UNIT_LIMIT", 1)
    monkeypatch.setattr(known_trees, "_GRID", 1000)
    report = verify(topology, collective, forests_of_trees(found))
    assert not report.violations
    assert report.algbw is not None
    assert found.lower * Fraction(99, 100) < report.algbw <= found.lower
