"""Joint graphs by hand, read as captured ones are; without torch."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from types import SimpleNamespace

import pytest

from treadle.errors import TreadleError
from treadle.parallelism.capture.joint import _added_to, _mean, _tied
from treadle.parallelism.capture.reading import read_joint
from treadle.parallelism.capture.rules import OperatorRule
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source

POINTWISE = OperatorKind.ELEMENTWISE
RULES = (
    OperatorRule("my.join.default", POINTWISE, "...,...->...", (("first", "second"),)),
    OperatorRule("my.fork.default", POINTWISE, "ab->ab,ab", (("first",),)),
    OperatorRule("my.made.default", POINTWISE, "->ab"),
)


class Value:
    """What a fake tensor tells."""

    def __init__(self, *shape: int, width: int = 4, dtype: str = "float32") -> None:
        self.shape, self.width, self.dtype = shape, width, dtype

    def element_size(self) -> int:
        return self.width


class Target:
    """An operator with the names of its arguments and their defaults."""

    def __init__(self, name: str, *arguments: object, tags: Iterable[str] = ()) -> None:
        self.name, self.tags = name, tags
        pairs = [one if isinstance(one, tuple) else (one, None) for one in arguments]
        self._schema = SimpleNamespace(
            arguments=[SimpleNamespace(name=name, default_value=value) for name, value in pairs]
        )

    def __str__(self) -> str:
        return self.name


class Drawn:
    """A node of a graph of torch.fx."""

    def __init__(
        self, name: str, op: str, target: object = None, args: tuple[object, ...] = (), **meta: object
    ):
        self.name, self.op, self.target, self.args, self.meta = name, op, target, args, meta
        self.kwargs: dict[str, object] = {}
        flat = [one for part in args for one in (part if isinstance(part, list) else [part])]
        self.all_input_nodes = [one for one in flat if isinstance(one, Drawn)]


def described(kind: str, **values: object) -> object:
    found = type(kind, (), {})()
    for name, value in values.items():
        setattr(found, name, value)
    return found


def given(name: str, kind: str, value: object, **values: object) -> Drawn:
    return Drawn(name, "placeholder", desc=described(kind, **values), val=value)


def called(name: str, target: Target, *args: object, val: object, **meta: object) -> Drawn:
    return Drawn(name, "call_function", target, args, val=val, **meta)


def read(nodes: list[Drawn], **options: object) -> ComputeGraph:
    graph = SimpleNamespace(graph=SimpleNamespace(nodes=nodes))
    return read_joint(graph, rules=RULES, **options)  # type: ignore[arg-type]


JOIN = Target("my.join.default", "first", "second", ("scale", 1.0), ("how", None))
FORK = Target("my.fork.default", "first")
WITHIN = 'File "torch/x.py", line 3, in f\n  y\nFile "m.py", line 7, in forward\n'


def step() -> list[Drawn]:
    """y, z = fork(w + x, 0.5); the loss's gradient of y goes back to w and to v, which is w once more."""
    w, v = (given(name, "ParamAOTInput", Value(4, 6), target=name) for name in ("w", "v"))
    x = given("x", "PlainAOTInput", Value(4, 6), idx=0)
    count = given("count", "PlainAOTInput", 3, idx=1)
    first = described("PlainAOTOutput", idx=0)
    tangent = given("t", "TangentAOTInput", Value(4, 6), output=first)
    total = called("total", JOIN, w, x, count, val=Value(4, 6), stack_trace=WITHIN)
    total.kwargs["how"] = float("inf")
    copied = called("copied", Target("aten._to_copy.default", "self"), total, val=Value(4, 6))
    checked = called("checked", Target("aten._assert.default", "self"), copied, val=None)
    forked = called("forked", FORK, copied, val=[Value(4, 6), None, Value(4, 6, width=2)])
    getitem = Target("<built-in function getitem>")
    y, z = (called(f"take {at}", getitem, forked, at, val=Value(4, 6)) for at in (0, 2))
    made = called("made", Target("my.made.default", ("dtype", None)), val=Value(4, 6, dtype="bf16"),
                  partitioner_tag="is_backward")  # fmt: skip
    back = called("back", JOIN, tangent, z, val=Value(4, 6))
    other = called("other", JOIN, made, back, [3, True, "word", None, 0.25], val=Value(4, 6))
    grads = [described("GradAOTOutput", grad_of=one.meta["desc"]) for one in (w, v)]
    unused = described("GradAOTOutput", grad_of=x.meta["desc"])
    output = Drawn("out", "output", args=([y, None, back, other],), desc=[first, unused, *grads])
    return [w, v, x, count, tangent, total, copied, checked, forked, y, z, made, back, other, output]


