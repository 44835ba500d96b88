"""Every rule of the table against PyTorch: an operator runs on parts of its tensors, and they make the whole.

A role that results have is split: parts of results stand side by side. A role that only operands have is
split: results add up (or their maxima are taken).
"""

from __future__ import annotations

import operator as arithmetic
from functools import reduce

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from treadle.parallelism.capture.call import OperatorCall  # noqa: E402
from treadle.parallelism.capture.rules import RULES  # noqa: E402
from treadle.parallelism.capture.specification import read_specification  # noqa: E402
from treadle.parallelism.graph.compute_graph import OperatorKind  # noqa: E402


def real(*shape: int):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def index(limit: int, *shape: int):
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(limit))


def attention_backward():
    """Arguments as the forward pass leaves them."""
    queries, keys, values = real(2, 4, 6, 8), real(2, 4, 6, 8) * 2, real(2, 4, 6, 8) + 1
    made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(queries, keys, values)
    return (real(2, 4, 6, 8), queries, keys, values, *made, 0.0, False)


ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"
MADE = {
    "aten.full.default": ([4, 6], 1.0),
    "aten.zeros.default": ([4, 6],),
    "aten.ones.default": ([4, 6],),
    "aten.empty.memory_format": ([4, 6],),
    "aten.arange.default": (6,),
    "aten.arange.start": (2, 6),
    "aten.arange.start_step": (2, 6, 2),
    "aten.scalar_tensor.default": (3.0,),
    "aten.full_like.default": (real(4, 6), 1.0),
    "aten.zeros_like.default": (real(4, 6),),
    "aten.ones_like.default": (real(4, 6),),
    "aten.empty_like.default": (real(4, 6),),
    "aten.rand_like.default": (real(4, 6),),
    "aten.new_zeros.default": (real(2), [4, 6]),
    "aten.new_ones.default": (real(2), [4, 6]),
    "aten.new_empty.default": (real(2), [4, 6]),
    "aten.new_full.default": (real(2), [4, 6], 1.0),
}
"""Made from nothing: shapes only."""
SAMPLES = {
    "aten.mm.default": (real(4, 6), real(6, 8)),
    "aten.bmm.default": (real(2, 4, 6), real(2, 6, 8)),
    "aten.mv.default": (real(4, 6), real(6)),
    "aten.dot.default": (real(6), real(6)),
    "aten.sum.default": (real(4, 6),),
    "aten.sum.dim_IntList": (real(2, 4, 6), [0, -1], True),
    "aten.amax.default": (real(2, 4, 6), [1], True),
    "aten.amin.default": (real(2, 4, 6), [1], False),
    "aten.max.default": (real(4, 6),),
    "aten.min.default": (real(4, 6),),
    "aten.any.default": (real(4, 6) > 0,),
    "aten.any.dim": (real(4, 6) > 0, 1),
    "aten.argmax.default": (real(4, 6), 1),
    "aten.linalg_vector_norm.default": (real(4, 6), 2, [1]),
    "aten.var.correction": (real(4, 6), [1]),
    "aten.var_mean.correction": (real(4, 6), [1]),
    "aten._softmax.default": (real(4, 6), -1, False),
    "aten._safe_softmax.default": (real(4, 6), 0),
    "aten.all.default": (real(4, 6) > -1,),
    "aten.all.dim": (real(4, 6) > 0, 1),
    "aten.unbind.int": (real(4, 2, 6), 1),
    "aten.view_as_complex.default": (real(4, 6, 2),),
    "aten.view_as_real.default": (torch.view_as_complex(real(4, 6, 2)),),
    "aten.index.Tensor": (real(4, 6, 8), [None, index(6, 2, 4)]),
    "aten.index_put.default": (real(4, 6), [None, torch.tensor([1, 5])], real(4, 2)),
    "aten.index_add.default": (real(4, 6), 1, index(6, 4), real(4, 4)),
    "aten.index_select.default": (real(4, 6), 1, index(6, 4)),
    "aten._conj.default": (torch.view_as_complex(real(4, 6, 2)),),
    "aten.native_dropout.default": (real(4, 6), 0.0, True),
    "aten.floor_divide.default": (real(4, 1), real(6, 1, 8)),
    "aten._softmax_backward_data.default": (real(4, 6), real(4, 6), 0, torch.float64),
    "aten._log_softmax.default": (real(4, 6), -1, False),
    "aten._log_softmax_backward_data.default": (real(4, 6), real(4, 6), 0, torch.float64),
    "aten.cumsum.default": (real(4, 6), 1),
    "aten.sort.default": (real(4, 6), 0),
    "aten.topk.default": (real(4, 6), 2),
    "aten.native_layer_norm.default": (real(2, 4, 6), [6], real(6), real(6), 1e-5),
    "aten.slice.Tensor": (real(4, 6), 1, 1, 4),
    "aten.slice_backward.default": (real(4, 3), [4, 6], 1, 1, 4, 1),
    "aten.select.int": (real(4, 6), 1, 2),
    "aten.select_backward.default": (real(4), [4, 6], 1, 2),
    "aten.split.Tensor": (real(4, 6), 3, -1),
    "aten.split_with_sizes.default": (real(4, 6), [2, 4], 1),
    "aten.cat.default": ([real(4, 2), real(4, 6)], 1),
    "aten.stack.default": ([real(4, 2), real(4, 2)], -1),
    "aten.embedding.default": (real(10, 6), index(10, 2, 4)),
    "aten.embedding_dense_backward.default": (real(2, 4, 6), index(10, 2, 4), 10, -1, False),
    "aten.gather.default": (real(4, 6), 1, index(6, 4, 2)),
    "aten.scatter.src": (real(4, 6), 1, torch.tensor([[0, 3]] * 4), real(4, 2)),
    "aten.scatter.value": (real(4, 6), 1, torch.tensor([[0, 3]] * 4), 2.0),
    "aten.scatter_add.default": (real(4, 6), 1, index(6, 4, 2), real(4, 2)),
    ATTENTION: (real(2, 4, 6, 8), real(2, 4, 6, 8), real(2, 4, 6, 8)),
    ATTENTION.replace(".default", "_backward.default"): attention_backward(),
    "aten.flip.default": (real(2, 4, 6), [0, -1]),
    "aten.tril.default": (real(2, 4, 6),),
    "aten.triu.default": (real(2, 4, 6), 1),
    "aten._to_copy.default": (real(4, 6),),
    "aten.bernoulli.p": (real(4, 6), 1.0),
}


