"""Cuts of layers into pipeline stages against all cuts."""

from __future__ import annotations

from itertools import combinations
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from treadle.planning.parallelising.stage_cuts import best_cut

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
