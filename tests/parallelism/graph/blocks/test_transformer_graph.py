"""Graphs of transformers against the layers that `treadle train` counts: two ways from one shape."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest

from treadle.errors import TreadleError
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.compute_graph import ComputeGraph, Index, Node, OperatorKind, Phase, Source
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.training.models.config_json import read_config
from treadle.training.models.model_layer import Attended
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import MODELS, zoo_model

DECODERS = sorted(
    name for name in MODELS if (shape := zoo_model(name).shape) is not None and not shape.encoder_layers
)
BATCH, SEQUENCE = 2, 1024


def graph_of(name: str) -> ModelGraph:
    return model_graph(zoo_model(name), batch=BATCH, sequence=SEQUENCE)


def flops(graph: ComputeGraph, node: Node, *, backward: Fraction) -> Fraction:
    """Multiplications and additions of a node; attention's backward pass as so many forward passes."""

    def size(indices: set[Index]) -> int:
        return prod(graph.atoms[index.atom].size for index in indices)

    letters = {i for dim in (d for o in node.operands for d in o.roles) for i in dim}
    if node.kind is OperatorKind.EINSUM:
        return Fraction(2 * size(letters | set(node.result_roles)))
    if node.kind is not OperatorKind.ATTENTION:
        return Fraction(0)
    names = {graph.atoms[index.atom].name: graph.atoms[index.atom].size for index in letters}
    heads = prod(names.get(name, 1) for name in "bkg")
    attended = Attended(window=int(str(node.arguments["window"])))
    assert node.arguments["is_causal"] is True
    forward = 2 * heads * names["s"] * attended.mean(names["s"]) * (names["d"] + names["w"])
    return forward * (backward if node.phase is Phase.BACKWARD else 1)


