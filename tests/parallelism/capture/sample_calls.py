"""Calls of every operator that has a rule, and what becomes of them; loads torch."""

from __future__ import annotations

from functools import reduce

import torch

from treadle.parallelism.capture.call import OperatorCall


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
