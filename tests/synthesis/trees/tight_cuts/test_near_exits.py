"""Trees of boxes with failed links leave by ranks near their roots; the latest is as early as can be."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.nested_fabrics import case
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.synthesis.trees.tight_cuts.near_egress import assigned
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


def _least_latest(need: list[int], have: list[int], depth: np.ndarray) -> int:
    """By Hall's theorem: no set of children needs more than the suppliers within a limit have."""
    sets = [one for size in range(1, len(need) + 1) for one in itertools.combinations(range(len(need)), size)]
    for limit in np.unique(depth).tolist():
        if all(
            sum(need[y] for y in chosen)
            <= sum(units for z, units in enumerate(have) if any(depth[y, z] <= limit for y in chosen))
            for chosen in sets
        ):
            return int(limit)
    raise AssertionError("units are too few")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_latest_exit_is_as_early_as_halls_theorem_allows(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 5))
    need = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    cuts = sorted(data.draw(st.lists(st.integers(0, sum(need)), min_size=n - 1, max_size=n - 1)))
    have = np.diff([0, *cuts, sum(need)]).tolist()
    depth = np.array(
        data.draw(st.lists(st.lists(st.integers(1, 4), min_size=n, max_size=n), min_size=n, max_size=n))
    )
    np.fill_diagonal(depth, 0)
    flow = assigned(need, have, depth)
    assert [sum(taken.values()) for taken in flow] == need
    assert [sum(taken.get(z, 0) for taken in flow) for z in range(n)] == have
    used = [int(depth[y, z]) for y, taken in enumerate(flow) for z, units in taken.items() if units]
    needed = [y for y in range(n) if need[y]]
    if needed:
        rows = depth[needed]
        assert max(used) == _least_latest([need[y] for y in needed], have, rows)


def test_few_takers_of_many_suppliers() -> None:
    """Only some children have native trees; every child may supply exits."""
    asked = case(50890)
    found = decompose(asked.topology, asked.collective, budget=asked.budget)
    assert isinstance(found, FactoredSynthesis)
    assert verify(asked.topology, asked.collective, found.schedule, claimed_algbw=found.algbw).is_ok
