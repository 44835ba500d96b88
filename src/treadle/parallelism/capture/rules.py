"""The table of rules: what each operator of PyTorch is in a compute graph.

To add an operator is to add one ``OperatorRule``: its name as in the error message, its kind, and a
specification (see ``specification``), or a function that makes one from the call where arguments decide.
Pointwise operators, which PyTorch marks as such, need none.

A table lists in what operators are linear: their results of partial inputs are partial, so sums can wait. An
operator is linear in all tensors of a set of its arguments together, the others fixed: a sum in both of its
operands, a product in each. A set counts only where all of it are tensors: adding a number is not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from treadle.errors import TreadleError
from treadle.parallelism.capture.call import OperatorCall, Shape, labels
from treadle.parallelism.graph.compute_graph import OperatorKind


@dataclass(frozen=True)
class OperatorRule:
    """One operator.

    Parameters
    ----------
    operator : str
        ``aten.mm.default``.
    kind : OperatorKind
        Of the node that it becomes.
    specification : str or function of OperatorCall to str
        Operands are the tensors among the arguments, in order.
    linear : tuple of tuples of str
        Sets of arguments in which it is linear, all of a set taken together (see ``linearity``).

    Examples
    --------
    >>> OperatorRule("my.double.default", OperatorKind.ELEMENTWISE, "...->...").kind.value
    'ELEMENTWISE'
    """

    operator: str
    kind: OperatorKind
    specification: str | Callable[[OperatorCall], str]
    linear: tuple[tuple[str, ...], ...] = ()

    def specify(self, call: OperatorCall) -> str:
        """Return the specification of one call."""
        return self.specification if isinstance(self.specification, str) else self.specification(call)


def _words(before: Sequence[str], after: Sequence[str]) -> str:
    return f"{','.join(before)}->{','.join(after)}"


def _whole(names: Sequence[str], axes: Collection[int]) -> str:
    """Return the word of a tensor that cannot be split over some dimensions."""
    return "".join(f"{name}!" if axis in axes else name for axis, name in enumerate(names))


def _reduced(call: OperatorCall) -> str:
    gone, keep = call.axes(), bool(call.arguments.get("keepdim"))
    left = [name for axis, name in enumerate(call.labels) if axis not in gone]
    if keep:
        left = ["1" if axis in gone else name for axis, name in enumerate(call.labels)]
    return _words(["".join(call.labels)], ["".join(left)] * len(call.results))


def _reduced_whole(call: OperatorCall) -> str:
    """Return the words of a reduction whose parts do not add up: what it reduces cannot be split."""
    return f"{_whole(call.labels, call.axes())}->{_reduced(call).partition('->')[2]}"


def _whole_axis(call: OperatorCall) -> str:
    """Keep one dimension whole in all operands and results: softmax, cumulative sums, sorting."""
    word = _whole(call.labels, [call.axis()])
    return _words([word] * len(call.operands), [word] * len(call.results))


def _flipped(call: OperatorCall) -> str:
    return f"{_whole(call.labels, call.axes('dims'))}->{''.join(call.labels)}"


def _with_axis(call: OperatorCall, *labels: str) -> tuple[str, ...]:
    """Return words of tensors that differ in one axis, from the labels of that axis."""
    names, axis = call.labels, call.axis()
    return tuple("".join([*names[:axis], label, *names[axis + 1 :]]) for label in labels)


def _whole_part(call: OperatorCall) -> str:
    """Take a part of a dimension, of which neither the whole nor the part can be split (topk)."""
    before, after = _with_axis(call, "z!", "y!")
    return _words([before], [after] * len(call.results))


def _part(call: OperatorCall) -> tuple[str, str]:
    """Return the words of a tensor and of a slice of it: of an equal part if it is one, else of any."""
    start, step, axis = call.arguments.get("start") or 0, call.arguments.get("step") or 1, call.axis()
    assert isinstance(start, int)
    small, large = sorted((call.operands[0][axis], call.results[0][axis]))
    # a step, or a start that is counted from the end, is at no multiple
    is_equal = large % small == 0 and (start if step == 1 and start >= 0 else 1) % small == 0
    outer, inner = _with_axis(call, *(("(z!y)", "y") if is_equal else ("z!", "y!")))
    return outer, inner


def _slice(call: OperatorCall) -> str:
    return "->".join(_part(call))


def _slice_backward(call: OperatorCall) -> str:
    return "->".join(reversed(_part(call)))


def _select(call: OperatorCall) -> str:
    (small,) = _with_axis(call, "")
    return _words([_whole(call.labels, [call.axis()])], [small] * len(call.results))


def _select_backward(call: OperatorCall) -> str:
    rank = len(call.results[0])
    axis, names = call.axis(rank=rank), labels(rank)
    return f"{''.join(names[:axis] + names[axis + 1 :])}->{_whole(names, [axis])}"


def _runs(sizes: list[int]) -> tuple[str, list[str]]:
    """Return the words of a dimension and of its runs; what counts or distinguishes runs stays whole."""
    if len(set(sizes)) == 1:
        return "(z!y)" if len(sizes) > 1 else "y", ["y"] * len(sizes)
    return "z!", [f"{letter}!" for letter in "xyABCDEFGHIJKLMNOPQRSTUVW"[: len(sizes)]]


def _whole_and_runs(call: OperatorCall, parts: tuple[Shape, ...]) -> tuple[str, str]:
    """Return the words of a tensor, and of all runs along an axis that it consists of."""
    outer, inner = _runs([shape[call.axis()] for shape in parts])
    whole, *runs = _with_axis(call, outer, *inner)
    return whole, ",".join(runs)


def _split(call: OperatorCall) -> str:
    return "->".join(_whole_and_runs(call, call.results))


def _cat(call: OperatorCall) -> str:
    return "->".join(reversed(_whole_and_runs(call, call.operands)))


def _stack(call: OperatorCall) -> str:
    names, axis = call.labels, call.axis(rank=len(call.labels) + 1)
    return _words(["".join(names)] * len(call.operands), ["".join([*names[:axis], "z!", *names[axis:]])])


def _attention(call: OperatorCall) -> str:
    mask = ["...qs"] if "attn_mask" in call.names else []
    return _words(["b(kg)qe", "bkse", "bksv", *mask], ["b(kg)qv", "b(kg)q"])


def _attention_backward(call: OperatorCall) -> str:
    mask = ["...qs"] if "attn_mask" in call.names else []
    operands = ["b(kg)qv", "b(kg)qe", "bkse", "bksv", "b(kg)qv", "b(kg)q", *mask]
    return _words(operands, ["b(kg)qe", "bkse", "bksv"])


def _layer_norm(call: OperatorCall) -> str:
    shape = call.arguments["normalized_shape"]
    assert isinstance(shape, list | tuple)
    normal = "uvw"[: len(shape)]
    weights = [normal for name in call.names if name in ("weight", "bias")]
    marked, ones = _whole(normal, range(len(shape))), "1" * len(shape)
    return _words([f"...{marked}", *weights], [f"...{normal}", f"...{ones}", f"...{ones}"])


def _same(call: OperatorCall) -> str:
    return _words(["..."] * len(call.operands), ["..."] * len(call.results))


def _made(call: OperatorCall) -> str:
    """Make a tensor from nothing, perhaps of another one's shape: each rank makes its part."""
    return _words([], ["".join(labels(len(shape))) for shape in call.results])


