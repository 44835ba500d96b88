import json
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.capture.samples import Affine, Block, Stack, Tied  # noqa: E402
from samples.training.parsed_values import from_json  # noqa: E402
from treadle.errors import TreadleError  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.graph.compute_graph import (  # noqa: E402
    ComputeGraph,
    Node,
    OperatorKind,
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
