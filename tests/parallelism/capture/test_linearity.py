"""The table of linear operators against PyTorch: summands of a set give summands of the results."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.sample_calls import SAMPLES, called, index, real, rebuilt  # noqa: E402
from parallelism.capture.samples import Block, Rolling  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.capture.rules import (  # noqa: E402
    LINEAR,
    OperatorRule,
    linear_sets,
)
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase  # noqa: E402

POINTWISE = {
    "aten.add.Tensor": (real(4, 6), real(4, 6) + 1),
    "aten.sub.Tensor": (real(4, 6), real(6)),
    "aten.rsub.Tensor": (real(4, 6), real(6)),
    "aten.mul.Tensor": (real(4, 6), real(4, 6) + 1),
    "aten.mul.Scalar": (real(4, 6), 3.0),
    "aten.div.Tensor": (real(4, 6), real(4, 6) + 9),
    "aten.div.Scalar": (real(4, 6), 3.0),
    "aten.neg.default": (real(4, 6),),
    "aten.where.self": (real(4, 6) > 0, real(4, 6), real(4, 6) + 1),
    "aten.silu_backward.default": (real(4, 6), real(4, 6) + 1),
    "aten.gelu_backward.default": (real(4, 6), real(4, 6) + 1),
    "aten.tanh_backward.default": (real(4, 6), real(4, 6) / 9),
    "aten.sigmoid_backward.default": (real(4, 6), real(4, 6) / 9),
    "aten.threshold_backward.default": (real(4, 6), real(4, 6) + 1, 0),
    "aten._to_copy.default": (real(4, 6),),
}
ADDED = {"aten.index_put.default": (real(4, 6), [None, index(6, 2)], real(4, 2))}


@pytest.mark.parametrize("name", [*LINEAR, "aten._to_copy.default"])
def test_summands_make_summands(name: str) -> None:
    arguments = POINTWISE.get(name) or ADDED.get(name) or SAMPLES[name]
    call, tensors, wholes, target = called(name, arguments)
    sets = linear_sets(call)
    assert len(sets) == len(LINEAR.get(name, ((),)))
    for places in sets:
        halves = []
        for half in (0, 1):
            parts = [
                (tensor * (0.25 + 0.5 * half) + half - 0.5 if at in places else tensor)
                for at, tensor in enumerate(tensors)
            ]
            results = target(*rebuilt(arguments, parts))
            halves.append(results if isinstance(results, tuple | list) else [results])
        for first, second, whole in zip(*halves, wholes, strict=True):
            torch.testing.assert_close(first + second, whole, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten.add.Tensor", (real(4, 6), 1.0)),
        ("aten._to_copy.default", (real(4, 6),)),
        ("aten.exp.default", (real(4, 6),)),
    ],
)
def test_what_is_not_linear_has_no_sets(name: str, arguments) -> None:
    call, _, _, _ = called(name, arguments)
    if name == "aten._to_copy.default":
        call.arguments["dtype"] = torch.int64
    assert linear_sets(call) == ()


def test_captured_nodes_say_in_what_they_are_linear() -> None:
    def make():
        return Block(64, 8, 2, 96), (torch.empty(4, 32, 64), torch.empty(32, 8), torch.empty(32, 8))

    graph = capture(make)
    for node in graph.nodes:
        if node.kind is OperatorKind.EINSUM:
            assert node.linear == ((0,), (1,))
        if node.operator == "aten.silu_backward.default":
            assert node.linear == ((0,),)
    sums = [n for n in graph.nodes if n.operator == "aten.add.Tensor" and n.phase is Phase.BACKWARD]
    assert sums
    assert all(node.linear == ((0, 1),) for node in sums)


def test_a_rule_that_is_given_says_so_too() -> None:
    rule = OperatorRule("aten.roll.default", OperatorKind.ELEMENTWISE, "i!j->ij", (("self",),))
    graph = capture(lambda: (Rolling(8), (torch.empty(4, 8),)), rules=[rule])
    (*_, node) = [node for node in graph.nodes if node.operator == rule.operator]
    assert node.linear == ((0,),)
