"""The forward pass of a part of a model, written operator by operator in the notation of ``einsum``.

A character is a base dimension. ``(kgd)h`` are two dimensions, the first a product of three factors; ``s'``
is a second appearance of a character in one operator: the keys' sequence. Dimensions that count something of
which there may be one only (``k``, ``g``, ``n``) are left out if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    Dims,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
    factors,
)

OPTIONAL = "kgn"
"""Dimensions that are left out where they have one element."""
ELEMENT_BYTES = 2
"""Bytes of weights and activations: bfloat16."""


class Forward:
    """Operators so far.

    Parameters
    ----------
    sizes : mapping of str to int
        Size of each dimension.
    owner : str
        The module that parameters belong to: ``layers.*`` for all of a list; "": the model itself.
    """

    def __init__(self, sizes: Mapping[str, int], owner: str = "") -> None:
        self.sizes, self.owner = sizes, owner
        self.nodes: list[Node] = []
        self._numbers: dict[str, int] = {}

    @property
    def base_dims(self) -> tuple[BaseDim, ...]:
        """Base dimensions in the order in which they appeared."""
        return tuple(BaseDim(letter, self.sizes[letter]) for letter in self._numbers)

    def dims(self, word: str) -> Dims:
        """Return the dimensions as a word spells them.

        Examples
        --------
        >>> Forward({"k": 1, "g": 4, "d": 8, "h": 32}).dims("(kgd)h")
        ((Index(atom=0, prime=0), Index(atom=1, prime=0)), (Index(atom=2, prime=0),))
        """
        dims = []
        for group, single in re.findall(r"\(([^)]*)\)|(\w'?)", word):
            dim = []
            for letter, prime in re.findall(r"(\w)('?)", group or single):
                if self.sizes[letter] > 1 or letter not in OPTIONAL:
                    number = self._numbers.setdefault(letter, len(self._numbers))
                    dim.append(Index(number, len(prime)))
            dims.append(tuple(dim))
        return tuple(filter(None, dims))

    def placeholder(
        self, name: str, word: str, source: Source, *, path: str = "", element_bytes: int = ELEMENT_BYTES
    ) -> TensorRef:
        """Add a parameter, an input or a tangent."""
        dims, kind = self.dims(word), OperatorKind.PLACEHOLDER
        phase = Phase.BACKWARD if source is Source.TANGENT else Phase.FORWARD
        results = (Result(dims, dims, element_bytes),)
        return self.add(Node(name, kind, (), results, phase, source=source, path=path or name))[0]

    def parameter(self, path: str, word: str) -> TensorRef:
        """Add a parameter of the owner; its node is called as the path within it."""
        name = path.removesuffix(".weight").replace(".", "_")
        whole = f"{self.owner}.{path}" if self.owner else path
        return self.placeholder(name, word, Source.PARAMETER, path=whole)

    def add(self, node: Node) -> tuple[TensorRef, ...]:
        """Add a node; its results."""
        self.nodes.append(node)
        return tuple(TensorRef(len(self.nodes) - 1, slot) for slot in range(len(node.results)))

    def result(self, tensor: TensorRef) -> Result:
        """Return A tensor as it is made."""
        return self.nodes[tensor.node].results[tensor.slot]

    def apply(
        self,
        name: str,
        kind: OperatorKind,
        specification: str,
        operands: Sequence[TensorRef],
        *,
        operator: str = "",
        whole: str = "",
        linear: Sequence[Sequence[int]] = (),
        element_bytes: Sequence[int] = (),
        arguments: Mapping[str, object] | None = None,
    ) -> tuple[TensorRef, ...]:
        """Add an operator by its specification, ``bsh,(kgd)h->bkgsd``, and return its results.

        Parameters
        ----------
        name, kind, linear, arguments
            Of the node.
        operator : str
            Of the node; by default its name.
        specification : str
            Roles; those of an operand in any order and grouping.
        operands : sequence of TensorRef
        whole : str
            Dimensions that cannot be sharded.
        element_bytes : sequence of int
            Of each result; by default those of activations.
        """
        before, after = (side.split(",") for side in specification.split("->"))
        read = tuple(
            Operand(tensor, self.dims(word.replace("'", "")), self.dims(word))
            for tensor, word in zip(operands, before, strict=True)
        )
        sizes = element_bytes or [ELEMENT_BYTES] * len(after)
        made = tuple(
            Result(self.dims(word.replace("'", "")), self.dims(word), size)
            for word, size in zip(after, sizes, strict=True)
        )
        node = Node(
            name,
            kind,
            read,
            made,
            operator=operator or name,
            whole=frozenset(factors(self.dims(whole))),
            linear=tuple(map(tuple, linear)),
            arguments=arguments or {},
        )
        return self.add(node)

    def product(
        self, name: str, specification: str, first: TensorRef, second: TensorRef, *, element_bytes: int = 2
    ) -> TensorRef:
        """Add an einsum of two tensors."""
        kind, linear, sizes = OperatorKind.EINSUM, ((0,), (1,)), (element_bytes,)
        read = (first, second)
        return self.apply(
            name, kind, specification, read, operator="einsum", linear=linear, element_bytes=sizes
        )[0]

    def pointwise(
        self, name: str, specification: str, operands: Sequence[TensorRef], **notes: Any
    ) -> TensorRef:
        """Add an elementwise operator of one result; notes are those of `apply`."""
        return self.apply(name, OperatorKind.ELEMENTWISE, specification, operands, **notes)[0]

    def sum_of(self, name: str, word: str, *terms: TensorRef, words: Sequence[str] = ()) -> TensorRef:
        """Add a sum of tensors; ``words`` where terms are repeated over dimensions."""
        before, linear = ",".join(words or [word] * len(terms)), (tuple(range(len(terms))),)
        return self.pointwise(name, f"{before}->{word}", terms, operator="add", linear=linear)
