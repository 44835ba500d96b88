"""Pipelines: cuts against all cuts, and the timeline against the formula of equal stages."""

from __future__ import annotations

from itertools import combinations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.planning.parallelising.stage_cuts import StagePass, best_cut, pipeline_seconds

SECONDS = st.one_of(st.integers(1, 20), st.just(inf))


def all_cuts(n_layers: int, n_stages: int) -> list[tuple[int, ...]]:
    ends = combinations(range(1, n_layers), n_stages - 1)
    return [tuple(b - a for a, b in zip((0, *inner), (*inner, n_layers), strict=True)) for inner in ends]


@given(st.data(), st.integers(1, 4), st.integers(1, 7), st.integers(1, 5))
def test_no_cut_is_better(data: st.DataObject, n_stages: int, n_layers: int, micro_batches: int) -> None:
    table = data.draw(
        st.lists(st.lists(SECONDS, min_size=7, max_size=7), min_size=n_stages, max_size=n_stages)
    )

    def value(cut: tuple[int, ...]) -> float:
        own = [table[stage][layers - 1] for stage, layers in enumerate(cut)]
        return (micro_batches - 1) * max(own) + sum(own) if max(own) < inf else inf

    least = min(map(value, all_cuts(n_layers, n_stages)), default=inf)
    found = best_cut(n_layers, n_stages, micro_batches, lambda stage, layers: table[stage][layers - 1])
    if least == inf:
        assert found is None
    else:
        assert found is not None
        assert value(found) == least


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (4, 8), (8, 8)])
def test_equal_stages_stand_still_for_a_pass_of_each_other(stages: int, micro_batches: int) -> None:
    """Narayanan et al. 2021: (p - 1) / m of the ideal time."""
    found = pipeline_seconds([StagePass(1.0, 2.0)] * stages, micro_batches)
    assert found == 3 * (micro_batches + stages - 1)


def test_sends_and_updates_take_their_time() -> None:
    ideal = pipeline_seconds([StagePass(1.0, 2.0)] * 2, 1)
    assert pipeline_seconds([StagePass(1.0, 2.0)] * 2, 1, send_s=0.5) == ideal + 2 * 0.5
    # the last stage waits for nobody behind it: its update runs while the first one is still busy
    assert pipeline_seconds([StagePass(1.0, 2.0), StagePass(1.0, 2.0, 1.5)], 1) == ideal
    assert pipeline_seconds([StagePass(1.0, 2.0, 1.5), StagePass(1.0, 2.0)], 1) == ideal + 1.5