def test_a_joint_graph_node_by_node() -> None:
    """A tangent stands before what first reads it; copies of one type and checks are no operators."""
    graph = read(step(), tied={"v": "w"})
    assert str(graph).splitlines()[1:] == [
        "  w: PLACEHOLDER [ab]",
        "  x: PLACEHOLDER [ab]",
        "  total: ELEMENTWISE(w[ab], x[ab]) -> [ab]",
        "  forked: ELEMENTWISE(total[ab]) -> [ab], [ab]",
        "  made: ELEMENTWISE() -> [ab]",
        "  t: PLACEHOLDER [ab]",
        "  back: ELEMENTWISE(t[ab], forked.1[ab]) -> [ab]",
        "  other: ELEMENTWISE(made[ab], back[ab]) -> [ab]",
        "  tied_1: ELEMENTWISE(back[ab], other[ab]) -> [ab]",
        "  output: OUTPUT[forked[ab], tied_1[ab]]",
    ]
    nodes = {node.name: node for node in graph.nodes}
    late = ["made", "t", "back", "other", "tied_1", "output"]
    assert [name for name, node in nodes.items() if node.phase is Phase.BACKWARD] == late
    assert {name: node.source for name, node in nodes.items() if node.source is not None} == {
        "w": Source.PARAMETER, "x": Source.INPUT, "t": Source.TANGENT
    }  # fmt: skip
    assert [node.path for node in graph.nodes[:2]] == ["w", "0"]
    assert [result.element_bytes for result in nodes["forked"].results] == [4, 2]
    assert (nodes["total"].line, nodes["forked"].line) == ("m.py:7", "")
    assert (nodes["total"].linear, nodes["forked"].linear, nodes["tied_1"].linear) == (
        ((0, 1),),
        ((0,),),
        ((0, 1),),
    )
    pairs = [(graph.spelled(one), graph.spelled(other)) for one, other in graph.gradients.items()]
    assert pairs == [("w", "tied_1")]
    assert [(graph.spelled(a), graph.spelled(b)) for a, b in graph.tangents.items()] == [("forked", "t")]


def test_arguments_are_kept_as_json_tells_them() -> None:
    """With defaults; numbers that JSON has not are words, tensors their numbers and dimensions."""
    nodes = {node.name: node for node in read(step(), tied={"v": "w"}).nodes}
    dims = [[[0, 0]], [[1, 0]]]
    first, second = ({"operand": at, "dims": dims} for at in (0, 1))
    assert nodes["total"].arguments == {
        "first": first, "second": second, "scale": 3, "how": {"float": "inf"}
    }  # fmt: skip
    assert nodes["back"].arguments == {"first": first, "second": second, "scale": 1.0, "how": None}
    assert nodes["other"].arguments["scale"] == [3, True, "word", None, 0.25]
    assert nodes["made"].arguments == {"dtype": {"torch": "bf16"}}


def test_parameters_apart_have_gradients_apart() -> None:
    graph = read(step())
    pairs = [(graph.spelled(one), graph.spelled(other)) for one, other in graph.gradients.items()]
    assert pairs == [("w", "back"), ("v", "other")]


def test_a_copy_of_another_type_is_an_operator() -> None:
    x = given("x", "PlainAOTInput", Value(4, 6), idx=0)
    copied = called(
        "copied", Target("aten._to_copy.default", "self", "dtype"), x, val=Value(4, 6, dtype="bf16")
    )
    out = Drawn("out", "output", args=([copied],), desc=[described("PlainAOTOutput")])
    assert [node.name for node in read([x, copied, out]).nodes] == ["x", "copied", "output"]


@pytest.mark.parametrize(("trace", "where"), [(WITHIN, " at m.py:7"), (None, "")])
def test_operators_without_a_rule_are_named_with_what_could_not_be_loaded(
    trace: str | None, where: str
) -> None:
    x = given("x", "PlainAOTInput", Value(4, 6), idx=0)
    node = called("n", Target("my.roll.default", "self"), x, val=Value(4, 6), stack_trace=trace)
    with pytest.raises(TreadleError) as caught:
        read([x, node], faults=("one: broken", "two: away"))
    assert str(caught.value) == (
        f"capture: my.roll.default{where}: no rule for this operator; add "
        'treadle.operator_rule("my.roll.default", "KIND", "...->...") to the file of the module: its kind, '
        "what it does to dimensions; "
        "see docs/how-to/capture.md; plug-in one: broken; plug-in two: away"
    )
    with pytest.raises(TreadleError, match=r"^capture: the joint graph has no output$"):
        read([x])
    # an operator that is marked so needs none
    marked = called("n", Target("my.roll.default", "self", tags=["Tag.pointwise"]), x, val=Value(4, 6))
    out = Drawn("out", "output", args=([marked],), desc=[described("PlainAOTOutput")])
    assert [one.kind for one in read([x, marked, out]).nodes][1] is POINTWISE


@pytest.mark.parametrize(
    ("given", "axes", "keepdim", "count"),
    [
        ((), [0, 1, 2], False, 24),
        (([],), [0, 1, 2], False, 24),
        ((1, True), [1], True, 3),
        (([0, -1],), [0, -1], False, 8),
    ],
)
def test_means_are_sums_that_are_divided(
    given: tuple[object, ...], axes: list[int], keepdim: bool, count: int
) -> None:
    asked = []

    def total(axes: list[int], keepdim: bool, dtype: object) -> Fraction:
        asked.append((axes, keepdim, dtype))
        return Fraction(1)

    x = SimpleNamespace(shape=(2, 3, 4), dim=lambda: 3, sum=total)
    assert _mean(x, *given, dtype="wide") == Fraction(1, count)
    assert asked == [(axes, keepdim, "wide")]


def test_products_are_added_with_their_factors() -> None:
    added = _added_to(lambda first, second: first * second)
    assert [added(10, 2, 3, **factors) for factors in (
        {}, {"alpha": 2}, {"beta": 0}, {"beta": 3}, {"alpha": 2, "beta": 0}, {"alpha": 2, "beta": 3}
    )] == [16, 22, 6, 36, 12, 42]  # fmt: skip


def test_names_of_what_a_module_has_twice() -> None:
    one, two, three = object(), object(), object()
    parameters = [("a.w", one), ("b.w", two), ("c.w", one), ("d.w", one)]
    buffers = [("a.p", three), ("b.p", three), ("b.q", object())]
    module = SimpleNamespace(
        named_parameters=lambda remove_duplicate: [] if remove_duplicate else parameters,
        named_buffers=lambda remove_duplicate: [] if remove_duplicate else buffers,
    )
    assert _tied(module) == {"c.w": "a.w", "d.w": "a.w", "b.p": "a.p"}
