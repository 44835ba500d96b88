"""Views: operators that only change the shape of a tensor."""

from __future__ import annotations

from collections.abc import Callable

from treadle.parallelism.capture.call import OperatorCall
from treadle.parallelism.capture.drafting import Drafting, Seen

View = Callable[[Drafting, Seen, OperatorCall], Seen]


def _reshaped(draft: Drafting, seen: Seen, call: OperatorCall) -> Seen:
    return draft.regroup(seen, call.results[0])


def _same(_draft: Drafting, seen: Seen, _call: OperatorCall) -> Seen:
    return seen


def _permuted(_draft: Drafting, seen: Seen, call: OperatorCall) -> Seen:
    return Seen(seen.tensor, tuple(seen.dims[axis] for axis in call.axes("dims")))


def _transposed(_draft: Drafting, seen: Seen, call: OperatorCall) -> Seen:
    dims = list(seen.dims)
    if len(dims) > 1:
        first, second = (call.axis("dim0"), call.axis("dim1")) if "dim0" in call.arguments else (0, 1)
        dims[first], dims[second] = dims[second], dims[first]
    return Seen(seen.tensor, tuple(dims))


def _expanded(draft: Drafting, seen: Seen, call: OperatorCall) -> Seen:
    shape, own = call.results[0], draft.shape(seen)
    dims = [draft.repeated(size) for size in shape[: len(shape) - len(own)]]
    for dim, size, wanted in zip(seen.dims, own, shape[len(shape) - len(own) :], strict=True):
        dims.append(dim if size == wanted else draft.repeated(wanted))
    return Seen(seen.tensor, tuple(dims))


VIEWS: dict[str, View] = {
    **dict.fromkeys(
        (
            "aten.view.default",
            "aten._unsafe_view.default",
            "aten.reshape.default",
            "aten.squeeze.dim",
            "aten.squeeze.dims",
            "aten.squeeze.default",
            "aten.unsqueeze.default",
        ),
        _reshaped,
    ),
    **dict.fromkeys(
        (
            "aten.alias.default",
            "aten.clone.default",
            "aten.contiguous.default",
            "aten.detach.default",
            "aten.lift_fresh_copy.default",
        ),
        _same,
    ),
    "aten.permute.default": _permuted,
    "aten.t.default": _transposed,
    "aten.transpose.int": _transposed,
    "aten.expand.default": _expanded,
}
