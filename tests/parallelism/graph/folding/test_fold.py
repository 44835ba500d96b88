"""Captured models, folded: parts against those captured alone, and what cannot be folded."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.samples import Block, Language, Shared, Stack  # noqa: E402
from treadle.errors import TreadleError  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.graph.compute_graph import ComputeGraph, Source, TensorRef  # noqa: E402
from treadle.parallelism.graph.folding.fold import folded, repeated  # noqa: E402
from treadle.parallelism.graph.model_graph import ModelGraph  # noqa: E402


def language(*inner: int, heads: int = 0, tied: bool = False, bare: bool = False) -> ComputeGraph:
    def make():
        words = torch.zeros(4, 32, dtype=torch.long)
        model = Language(100, 16, inner, heads=heads, tied=tied, bare=bare)
        return model, (words, torch.zeros_like(words))

    return capture(make)


def told(model: ModelGraph) -> list[tuple[str, int]]:
    return [(part.name, part.repeats) for part in model.parts]


def elements(graph: ComputeGraph) -> int:
    return sum(
        graph.elements(TensorRef(n)) for n, x in enumerate(graph.nodes) if x.source is Source.PARAMETER
    )


def test_the_last_layer_folds_whatever_follows_it() -> None:
    """Without a norm before the head its gradient comes from a product of two dimensions, not of three."""
    model = folded(language(24, 24, 24, bare=True), name="m")
    assert told(model) == [("embedding", 1), ("block", 3), ("head", 1)]


def test_layers_that_alternate_fold_by_pairs() -> None:
    model = folded(language(24, 48, 24, 48), name="m")
    assert told(model) == [("embedding", 1), ("block", 2), ("head", 1)]
    assert {"layers.[0:3:2].w1.weight", "layers.[1:4:2].w1.weight"} < set(model.part("block").parameters)
    assert len(model.part("block").parameters) == 8


def test_nothing_that_repeats_is_one_part() -> None:
    graph = language(24, 48)
    model = folded(graph, name="m")
    assert told(model) == [("model", 1)]
    assert model.parts[0].graph == graph


def test_a_layer_that_runs_several_times_is_not_taken_for_several() -> None:
    graph = capture(lambda: (Shared(16), (torch.empty(4, 16),)))
    model = folded(graph, name="m")
    assert told(model) == [("model", 1)]
    assert model.parameters == elements(graph)


def test_layers_that_grow_are_one_part() -> None:
    model = folded(capture(lambda: (Stack(8, 16, 32, 64), (torch.empty(4, 8),))), name="m")
    assert told(model) == [("model", 1)]


def test_a_block_is_repeated_as_often_as_is_said() -> None:
    def make():
        return Block(64, 8, 2, 96), (
            torch.empty(4, 32, 64, requires_grad=True), torch.empty(32, 8), torch.empty(32, 8)
        )  # fmt: skip

    graph = capture(make)
    model = repeated(graph, name="m", repeats=80)
    assert told(model) == [("block", 80)]
    assert model.parameters == 80 * elements(graph)
    with pytest.raises(TreadleError, match="a block that is repeated feeds itself"):
        repeated(capture(lambda: (Stack(16, 8), (torch.empty(4, 16),))), name="m", repeats=2)
