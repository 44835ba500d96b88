"""What rules say of single calls, word by word, and what becomes of such words: by hand, without torch."""

from __future__ import annotations

import pytest

from treadle.errors import TreadleError
from treadle.parallelism.capture.call import OperatorCall, Shape, labels
from treadle.parallelism.capture.drafting import Drafting, Seen
from treadle.parallelism.capture.rules import RULES, linear_sets, pointwise
from treadle.parallelism.capture.specification import Specification, read_specification
from treadle.parallelism.capture.views import VIEWS
from treadle.parallelism.graph.compute_graph import Index, OperatorKind, Phase, Source, TensorRef

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


def test_dimensions_are_counted_from_the_end_too() -> None:
    one = call("x", {"dim": -1, "dims": (2, -3), "yes": 1, "no": None, "at": 4}, [(2, 3, 4)], [])
    assert [one.axis(), one.axis(rank=5), one.axis("at"), one.axis("at", rank=0)] == [2, 4, 1, 0]
    assert [one.axes(), one.axes("dims"), one.axes("no"), one.axes("missing")] == [
        (2,), (2, 0), (0, 1, 2), (0, 1, 2)
    ]  # fmt: skip
    scalar = call("x", {"dim": -1, "dims": [-1]}, [()], [])
    assert (scalar.axis(), scalar.axes(), scalar.axes("dims")) == (0, (0,), (0,))
    assert "".join(labels(25)) == "abcdefghijklmnopqrstuvwAB"


def test_words_are_read_for_tensors_of_their_ranks() -> None:
    found = read_specification("...b(k!g)q!,1...,->...g,", (5, 3, 0), (2, 0))
    assert found.operands == (
        ((".0",), (".1",), ("b",), ("k", "g"), ("q",)), ((), (".0",), (".1",)), ()
    )  # fmt: skip
    assert found.results == (((".0",), ("g",)), ())
    assert found.whole == frozenset("kq")
    assert read_specification("->ab!", (), (2,)) == Specification((), ((("a",), ("b",)),), frozenset("b"))
    assert read_specification("a->", (1,), (0,)).results == ((),)
    assert read_specification("...(ab)c->", (2,), ()).operands == ((("a", "b"), ("c",)),)


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


@pytest.mark.parametrize(
    ("operator", "names", "sets"),
    [
        ("mul.Tensor", "self other", ((0,), (1,))),
        ("mul.Tensor", "self", ((0,),)),
        ("sub.Tensor", "self", ()),
        ("where.self", "condition self other", ((1, 2),)),
        ("cat.default", "tensors tensors tensors", ((0, 1, 2),)),
        ("index_put.default", "self indices values", ((0, 2),)),
        ("_softmax_backward_data.default", "grad_output output", ((0,),)),
        ("_to_copy.default", "self", ((0,),)),
        ("roll.default", "self", ()),
    ],
)
def test_sets_of_operands_in_which_a_call_is_linear(
    operator: str, names: str, sets: tuple[tuple[int, ...], ...]
) -> None:
    one = call(operator, {}, [], [], *names.split())
    assert linear_sets(one) == sets
    if sets and operator != "_to_copy.default":
        assert linear_sets(one, ((names.split()[-1],),)) == (
            tuple(at for at, name in enumerate(names.split()) if name == names.split()[-1]),
        )


@pytest.mark.parametrize(
    ("dtype", "is_linear"), [("torch.bfloat16", True), (None, True), ("torch.int64", False)]
)
def test_copies_are_linear_between_floats(dtype: str | None, is_linear: bool) -> None:
    assert linear_sets(call("_to_copy.default", {"dtype": dtype}, [], [], "self")) == ((0,),) * is_linear


def placed(draft: Drafting, *shape: int, name: str = "x", source: Source = Source.INPUT) -> Seen:
    return draft.add_placeholder(name, shape, 2, source=source, path=name)


def test_pointwise_roles_are_aligned_from_the_right() -> None:
    one = call("add.Tensor", {}, [(3, 1), (1,), (5,), (2, 1, 5)], [(2, 3, 5)] * 2)
    assert pointwise(one) == "b1,1,c,a1c->abc,abc"
    assert pointwise(call("neg.default", {}, [(4, 1)], [(1, 4, 5)])) == "b1->abc"
    assert pointwise(call("neg.default", {}, [(1, 4)], [(1, 4)])) == "ab->ab"


def test_views_say_how_a_tensor_is_seen() -> None:
    draft = Drafting()
    x = placed(draft, 2, 3, 4)

    def seen(view: str, after: Shape, **arguments: object) -> Seen:
        return VIEWS[f"aten.{view}"](draft, x, call(view, arguments, [(2, 3, 4)], [after]))

    first, second, third = x.dims
    assert seen("permute.default", (4, 2, 3), dims=[-1, 0, 1]).dims == (third, first, second)
    assert seen("transpose.int", (4, 3, 2), dim0=-1, dim1=0).dims == (third, second, first)
    assert seen("t.default", (3, 2, 4)).dims == (second, first, third)
    assert seen("clone.default", (2, 3, 4)) is x
    line = placed(draft, 5, name="line")
    assert VIEWS["aten.t.default"](draft, line, call("t.default", {}, [(5,)], [(5,)])) == line
    wide = seen("expand.default", (6, 2, 3, 4), size=[6, -1, 3, 4])
    assert (draft.shape(wide), wide.dims[1:], wide.dims[0][0].owner) == ((6, 2, 3, 4), x.dims, None)
    column = placed(draft, 5, 1, name="column")
    spread = VIEWS["aten.expand.default"](draft, column, call("expand.default", {}, [(5, 1)], [(5, 7)]))
    assert (draft.shape(spread), spread.dims[0], spread.dims[1][0].owner) == ((5, 7), column.dims[0], None)
    flat = seen("view.default", (2, 12))
    assert flat.dims == (first, (*second, *third))
    apart = seen("view.default", (2, 3, 1, 2, 2))
    assert [draft.shape(apart), apart.dims[2][0].owner] == [(2, 3, 1, 2, 2), None]
    assert [factor.owner for dim in apart.dims[3:] for factor in dim] == [third[0].owner] * 2


