"""Small models by hand: two linear layers with a residual, repeated, and an end with a loss of squares."""

from __future__ import annotations

from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
)
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart

WIDTH = 2
"""Bytes of an element."""


class Drafted:
    """A graph written node by node; tensors are words of letters, each a dimension of one atom."""

    def __init__(self, **sizes: int) -> None:
        self.letters = {name: number for number, name in enumerate(sizes)}
        self.atoms = tuple(BaseDim(name, size) for name, size in sizes.items())
        self.nodes: list[Node] = []
        self.words: dict[str, str] = {}

    def dims(self, word: str) -> tuple[tuple[Index, ...], ...]:
        return tuple((Index(self.letters[letter]),) for letter in word)

    def ref(self, name: str) -> TensorRef:
        return TensorRef([node.name for node in self.nodes].index(name))

    def _add(self, name: str, word: str, kind: OperatorKind, **more: object) -> None:
        dims = self.dims(word)
        self.words[name] = word
        self.nodes.append(Node(name, kind, results=(Result(dims, dims, WIDTH),), **more))  # type: ignore[arg-type]

    def placeholder(self, name: str, word: str, source: Source) -> None:
        phase = Phase.BACKWARD if source is Source.TANGENT else Phase.FORWARD
        self._add(name, word, OperatorKind.PLACEHOLDER, source=source, path=name, phase=phase)

    def operator(
        self,
        name: str,
        word: str,
        kind: OperatorKind,
        *operands: str,
        backward: bool = False,
        linear: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        read = tuple(
            Operand(self.ref(one), self.dims(self.words[one]), self.dims(self.words[one])) for one in operands
        )
        phase = Phase.BACKWARD if backward else Phase.FORWARD
        self._add(name, word, kind, operands=read, phase=phase, linear=linear)

    def graph(self, gradients: dict[str, str], tangents: dict[str, str], *results: str) -> ComputeGraph:
        read = tuple(
            Operand(self.ref(one), self.dims(self.words[one]), self.dims(self.words[one]))
            for one in (*results, *gradients.values())
        )
        output = Node("output", OperatorKind.OUTPUT, read, phase=Phase.BACKWARD)
        return ComputeGraph(
            self.atoms,
            (*self.nodes, output),
            {self.ref(first): self.ref(second) for first, second in gradients.items()},
            {self.ref(first): self.ref(second) for first, second in tangents.items()},
        )


def two_matrices(t: int = 16, h: int = 8, f: int = 16) -> ComputeGraph:
    """y = x + act(x up) down."""
    draft = Drafted(t=t, h=h, f=f)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("up", "hf", Source.PARAMETER)
    draft.placeholder("down", "fh", Source.PARAMETER)
    draft.operator("u", "tf", OperatorKind.EINSUM, "x", "up")
    draft.operator("a", "tf", OperatorKind.ELEMENTWISE, "u")
    draft.operator("d", "th", OperatorKind.EINSUM, "a", "down")
    draft.operator("y", "th", OperatorKind.ELEMENTWISE, "x", "d", linear=((0, 1),))
    draft.placeholder("dy", "th", Source.TANGENT)
    draft.operator("da", "tf", OperatorKind.EINSUM, "dy", "down", backward=True)
    draft.operator("ddown", "fh", OperatorKind.EINSUM, "a", "dy", backward=True)
    draft.operator("du", "tf", OperatorKind.ELEMENTWISE, "da", "u", backward=True, linear=((0,),))
    draft.operator("dup", "hf", OperatorKind.EINSUM, "x", "du", backward=True)
    draft.operator("dxu", "th", OperatorKind.EINSUM, "du", "up", backward=True)
    draft.operator("dx", "th", OperatorKind.ELEMENTWISE, "dy", "dxu", backward=True, linear=((0, 1),))
    return draft.graph({"x": "dx", "up": "dup", "down": "ddown"}, {"y": "dy"}, "y")


def square_loss(t: int = 16, h: int = 8) -> ComputeGraph:
    """loss = sum over t and h of (x w)^2 w a vector of h."""
    draft = Drafted(t=t, h=h)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("w", "h", Source.PARAMETER)
    draft.operator("z", "th", OperatorKind.ELEMENTWISE, "x", "w", linear=((0,), (1,)))
    draft.operator("q", "th", OperatorKind.ELEMENTWISE, "z")
    draft.operator("loss", "", OperatorKind.REDUCTION, "q", linear=((0,),))
    draft.placeholder("dloss", "", Source.TANGENT)
    draft.operator("dz", "th", OperatorKind.ELEMENTWISE, "dloss", "z", backward=True, linear=((0,), (1,)))
    draft.operator("dx", "th", OperatorKind.ELEMENTWISE, "dz", "w", backward=True, linear=((0,), (1,)))
    draft.operator("dwt", "th", OperatorKind.ELEMENTWISE, "dz", "x", backward=True, linear=((0,), (1,)))
    draft.operator("dw", "h", OperatorKind.REDUCTION, "dwt", backward=True, linear=((0,),))
    return draft.graph({"x": "dx", "w": "dw"}, {"loss": "dloss"}, "loss")


def small_model(layers: int = 3, t: int = 16, h: int = 8, f: int = 16) -> ModelGraph:
    """Some blocks of `two_matrices`, and `square_loss`."""
    block, head = two_matrices(t, h, f), square_loss(t, h)
    names = {node.name: TensorRef(number) for number, node in enumerate(block.nodes)}
    return ModelGraph(
        "small",
        (
            ModelPart("block", block, layers, names["x"], names["y"]),
            ModelPart("head", head, 1, TensorRef(0), None),
        ),
        "t",
        tokens=t,
    )
