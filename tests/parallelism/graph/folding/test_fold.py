"""Captured models, folded: parts against those captured alone, and what cannot be folded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.samples import Block, Gated, Language, Mixture, Shared, Stack  # noqa: E402
from treadle.errors import TreadleError  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Source, TensorRef  # noqa: E402
from treadle.parallelism.graph.folding.cuts import Anatomy  # noqa: E402
from treadle.parallelism.graph.folding.extraction import extracted, signature  # noqa: E402
from treadle.parallelism.graph.folding.fold import folded, repeated  # noqa: E402
from treadle.parallelism.graph.model_files import read_model_graph  # noqa: E402
from treadle.parallelism.graph.model_graph import ModelGraph, model_to_json  # noqa: E402


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


def test_a_folded_layer_is_the_layer_captured_alone() -> None:
    model = folded(language(24, 24, 24), name="m")
    assert told(model) == [("embedding", 1), ("block", 3), ("head", 1)]
    alone = capture(lambda: (Gated(16, 24), (torch.empty(4, 32, 16, requires_grad=True),)))
    expected = repeated(alone, name="m", repeats=3)
    block = model.part("block")
    compact = extracted(Anatomy(alone), None, None, "")
    assert signature(block) == signature(replace(expected.parts[0], graph=compact.graph))
    assert [n.operator for n in block.graph.nodes] == [n.operator for n in alone.nodes]
    assert model.tokens == expected.tokens == 128


@pytest.mark.parametrize("tied", [False, True])
def test_blocks_of_llama_fold_with_their_positions(tied: bool) -> None:
    graph = language(24, 24, heads=4, tied=tied)
    model = folded(graph, name="m")
    assert told(model) == [("embedding", 1), ("block", 2), ("head", 1)]
    assert model.parameters == elements(graph)
    assert [(tie.first, tie.second) for tie in model.ties] == (
        [(("embedding", "embedding.weight"), ("head", "embedding.weight"))] if tied else []
    )
    block = model.part("block")
    assert set(block.parameters) == {
        f"layers.*.{name}.weight" for name in ("norm_1", "norm_2", "wq", "wk", "wv", "wo", "w1", "w2", "w3")
    }
    assert {node.operator for node in block.graph.nodes} >= {"aten.cos.default", "aten.arange.default"}
    letters = {atom.name: atom.size for atom in block.graph.atoms}
    assert (letters[model.batch], letters[model.sequence]) == (4, 32)
    assert read_model_graph(json.dumps(model_to_json(model))) == model


def test_the_last_layer_folds_whatever_follows_it() -> None:
    """Without a norm before the head its gradient comes from a product of two dimensions, not of three."""
    model = folded(language(24, 24, 24, bare=True), name="m")
    assert told(model) == [("embedding", 1), ("block", 3), ("head", 1)]


def test_every_operator_of_a_model_is_in_one_part() -> None:
    graph = language(24, 24, heads=4)
    model = folded(graph, name="m")
    counts = {part.name: sum(n.kind is OperatorKind.EINSUM for n in part.graph.nodes) for part in model.parts}
    assert sum(part.repeats * counts[part.name] for part in model.parts) == sum(
        node.kind is OperatorKind.EINSUM for node in graph.nodes
    )


def test_several_kinds_of_layers_are_several_parts() -> None:
    model = folded(language(24, 24, 48, 48, 48), name="m")
    assert told(model) == [("embedding", 1), ("block 1", 2), ("block 2", 3), ("head", 1)]
    assert model.order == (0, 1, 1, 2, 2, 2, 3)
    assert "layers.*.w1.weight" in model.part("block 1").parameters
    assert "layers.[2:5].w1.weight" in model.part("block 2").parameters


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


def mixture(way: str) -> ComputeGraph:
    def make():
        words = torch.zeros(4, 32, dtype=torch.long)
        return Mixture(100, 16, 2, way=way), (words, words)

    return capture(make)


@pytest.mark.parametrize("way", ["placed", "sorted"])
def test_grouped_heads_experts_and_tied_embeddings_fold(way: str) -> None:
    graph = mixture(way)
    model = folded(graph, name="m")
    assert told(model) == [("embedding", 1), ("block", 2), ("head", 1)]
    assert model.parameters == elements(graph)
    assert len(model.ties) == 1
    block = model.part("block")
    experts = block.graph.result(block.parameters["experts.*.up"]).dims[0]
    heads = block.graph.result(block.parameters["blocks.*.wk.weight"]).dims[0]
    assert block.graph.atoms[heads[0].atom].size == 2
    assert [block.graph.atoms[i.atom].size for i in experts] == ([8] if way == "placed" else [4, 2])


def test_experts_picked_by_mask_are_refused_by_the_operators_name() -> None:
    with pytest.raises(TreadleError, match=r"Mixture: .*samples\.py:\d+: aten\.nonzero\.default"):
        mixture("masked")
