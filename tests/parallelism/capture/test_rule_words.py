"""What rules say of single calls, word by word, and what becomes of such words: by hand, without torch."""

from __future__ import annotations

import pytest

from treadle.errors import TreadleError
from treadle.parallelism.capture.call import OperatorCall, Shape
from treadle.parallelism.capture.rules import RULES
from treadle.parallelism.capture.specification import read_specification

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
Arguments = dict[str, object]
WORDS: list[tuple[str, Arguments, list[Shape], list[Shape], str]] = [
    ("sum.default", {}, [(2, 3)], [()], "ab->"),
    ("sum.dim_IntList", {"dim": []}, [(2, 3)], [()], "ab->"),
    ("sum.dim_IntList", {"dim": [-1], "keepdim": True}, [(2, 3, 4)], [(2, 3, 1)], "abc->ab1"),
    ("sum.dim_IntList", {"dim": [0, -1], "keepdim": False}, [(2, 3, 4)], [(3,)], "abc->b"),
    ("all.dim", {"dim": -2}, [(2, 3)], [(3,)], "a!b->b"),
    ("var_mean.correction", {"dim": [1]}, [(2, 3)], [(2,), (2,)], "ab!->a,a"),
    ("var_mean.correction", {"dim": [0], "keepdim": True}, [(2, 3)], [(1, 3)] * 2, "a!b->1b,1b"),
    ("_softmax.default", {"dim": -1}, [(2, 3, 4)], [(2, 3, 4)], "abc!->abc!"),
    ("_softmax_backward_data.default", {"dim": 0}, [(2, 3)] * 2, [(2, 3)], "a!b,a!b->a!b"),
    ("sort.default", {"dim": 1}, [(2, 3, 4)], [(2, 3, 4)] * 2, "ab!c->ab!c,ab!c"),
    ("flip.default", {"dims": [-1, 0]}, [(2, 3, 4)], [(2, 3, 4)], "a!bc!->abc"),
    ("topk.default", {"dim": -2}, [(6, 5)], [(2, 5)] * 2, "z!b->y!b,y!b"),
    ("slice.Tensor", {"dim": -1, "start": 4}, [(2, 8)], [(2, 4)], "a(z!y)->ay"),
    ("slice.Tensor", {"dim": 0, "start": None, "step": 1}, [(8, 2)], [(4, 2)], "(z!y)b->yb"),
    ("slice.Tensor", {"dim": 1, "start": 2, "step": 1}, [(2, 8)], [(2, 4)], "az!->ay!"),
    ("slice.Tensor", {"dim": 1, "start": 0, "step": 2}, [(2, 8)], [(2, 4)], "az!->ay!"),
    ("slice.Tensor", {"dim": 1, "start": 0, "step": 2}, [(2, 4)], [(2, 2)], "az!->ay!"),
    ("slice.Tensor", {"dim": 1, "start": -4, "step": 1}, [(2, 8)], [(2, 4)], "az!->ay!"),
    ("slice.Tensor", {"dim": 1, "start": 0, "step": 1}, [(2, 8)], [(2, 3)], "az!->ay!"),
    ("slice_backward.default", {"dim": 1, "start": 4, "step": 1}, [(3, 4)], [(3, 8)], "ay->a(z!y)"),
    ("slice_backward.default", {"dim": 0, "start": 2, "step": 1}, [(4, 3)], [(8, 3)], "y!b->z!b"),
    ("slice_backward.default", {"dim": 0, "start": 0, "step": 2}, [(4, 3)], [(8, 3)], "y!b->z!b"),
    ("slice_backward.default", {"dim": 0, "start": 0, "step": 2}, [(2, 3)], [(4, 3)], "y!b->z!b"),
    ("slice_backward.default", {"dim": 0, "start": -4, "step": 1}, [(4, 3)], [(8, 3)], "y!b->z!b"),
    ("slice_backward.default", {"dim": 0, "start": 0}, [(4, 3)], [(8, 3)], "yb->(z!y)b"),
    ("select.int", {"dim": -2}, [(2, 3, 4)], [(2, 4)], "ab!c->ac"),
    ("unbind.int", {"dim": 0}, [(2, 3)], [(3,)] * 2, "a!b->b,b"),
    ("select_backward.default", {"dim": 1}, [(2, 4)], [(2, 3, 4)], "ac->ab!c"),
    ("select_backward.default", {"dim": -1}, [(2, 3)], [(2, 3, 4)], "ab->abc!"),
    ("split.Tensor", {"dim": -1}, [(2, 6)], [(2, 3)] * 2, "a(z!y)->ay,ay"),
    ("split.Tensor", {"dim": 0}, [(6, 2)], [(6, 2)], "yb->yb"),
    ("split_with_sizes.default", {"dim": 1}, [(2, 6, 5)], [(2, 1, 5), (2, 2, 5), (2, 3, 5)],
     "az!c->ax!c,ay!c,aA!c"),
    ("cat.default", {"dim": -2}, [(2, 3, 5), (2, 4, 5)], [(2, 7, 5)], "ax!c,ay!c->az!c"),
    ("cat.default", {"dim": 0}, [(3, 5), (3, 5)], [(6, 5)], "yb,yb->(z!y)b"),
    ("cat.default", {"dim": 0}, [(3, 5)], [(3, 5)], "yb->yb"),
    ("stack.default", {"dim": 0}, [(3, 5)], [(1, 3, 5)], "ab->z!ab"),
    ("stack.default", {"dim": -1}, [(2, 3)] * 2, [(2, 3, 2)], "ab,ab->abz!"),
    ("stack.default", {"dim": -3}, [(2, 3)] * 2, [(2, 2, 3)], "ab,ab->z!ab"),
    ("full.default", {}, [], [(4, 6)], "->ab"),
    ("scalar_tensor.default", {}, [], [()], "->"),
    ("native_dropout.default", {}, [(2, 3)], [(2, 3)] * 2, "...->...,..."),
    ("floor_divide.default", {}, [(4, 1), (6, 1, 8)], [(6, 4, 8)], "b1,a1c->abc"),
    ("floor_divide.default", {}, [(1, 1), (1, 5)], [(1, 5)], "a1,ab->ab"),
    ("index.Tensor", {"indices": (False, True)}, [(4, 6, 8), (2, 5)], [(4, 2, 5, 8)], "azc,de->adec"),
    ("index_put.default", {"indices": (True,)}, [(4, 6), (3,), (3, 6)], [(4, 6)], "zb,c,cb->zb"),
    ("index_add.default", {"dim": -1}, [(4, 6), (3,), (4, 3)], [(4, 6)], "az,y,ay->az"),
    ("index_select.default", {"dim": 0}, [(4, 6), (3,)], [(3, 6)], "zb,y->yb"),
    ("gather.default", {"dim": 0}, [(4, 6), (3, 6)], [(3, 6)], "zb,yb->yb"),
    ("scatter.src", {"dim": -1}, [(4, 6), (4, 3), (4, 3)], [(4, 6)], "az,ay,ay->az"),
    ("scatter.value", {"dim": -1}, [(4, 6), (4, 3)], [(4, 6)], "az,ay->az"),
]  # fmt: skip


