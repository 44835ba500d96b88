"""Parts of layers by hand: what is read and written, kept and cut, of layers whose numbers all differ."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts, dense_parts, expert_parts
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

MATMUL, ATTENTION = WorkKind.MATMUL, WorkKind.ATTENTION
ELEMENTWISE, LOOKUP = WorkKind.ELEMENTWISE, WorkKind.LOOKUP
OWN = Attended(window=5)
GROUPED = Heads(6, 2, 4, has_bias=True, output_bias=True, has_norms=True)
"""24 elements of queries, 16 of keys and values."""
LATENT = LatentHeads(3, 11, 5, 4, 2, 8)
"""18 elements of queries, a latent of 5 and a rotated key of 2; 24 elements of values."""


def product(
    name: str, rows: int, columns: int, *, split: bool = True, stream: str = "", whole: int = 0
) -> Work:
    return Work(
        name,
        MATMUL,
        flops=2 * rows * columns,
        moved_elements=columns if whole else rows + columns,
        moved_whole=whole,
        weight_elements=rows * columns,
        split=split,
        stream=stream,
    )


def kept_scores(elements: Fraction | int, stream: str = "", name: str = "") -> Saved:
    whole = Attended(stream, is_causal=False)
    return Saved(f"{name}score matrices", elements, attended=whole, in_attention=True)


def test_grouped_attention() -> None:
    parts = GROUPED.parts(10, OWN, has_dropout=True)
    assert parts.weights == (
        Weight("query", 24 * 11),
        Weight("key and value", 16 * 11),
        Weight("output", 24 * 10),
        Weight("output bias", 10, split=False),
        Weight("head norms", 8, split=False),
    )
    assert parts.works == (
        product("query", 10, 24),
        product("key and value", 10, 16, whole=20),
        Work("rotation", ELEMENTWISE, moved_elements=2 * (24 + 8), moved_backward=2 * (24 + 8)),
        Work(
            "scores",
            ATTENTION,
            flops_per_context=2 * 2 * 24,
            moved_elements=24 + 16 + 24,
            moved_per_context=16,
            score_elements=(6 * Fraction(13, 2), 6 * Fraction(19, 2)),
            attended=OWN,
        ),
        product("output", 24, 10),
    )
    # scores before and after the softmax's dropout, and a mask of half an element
    assert parts.saved == (
        Saved("query", 24),
        Saved("key and value", 16),
        Saved("attention output", 24),
        kept_scores(6 * Fraction(5, 2)),
    )
    assert (GROUPED.kv_elements, GROUPED.cache_elements, GROUPED.kv_slices) == (16, 16, 2)


def test_attention_across_streams() -> None:
    across = Attended("encoder", is_causal=False)
    parts = replace(GROUPED, has_bias=False, output_bias=False, has_norms=False).parts(10, across)
    assert parts.weights == (
        Weight("cross query", 240),
        Weight("cross key and value", 160),
        Weight("cross output", 240),
    )
    assert [work.name for work in parts.works] == [
        "cross query",
        "cross key and value",
        "cross scores",
        "cross output",
    ]
    assert parts.works[1] == product("cross key and value", 10, 16, stream="encoder", whole=20)
    assert parts.saved == (
        Saved("cross query", 24),
        Saved("cross key and value", 16, stream="encoder"),
        Saved("cross attention output", 24),
        kept_scores(6, "encoder", "cross "),
    )


def test_latent_attention() -> None:
    parts = LATENT.parts(10, OWN)
    assert parts.weights == (
        Weight("latent", 10 * 7, split=False),
        Weight("latent norm", 5, split=False),
        Weight("key and value", 5 * 36),
        Weight("output", 24 * 10),
        Weight("query latent", 10 * 11, split=False),
        Weight("query latent norm", 11, split=False),
        Weight("query", 11 * 18),
    )
    assert parts.works == (
        product("latent", 10, 7, split=False),
        product("key and value", 5, 36),
        product("query latent", 10, 11, split=False),
        product("query", 11, 18),
        Work("rotation", ELEMENTWISE, moved_elements=2 * 3 * 2),
        Work(
            "scores",
            ATTENTION,
            flops_per_context=2 * 3 * (4 + 2 + 8),
            flops_per_cached=2 * 3 * (7 + 5),
            moved_elements=18 + 36 + 24,
            moved_per_context=7,
            score_elements=(3 * 4, 3 * 7),
            attended=OWN,
        ),
        product("output", 24, 10),
    )
    assert parts.saved == (
        Saved("latent", 7, split=False),
        Saved("query latent", 11, split=False),
        Saved("query", 18),
        Saved("key and value", 3 * 14),
        Saved("attention output", 24),
        kept_scores(3),
    )
    assert (LATENT.kv_elements, LATENT.cache_elements, LATENT.kv_slices) == (7, 7, 1)
    direct = replace(LATENT, query_rank=0).parts(10, OWN)
    assert direct.weights[-1] == Weight("query", 10 * 18)
    assert direct.works[2] == product("query", 10, 18)
    assert direct.saved[:2] == (Saved("latent", 7, split=False), Saved("query", 18))


def test_a_dense_half() -> None:
    gated = dense_parts(10, 7, is_gated=True, has_bias=True)
    assert gated.weights == (
        Weight("up", 14 * 11),
        Weight("down", 70),
        Weight("down bias", 10, split=False),
    )
    assert gated.works == (
        product("up", 10, 14),
        Work("activation", ELEMENTWISE, moved_elements=14 + 7, moved_backward=28 + 7),
        product("down", 7, 10),
    )
    assert gated.saved == (Saved("activation", 28),)
    plain = dense_parts(10, 7, is_gated=False)
    assert plain.weights == (Weight("up", 70), Weight("down", 70))
    assert plain.works[1] == Work("activation", ELEMENTWISE, moved_elements=14, moved_backward=21)
    assert plain.saved == (Saved("activation", 14),)


def test_a_router_shared_experts_and_experts() -> None:
    """Two of six experts of width 7, beside shared ones of width 3."""
    parts = expert_parts(10, Experts(6, 2, 7, shared_feed_forward=3, shared_gate=True), is_gated=True)
    assert parts.weights == (
        Weight("router", 60, split=False),
        Weight("shared up", 60),
        Weight("shared down", 30),
        Weight("shared gate", 10, split=False),
        Weight("expert up", 6 * 140, expert=True),
        Weight("expert down", 6 * 70, expert=True),
    )
    assert parts.works == (
        product("router", 10, 6, split=False),
        product("shared up", 10, 6),
        Work("shared activation", ELEMENTWISE, moved_elements=6 + 3, moved_backward=12 + 3),
        product("shared down", 3, 10),
        # the copies of a token and itself, twice; backward three times, and gradients of both copies
        Work("routing", ELEMENTWISE, moved_elements=2 * 30, moved_backward=3 * 50, split=False),
        Work(
            "expert up",
            MATMUL,
            flops=2 * 280,
            moved_elements=2 * 24,
            weight_elements=6 * 140,
            expert=True,
        ),
        Work("expert activation", ELEMENTWISE, moved_elements=2 * 21, moved_backward=2 * 35, expert=True),
        Work(
            "expert down", MATMUL, flops=2 * 140, moved_elements=2 * 17, weight_elements=6 * 70, expert=True
        ),
    )
    assert parts.saved == (
        Saved("router", 6, split=False),
        Saved("shared activation", 12),
        Saved("expert activation", 2 * 28, expert=True),
        Saved("expert input", 2 * 10, expert=True),
    )
    alone = expert_parts(10, Experts(6, 2, 7), is_gated=False)
    assert [weight.name for weight in alone.weights] == ["router", "expert up", "expert down"]


PLAIN = TransformerShape(
    "plain",
    10,
    7,
    50,
    2,
    replace(GROUPED, has_norms=False),
    is_tied=True,
    norms_per_block=4,
    norm_has_bias=True,
    positions=9,
    position_buckets=32,
    has_dropout=True,
    windows=(5,),
)


def norm(name: str) -> Work:
    return Work(f"{name} norm", ELEMENTWISE, moved_elements=20, moved_backward=30, split=False)


def residual(name: str) -> Work:
    return Work(f"{name} residual", ELEMENTWISE, moved_elements=30, moved_backward=0, split=False)


def whole(name: str, elements: Fraction | int = 10) -> Saved:
    return Saved(name, elements, split=False)


HALF = Fraction(5)
"""A mask of ten bytes."""


def test_a_block() -> None:
    attention = PLAIN.attention.parts(10, OWN, has_dropout=True)
    feed_forward = dense_parts(10, 7, is_gated=True)
    block = transformer(PLAIN).layer("block 0")
    assert block.works == (
        norm("attention"),
        *attention.works,
        residual("attention"),
        norm("feed-forward"),
        norm("after 0"),
        norm("after 1"),
        *feed_forward.works,
        residual("feed-forward"),
    )
    assert block.saved == (
        whole("attention norm input"),
        whole("attention input"),
        *attention.saved,
        whole("attention mask", HALF),
        whole("feed-forward norm input"),
        whole("feed-forward input"),
        whole("after 0 norm input"),
        whole("after 1 norm input"),
        *feed_forward.saved,
        whole("feed-forward mask", HALF),
    )
    norms = {weight.elements for weight in block.weights if weight.name.endswith(" norm")}
    assert norms == {20}
    assert (block.boundary_elements, block.reductions, block.experts, block.exchanges) == (10, 2, 0, 0)
    assert (block.kv_elements, block.cache_elements, block.kv_pieces, block.cache_window) == (16, 16, 2, 5)
    last = transformer(PLAIN).layer("block 1")
    place = 1 + len(attention.weights)
    assert block.weights[place] == Weight("positions", 32 * 6)
    assert last.weights == (*block.weights[:place], *block.weights[place + 1 :])


def test_the_ends_of_a_transformer() -> None:
    first, *_, head = transformer(PLAIN).layers
    assert first == ModelLayer(
        "embedding",
        weights=(Weight("embedding", 500), Weight("positions", 90, split=False)),
        works=(Work("embedding", LOOKUP, moved_elements=30, moved_backward=30, split=False),),
        saved=(whole("mask", HALF),),
        boundary_elements=10,
        reductions=1,
    )
    assert head == ModelLayer(
        "head",
        weights=(Weight("final norm", 20, split=False),),
        works=(
            norm("final"),
            product("logits", 10, 50),
            Work("loss", ELEMENTWISE, moved_elements=100, moved_backward=200),
        ),
        saved=(whole("final norm input"), whole("final input"), Saved("logits", 100)),
        boundary_elements=10,
        shares="embedding",
    )
    bare = replace(PLAIN, is_tied=False, has_dropout=False, positions=0, norm_has_bias=False)
    first, *_, head = transformer(bare).layers
    assert first.works == (Work("embedding", LOOKUP, moved_elements=20, moved_backward=20, split=False),)
    assert (first.weights, first.saved) == ((Weight("embedding", 500),), ())
    assert head.weights == (Weight("final norm", 10, split=False), Weight("logits", 500))
    assert head.shares == ""


def test_an_encoder_beside_a_decoder() -> None:
    shape = replace(PLAIN, encoder_layers=1, layers=1, has_dropout=False, norms_per_block=2, max_tokens=77)
    model = transformer(shape)
    assert [(layer.name, layer.stream) for layer in model.layers] == [
        ("embedding", "encoder"),
        ("encoder 0", "encoder"),
        ("encoder norm", "encoder"),
        ("decoder embedding", "decoder"),
        ("decoder 0", "decoder"),
        ("head", "decoder"),
    ]
    assert (model.max_tokens, model.shape, model.unit) == (77, shape, "token")
    ending = model.layer("encoder norm")
    assert (ending.works, ending.boundary_elements) == ((norm("encoder"),), 10)
    assert ending.saved == (whole("encoder norm input"), whole("encoder input"))
    again = model.layer("decoder embedding")
    assert (again.weights, again.shares, again.reductions) == ((), "embedding", 1)
    names = [work.name for work in model.layer("decoder 0").works]
    place = names.index("cross attention norm")
    assert names[place - 1] == "attention residual"
    assert names[place + 1 : place + 6] == [
        "cross query",
        "cross key and value",
        "cross scores",
        "cross output",
        "cross attention residual",
    ]
    causal = {work.name: work.attended.is_causal for work in model.layer("encoder 0").works if work.attended}
    assert causal == {"scores": False}


def test_blocks_with_experts_send_what_is_routed() -> None:
    shape = replace(
        PLAIN, layers=7, experts=Experts(6, 3, 7), expert_every=2, first_dense=2, windows=(5, 0, 0)
    )
    layers = [one for one in transformer(shape).layers if one.name.startswith("block")]
    assert [(one.experts, one.top_k, one.routed_elements, one.exchanges) for one in layers] == [
        (6, 3, 30, 2) if index in (3, 5) else (0, 0, 0, 0) for index in range(7)
    ]
    assert [one.cache_window for one in layers] == [5, 0, 0, 5, 0, 0, 5]


def test_contexts() -> None:
    """Half of what is before, a window's triangle left out at the start; nothing of nothing."""
    assert [Attended().mean(n) for n in (0, 1, 7)] == [0, Fraction(1, 2), Fraction(7, 2)]
    assert [Attended(window=3).mean(n) for n in (2, 3, 6)] == [1, Fraction(3, 2), 3 - Fraction(9, 12)]
    assert Attended(is_causal=False, window=3).mean(6) == 6
    assert [Attended(window=3).last(n) for n in (2, 3, 6)] == [2, 3, 3]
    assert Attended().last(6) == 6


