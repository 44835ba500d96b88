"""Cuts of layers into pipeline stages against all cuts."""

from __future__ import annotations

from itertools import accumulate, combinations

from hypothesis import given
from hypothesis import strategies as st

from treadle.parallelism.searching.pipeline_run import best_cut


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