def counted(model: ModelGraph, phase: Phase) -> Fraction:
    return sum(
        (
            part.repeats * flops(part.graph, node, backward=Fraction(2))
            for part in model.parts
            for node in part.graph.nodes
            if node.phase is phase
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_and_flops_are_those_that_training_counts(name: str) -> None:
    model, found = zoo_model(name), graph_of(name)
    assert found.parameters == model.parameters
    forward = BATCH * model.forward_flops({"": SEQUENCE})
    assert counted(found, Phase.FORWARD) == forward
    assert counted(found, Phase.BACKWARD) == 2 * forward
    assert found.tokens == BATCH * SEQUENCE
    assert found.layers == model.n_layers


@pytest.mark.parametrize("name", DECODERS)
def test_every_parameter_has_a_gradient_and_blocks_stay_small(name: str) -> None:
    for part in graph_of(name).parts:
        assert set(part.parameters.values()) <= set(part.graph.gradients)
        operators = [node for node in part.graph.nodes if node.kind is not OperatorKind.PLACEHOLDER]
        assert len(operators) <= 80, part.name
        read = Counter(operand.tensor for node in part.graph.nodes for operand in node.operands)
        unused = {part.graph.spelled(tensor) for tensor in part.graph.tensors() if not read[tensor]}
        assert not unused


def test_kinds_of_blocks_are_parts_in_the_order_of_the_layers() -> None:
    found = graph_of("deepseek-v3")
    assert [(part.name, part.repeats) for part in found.parts] == [
        ("embedding", 1), ("dense block", 3), ("expert block", 58), ("head", 1)
    ]  # fmt: skip
    assert found.order == (0, *[1] * 3, *[2] * 58, 3)
    windowed = graph_of("gemma-2-2b")
    assert [part.name for part in windowed.parts] == ["embedding", "windowed block", "block", "head"]
    assert windowed.order[:4] == (0, 1, 2, 1)
    assert len(windowed.ties) == 1


def test_heads_groups_and_places_of_experts_are_letters() -> None:
    found = graph_of("mixtral-8x7b")
    block = found.part("block").graph
    sizes = {atom.name: atom.size for atom in block.atoms}
    assert sizes == {
        "b": 2, "s": 1024, "h": 4096, "k": 8, "g": 4, "d": 128, "w": 128, "f": 14336, "e": 8, "n": 2, "c": 256
    }  # fmt: skip
    lines = {line.split(":")[0].strip(): line.strip() for line in str(block).splitlines()}
    assert 'query: EINSUM "bsh,kgdh->bkgsd"(attention_normed, attention_wq) -> [bkgsd]' in lines["query"]
    assert 'dispatch: DISPATCH "sbh,sbn->ecbh"(ffn_normed, route.1) -> [ecbh]' in lines["dispatch"]
    assert 'EINSUM "ecbh,efh->ecbf"(dispatch, experts_w1)' in lines["experts_gate"]
    assert 'COMBINE "ecbh,sbn,sbn->sbh"' in lines["combine"]
    single = graph_of("llama-2-7b").part("block").graph
    assert "g" not in [atom.name for atom in single.atoms], "one query for each head of keys"


def test_words_can_be_cut_in_the_loss() -> None:
    head = graph_of("llama-3-8b").part("head").graph
    sums = next(node for node in head.nodes if node.operator == "sum_exp_and_pick")
    words = next(index for index in sums.read if head.atoms[index.atom].name == "v")
    assert words not in sums.result_roles
    assert words not in sums.whole


def test_a_configuration_makes_the_same_graph_as_the_zoo() -> None:
    text = json.dumps(
        {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
            "max_position_embeddings": 8192,
        }
    )  # fmt: skip
    found = model_graph(read_config(text, name="llama-3-8b"), batch=BATCH, sequence=SEQUENCE)
    assert found.digest == graph_of("llama-3-8b").digest


def test_shared_experts_with_a_gate_count_the_gate() -> None:
    """Training counts the gate's weight, but not its 2 FLOPs for each."""
    text = json.dumps(
        {
            "model_type": "qwen2_moe", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "num_experts": 8,
            "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
        }
    )  # fmt: skip
    model = read_config(text)
    found = model_graph(model, batch=BATCH, sequence=SEQUENCE)
    assert found.parameters == model.parameters
    gates = 2 * (2 * BATCH * SEQUENCE * 64)
    assert counted(found, Phase.FORWARD) == BATCH * model.forward_flops({"": SEQUENCE}) + gates


def test_biases_and_learned_positions_are_parameters() -> None:
    found = graph_of("gpt2")
    assert "positions.weight" in found.part("embedding").parameters
    assert {f"layers.*.{name}.bias" for name in ("attention.wq", "attention_norm", "feed_forward.w1")} <= set(
        found.part("block").parameters
    )
    assert not [node for node in found.part("block").graph.nodes if node.operator == "rotary"]
    block = found.part("block").graph
    assert [node.path for node in block.nodes if node.source is Source.INPUT] == ["x"]


@pytest.mark.parametrize(
    ("name", "sequence", "words"),
    [
        ("switch-c", 512, "its decoder attends to an encoder"),
        ("resnet-50", 1, "not a transformer of known dimensions"),
        ("gpt2", 4096, "at most its 1024 learned positions"),
        ("llama-3-8b", 0, "expected 1 or more"),
    ],
)
def test_what_no_graph_can_say_is_refused(name: str, sequence: int, words: str) -> None:
    with pytest.raises(TreadleError, match=words):
        model_graph(zoo_model(name), batch=1, sequence=sequence)


def test_numbers_of_a_graph_at_their_limits() -> None:
    """gpt2 has 1024 positions; blocks have two to four norms, and a step a token or more."""
    gpt2 = zoo_model("gpt2")
    assert model_graph(gpt2, batch=1, sequence=1024).tokens == 1024
    assert model_graph(gpt2, batch=1, sequence=1).tokens == 1

    def words(model: TrainingModel, batch: int, sequence: int) -> str:
        with pytest.raises(TreadleError) as caught:
            model_graph(model, batch=batch, sequence=sequence)
        return str(caught.value)

    assert words(gpt2, 3, 1025) == "model gpt2: 1025 tokens; expected at most its 1024 learned positions"
    assert words(gpt2, 0, 5) == "model gpt2: 0 samples of 5 tokens; expected 1 or more"
    assert words(gpt2, 5, 0) == "model gpt2: 5 samples of 0 tokens; expected 1 or more"
    assert gpt2.shape is not None
    for norms in (1, 5):
        odd = replace(gpt2, shape=replace(gpt2.shape, norms_per_block=norms))
        assert words(odd, 1, 8) == f"model gpt2: {norms} norms a block; expected 2, 3 or 4"