def call(
    operator: str, arguments: Arguments, before: list[Shape], after: list[Shape], *names: str
) -> OperatorCall:
    return OperatorCall(f"aten.{operator}", arguments, tuple(before), tuple(after), names)


def specified(one: OperatorCall) -> str:
    (rule,) = [rule for rule in RULES if rule.operator == one.operator]
    return rule.specify(one)


@pytest.mark.parametrize(("operator", "arguments", "before", "after", "words"), WORDS)
def test_words_of_a_call(
    operator: str, arguments: Arguments, before: list[Shape], after: list[Shape], words: str
) -> None:
    assert specified(call(operator, arguments, before, after)) == words


@pytest.mark.parametrize(
    ("operator", "names", "shape", "words"),
    [
        (ATTENTION, "query key value", (), "b(kg)qe,bkse,bksv->b(kg)qv,b(kg)q"),
        (ATTENTION, "query key value attn_mask", (), "b(kg)qe,bkse,bksv,...qs->b(kg)qv,b(kg)q"),
        (f"{ATTENTION}_backward", "grad_out", (),
         "b(kg)qv,b(kg)qe,bkse,bksv,b(kg)qv,b(kg)q->b(kg)qe,bkse,bksv"),
        (f"{ATTENTION}_backward", "grad_out attn_mask", (),
         "b(kg)qv,b(kg)qe,bkse,bksv,b(kg)qv,b(kg)q,...qs->b(kg)qe,bkse,bksv"),
        ("native_layer_norm", "input", (6,), "...u!->...u,...1,...1"),
        ("native_layer_norm", "input bias", [5, 6], "...u!v!,uv->...uv,...11,...11"),
        ("native_layer_norm", "input weight bias", [4, 5, 6], "...u!v!w!,uvw,uvw->...uvw,...111,...111"),
    ],
)  # fmt: skip
def test_words_that_depend_on_what_is_given(operator: str, names: str, shape: object, words: str) -> None:
    assert (
        specified(call(f"{operator}.default", {"normalized_shape": shape}, [], [], *names.split())) == words
    )


@pytest.mark.parametrize(
    ("operator", "indices", "values", "why"),
    [
        ("index.Tensor", (True, True), (2, 8), "2 dimensions are indexed together; expected one"),
        ("index.Tensor", (False,), (2, 8), "0 dimensions are indexed together; expected one"),
        ("index_put.default", (False, True), (5,), "values of 1 dimensions are repeated; expected 2"),
    ],
)
def test_what_is_indexed_otherwise_is_refused(
    operator: str, indices: tuple[bool, ...], values: Shape, why: str
) -> None:
    with pytest.raises(TreadleError) as caught:
        specified(call(operator, {"indices": indices}, [(4, 6), (2,), values], [(4, 6)]))
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("words", "before", "after", "why"),
    [
        ("ij", (2,), (2,), "expected 1 operands and 1 results"),
        ("ij->i", (2, 2), (1,), "expected 2 operands and 1 results"),
        ("i,j->i", (1, 1), (1, 1, 1), "expected 2 operands and 3 results"),
        ("i->i", (), (1,), "expected 0 operands and 1 results"),
        ("i->ij", (1,), (3,), "'ij' has 2 dimensions; the tensor has 3"),
        ("...ij->i", (1,), (1,), "'...ij' has 2 dimensions; the tensor has 1"),
    ],
)
def test_words_that_do_not_fit_are_refused(words: str, before: Shape, after: Shape, why: str) -> None:
    with pytest.raises(TreadleError) as caught:
        read_specification(words, before, after)
    assert str(caught.value) == f"specification {words!r}: {why}"
