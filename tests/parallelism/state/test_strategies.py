"""Rules of operators: done on the shards that a strategy asks for, an operator gives the state it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from parallelism.state.shards_on_ranks import check_state, lay_out, mask, ranks
from reference.parallelism.all_strategies import Strategy, strategies
from treadle.errors import ScheduleError
from treadle.parallelism.state.strategies import RULES, Choice, Operator, choices_of, cut_by

Span = Mapping[str, slice]
"""By letter what a rank has of it."""
Kernel = Callable[[Sequence[np.ndarray], Span], Sequence[np.ndarray]]


def softmax_scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    scores = np.exp(np.einsum("bhgsx,bhtx->bhgst", q, k) / 7)
    return scores / scores.sum(-1, keepdims=True)


def attention(local: Sequence[np.ndarray], span: Span) -> Sequence[np.ndarray]:
    q, k, v = local
    return [np.einsum("bhgst,bhtx->bhgsx", softmax_scores(q, k), v)]


def attention_backward(local: Sequence[np.ndarray], span: Span) -> Sequence[np.ndarray]:
    q, k, v, tangent = local
    weights = softmax_scores(q, k)
    d_weights = np.einsum("bhgsx,bhtx->bhgst", tangent, v)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True)) / 7
    return [
        np.einsum("bhgst,bhtx->bhgsx", d_scores, k),
        np.einsum("bhgst,bhgsx->bhtx", d_scores, q),
        np.einsum("bhgst,bhgsx->bhtx", weights, tangent),
    ]


def gather(local: Sequence[np.ndarray], span: Span) -> Sequence[np.ndarray]:
    table, index = local
    rows = index - span["v"].start
    is_here = (rows >= 0) & (rows < len(table))
    return [np.where(is_here[..., None], table[np.where(is_here, rows, 0).astype(int)], 0)]


def scatter(local: Sequence[np.ndarray], span: Span) -> Sequence[np.ndarray]:
    index, rows = local
    one_hot = index[..., None] == np.arange(span["v"].start, span["v"].stop)
    return [np.einsum("bsv,bsd->vd", one_hot.astype(float), rows)]


def dispatch(local: Sequence[np.ndarray], span: Span) -> Sequence[np.ndarray]:
    tokens, expert = local
    chosen = expert[None] == np.arange(span["e"].start, span["e"].stop)[:, None]
    return [chosen[..., None] * tokens[None]]


CASES: dict[str, tuple[Operator, Kernel]] = {
    "matmul": (Operator("EINSUM", ("cda", "ab"), ("cdb",)), lambda x, _: [np.einsum("cda,ab->cdb", *x)]),
    "gradient": (Operator("EINSUM", ("cda", "cdb"), ("ab",)), lambda x, _: [np.einsum("cda,cdb->ab", *x)]),
    "batched": (Operator("EINSUM", ("eca", "eab"), ("ecb",)), lambda x, _: [np.einsum("eca,eab->ecb", *x)]),
    "bias": (Operator("ELEMENTWISE", ("cdb", "b"), ("cdb",), ((0, 1),)), lambda x, _: [x[0] + x[1]]),
    "gate": (Operator("ELEMENTWISE", ("cb", "cb"), ("cb",), ((0,), (1,))), lambda x, _: [x[0] * x[1]]),
    "square": (Operator("ELEMENTWISE", ("cb",), ("cb",)), lambda x, _: [x[0] ** 2]),
    "split": (Operator("ELEMENTWISE", ("cb",), ("cb", "cb")), lambda x, _: [x[0] ** 2, abs(x[0])]),
    "sum": (Operator("REDUCTION", ("cdb",), ("b",), ((0,),)), lambda x, _: [x[0].sum((0, 1))]),
    "maximum": (Operator("REDUCTION", ("cdb",), ("b",), summed=False), lambda x, _: [x[0].max((0, 1))]),
    "embedding": (Operator("GATHER", ("vd", "bs"), ("bsd",)), gather),
    "of embedding": (Operator("SCATTER", ("bs", "bsd"), ("vd",)), scatter),
    "attention": (Operator("ATTENTION", ("bhgsx", "bhtx", "bhtx"), ("bhgsx",)), attention),
    "of attention": (
        Operator("ATTENTION", ("bhgsx", "bhtx", "bhtx", "bhgsx"), ("bhgsx", "bhtx", "bhtx")),
        attention_backward,
    ),
    "dispatch": (Operator("DISPATCH", ("td", "t"), ("ecd",)), dispatch),
    "combine": (Operator("COMBINE", ("ecd",), ("td",)), lambda x, _: [x[0].sum(0)]),
}
LETTERS = dict.fromkeys("abcdestvx", 4) | {"h": 4, "g": 4, "t": 4}


def spans(operator: Operator, strategy: Strategy, mesh: Mapping[str, int], rank: tuple[int, ...]) -> Span:
    """Of each letter the least that any tensor with it has at a rank."""
    span = {letter: slice(0, LETTERS[letter]) for letter in operator.dims}
    tensors = zip((*operator.inputs, *operator.outputs), (*strategy.inputs, *strategy.outputs), strict=True)
    for letters, sharding in tensors:
        held = mask(sharding, tuple(LETTERS[one] for one in letters), mesh, rank)
        for letter, at in zip(letters, np.nonzero(held), strict=True):
            if np.ptp(at) + 1 < span[letter].stop - span[letter].start:
                span[letter] = slice(int(at.min()), int(at.max()) + 1)
    return span


@pytest.mark.parametrize("name", CASES)
def test_an_operator_on_shards_gives_the_state_that_its_strategy_says(name: str) -> None:
    operator, kernel = CASES[name]
    mesh = {"x": 2, "y": 2}
    rng = np.random.default_rng(len(name))
    shapes = [tuple(LETTERS[letter] for letter in letters) for letters in operator.inputs]
    wholes = [rng.integers(0, 4, shape).astype(float) for shape in shapes]
    results = kernel(wholes, {letter: slice(0, LETTERS[letter]) for letter in operator.dims})
    n_tried = 0
    for strategy in strategies(operator, LETTERS, mesh):
        held = [
            lay_out(*one, mesh, seed) for seed, one in enumerate(zip(wholes, strategy.inputs, strict=True))
        ]
        made: list[dict[tuple[int, ...], np.ndarray]] = [{} for _ in results]
        for rank in ranks(mesh):
            local = []
            for whole, sharding, one in zip(wholes, strategy.inputs, held, strict=True):
                here = mask(sharding, whole.shape, mesh, rank)
                shape = sharding.local_shape(whole.shape, mesh)
                local.append(one[rank][here].reshape(shape))
            for at, value in enumerate(kernel(local, spans(operator, strategy, mesh, rank))):
                here = mask(strategy.outputs[at], results[at].shape, mesh, rank)
                assert value.size == here.sum(), strategy
                full = np.full(results[at].shape, np.nan)
                full[here] = value.ravel()
                made[at][rank] = full
        for one, whole, sharding in zip(made, results, strategy.outputs, strict=True):
            check_state(one, whole, sharding, mesh)
        n_tried += 1
    assert n_tried >= len(choices_of(operator)) ** 2


def test_every_rule_is_tried() -> None:
    assert {operator.kind for operator, _ in CASES.values()} == set(RULES)


def test_a_kind_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(ScheduleError, match=r"operator .FFT.: no rule; there are EINSUM, "):
        Operator("FFT", ("a",), ("a",))


def test_an_operator_is_added_by_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_only(operator: Operator) -> Iterator[Choice]:
        yield cut_by(operator, operator.inputs[0][0])

    monkeypatch.setitem(RULES, "SORT", rows_only)
    found = list(strategies(Operator("SORT", ("ab",), ("ab",)), LETTERS, {"x": 2, "y": 2}))
    assert [str(one.outputs[0]) for one in found] == ["x,y | -", "y,x | -", "x | -", "y | -", "- | -"]
    assert [one.n_parts for one in found] == [4, 4, 2, 2, 1]


def test_letters_that_do_not_divide_are_not_cut() -> None:
    found = list(strategies(Operator("ELEMENTWISE", ("ab",), ("ab",)), {"a": 6, "b": 8}, {"x": 2, "y": 4}))
    assert [str(one.outputs[0]) for one in found] == [
        "x | y", "x | -", "- | x,y", "- | y,x", "- | x", "- | y", "- | -",
    ]  # fmt: skip
