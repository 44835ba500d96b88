"""In what operators of PyTorch are linear: of summands they make summands, so that sums can wait.

An operator is told by sets of its arguments; it is linear in all tensors of a set taken together, the others
fixed: a sum in both of its operands, a product in each. A set counts only where all of it are tensors: adding
a number is not linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from treadle.parallelism.capture.call import OperatorCall

Sets = tuple[tuple[str, ...], ...]

_FIRST: Sets = (("self",),)
_EACH: Sets = (("self",), ("other",))
_GRADIENT: Sets = (("grad_output",),)

LINEAR: Mapping[str, Sets] = MappingProxyType(
    {
        **dict.fromkeys(("aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"), (("self", "other"),)),
        "aten.mul.Tensor": _EACH,
        **dict.fromkeys(
            (
                "aten.mul.Scalar",
                "aten.div.Tensor",
                "aten.div.Scalar",
                "aten.neg.default",
                "aten._conj.default",
                "aten.sum.default",
                "aten.sum.dim_IntList",
                "aten.cumsum.default",
                "aten.flip.default",
                "aten.tril.default",
                "aten.triu.default",
                "aten.slice.Tensor",
                "aten.select.int",
                "aten.unbind.int",
                "aten.split.Tensor",
                "aten.split_with_sizes.default",
                "aten.view_as_complex.default",
                "aten.view_as_real.default",
                "aten.index.Tensor",
                "aten.index_select.default",
                "aten.gather.default",
            ),
            _FIRST,
        ),
        "aten.where.self": (("self", "other"),),
        "aten.mm.default": (("self",), ("mat2",)),
        "aten.bmm.default": (("self",), ("mat2",)),
        "aten.mv.default": (("self",), ("vec",)),
        "aten.dot.default": (("self",), ("tensor",)),
        "aten.cat.default": (("tensors",),),
        "aten.stack.default": (("tensors",),),
        "aten.embedding.default": (("weight",),),
        "aten.index_put.default": (("self", "values"),),
        "aten.index_add.default": (("self", "source"),),
        "aten.scatter.src": (("self", "src"),),
        "aten.scatter_add.default": (("self", "src"),),
        **dict.fromkeys(
            (
                "aten.embedding_dense_backward.default",
                "aten.slice_backward.default",
                "aten.select_backward.default",
                "aten.silu_backward.default",
                "aten.gelu_backward.default",
                "aten.tanh_backward.default",
                "aten.sigmoid_backward.default",
                "aten.threshold_backward.default",
                "aten._softmax_backward_data.default",
                "aten._log_softmax_backward_data.default",
            ),
            _GRADIENT,
        ),
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": (("grad_out",),),
    }
)
"""Sets of arguments by operator; of one that is not here, none are known."""


def linear_sets(call: OperatorCall, given: Sets = ()) -> tuple[tuple[int, ...], ...]:
    """Sets of a call's operands, by place, in which it is linear.

    Parameters
    ----------
    call : OperatorCall
    given : tuple of tuples of str
        Sets of an operator that the table lacks.

    Examples
    --------
    >>> shapes = ((4, 6), (4, 6))
    >>> linear_sets(OperatorCall("aten.add.Tensor", {}, shapes, shapes[:1], ("self", "other")))
    ((0, 1),)
    >>> linear_sets(OperatorCall("aten.add.Tensor", {"other": 1}, shapes[:1], shapes[:1], ("self",)))
    ()
    """
    if call.operator == "aten._to_copy.default":  # between floats, for all that matters here
        is_float = "float" in str(call.arguments.get("dtype") or "float")
        return ((0,),) if is_float else ()
    return tuple(
        tuple(at for at, name in enumerate(call.names) if name in names)
        for names in given or LINEAR.get(call.operator, ())
        if set(names) <= set(call.names)
    )
