"""The compute graph of a training step: operators, and tensors by their dimensions (section 5.3, Fig. 5.2b).

A dimension is a tuple of base dimensions, outermost first; views, transposes and copies are not operators:
they are how an operator sees a tensor. Tensors are identified by (node, slot), because an operator may have
several results.

An operator has **roles** of its own: self-attention meets one sequence twice, as queries and as keys, and a
matrix times its transpose has one base dimension twice. So an ``Index`` is a base dimension and a prime: of a
tensor, the prime counts its repetitions in that tensor; of a role, its repetitions in that operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import chain, count
from math import prod
from string import ascii_lowercase
from typing import NamedTuple

from treadle.errors import TreadleError
from treadle.training.models.model_layer import Attended


class OperatorKind(Enum):
    """Kind of an operator.

    EINSUM and REDUCTION add over roles that no result has, GATHER reads them by index, SCATTER writes roles
    that no operand has (by index or by place), ATTENTION contracts queries with keys and those with values.
    DISPATCH and COMBINE carry tokens to experts and back. ELEMENTWISE does none of these.
    """

    PLACEHOLDER = "PLACEHOLDER"
    EINSUM = "EINSUM"
    ELEMENTWISE = "ELEMENTWISE"
    REDUCTION = "REDUCTION"
    GATHER = "GATHER"
    SCATTER = "SCATTER"
    ATTENTION = "ATTENTION"
    DISPATCH = "DISPATCH"
    COMBINE = "COMBINE"
    OUTPUT = "OUTPUT"


class Phase(Enum):
    """The half of a step that an operator belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Source(Enum):
    """Kind of a placeholder."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    INPUT = "input"
    TANGENT = "tangent"


class Index(NamedTuple):
    """One factor of a dimension: a base dimension's number, and which of its appearances this is."""

    atom: int
    prime: int = 0


Dims = tuple[tuple[Index, ...], ...]
"""Dimensions in the order of the captured tensor, each a product of factors, the outermost first."""


def factors(dims: Dims) -> tuple[Index, ...]:
    """Return the factors of dimensions, the outermost first."""
    return tuple(chain.from_iterable(dims))


@dataclass(frozen=True)
class BaseDim:
    """A factor of dimensions: its printed name, and its size."""

    name: str
    size: int


class TensorRef(NamedTuple):
    """A result of a node: the node's number and the result's."""

    node: int
    slot: int = 0


@dataclass(frozen=True)
class Operand:
    """A tensor as an operator sees it: without dimensions of size 1, or those that it is repeated over.

    Parameters
    ----------
    tensor : TensorRef
        Whose result it is.
    dims : Dims
        Indices of that tensor, regrouped by the views in between.
    roles : Dims
        Those of the operator, one for each of ``dims``.
    """

    tensor: TensorRef
    dims: Dims
    roles: Dims


@dataclass(frozen=True)
class Result:
    """A tensor as its operator makes it.

    Parameters
    ----------
    dims : Dims
        Its own indices.
    roles : Dims
        Those of the operator, one for each of ``dims``.
    element_bytes : int
        Bytes of an element.
    """

    dims: Dims
    roles: Dims
    element_bytes: int


def pairs(side: Operand | Result) -> Iterator[tuple[Index, Index]]:
    """Yield the factors of a tensor, each with the role that it plays."""
    return zip(factors(side.dims), factors(side.roles), strict=True)


