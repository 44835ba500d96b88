"""States in words: typed and read again, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import FormatError
from treadle.parallelism.explaining.state_format import dims_of, matching_tensors, read_state, spelled_state
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.state.sharding import Sharding
from treadle.training.models.zoo import zoo_model

MODEL = model_graph(zoo_model("llama-3-8b"), batch=8, sequence=128)
AXES = ("dp", "tp", "0")


@given(st.permutations(AXES), st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_what_is_spelled_is_read_again(axes: list[str], places: list[int]) -> None:
    """Place 3: that axis cuts nothing."""
    dims = tuple(tuple(axis for axis, at in zip(axes, places, strict=True) if at == dim) for dim in range(3))
    state = Sharding(dims)
    assert read_state(spelled_state("bsh", state), "bsh", AXES, place="here") == state


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k:dp", "expected LETTER:AXIS"),
        ("b", "expected LETTER:AXIS"),
        ("b:pp", "no axis 'pp'"),
        ("b:dp/b:tp", "letter b stands twice"),
        ("b:dp/s:dp", "an axis cuts two letters"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_state(text, "bsh", AXES, place="here")


def test_names_of_tensors() -> None:
    ((part, tensor),) = matching_tensors(MODEL, "wq")
    assert (part, dims_of(MODEL.part(part), tensor)) == ("block", tuple("kgdh"))
    assert matching_tensors(MODEL, "attention.wq.weight") == [(part, tensor)]
    assert matching_tensors(MODEL, "block/wq") == [(part, tensor)]
    assert [name for name, _ in matching_tensors(MODEL, "x")] == ["block", "head"]
    with pytest.raises(FormatError, match="has no tensor 'head/wq'"):
        matching_tensors(MODEL, "head/wq")
    with pytest.raises(FormatError, match="did you mean"):
        matching_tensors(MODEL, "querry")


def test_a_module_s_name_means_its_weight() -> None:
    model = model_graph(zoo_model("gpt2"), batch=8, sequence=128)
    ((part, tensor),) = matching_tensors(model, "wq")
    assert model.part(part).graph.nodes[tensor.node].path == "layers.*.attention.wq.weight"
    ((part, tensor),) = matching_tensors(model, "attention.wq.bias")
    assert model.part(part).graph.nodes[tensor.node].path == "layers.*.attention.wq.bias"
    assert matching_tensors(model, "block/attention.wq") == matching_tensors(model, "wq")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Sharding((("dp",), (), ("tp", "0"))), "b:dp/h:tp,0"),
        (Sharding(((), (), ())), "whole"),
        (Sharding(((), (), ()), frozenset({"tp", "dp"})), "sum over dp,tp"),
        (Sharding((("tp",), (), ()), frozenset({"dp", "0"})), "b:tp, sum over 0,dp"),
    ],
)
def test_states_in_words(state: Sharding, words: str) -> None:
    assert spelled_state("bsh", state) == words


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        (" whole ", ((), (), ())),
        (" h : tp , dp / b:0", (("0",), (), ("tp", "dp"))),
        ("s:dp", ((), ("dp",), ())),
    ],
)
def test_states_as_they_are_typed(text: str, dims: tuple[tuple[str, ...], ...]) -> None:
    assert read_state(text, "bsh", AXES, place="here") == Sharding(dims)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "here: '': expected LETTER:AXIS,... with a letter of bsh, several with / between, or whole"),
        (
            "b:dp/",
            "here: '': expected LETTER:AXIS,... with a letter of bsh, several with / between, or whole",
        ),
        ("b:", "here: no axis '' in the mesh; it has dp, tp, 0"),
        ("b:dp,dp", "here: an axis cuts two letters, or one twice; expected each at most once"),
        ("b:" + "x" * 50, f"here: no axis '{'x' * 40}' in the mesh; it has dp, tp, 0"),
    ],
)
def test_what_is_wrong_with_a_state_is_told_in_full(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        read_state(text, "bsh", AXES, place="here")
    assert str(error.value) == message


def test_a_name_in_several_parts_is_found_in_the_one_that_is_named() -> None:
    found = matching_tensors(MODEL, "x")
    assert matching_tensors(MODEL, "head/x") == found[1:]
    assert matching_tensors(MODEL, "block/x") == found[:1]
    with pytest.raises(FormatError) as error:
        matching_tensors(MODEL, "block/querry")
    assert str(error.value).startswith("llama-3-8b has no tensor 'block/querry'; did you mean query")
    assert str(error.value).endswith("; its graph names them all (treadle capture llama-3-8b)")
