"""Which operators are shared out as one, over which letters, on a gated layer by hand."""

from __future__ import annotations

import pytest

from parallelism.plan.small_models import Drafted
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.problem.choices import cluster_choices, cluster_strategies
from treadle.parallelism.problem.operator_clusters import Cluster, clusters_of, dims_of, format_cluster

PRODUCT, POINTWISE, SUM = OperatorKind.EINSUM, OperatorKind.ELEMENTWISE, OperatorKind.REDUCTION
BOTH, EACH = ((0, 1),), ((0,), (1,))


def gated() -> tuple[ComputeGraph, frozenset[TensorRef]]:
    """A norm of x times a mask, two products, a gate of them, a product, and x added; and back."""
    draft = Drafted(t=6, h=4, f=10)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("mask", "th", Source.BUFFER)
    for name, word in (("w1", "hf"), ("w2", "hf"), ("w3", "fh"), ("g", "h")):
        draft.placeholder(name, word, Source.PARAMETER)
    draft.operator("squares", "th", POINTWISE, "x")
    draft.operator("norm", "t", SUM, "squares", linear=((0,),))
    draft.operator("n", "th", POINTWISE, "x", "norm")
    draft.operator("ng", "th", POINTWISE, "n", "g")
    draft.operator("masked", "th", POINTWISE, "ng", "mask")
    draft.operator("u1", "tf", PRODUCT, "masked", "w1", linear=EACH)
    draft.operator("u2", "tf", PRODUCT, "masked", "w2", linear=EACH)
    draft.operator("act", "tf", POINTWISE, "u1")
    draft.operator("gate", "tf", POINTWISE, "act", "u2")
    draft.operator("after", "tf", POINTWISE, "gate")
    draft.operator("d", "th", PRODUCT, "after", "w3", linear=EACH)
    draft.operator("add.y", "th", POINTWISE, "x", "d", linear=BOTH)
    draft.placeholder("dy", "th", Source.TANGENT)
    draft.operator("dgate", "tf", PRODUCT, "dy", "w3", backward=True, linear=EACH)
    draft.operator("dw3", "fh", PRODUCT, "after", "dy", backward=True, linear=EACH)
    draft.operator("du2", "tf", POINTWISE, "dgate", "act", backward=True)
    draft.operator("dact", "tf", POINTWISE, "dgate", "u2", backward=True)
    draft.operator("du1", "tf", POINTWISE, "dact", "u1", backward=True)
    draft.operator("dm1", "th", PRODUCT, "du1", "w1", backward=True, linear=EACH)
    draft.operator("dm2", "th", PRODUCT, "du2", "w2", backward=True, linear=EACH)
    draft.operator("add.dm", "th", POINTWISE, "dm1", "dm2", backward=True, linear=BOTH)
    draft.operator("dn", "th", POINTWISE, "add.dm", "g", backward=True)
    draft.operator("add.dx", "th", POINTWISE, "dy", "dn", backward=True, linear=BOTH)
    draft.operator("dg", "h", SUM, "dn", backward=True, linear=((0,),))
    graph = draft.graph({"x": "add.dx", "w3": "dw3", "g": "dg"}, {"add.y": "dy"}, "add.y")
    return graph, frozenset((draft.ref("x"), draft.ref("dy")))


@pytest.fixture(scope="module")
def graph() -> ComputeGraph:
    return gated()[0]


@pytest.fixture(scope="module")
def clusters(graph: ComputeGraph) -> dict[str, Cluster]:
    return {format_cluster(graph, one): one for one in clusters_of(*gated())}


def test_pointwise_operators_join_what_they_feed_on(
    graph: ComputeGraph, clusters: dict[str, Cluster]
) -> None:
    """Forward those that read one tensor alone; back all but sums of products by themselves."""
    members = {name: [graph.nodes[at].name for at in one.members] for name, one in clusters.items()}
    assert members == {
        "squares..masked": ["squares", "norm", "n", "ng", "masked"],  # of x alone; masks have no state
        "u1": ["u1"], "u2": ["u2"], "act": ["act"],
        "gate": ["gate"],  # it reads two tensors, and what follows it another
        "after": ["after"], "d": ["d"], "add.y": ["add.y"],
        "dgate": ["dgate"], "dw3": ["dw3"],
        "du2..du1": ["du2", "dact", "du1"],  # two read one gradient, the third joins
        "dm1": ["dm1"], "dm2": ["dm2"],
        "add.dm": ["add.dm"],  # a sum of products
        "dn..dg": ["dn", "add.dx", "dg"],
    }  # fmt: skip
    phases = [one.phase for one in clusters.values()]
    assert phases == [Phase.FORWARD] * 8 + [Phase.BACKWARD] * 7


def test_what_clusters_take_make_and_keep_to_themselves(
    graph: ComputeGraph, clusters: dict[str, Cluster]
) -> None:
    def told(name: str) -> list[str]:
        one = clusters[name]
        return [" ".join(map(graph.spelled, tensors)) for tensors in (one.takes, one.makes, one.inner)]

    assert told("squares..masked") == ["x g mask", "masked", "squares norm n ng"]
    assert told("du2..du1") == ["dgate act u2 u1", "du2 du1", "dact"]
    assert told("dn..dg") == ["add.dm g dy", "add.dx dg", "dn"]  # gradients leave the graph
    assert told("add.y") == ["x d", "add.y", ""]
    assert clusters["dn..dg"].member_set == set(clusters["dn..dg"].members)