def pointwise(call: OperatorCall) -> str:
    """Return the words of a pointwise operator: aligned from the right, dimensions of size 1 repeated."""
    names = labels(rank := len(call.results[0]))
    words = []
    for shape in call.operands:
        sides = zip(names[rank - len(shape) :], shape, call.results[0][rank - len(shape) :], strict=True)
        words.append("".join("1" if size == 1 < wanted else name for name, size, wanted in sides))
    return _words(words, ["".join(names)] * len(call.results))


def _index_words(call: OperatorCall) -> tuple[str, str, str]:
    """Return the words of a tensor indexed along one dimension, of the index, and of the result."""
    given = call.arguments["indices"]
    assert isinstance(given, tuple)
    if sum(given) != 1:
        raise TreadleError(f"{sum(given)} dimensions are indexed together; expected one")
    axis = given.index(True)
    rank = len(call.operands[0])
    names = labels(rank + len(call.operands[1]))
    before, after, index = "".join(names[:axis]), "".join(names[axis + 1 : rank]), "".join(names[rank:])
    return f"{before}z{after}", index, f"{before}{index}{after}"


def _indexed(call: OperatorCall) -> str:
    """Return the words of ``x[:, index]``."""
    tensor, index, picked = _index_words(call)
    return f"{tensor},{index}->{picked}"


