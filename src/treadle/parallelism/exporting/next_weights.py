"""Which weights' products read what another weight's product makes."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.graph.model_graph import ModelPart


def next_weights(part: ModelPart) -> dict[str, frozenset[str]]:
    """By path of a weight those of the products of the forward pass that come next.

    Attention and whatever has no weight of its own lies between; norms, whose weights are no product's, too.
    """
    graph = part.graph
    path_of = {tensor: path for path, tensor in part.parameters.items()}
    own: dict[int, str] = {}
    for number, node in enumerate(graph.nodes):
        if node.kind is OperatorKind.EINSUM and node.phase is Phase.FORWARD:
            paths = [path_of[operand.tensor] for operand in node.operands if operand.tensor in path_of]
            if paths:
                own[number] = paths[0]
    found: dict[str, set[str]] = {path: set() for path in own.values()}
    behind: dict[int, frozenset[str]] = {}  # by node the weights that it comes from without another between
    for number, node in enumerate(graph.nodes):
        if node.phase is not Phase.FORWARD or node.kind is OperatorKind.OUTPUT:
            continue
        sources = frozenset[str]().union(
            *(behind.get(operand.tensor.node, frozenset()) for operand in node.operands)
        )
        if number in own:
            for source in sources:
                found[source].add(own[number])
            sources = frozenset((own[number],))
        behind[number] = sources
    return {path: frozenset(paths) for path, paths in found.items()}


def in_parts(following: Mapping[str, frozenset[str]], columns: set[str], rows: set[str]) -> frozenset[str]:
    """Weights between which tensors stay in parts: columns that only rows follow, and those rows.

    Parameters
    ----------
    following : mapping from path to paths
    columns, rows : set of str
        Weights that are cut so.
    """
    before: dict[str, set[str]] = {path: set() for path in rows}
    for path, paths in following.items():
        for one in paths & rows:
            before[one].add(path)
    left = columns | rows
    while True:
        first, second = left & columns, left & rows
        wrong = {path for path in first if not following.get(path) or not following[path] <= second}
        wrong |= {path for path in second if not before[path] or not before[path] <= first}
        if not wrong:
            return frozenset(left)
        left -= wrong
