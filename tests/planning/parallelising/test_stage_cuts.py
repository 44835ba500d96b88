"""Cuts of layers into pipeline stages against all cuts."""

from __future__ import annotations

from itertools import accumulate, combinations, pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.parallelism.evaluation.stage_timeline import StageTimes, one_f_one_b
from treadle.parallelism.searching.pipeline_run import best_cut, least_of_cuts, least_pipeline_s


def all_cuts(n_layers: int, n_stages: int) -> list[tuple[int, ...]]:
    ends = combinations(range(1, n_layers), n_stages - 1)
    return [tuple(b - a for a, b in zip((0, *inner), (*inner, n_layers), strict=True)) for inner in ends]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 4), st.integers(1, 5))
def test_no_cut_is_better(layers: list[int], n_stages: int, micro_batches: int) -> None:
    def stages(cut: tuple[int, ...]) -> list[int]:
        return [sum(layers[b - a : b]) for a, b in zip(cut, accumulate(cut), strict=True)]

    def value(cut: tuple[int, ...]) -> tuple[int, int]:
        own = stages(cut)
        return (micro_batches - 1) * max(own) + sum(own), 0 if micro_batches == 1 else max(own)

    cuts = all_cuts(len(layers), n_stages)
    found = best_cut([float(one) for one in layers], n_stages)
    if not cuts:
        assert found is None
        return
    assert found is not None
    assert (len(found), sum(found)) == (n_stages, len(layers))
    best = [cut for cut in cuts if max(stages(cut)) == min(max(stages(one)) for one in cuts)]
    assert value(found) == min(map(value, cuts))
    assert sum(one**2 for one in stages(found)) == min(sum(one**2 for one in stages(cut)) for cut in best)


@given(
    times=st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=6),
    batches=st.integers(1, 12),
)
def test_no_pipeline_is_quicker_than_the_least(times: list[tuple[float, float]], batches: int) -> None:
    """However uneven its stages; with one micro-batch, or in one stage, there is nothing to lose."""
    stages = [StageTimes(forward, backward, 0.0, forward + backward) for forward, backward in times]
    whole = sum(map(sum, times))
    least = least_pipeline_s(whole, len(stages), batches)
    assert least <= one_f_one_b(stages, batches, 0.0) * (1 + 1e-9)
    assert least >= whole * batches / len(stages) * (1 - 1e-9)
    if batches == 1 or len(stages) == 1:
        assert least == pytest.approx(whole * batches)


def test_stages_that_shrink_come_near_the_least() -> None:
    """Each has the share (1 - 1/m)^k that the bound leaves it."""
    batches, share = 8, 1 - 1 / 8
    stages = [StageTimes(0.0, share**at, 0.0, share**at) for at in range(3)]
    least = least_pipeline_s(sum(one.compute_s for one in stages), 3, batches)
    assert least == pytest.approx(batches)
    assert least <= one_f_one_b(stages, batches, 0.0) <= 1.25 * least


@given(
    times=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7),
    n_stages=st.integers(1, 4),
    batches=st.integers(1, 9),
)
def test_no_cut_of_layers_undercuts_the_least_of_cuts(
    times: list[tuple[int, int]], n_stages: int, batches: int
) -> None:
    """It is reached where the last stage is the longest, as backward passes of one layer are."""
    by_layer = [float(forward + backward) for forward, backward in times]
    least, found = least_of_cuts(by_layer, n_stages, batches), []
    for cut in all_cuts(len(times), n_stages):
        ends = [0, *accumulate(cut)]
        parts = [times[a:b] for a, b in pairwise(ends)]
        forward, backward = ([sum(pair[at] for pair in part) for part in parts] for at in (0, 1))
        stages = [StageTimes(one, two, 0, one + two) for one, two in zip(forward, backward, strict=True)]
        found.append(one_f_one_b(stages, batches, 0.0))
    assert least <= min(found, default=inf)
    if n_stages == 1 or (batches > n_stages and by_layer and max(by_layer[:-1], default=0) == 0):
        assert least == min(found, default=inf)
