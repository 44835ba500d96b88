"""Trees of boxes with failed links leave by ranks near their roots; the latest is as early as can be."""

from __future__ import annotations

from functools import cache

import pytest

from samples.nested_fabrics import case
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.topologies import parse
from treadle.verification.schedules import verify


@cache
def damaged(expression: str) -> FactoredSynthesis:
    topology = parse(expression)
    found = decompose(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert isinstance(found, FactoredSynthesis)
    return found


@pytest.mark.parametrize(
    "links", ["'box0.gpu3--ib0'", "'box0.gpu3--ib0','box1.gpu14--ib0','box1.gpu15--ib0'"]
)
def test_boxes_of_mi250_with_failed_links_are_one_hop_higher(links: str) -> None:
    """An undamaged box takes 6: one into it, five within. Here trees leave one hop late, not four or five."""
    expression = f"with_failed_links(mi250(4),{links})"
    found = damaged(expression)
    topology = parse(expression)
    report = verify(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), found.schedule)
    assert report.is_ok
    assert report.height_is_exact
    assert report.height_max == height_max(found.schedule.explicit()) <= 7


def test_few_takers_of_many_suppliers() -> None:
    """Only some children have native trees; every child may supply exits."""
    asked = case(50890)
    found = decompose(asked.topology, asked.collective, budget=asked.budget)
    assert isinstance(found, FactoredSynthesis)
    assert verify(asked.topology, asked.collective, found.schedule, claimed_algbw=found.algbw).is_ok
