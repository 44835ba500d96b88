"""Operators under every combination of states: legal just where ranks with their blocks compute the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from parallelism.evaluation.operators_on_ranks import Sample, computes_the_same
from treadle.parallelism.evaluation.legality import operator_faults
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.plan.part_plan import OperatorPlan
from treadle.parallelism.state.sharding import Sharding

K = OperatorKind
LETTERS = {"a": 4, "b": 4, "c": 4, "v": 4, "t": 4, "s": 4, "d": 4, "k": 4}


def _lookup(table: np.ndarray, index: np.ndarray, **at: slice) -> np.ndarray:
    rows = index.astype(int) - at["at_v"].start
    inside = (rows >= 0) & (rows < at["at_v"].stop - at["at_v"].start)
    return np.where(inside[:, None], table[np.where(inside, rows, 0)], 0.0)


def _add_rows(index: np.ndarray, rows: np.ndarray, **at: slice) -> np.ndarray:
    if len(index) != len(rows):
        raise ValueError
    table = np.zeros((LETTERS["v"], rows.shape[1]))
    np.add.at(table, index.astype(int), rows)
    return table[at["at_v"]]


def _put(base: np.ndarray, index: np.ndarray, rows: np.ndarray, **at: slice) -> np.ndarray:
    if len(index) != len(rows) or base.shape[1] != rows.shape[1]:
        raise ValueError
    own = np.arange(at["at_v"].start, at["at_v"].stop)
    if len(own) != len(base):
        raise ValueError
    made = base.copy()
    for place, row in zip(index.astype(int), rows, strict=True):
        if place in own:
            made[place - own[0]] += row
    return made


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, **at: slice) -> tuple[np.ndarray, np.ndarray]:
    scores = np.einsum("asd,akd->ask", q, k) / 50  # summands are drawn large
    sums = np.exp(scores).sum(2)
    return np.einsum("ask,akb->asb", np.exp(scores) / sums[:, :, None], v), np.log(sums)


def _scaled_backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, **at: slice
) -> tuple[np.ndarray, np.ndarray]:
    return dy * w[None, :] * np.cos(x), _same(dy, x).sum(0)


def _same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if first.shape != second.shape:
        raise ValueError
    return first * second


SAMPLES = {
    "product": Sample(K.EINSUM, ("ab", "bc"), ("ac",), lambda x, y, **at: np.einsum("ab,bc->ac", x, y)),
    "batched": Sample(K.EINSUM, ("ab", "ab"), ("b",), lambda x, y, **at: _same(x, y).sum(0)),
    "outer": Sample(K.EINSUM, ("a", "b"), ("ab",), lambda x, y, **at: np.einsum("a,b->ab", x, y)),
    "exp": Sample(K.ELEMENTWISE, ("ab",), ("ab",), lambda x, **at: np.exp(x)),
    "add": Sample(
        K.ELEMENTWISE,
        ("ab", "ab"),
        ("ab",),
        lambda x, y, **at: x + _same(y, np.ones_like(x)),
        linear=((0, 1),),
    ),
    "scale": Sample(
        K.ELEMENTWISE,
        ("ab", "b"),
        ("ab",),
        lambda x, y, **at: _same(x, np.broadcast_to(y, (len(x), len(y)))),
        linear=((0,), (1,)),
    ),
    "scale_backward": Sample(
        K.ELEMENTWISE,
        ("ab", "ab", "b"),
        ("ab", "b"),
        _scaled_backward,
        linear=((0,),),
        phase=Phase.BACKWARD,
    ),
    "softmax": Sample(
        K.ELEMENTWISE,
        ("ab",),
        ("ab",),
        lambda x, **at: np.exp(x) / np.exp(x).sum(1, keepdims=True),
        whole="b",
    ),
    "sum": Sample(K.REDUCTION, ("ab",), ("a",), lambda x, **at: x.sum(1), "aten.sum.dim_IntList", ((0,),)),
    "sum_of_exp": Sample(K.REDUCTION, ("ab",), ("a",), lambda x, **at: np.exp(x).sum(1), "sum_exp_and_pick"),
    "maximum": Sample(K.REDUCTION, ("ab",), ("a",), lambda x, **at: x.max(1), "aten.amax.default"),
    "lookup": Sample(K.GATHER, ("va", "t"), ("ta",), _lookup, linear=((0,),), indices=(1,), ranges=("v",)),
    "add_rows": Sample(
        K.SCATTER, ("t", "ta"), ("va",), _add_rows, linear=((1,),), indices=(0,), ranges=("v",)
    ),
    "put": Sample(K.SCATTER, ("va", "t", "ta"), ("va",), _put, linear=((0, 2),), indices=(1,), ranges=("v",)),
    "attention": Sample(K.ATTENTION, ("asd", "akd", "akb"), ("asb", "as"), _attention),
}
"""Letters stand for one thing each: v for rows of a table, t for what is looked up."""
TOO_STRICT = {
    # a result that does not depend on the summands could stay whole
    "scale_backward": {"- | -; - | -; - partial x -> - | - partial x; -"},
    # rows are added to what is there: summands of it could be added to along the cut of the rows
    "put": {"- | - partial x; x; x | - -> - | - partial x"},
    # sums of scores do not depend on values; but with values cut within heads every rank computes all scores
    "attention": {
        "- | - | -; - | - | -; - | - | - partial x -> - | - | - partial x; - | -",
        "- | - | -; - | - | -; - | - | x -> - | - | x; - | -",
    },
}
"""Refused on purpose though the ranks compute the same."""


def states(word: str, sizes: dict[str, int], *, summands: bool) -> Iterator[Sharding]:
    found = set()
    for order in permutations(sizes):
        for choice in product(range(-2 if summands else -1, len(word)), repeat=len(sizes)):
            dims = tuple(
                tuple(axis for axis, at in zip(order, choice, strict=True) if at == dim)
                for dim in range(len(word))
            )
            partial = frozenset(axis for axis, at in zip(order, choice, strict=True) if at == -2)
            found.add(Sharding(dims, partial))
    yield from sorted(found, key=str)


def parts_of(sample: Sample, inputs: tuple[Sharding, ...], outputs: tuple[Sharding, ...], sizes: Any) -> int:
    cut = {axis for state in (*inputs, *outputs) for axis in state.axes}
    return int(np.prod([sizes[axis] for axis in cut], dtype=int))


def is_legal(sample: Sample, inputs: Any, outputs: Any, sizes: dict[str, int]) -> bool:
    plan = OperatorPlan("node", inputs, outputs, parts_of(sample, inputs, outputs, sizes))
    return not list(operator_faults(sample.node(), plan, sizes))


@pytest.mark.parametrize("name", SAMPLES)
def test_along_one_axis_legal_is_what_computes_the_same(name: str) -> None:
    sample, sizes = SAMPLES[name], {"x": 2}
    read = [list(states(w, sizes, summands=at not in sample.indices)) for at, w in enumerate(sample.inputs)]
    made = [list(states(word, sizes, summands=True)) for word in sample.outputs]
    n_legal, refused = 0, set()
    for combination in product(*read, *made):
        inputs, outputs = combination[: len(read)], combination[len(read) :]
        legal = is_legal(sample, inputs, outputs, sizes)
        same = computes_the_same(sample, LETTERS, inputs, outputs, sizes, 1)
        n_legal += legal
        if legal != same:
            words = f"{'; '.join(map(str, inputs))} -> {'; '.join(map(str, outputs))}"
            assert same, f"accepted: {words}"
            refused.add(words)
    assert refused == TOO_STRICT.get(name, set())
    assert n_legal >= 2


@pytest.mark.parametrize("name", ["product", "scale_backward", "lookup", "add_rows"])
def test_along_two_axes_legal_plans_compute_the_same(name: str) -> None:
    """What is legal along each axis, with lists of axes in one order or in any."""
    sample, rng = SAMPLES[name], np.random.default_rng(3)
    read = [
        list(states(w, {"x": 2}, summands=at not in sample.indices)) for at, w in enumerate(sample.inputs)
    ]
    made = [list(states(word, {"x": 2}, summands=True)) for word in sample.outputs]
    alone = [
        combination
        for combination in product(*read, *made)
        if is_legal(sample, combination[: len(read)], combination[len(read) :], {"x": 2})
    ]
    sizes, found = {"x": 2, "y": 2}, {True: 0, False: 0}
    for first, second in product(alone, repeat=2):
        for one_order in (True, False):
            both = tuple(
                joined(one, other, bool(rng.integers(2)) and not one_order)
                for one, other in zip(first, second, strict=True)
            )
            inputs, outputs = both[: len(read)], both[len(read) :]
            legal = is_legal(sample, inputs, outputs, sizes)
            assert legal or not one_order
            found[legal] += 1
            assert legal == computes_the_same(sample, LETTERS, inputs, outputs, sizes, 5), (inputs, outputs)
    assert found[True] >= len(alone) ** 2
    assert found[False] or name != "product"


def joined(first: Sharding, second: Sharding, swap: bool) -> Sharding:
    """Along y what the second is along x; y after x in a list, or before it."""
    dims = tuple(
        (*one, *("y" for _ in other)) if not swap else (*("y" for _ in other), *one)
        for one, other in zip(first.dims, second.dims, strict=True)
    )
    return Sharding(dims, first.partial | {"y" for _ in second.partial})


def test_axes_that_cut_one_letter_do_so_in_one_order() -> None:
    sample, sizes = SAMPLES["product"], {"x": 2, "y": 2}
    xy, yx = Sharding((("x", "y"), ())), Sharding((("y", "x"), ()))
    whole = Sharding(((), ()))
    assert is_legal(sample, (xy, whole), (xy,), sizes)
    assert not is_legal(sample, (xy, whole), (yx,), sizes)
    faults = list(operator_faults(sample.node(), OperatorPlan("node", (xy, whole), (yx,), 4), sizes))
    assert "orders" in str(faults[0])


def test_claimed_parts_of_the_work_are_what_states_share_out() -> None:
    sample, sizes = SAMPLES["product"], {"x": 2, "y": 2}
    cut, whole = Sharding((("x",), ())), Sharding(((), ()))
    (fault,) = operator_faults(sample.node(), OperatorPlan("node", (cut, whole), (cut,), 4), sizes)
    assert "4 parts of the work; its states share it out over 2" in str(fault)
    summands = Sharding(((), ()), frozenset(("x",)))
    plan = OperatorPlan("node", (summands, whole), (summands,), 1)
    assert not list(operator_faults(sample.node(), plan, sizes))


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "linear", "legal"),
    [
        (K.DISPATCH, ("sbh", "sbn"), ("ecbh",), ((0,),), {
            "b": ("b", "b", "b"), "h": ("h", "", "h"), "e": ("", "", "e"), "s": ("s", "s", "c"),
            "+": ("+", "", "+"),
        }),
        (K.COMBINE, ("ecbh", "sbn", "sbn"), ("sbh",), ((0,), (1,)), {
            "b": ("b", "b", "b", "b"), "h": ("h", "", "", "h"), "e": ("e", "", "", "+"),
            "s": ("c", "s", "s", "s"), "+": ("+", "", "", "+"), "+w": ("", "+", "", "+"),
        }),
        (K.COMBINE, ("ecbh", "sbh", "sbn"), ("bsn",), ((0,), (1,)), {
            "b": ("b", "b", "b", "b"), "h": ("h", "h", "", "+"), "e": ("e", "", "", "+"),
            "s": ("c", "s", "s", "s"), "+": ("+", "", "", "+"), "+g": ("", "+", "", "+"),
        }),
    ],
)  # fmt: skip
def test_tokens_and_places_of_experts_are_linked(
    kind: Any, inputs: Any, outputs: Any, linear: Any, legal: dict[str, tuple[str, ...]]
) -> None:
    """All combinations along one axis; legal are those that hold by what the operators mean."""
    sample = Sample(kind, inputs, outputs, lambda *_: np.zeros(1), linear=linear)
    words = (*inputs, *outputs)
    choices = [["", "+", *word] for word in words]
    found = set()
    for places in product(*choices):
        shardings = [
            Sharding(
                tuple(("x",) if letter == place else () for letter in word), frozenset("x" * (place == "+"))
            )
            for word, place in zip(words, places, strict=True)
        ]
        if is_legal(sample, tuple(shardings[: len(inputs)]), tuple(shardings[len(inputs) :]), {"x": 2}):
            found.add(places)
    assert found == {*legal.values(), ("",) * len(words)}