@pytest.mark.parametrize(
    ("name", "sizes", "choices"),
    [
        ("squares..masked", (6, 4), [(-1, "", 0), (0, "t", 5), (1, "h", 5)]),
        ("u1", (6, 4, 10), [(-1, "", 0), (0, "t", 1), (1, "h", 1), (2, "f", 1)]),
        ("du2..du1", (6, 10), [(-1, "", 0), (0, "t", 3), (1, "f", 3)]),
        ("add.dm", (6, 4), [(-1, "", 0), (0, "t", 1), (1, "h", 1), (2, "+", 0)]),
        ("dn..dg", (6, 4), [(-1, "", 0), (0, "t", 3), (1, "h", 3)]),
    ],
)
def test_letters_and_choices_of_a_cluster(
    graph: ComputeGraph,
    clusters: dict[str, Cluster],
    name: str,
    sizes: tuple[int, ...],
    choices: list[tuple[int, str, int]],
) -> None:
    """By choice its letter, its atom, and how many members it divides; sums take summands of both."""
    one = clusters[name]
    assert dims_of(graph, one).sizes == sizes
    found = cluster_choices(graph, one, frozenset())
    assert [(choice.letter, choice.atom, len(choice.divides)) for choice in found] == choices
    # where an atom is cut nowhere its choices fall away
    first = frozenset((0,))
    assert [choice.atom for choice in cluster_choices(graph, one, first)] == [
        atom for _, atom, _ in choices if atom != "t"
    ]


def test_strategies_cut_what_axes_divide_in_the_order_of_the_mesh(
    graph: ComputeGraph, clusters: dict[str, Cluster]
) -> None:
    """Of t = 6 and h = 4: x of 2 cuts both, y of 3 tokens only; both axes tokens."""
    one = clusters["dn..dg"]
    sizes = {"x": 2, "y": 3}
    choices = cluster_choices(graph, one, frozenset())
    found = cluster_strategies(graph, one, choices, sizes)
    assert [".".join(choice.atom or "-" for choice in row.choices) for row in found] == [
        "-.-", "-.t", "t.-", "t.t", "h.-", "h.t"
    ]  # fmt: skip
    both = found[3]
    dn, dx, dg = one.members
    assert str(both.operands[dx, 0]) == "x,y | -"
    assert str(both.results[TensorRef(dg)]) == "- partial x,y"
    assert both.parts == {dn: 6, dx: 6, dg: 6}
    mixed = found[5]
    assert str(mixed.results[TensorRef(dx)]) == "y | x"
    assert str(mixed.results[TensorRef(dg)]) == "x partial y"
    assert str(mixed.operands[dn, 1]) == "x"
    assert found[2].parts == {dn: 2, dx: 2, dg: 2}


@pytest.mark.parametrize("backward", [True, False])
def test_what_lies_between_two_operators_keeps_them_apart(backward: bool) -> None:
    """q adds p and a product of p: with p in one cluster it would wait for what waits for it."""
    draft = Drafted(t=6, h=4)
    draft.placeholder("w", "h", Source.PARAMETER)
    draft.placeholder("dy", "th", Source.TANGENT if backward else Source.INPUT)
    draft.operator("p", "th", POINTWISE, "dy", backward=backward)
    draft.operator("e", "th", PRODUCT, "p", "w", backward=backward)
    draft.operator("q", "th", POINTWISE, "p", "e", backward=backward)
    draft.operator("r", "th", POINTWISE, "q", backward=backward)
    graph = draft.graph({}, {}, "r")
    found = clusters_of(graph, frozenset([draft.ref("dy")]))
    assert [format_cluster(graph, one) for one in found] == [
        "p",
        "e",
        *(["q..r"] if backward else ["q", "r"]),
    ]


def test_slices_join_but_no_look_up_of_parameters() -> None:
    draft = Drafted(t=6, h=4)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("w", "h", Source.PARAMETER)
    draft.operator("slice", "th", OperatorKind.GATHER, "x")
    draft.operator("joined", "th", OperatorKind.SCATTER, "slice")
    draft.operator("after", "th", POINTWISE, "joined")
    draft.operator("looked", "th", OperatorKind.GATHER, "x", "w")
    draft.operator("embedding", "th", OperatorKind.GATHER, "x")
    draft.operator("last", "th", POINTWISE, "embedding")
    graph = draft.graph({}, {}, "after", "looked", "last")
    found = clusters_of(graph, frozenset([draft.ref("x")]))
    assert [format_cluster(graph, one) for one in found] == ["slice..after", "looked", "embedding", "last"]


def test_sums_of_products_are_joined_by_sums_alone() -> None:
    """What is called so adds; a difference and a product of sums do not, nor a sum with what came in."""
    draft = Drafted(t=6, h=4)
    draft.placeholder("w", "h", Source.PARAMETER)
    draft.placeholder("dy", "th", Source.TANGENT)
    for name in "abc":
        draft.operator(name, "th", PRODUCT, "dy", "w", backward=True, linear=EACH)
    draft.operator("add.1", "th", POINTWISE, "a", "b", backward=True, linear=BOTH)
    draft.operator("tied_1", "th", POINTWISE, "add.1", "c", backward=True, linear=BOTH)
    draft.operator("sub", "th", POINTWISE, "tied_1", "a", backward=True, linear=BOTH)
    draft.operator("add.2", "th", POINTWISE, "sub", "dy", backward=True, linear=BOTH)
    graph = draft.graph({}, {}, "add.2")
    found = clusters_of(graph, frozenset([draft.ref("dy")]))
    assert [format_cluster(graph, one) for one in found] == ["a", "b", "c", "add.1..tied_1", "sub..add.2"]
