"""A compute graph in print, as in Fig. 5.2(b) of the dissertation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from string import ascii_lowercase

from treadle.parallelism.graph.compute_graph import ComputeGraph, Dims, Index, Node, OperatorKind


def letters() -> Iterator[str]:
    """Names of atoms: a to z, A to Z, then with numbers (a1, b1, ...)."""
    for number in count():
        for letter in ascii_lowercase + ascii_lowercase.upper():
            yield f"{letter}{number or ''}"


def printed(graph: ComputeGraph) -> str:
    """The whole graph, a line for each node."""
    return "\n".join(["Nodes:", *(f"  {node_line(graph, node)}" for node in graph.nodes)])


def node_line(graph: ComputeGraph, node: Node) -> str:
    """One node: its kind, what it reads and what it makes, as roles of the operator."""
    if node.kind is OperatorKind.PLACEHOLDER:
        return f"{node.name}: PLACEHOLDER {_bracketed(graph, node.results[0].dims)}"
    seen = [f"{graph.spelled(o.tensor)}{_bracketed(graph, o.roles)}" for o in node.operands]
    if node.kind is OperatorKind.OUTPUT:
        return f"{node.name}: OUTPUT[{', '.join(seen)}]"
    made = ", ".join(_bracketed(graph, result.roles) for result in node.results)
    if node.kind in (
        OperatorKind.EINSUM,
        OperatorKind.ATTENTION,
        OperatorKind.DISPATCH,
        OperatorKind.COMBINE,
    ):
        before = ",".join(_spelled(graph, operand.roles) for operand in node.operands)
        after = ",".join(_spelled(graph, result.roles) for result in node.results)
        names = ", ".join(graph.spelled(operand.tensor) for operand in node.operands)
        text = f'{node.name}: {node.kind.value} "{before}->{after}"({names})'
    else:
        text = f"{node.name}: {node.kind.value}({', '.join(seen)})"
        if node.kind in (OperatorKind.REDUCTION, OperatorKind.GATHER):
            text += f" over{_set(graph, (i for i in node.read if i not in node.made))}"
        elif node.kind is OperatorKind.SCATTER:
            text += f" into{_set(graph, (i for i in node.made if i not in node.read))}"
    if node.whole:
        text += f" whole{_set(graph, sorted(node.whole))}"
    return f"{text} -> {made}"


def _spelled(graph: ComputeGraph, dims: Dims) -> str:
    return "".join(_letter(graph, index) for dim in dims for index in dim)


def _bracketed(graph: ComputeGraph, dims: Dims) -> str:
    return f"[{_spelled(graph, dims)}]"


def _set(graph: ComputeGraph, indices: Iterable[Index]) -> str:
    return f"{{{','.join(_letter(graph, index) for index in indices)}}}"


def _letter(graph: ComputeGraph, index: Index) -> str:
    return graph.atoms[index.atom].name + "'" * index.prime