def _selected(call: OperatorCall) -> str:
    """Return the words of ``index_select(x, dim, index)``."""
    read, picked = _with_axis(call, "z", "y")
    return f"{read},y->{picked}"


def _put(call: OperatorCall) -> str:
    """Return the words of ``x[:, index] = values``, or of adding them."""
    tensor, index, picked = _index_words(call)
    if (rank := len(call.operands[2])) != len(picked):
        raise TreadleError(f"values of {rank} dimensions are repeated; expected {len(picked)}")
    return f"{tensor},{index},{picked}->{tensor}"


def _put_along(call: OperatorCall) -> str:
    """Return the words of ``index_add(x, dim, index, source)``."""
    written, added = _with_axis(call, "z", "y")
    return f"{written},y,{added}->{written}"


def _gathered(call: OperatorCall) -> str:
    """Return the words of ``gather(x, dim, index)``: index and result have an axis of their own."""
    read, picked = _with_axis(call, "z", "y")
    return f"{read},{picked}->{picked}"


def _scattered(call: OperatorCall) -> str:
    """Return the words of ``scatter(x, dim, index, src)``: the axis is written by index."""
    written, picked = _with_axis(call, "z", "y")
    return _words([written, *[picked] * (len(call.operands) - 1)], [written])


_CPU_ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu"