@pytest.mark.parametrize(
    ("words", "before", "after", "why"),
    [
        ("a->a1", [(4,)], (4, 3), "its rule makes a tensor of (4, 1); expected (4, 3)"),
        ("(kgh)k->k", [(12, 3)], (3,), "the rule leaves the sizes of g, h open"),
        ("(kg)k->k", [(6, 4)], (4,), "the rule leaves the sizes of g open"),
        ("(kg)kg->k", [(12, 3, 5)], (3,), "the rule gives k x g two sizes"),
        ("ab->ba", [(3, 4)], (3, 4), "the rule gives a two sizes"),
    ],
)
def test_rules_that_do_not_fit_sizes_are_refused(
    words: str, before: list[Shape], after: Shape, why: str
) -> None:
    draft = Drafting()
    operands = [placed(draft, *shape, name=f"x{at}") for at, shape in enumerate(before)]
    read = read_specification(words, tuple(map(len, before)), (len(after),))
    with pytest.raises(TreadleError) as caught:
        draft.add("n", OperatorKind.ELEMENTWISE, read, operands, [(after, 2)])
    assert str(caught.value) == why


def test_a_product_over_what_both_sides_are_repeated_over() -> None:
    """x of 4, repeated over 3, times y of 5, repeated over 3: the 3 is an atom that no tensor has."""
    draft = Drafting()
    x, y = placed(draft, 4), placed(draft, 5, name="y", source=Source.PARAMETER)
    left = Seen(x.tensor, (*x.dims, draft.repeated(3)))
    right = Seen(y.tensor, (draft.repeated(3), *y.dims))
    read = read_specification("ij,jk->ik", (2, 2), (2,))
    (made,) = draft.add("mm", OperatorKind.EINSUM, read, [left, right], [((4, 5), 4)], line="m.py:3",
                        arguments={"self": {"operand": 0}, "n": [7, {"operand": 1}]})  # fmt: skip
    assert (draft.shape(made), draft.element_bytes(made), draft.element_bytes(y)) == ((4, 5), 4, 2)
    gradient = placed(draft, 5, name="dy", source=Source.TANGENT)
    draft.tie(y, gradient)
    graph = draft.finish([made, gradient], gradients={y.tensor: gradient}, tangents={})
    assert str(graph).splitlines()[1:] == [
        "  x: PLACEHOLDER [a]",
        "  y: PLACEHOLDER [b]",
        '  mm: EINSUM "a,b->ab"(x, y) -> [ab]',
        "  dy: PLACEHOLDER [b]",
        "  output: OUTPUT[mm[ab], dy[b]]",
    ]
    assert [(atom.name, atom.size) for atom in graph.atoms] == [("a", 4), ("b", 5), ("c", 3)]
    node = graph.nodes[2]
    assert node.arguments == {
        "self": {"operand": 0, "dims": [[[0, 0]], [[2, 0]]]},
        "n": [7, {"operand": 1, "dims": [[[2, 0]], [[1, 0]]]}],
    }
    assert [one.roles for one in node.operands] == [((Index(0),),), ((Index(1),),)]
    assert node.results[0].roles == ((Index(0),), (Index(1),))
    assert (graph.gradients, node.line) == ({TensorRef(1): TensorRef(3)}, "m.py:3")
    assert [one.phase for one in graph.nodes] == [*[Phase.FORWARD] * 3, *[Phase.BACKWARD] * 2]


def test_one_atom_twice_in_a_tensor_is_primed_and_merged_dimensions_take_a_letter() -> None:
    draft = Drafting()
    x = placed(draft, 4, 6)
    read = read_specification("ab,cb->ac!1", (2, 2), (3,))
    (square,) = draft.add("square", OperatorKind.EINSUM, read, [x, x], [((4, 4, 1), 2)])
    flat = draft.regroup(square, (16,))
    read = read_specification("a->a", (1,), (1,))
    (last,) = draft.add("flat", OperatorKind.ELEMENTWISE, read, [flat], [((16,), 2)])
    placed(draft, 7, name="more")
    tangent = placed(draft, 16, name="t", source=Source.TANGENT)
    draft.tie(last, tangent)
    graph = draft.finish([last], gradients={}, tangents={last.tensor: tangent.tensor})
    assert str(graph).splitlines()[1:] == [
        "  x: PLACEHOLDER [ab]",
        """  square: EINSUM "ab,a'b->aa'c"(x, x) whole{a'} -> [aa'c]""",
        "  flat: ELEMENTWISE(square[aa']) -> [aa']",
        "  more: PLACEHOLDER [e]",
        "  t: PLACEHOLDER [aa']",
        "  output: OUTPUT[flat[aa']]",
    ]
    assert graph.nodes[1].whole == frozenset([Index(0, 1)])
    assert graph.nodes[2].results[0].dims == ((Index(0), Index(0, 1)),)
    assert [(atom.name, atom.size) for atom in graph.atoms] == [("a", 4), ("b", 6), ("c", 1), ("e", 7)]
    assert graph.tangents == {TensorRef(2): TensorRef(4)}