def called(name: str, arguments):
    """A call as rules see it, its tensors and its results."""
    target = reduce(getattr, name.split("."), torch.ops)
    results = target(*arguments)
    results = list(results) if isinstance(results, tuple | list) else [results]
    schema = target._schema.arguments
    values = {a.name: arguments[n] if n < len(arguments) else a.default_value for n, a in enumerate(schema)}
    tensors, names = [], []
    for key, value in list(values.items()):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, torch.Tensor):
                tensors.append(one)
                names.append(key)
                is_list = isinstance(value, list)
                values[key] = tuple(item is not None for item in value) if is_list else None
    shapes = [tuple(tuple(one.shape) for one in many) for many in (tensors, results)]
    return OperatorCall(name, values, *shapes, tuple(names)), tensors, results, target


def rebuilt(arguments, parts):
    """Arguments with other tensors."""
    left = iter(parts)

    def one(value):
        if isinstance(value, torch.Tensor):
            return next(left)
        is_list = isinstance(value, list) and any(isinstance(item, torch.Tensor) for item in value)
        return [one(item) for item in value] if is_list else value

    return [one(value) for value in arguments]


def splits(words):
    """Roles that stand alone in a dimension, and nowhere in a product."""
    alone = {part[0] for word in words for part in word if len(part) == 1}
    return sorted(alone - {label for word in words for part in word if len(part) > 1 for label in part})


def part(tensor, word, role: str, half: int):
    for axis, labels in enumerate(word):
        if labels == (role,):
            size = tensor.shape[axis] // 2
            tensor = tensor.narrow(axis, half * size, size)
    return tensor


def sized(arguments, sizes, role_axis):
    """Sizes of results among the arguments, for halves."""
    return [
        [s // 2 if n == role_axis else s for n, s in enumerate(value)]
        if isinstance(value, list) and value == list(sizes)
        else value
        for value in arguments
    ]


def test_every_rule_has_a_sample() -> None:
    assert {rule.operator for rule in RULES} == {*SAMPLES, *MADE}


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_make_the_whole(name: str) -> None:
    rule = next(rule for rule in RULES if rule.operator == name)
    call, tensors, wholes, target = called(name, SAMPLES[name])
    read = read_specification(
        rule.specify(call), tuple(map(len, call.operands)), tuple(map(len, call.results))
    )
    roles = set(splits((*read.operands, *read.results))) - read.whole
    made = {role for word in read.results for labels in word for role in labels}
    held = {role for word in read.operands for labels in word for role in labels}
    if rule.kind in (OperatorKind.GATHER, OperatorKind.SCATTER):
        roles &= made & held  # what is read or written by place needs a mask
        roles -= {"z", "v"}
    if rule.kind is OperatorKind.ATTENTION:
        roles -= {"k", "s", "q", "e", "v"}
    for role in roles:
        halves = []
        for half in (0, 1):
            parts = [part(t, word, role, half) for t, word in zip(tensors, read.operands, strict=True)]
            arguments = rebuilt(SAMPLES[name], parts)
            if role in made and name in ("aten.slice_backward.default", "aten.select_backward.default"):
                arguments = sized(arguments, call.results[0], read.results[0].index((role,)))
            results = target(*arguments)
            halves.append(results if isinstance(results, tuple | list) else [results])
        for place, whole in enumerate(wholes):
            pair = [half[place] for half in halves]
            axes = [axis for axis, labels in enumerate(read.results[place]) if labels == (role,)]
            if axes:
                found = torch.cat(pair, axes[0])
            elif "max" in name or "min" in name:
                found = torch.maximum(*pair) if "max" in name else torch.minimum(*pair)
            else:
                found = arithmetic.add(*pair)
            torch.testing.assert_close(found, whole, msg=lambda text, role=role: f"{name}, {role}: {text}")


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_from_nothing_has_its_shape(name: str) -> None:
    rule = next(rule for rule in RULES if rule.operator == name)
    call, _, _, _ = called(name, MADE[name])
    read = read_specification(rule.specify(call), (), tuple(map(len, call.results)))
    assert [len(word) for word in read.results] == [len(shape) for shape in call.results]