RULES: tuple[OperatorRule, ...] = (
    OperatorRule("aten.mm.default", OperatorKind.EINSUM, "ij,jk->ik"),
    OperatorRule("aten.bmm.default", OperatorKind.EINSUM, "bij,bjk->bik"),
    OperatorRule("aten.mv.default", OperatorKind.EINSUM, "ij,j->i"),
    OperatorRule("aten.dot.default", OperatorKind.EINSUM, "i,i->"),
    *(
        OperatorRule(f"aten.{name}", OperatorKind.REDUCTION, _reduced)
        for name in (
            "sum.default",
            "sum.dim_IntList",
            "amax.default",
            "amin.default",
            "max.default",
            "min.default",
        )
    ),
    *(
        OperatorRule(f"aten.{name}", OperatorKind.REDUCTION, _reduced_whole)
        for name in (
            "all.default",
            "all.dim",
            "any.default",
            "any.dim",
            "argmax.default",
            "linalg_vector_norm.default",
            "var.correction",
            "var_mean.correction",
        )
    ),
    *(
        OperatorRule(f"aten.{name}.default", OperatorKind.ELEMENTWISE, _whole_axis)
        for name in (
            "_softmax",
            "_safe_softmax",
            "_softmax_backward_data",
            "_log_softmax",
            "_log_softmax_backward_data",
            "cumsum",
        )
    ),
    OperatorRule("aten.flip.default", OperatorKind.ELEMENTWISE, _flipped),
    OperatorRule("aten.sort.default", OperatorKind.ELEMENTWISE, _whole_axis),
    OperatorRule("aten.topk.default", OperatorKind.ELEMENTWISE, _whole_part),
    OperatorRule("aten.native_layer_norm.default", OperatorKind.ELEMENTWISE, _layer_norm),
    *(
        OperatorRule(f"aten.{name}.default", OperatorKind.ELEMENTWISE, "...i!j!->...ij")
        for name in ("tril", "triu")
    ),
    OperatorRule("aten.slice.Tensor", OperatorKind.GATHER, _slice),
    OperatorRule("aten.slice_backward.default", OperatorKind.SCATTER, _slice_backward),
    OperatorRule("aten.select.int", OperatorKind.GATHER, _select),
    OperatorRule("aten.select_backward.default", OperatorKind.SCATTER, _select_backward),
    OperatorRule("aten.unbind.int", OperatorKind.GATHER, _select),
    OperatorRule("aten.view_as_complex.default", OperatorKind.GATHER, "...z!->..."),
    OperatorRule("aten.view_as_real.default", OperatorKind.SCATTER, "...->...z!"),
    OperatorRule("aten.index.Tensor", OperatorKind.GATHER, _indexed),
    OperatorRule("aten.index_select.default", OperatorKind.GATHER, _selected),
    OperatorRule("aten.index_put.default", OperatorKind.SCATTER, _put),
    OperatorRule("aten.index_add.default", OperatorKind.SCATTER, _put_along),
    OperatorRule("aten.floor_divide.default", OperatorKind.ELEMENTWISE, pointwise),
    OperatorRule("aten.split.Tensor", OperatorKind.GATHER, _split),
    OperatorRule("aten.split_with_sizes.default", OperatorKind.GATHER, _split),
    OperatorRule("aten.cat.default", OperatorKind.SCATTER, _cat),
    OperatorRule("aten.stack.default", OperatorKind.SCATTER, _stack),
    OperatorRule("aten.embedding.default", OperatorKind.GATHER, "va,...->...a"),
    OperatorRule("aten.embedding_dense_backward.default", OperatorKind.SCATTER, "...a,...->va"),
    OperatorRule("aten.gather.default", OperatorKind.GATHER, _gathered),
    OperatorRule("aten.scatter.src", OperatorKind.SCATTER, _scattered),
    OperatorRule("aten.scatter.value", OperatorKind.SCATTER, _scattered),
    OperatorRule("aten.scatter_add.default", OperatorKind.SCATTER, _scattered),
    OperatorRule(f"{_CPU_ATTENTION}.default", OperatorKind.ATTENTION, _attention),
    OperatorRule(f"{_CPU_ATTENTION}_backward.default", OperatorKind.ATTENTION, _attention_backward),
    *(
        OperatorRule(f"aten.{name}", OperatorKind.ELEMENTWISE, _same)
        for name in ("_to_copy.default", "_conj.default", "native_dropout.default", "bernoulli.p")
    ),
    *(
        OperatorRule(f"aten.{name}", OperatorKind.ELEMENTWISE, _made)
        for name in (
            "full.default",
            "zeros.default",
            "ones.default",
            "empty.memory_format",
            "arange.default",
            "arange.start",
            "arange.start_step",
            "scalar_tensor.default",
            "full_like.default",
            "zeros_like.default",
            "ones_like.default",
            "empty_like.default",
            "rand_like.default",
            "new_zeros.default",
            "new_ones.default",
            "new_empty.default",
            "new_full.default",
        )
    ),
)


Sets = tuple[tuple[str, ...], ...]

LINEAR: Mapping[str, Sets] = MappingProxyType(
    {
        **dict.fromkeys(("aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"), (("self", "other"),)),
        "aten.mul.Tensor": (("self",), ("other",)),
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
            (("self",),),
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
            (("grad_output",),),
        ),
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": (("grad_out",),),
    }
)
"""Sets of arguments by operator; of one that is not here, none are known."""


def linear_sets(call: OperatorCall, given: Sets = ()) -> tuple[tuple[int, ...], ...]:
    """Return the sets of a call's operands, by place, in which it is linear.

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