@dataclass(frozen=True)
class Node:
    """An operator.

    Parameters
    ----------
    name : str
        Unique in the graph.
    kind : OperatorKind
        What it does.
    operands, results : tuple
        What it reads and what it makes; an OUTPUT makes nothing.
    phase : Phase
        Forward or backward.
    operator : str
        What was captured (``aten.mm.default``), for people and for execution.
    whole : frozenset of Index
        Roles that it cannot be split over: the dimension of a softmax.
    source, path
        Of placeholders: what it stands for, and its name in the module.
    line : str
        Where the model calls it, if known.
    linear : tuple of tuples of int
        Sets of operands in which it is linear, all of a set taken together: of a sum ``((0, 1),)``, of a
        product ``((0,), (1,))``. Partial operands of such a set give partial results. None are known of an
        operator without any.
    arguments : mapping of str to value of JSON
        What it is called with, by name, as captured or as the operator of this package has it
        (``is_causal``, ``window``, ``is_chunked``). As captured, a tensor is
        ``{"operand": 0, "dims": ...}``: the roles of each dimension as called, ``[atom, prime]``, those that
        it is repeated over among them, and none of one element; a type, layout or device is
        ``{"torch": "torch.float32"}``, an infinity ``{"float": "-inf"}``.
    """

    name: str
    kind: OperatorKind
    operands: tuple[Operand, ...] = ()
    results: tuple[Result, ...] = ()
    phase: Phase = Phase.FORWARD
    operator: str = ""
    whole: frozenset[Index] = frozenset()
    source: Source | None = None
    path: str = ""
    line: str = ""
    linear: tuple[tuple[int, ...], ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def all_roles(self) -> tuple[Dims, ...]:
        """Roles of each operand and each result."""
        return (*(one.roles for one in self.operands), *(one.roles for one in self.results))

    @cached_property
    def read(self) -> tuple[Index, ...]:
        """Roles of the operands, in order."""
        return tuple(dict.fromkeys(role for operand in self.operands for role in factors(operand.roles)))

    @cached_property
    def result_roles(self) -> tuple[Index, ...]:
        """Roles of the results, in order."""
        return tuple(dict.fromkeys(role for result in self.results for role in factors(result.roles)))

    def score_ratio(self, keys: int) -> float:
        """Return the share of the scores of attention that count: all, or those of earlier tokens."""
        if self.arguments.get("is_causal") is not True:
            return 1.0
        window, is_chunked = self.arguments.get("window"), self.arguments.get("is_chunked") is True
        attended = Attended(window=window if isinstance(window, int) else 0, is_chunked=is_chunked)
        return float(attended.mean(keys) / keys)

    @property
    def computes(self) -> bool:
        """Whether it is neither a placeholder nor the output."""
        return self.kind not in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT)


