"""The values of a model: what is counted over layers, and what cannot be one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import TreadleError
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel


def expert_layer(name: str = "block 0") -> ModelLayer:
    """Hidden 4: an attention of 64 elements, 8 experts of 16, two of which a token visits."""
    scores = Work("scores", WorkKind.ATTENTION, flops_per_context=16, attended=Attended())
    return ModelLayer(
        name,
        weights=(Weight("attention", 64), Weight("experts", 8 * 16, expert=True)),
        works=(
            Work("projections", WorkKind.MATMUL, flops=2 * 64, weight_elements=64),
            scores,
            Work("experts", WorkKind.MATMUL, flops=2 * 2 * 16, weight_elements=128, expert=True),
        ),
        saved=(Saved("input", 4, split=False), Saved("routed", 8, expert=True)),
        boundary_elements=4,
        reductions=2,
        experts=8,
        top_k=2,
        routed_elements=8,
        exchanges=2,
    )


@pytest.mark.parametrize("attended", [Attended(), Attended(window=3), Attended(window=50)])
def test_mean_of_attended_tokens(attended: Attended) -> None:
    """The area of the mask over its rows, the diagonal counted half."""
    tokens = 12
    area = Fraction(0)
    for row in range(tokens):
        start = max(0, row + 1 - (attended.window or tokens))
        area += row - start + Fraction(1, 2)  # up to the diagonal, and half of it
        area += Fraction(1, 2) * (start > 0)  # the window's first column is cut likewise
    assert attended.mean(tokens) == area / tokens
    assert attended.last(tokens) == min(attended.window or tokens, tokens)


def test_all_is_attended_where_nothing_is_masked() -> None:
    assert Attended("encoder", is_causal=False).mean(7) == 7


def test_parameters_and_flops_by_hand() -> None:
    table = ModelLayer(
        "embedding", weights=(Weight("table", 40),), works=(Work("rows", WorkKind.LOOKUP, moved_elements=8),)
    )
    head = ModelLayer("head", works=(Work("logits", WorkKind.MATMUL, flops=80),), shares="embedding")
    model = TrainingModel("small", (table, expert_layer(), head))
    assert model.parameters == 40 + 64 + 128
    assert model.active_parameters == 40 + 64 + 128 * 2 // 8
    per_token = 128 + 16 * 10 // 2 + 64 + 80
    assert model.forward_flops({"": 10}) == 10 * per_token
    assert model.step_flops({"": 10}) == 3 * 10 * per_token
    assert model.forward_flops({"": 10}, causal_in_full=True) == 10 * (per_token + 80)
    assert repr(model) == "<TrainingModel small, 3 layers, parameters 232>"


def test_streams_have_tokens_of_their_own() -> None:
    encoder = ModelLayer("in", stream="encoder", works=(Work("a", WorkKind.MATMUL, flops=2),))
    attended = Attended("encoder", is_causal=False)
    cross = Work("cross", WorkKind.ATTENTION, flops_per_context=6, attended=attended)
    model = TrainingModel("pair", (encoder, ModelLayer("out", stream="decoder", works=(cross,))))
    assert model.streams == ("encoder", "decoder")
    assert model.forward_flops({"encoder": 5, "decoder": 3}) == 5 * 2 + 3 * 6 * 5
    with pytest.raises(TreadleError, match="tokens of the stream 'decoder' are not given"):
        model.forward_flops({"encoder": 5})


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "distinct names, found 0"),
        ((expert_layer(), expert_layer()), "distinct names, found 2"),
        ((ModelLayer("head", shares="embedding"),), "head shares a weight of embedding, which is missing"),
    ],
)
def test_models_that_cannot_be(layers: tuple[ModelLayer, ...], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        TrainingModel("wrong", layers)


def test_layers_that_cannot_be() -> None:
    with pytest.raises(TreadleError, match="must be given together"):
        ModelLayer("block", weights=(Weight("experts", 8, expert=True),))
    with pytest.raises(TreadleError, match="must be given together"):
        ModelLayer("block", routed_elements=8)
    with pytest.raises(TreadleError, match="0, 1 or 2 exchanges, found 3"):
        ModelLayer("block", routed_elements=8, exchanges=3)
    with pytest.raises(TreadleError, match="must be given together"):
        Work("scores", WorkKind.ATTENTION, flops_per_context=2)
