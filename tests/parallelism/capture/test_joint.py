import json
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.samples import Affine, Block, Rolling, Selfish, Stack, Tied  # noqa: E402
from samples.training.parsed_values import from_json  # noqa: E402
from treadle.errors import TreadleError  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.capture.rules import OperatorRule  # noqa: E402
from treadle.parallelism.graph.compute_graph import (  # noqa: E402
    ComputeGraph,
    Index,
    Node,
    OperatorKind,
    Phase,
    Source,
)
from treadle.parallelism.graph.graph_files import to_json  # noqa: E402

FIGURE = """\
Nodes:
  primals_1: PLACEHOLDER [ab]
  primals_2: PLACEHOLDER [b]
  primals_3: PLACEHOLDER [cda]
  mm: EINSUM "cda,ab->cdb"(primals_3, primals_1) -> [cdb]
  add: ELEMENTWISE(mm[cdb], primals_2[b]) -> [cdb]
  tangents_1: PLACEHOLDER [cdb]
  sum_1: REDUCTION(tangents_1[cdb]) over{c,d} -> [fgb]
  mm_1: EINSUM "acd,cdb->ab"(primals_3, tangents_1) -> [ab]
  output: OUTPUT[add[cdb], mm_1[ab], sum_1[b]]"""


def linear() -> ComputeGraph:
    return capture(lambda: (Affine(1024, 2048), (torch.empty(64, 4096, 1024),)))


def block(*, repeats: bool = True) -> ComputeGraph:
    def make():
        return Block(64, 8, 2, 96, repeats=repeats), (
            torch.empty(4, 32, 64),
            torch.empty(32, 8),
            torch.empty(32, 8),
        )

    return capture(make)


def tied() -> ComputeGraph:
    def make():
        return Tied(100, 16), (torch.zeros(4, 32, dtype=torch.long), torch.zeros(4, 32, dtype=torch.long))

    return capture(make)


def parameters(graph: ComputeGraph) -> dict[str, Node]:
    return {node.path: node for node in graph.nodes if node.source is Source.PARAMETER}


def sizes(graph: ComputeGraph, path: str) -> list[list[int]]:
    return [[graph.atoms[i.atom].size for i in dim] for dim in parameters(graph)[path].results[0].dims]


def test_the_linear_layer_prints_as_in_figure_5_2() -> None:
    graph = linear()
    assert str(graph) == FIGURE
    assert {a.name: a.size for a in graph.atoms} == {
        "a": 1024, "b": 2048, "c": 64, "d": 4096, "f": 1, "g": 1
    }  # fmt: skip
    named = {graph.spelled(p): graph.spelled(g) for p, g in graph.gradients.items()}
    assert named == {"primals_1": "mm_1", "primals_2": "sum_1"}
    assert {graph.spelled(o): graph.spelled(t) for o, t in graph.tangents.items()} == {"add": "tangents_1"}
    phases = {node.name: node.phase for node in graph.nodes}
    assert [n for n, p in phases.items() if p is Phase.BACKWARD] == ["tangents_1", "sum_1", "mm_1", "output"]


def test_operators_tell_where_the_model_calls_them() -> None:
    lines = {node.name: node.line for node in linear().nodes}
    assert "samples.py:" in lines["mm"]
    assert lines["mm"] == lines["add"] == lines["mm_1"]


@pytest.mark.parametrize("graph", [linear, block, tied], ids=lambda make: make.__name__)
def test_json_brings_the_same_graph_back(graph) -> None:
    first = graph()
    assert from_json(json.loads(json.dumps(to_json(first)))) == first


@pytest.mark.parametrize("repeats", [True, False])
def test_heads_and_groups_fall_out_of_views(repeats: bool) -> None:
    """8 heads in 2 groups of 4, head size 8 as 2 x 4 by rotary positions; values are never cut in half."""
    graph = block(repeats=repeats)
    assert sizes(graph, "wq.weight") == [[2, 4, 2, 4], [64]]
    assert sizes(graph, "wk.weight") == [[2, 2, 4], [64]]
    assert sizes(graph, "wv.weight") == [[2, 8], [64]]
    assert sizes(graph, "wo.weight") == [[64], [2, 4, 8]]
    assert sizes(graph, "w1.weight") == [[96], [64]]
    assert len(graph.gradients) == 9
    groups = [parameters(graph)[f"w{one}.weight"].results[0].dims[0][0] for one in "qkv"]
    assert len(set(groups)) == 1


def test_nodes_keep_what_they_are_called_with() -> None:
    """Tensors by number, with all dimensions as called: of one element, repeated, merged by views."""
    graph = tied()
    nodes = {node.name: node for node in graph.nodes}
    words = {atom.name: number for number, atom in enumerate(graph.atoms)}
    a, b, c, d = ([words[letter], 0] for letter in "abcd")
    assert nodes["sum_1"].arguments == {
        "self": {"operand": 0, "dims": [[c], [d], [b]]}, "dim": [-1], "keepdim": True, "dtype": None
    }  # fmt: skip
    assert nodes["sub"].arguments["self"] == {"operand": 0, "dims": [[c, d], [a]]}
    assert nodes["sub"].arguments["other"] == {"operand": 1, "dims": [[c, d], []]}
    assert nodes["div_3"].arguments["self"] == {"operand": 0, "dims": [[c], [d], [b]]}  # repeated over b
    assert nodes["div_3"].operands[0].roles == ((Index(*c),), (Index(*d),))
    assert nodes["zeros_like"].arguments["dtype"] == {"torch": "torch.float32"}
    assert nodes["tied_1"].arguments["other"]["operand"] == 1
    (cat, *_) = [node for node in block().nodes if node.operator == "aten.cat.default"]
    assert [one["operand"] for one in cat.arguments["tensors"]] == [0, 1]


