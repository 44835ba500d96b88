"""Layouts that the search of pipelines climbs through."""

from __future__ import annotations

from math import prod

from treadle.parallelism.searching.pipeline_search import LayoutSpace, PipelineLayout

SPACE = LayoutSpace(n_ranks=48, sequences=96, blocks=12)


def words(layout: PipelineLayout) -> str:
    return f"{'x'.join(map(str, layout.mesh.shape))}: {layout.form.micro_batches}"


def test_neighbours_change_one_thing_and_reach_all_that_divides() -> None:
    found = list(SPACE.starts())
    assert [*map(words, found)] == ["6x8: 1", "2x3x8: 32", "4x3x4: 32", "8x3x2: 32"]
    assert [*map(words, SPACE.neighbours(found[1]))] == ["2x3x8: 16", "2x3x8: 96", "2x6x4: 32", "6x8: 1"]
    for one in found:
        found += [other for other in SPACE.neighbours(one) if other not in found]
    assert len(found) == 189
    assert all(prod(one.mesh.shape) == 48 and 96 % one.form.micro_batches == 0 for one in found)