@dataclass(frozen=True)
class ComputeGraph:
    """Operators in an order that they can run in, and what belongs together.

    Parameters
    ----------
    atoms : tuple of BaseDim
        By number.
    nodes : tuple of Node
        Each reads results of earlier ones only; the last is the only OUTPUT.
    gradients : mapping of TensorRef to TensorRef
        From a parameter or input to its gradient.
    tangents : mapping of TensorRef to TensorRef
        From a result of the forward pass to what the backward pass begins with.
    """

    atoms: tuple[BaseDim, ...]
    nodes: tuple[Node, ...]
    gradients: Mapping[TensorRef, TensorRef] = field(default_factory=dict)
    tangents: Mapping[TensorRef, TensorRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names: set[str] = set()
        for number, node in enumerate(self.nodes):
            if node.name in names:
                raise _fault(f"two nodes are called {node.name!r}")
            names.add(node.name)
            if (node.kind is OperatorKind.OUTPUT) != (number == len(self.nodes) - 1):
                raise _fault(f"{node.name}: expected one OUTPUT, as the last node")
            for operand in node.operands:
                self._check_operand(number, operand)
            for result in node.results:
                self._check_shape(node.name, result.dims, result.roles)
            if not all(0 <= place < len(node.operands) for some in node.linear for place in some):
                raise _fault(f"{node.name} is linear in an operand that it has not")
        for first, second in (*self.gradients.items(), *self.tangents.items()):
            if self._long_atoms(first) != self._long_atoms(second):
                tied = f"{self.spelled(first)} and {self.spelled(second)}"
                raise _fault(f"{tied} are tied, but have different base dimensions")

    def _check_operand(self, number: int, operand: Operand) -> None:
        name, (node, slot) = self.nodes[number].name, operand.tensor
        if not 0 <= node < number or not 0 <= slot < len(self.nodes[node].results):
            raise _fault(f"{name} reads result {slot} of node {node}, which is not there yet")
        self._check_shape(name, operand.dims, operand.roles)
        seen = factors(operand.dims)
        if not set(self.factors(operand.tensor)).issuperset(seen) or len(set(seen)) != len(seen):
            raise _fault(f"{name} sees dimensions that {self.spelled(operand.tensor)} has not")

    def _check_shape(self, name: str, dims: Dims, roles: Dims) -> None:
        atoms = [[index.atom for index in dim] for dim in dims]
        if atoms != [[index.atom for index in dim] for dim in roles]:
            raise _fault(f"{name}: roles and dimensions have different base dimensions")
        if any(not 0 <= atom < len(self.atoms) for dim in atoms for atom in dim):
            raise _fault(f"{name}: a base dimension is not listed")

    def _long_atoms(self, tensor: TensorRef) -> list[int]:
        return sorted(index.atom for index in self.factors(tensor) if self.size(index) > 1)

    def size(self, index: Index) -> int:
        """Return the elements of a factor, or of a role."""
        return self.atoms[index.atom].size

    def dim_name(self, index: Index) -> str:
        """Name of a factor's base dimension, without its prime."""
        return self.atoms[index.atom].name

    def result(self, tensor: TensorRef) -> Result:
        """Return A tensor as it is made."""
        return self.nodes[tensor.node].results[tensor.slot]

    def results(self, node: int) -> list[TensorRef]:
        """Return the tensors that a node makes."""
        return [TensorRef(node, slot) for slot in range(len(self.nodes[node].results))]

    def factors(self, tensor: TensorRef) -> tuple[Index, ...]:
        """Return the factors of a tensor's dimensions, the outermost first."""
        return factors(self.result(tensor).dims)

    def factor_sizes(self, tensor: TensorRef) -> tuple[int, ...]:
        """Return the elements of each factor of a tensor."""
        return tuple(self.size(index) for index in self.factors(tensor))

    def elements(self, tensor: TensorRef) -> int:
        """Return the elements of a tensor."""
        return prod(self.factor_sizes(tensor))

    def nbytes(self, tensor: TensorRef) -> int:
        """Return the bytes of a tensor."""
        return self.elements(tensor) * self.result(tensor).element_bytes

    def shape(self, tensor: TensorRef) -> tuple[int, ...]:
        """Return the sizes of a tensor's dimensions as captured."""
        return tuple(prod(self.size(index) for index in dim) for dim in self.result(tensor).dims)

    def tensors(self) -> Iterator[TensorRef]:
        """Yield all results of all nodes, in order."""
        for number in range(len(self.nodes)):
            yield from self.results(number)

    def spelled(self, tensor: TensorRef) -> str:
        """Return a tensor's name: that of its node, and the slot if it is not the first."""
        name = self.nodes[tensor.node].name
        return f"{name}.{tensor.slot}" if tensor.slot else name

    def __str__(self) -> str:
        return "\n".join(["Nodes:", *(f"  {node_line(self, node)}" for node in self.nodes)])


def _fault(text: str) -> TreadleError:
    return TreadleError(f"compute graph: {text}")


def output_of(nodes: Sequence[Node], tensors: Sequence[TensorRef]) -> Node:
    """Return the node that ends a graph of these nodes, and gives these tensors as they are made."""
    dims = [nodes[tensor.node].results[tensor.slot].dims for tensor in tensors]
    operands = tuple(Operand(tensor, own, own) for tensor, own in zip(tensors, dims, strict=True))
    return Node("output", OperatorKind.OUTPUT, operands, phase=Phase.BACKWARD)


def dim_names() -> Iterator[str]:
    """Yield the names of base dimensions: a to z, A to Z, then with numbers (a1, b1, ...)."""
    for number in count():
        for letter in ascii_lowercase + ascii_lowercase.upper():
            yield f"{letter}{number or ''}"


def node_line(graph: ComputeGraph, node: Node) -> str:
    """Format one node: its kind, what it reads and what it makes, as roles of the operator."""
    if node.kind is OperatorKind.PLACEHOLDER:
        return f"{node.name}: PLACEHOLDER {_bracketed(graph, node.results[0].dims)}"
    seen = [f"{graph.spelled(o.tensor)}{_bracketed(graph, o.roles)}" for o in node.operands]
    if node.kind is OperatorKind.OUTPUT:
        return f"{node.name}: OUTPUT[{', '.join(seen)}]"
    made = ", ".join(_bracketed(graph, result.roles) for result in node.results)
    if node.kind in _BY_SPECIFICATION:
        sides = (node.operands, node.results)
        before, after = (",".join(_spelled(graph, one.roles) for one in side) for side in sides)
        names = ", ".join(graph.spelled(operand.tensor) for operand in node.operands)
        text = f'{node.name}: {node.kind.value} "{before}->{after}"({names})'
    else:
        text = f"{node.name}: {node.kind.value}({', '.join(seen)})"
        if node.kind in (OperatorKind.REDUCTION, OperatorKind.GATHER):
            text += f" over{_set(graph, (i for i in node.read if i not in node.result_roles))}"
        elif node.kind is OperatorKind.SCATTER:
            text += f" into{_set(graph, (i for i in node.result_roles if i not in node.read))}"
    if node.whole:
        text += f" whole{_set(graph, sorted(node.whole))}"
    return f"{text} -> {made}"


_BY_SPECIFICATION = (OperatorKind.EINSUM, OperatorKind.ATTENTION, OperatorKind.DISPATCH, OperatorKind.COMBINE)


def _spelled(graph: ComputeGraph, dims: Dims) -> str:
    return "".join(_letter(graph, index) for index in factors(dims))


def _bracketed(graph: ComputeGraph, dims: Dims) -> str:
    return f"[{_spelled(graph, dims)}]"


def _set(graph: ComputeGraph, indices: Iterable[Index]) -> str:
    return f"{{{','.join(_letter(graph, index) for index in indices)}}}"


def _letter(graph: ComputeGraph, index: Index) -> str:
    return graph.dim_name(index) + "'" * index.prime