def test_self_attention_meets_one_sequence_twice() -> None:
    graph = block()
    (forward, backward) = [node for node in graph.nodes if node.kind is OperatorKind.ATTENTION]
    queries, keys, values = (operand.roles for operand in forward.operands)
    primed = [i for dim in keys for i in dim if i.prime]
    assert len(primed) == 1
    assert graph.atoms[primed[0].atom].size == 32
    assert primed[0]._replace(prime=0) in [i for dim in queries for i in dim]
    assert not [i for operand in forward.operands for dim in operand.dims for i in dim if i.prime]
    assert primed[0] in [i for dim in values for i in dim]
    assert primed[0] not in [i for dim in forward.results[0].roles for i in dim]
    assert [primed[0] in [i for dim in r.roles for i in dim] for r in backward.results] == [False, True, True]


def test_a_matrix_and_its_transpose_are_one_tensor_with_two_roles() -> None:
    graph = capture(lambda: (Selfish(16), (torch.empty(8, 16),)))
    (weight,) = parameters(graph).values()
    (first, second) = (i for dim in weight.results[0].dims for i in dim)
    assert first.atom == second.atom
    assert (first.prime, second.prime) == (0, 1)
    square = next(node for node in graph.nodes if node.kind is OperatorKind.EINSUM)
    assert [o.roles for o in square.operands] != [o.dims for o in square.operands]
    assert len(square.read) == 3
    (*_, last) = [
        node for node in graph.nodes if node.operator == "aten.add.Tensor" and node.phase is Phase.FORWARD
    ]
    assert [o.dims for o in last.operands if o.tensor.node == graph.nodes.index(weight)] == [
        ((second,), (first,))
    ]


def test_tied_embeddings_are_one_parameter_with_one_gradient() -> None:
    graph = tied()
    assert set(parameters(graph)) == {"embedding.weight", "norm.weight"}
    kinds = Counter(node.kind for node in graph.nodes)
    assert kinds[OperatorKind.GATHER] == 2  # words, and the loss's targets
    added = graph.nodes[graph.gradients[next(iter(graph.gradients))].node]
    makers = {graph.nodes[operand.tensor.node].operator for operand in added.operands}
    assert makers == {"aten.embedding_dense_backward.default", "aten.mm.default"}


def test_separate_layers_keep_dimensions_apart() -> None:
    graph = capture(lambda: (Stack(16, 16, 16), (torch.empty(4, 16),)))
    weights = [node.results[0].dims for path, node in parameters(graph).items() if path.endswith("weight")]
    assert weights[0][1] == weights[1][0]
    assert len({i.atom for dims in weights for dim in dims for i in dim}) == 3


def test_an_unknown_operator_is_named_with_its_line_and_what_to_do() -> None:
    with pytest.raises(TreadleError) as caught:
        capture(lambda: (Rolling(8), (torch.empty(4, 8),)))
    message = str(caught.value)
    assert "\n" not in message
    assert "aten.roll.default at " in message
    assert "samples.py:" in message
    assert 'treadle.operator_rule("aten.roll.default", "KIND", ' in message


def test_a_rule_that_is_given_serves() -> None:
    rule = OperatorRule("aten.roll.default", OperatorKind.ELEMENTWISE, "i!j->ij")
    graph = capture(lambda: (Rolling(8), (torch.empty(4, 8),)), rules=[rule])
    node = next(node for node in graph.nodes if node.operator == rule.operator)
    assert [graph.atoms[index.atom].size for index in node.whole] == [4]
    assert node.line


def test_what_make_returns_is_checked() -> None:
    with pytest.raises(TreadleError, match=r"expected a torch\.nn\.Module and a tuple"):
        capture(lambda: (Affine(2, 2), torch.empty(2, 2)))  # type: ignore[arg-type, return-value]


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(TreadleError, match="no parameter of GELU is trained"):
        capture(lambda: (torch.nn.GELU(), (torch.empty(2, 2),)))


def test_what_has_the_shape_of_a_tensor_does_not_read_it() -> None:
    graph = tied()
    made = [node for node in graph.nodes if "_like." in node.operator]
    assert made
    assert not any(node.operands for node in made)
    words = next(i for dim in parameters(graph)["embedding.weight"].results[0].dims for i in dim)
    assert any(words in dim for node in made for dim in node.results[0].dims), "unified all the same"


def test_modules_may_take_another_precision() -> None:
    def make():
        words = torch.zeros(4, 32, dtype=torch.long)
        return Tied(100, 16).to(torch.bfloat16).bfloat16(), (words, words)

    apply = torch.nn.Module._apply
    graph = capture(make)
    assert torch.nn.Module._apply is apply
    found = parameters(graph)
    assert set(found) == {"embedding.weight", "norm.weight"}, "tied all the same"
    assert {node.results[0].element_bytes for node in found.values()} == {2}