def test_what_a_token_meets_and_does() -> None:
    """Two of five experts; keys of another stream are made of that one's tokens."""
    layer = ModelLayer(
        "mixed",
        "own",
        weights=(Weight("a", 100), Weight("b", 50, expert=True), Weight("c", 25, expert=True)),
        works=(
            Work("one", MATMUL, flops=7, stream="other"),
            Work("two", ATTENTION, flops=3, flops_per_context=2, attended=Attended(is_causal=True)),
            Work("three", ATTENTION, flops_per_context=5, attended=Attended("other", is_causal=False)),
        ),
        experts=5,
        top_k=2,
    )
    assert (layer.parameters, layer.expert_parameters, int(layer.active_parameters)) == (175, 75, 130)
    tokens = {"own": 10, "other": 4}
    assert layer.forward_flops(tokens) == 4 * 7 + 10 * (3 + 2 * 5) + 10 * 5 * 4
    assert layer.forward_flops(tokens, causal_in_full=True) == 4 * 7 + 10 * (3 + 2 * 10) + 10 * 5 * 4
    model = TrainingModel("two", (layer, replace(layer, name="again")))
    assert (model.parameters, model.active_parameters, model.streams) == (350, 260, ("own",))
    assert model.step_flops(tokens) == 3 * 2 * layer.forward_flops(tokens)
    assert model.step_flops(tokens, causal_in_full=True) == 3 * model.forward_flops(
        tokens, causal_in_full=True
    )
