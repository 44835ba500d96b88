"""A compute graph under construction: roles whose base dimensions may still be split or unified.

Operators come one by one. Each role is a product of base dimensions; a tensor's dimension is a role of its
operator, or, as an operator sees it through views, any regrouping of such factors. Only at the end are base
dimensions numbered, named and primed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from treadle.errors import TreadleError
from treadle.parallelism.capture.specification import Specification, Word
from treadle.parallelism.graph.base_dims import BaseDims
from treadle.parallelism.graph.compute_graph import (
    BaseDim,
    ComputeGraph,
    Dims,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
    dim_names,
)


class DimensionFactor(NamedTuple):
    """A base dimension as part of a tensor.

    ``owner`` is the (dimension, role) of the tensor's result that it comes from; None: the tensor is
    repeated over it.
    """

    owner: tuple[int, int] | None
    atom: int


class Seen(NamedTuple):
    """A tensor through views: its dimensions as products of factors, the outermost first."""

    tensor: TensorRef
    dims: tuple[tuple[DimensionFactor, ...], ...]


@dataclass
class _Draft:
    name: str
    kind: OperatorKind
    roles: dict[str, list[int]]
    operands: list[tuple[TensorRef, list[list[tuple[str, tuple[DimensionFactor, ...]]]]]]
    results: list[tuple[tuple[tuple[str, ...], ...], int]]
    phase: Phase
    whole: frozenset[str] = frozenset()
    notes: dict[str, Any] = field(default_factory=dict)


class Drafting:
    """Operators so far."""

    def __init__(self) -> None:
        self.atoms = BaseDims()
        self._drafts: list[_Draft] = []
        self._named: list[tuple[int, ...]] = []  # dimensions in the order that they appear in, for letters

    def shape(self, seen: Seen) -> tuple[int, ...]:
        """Return the sizes of a tensor's dimensions as seen."""
        return tuple(prod(self.atoms.size(factor.atom) for factor in dim) for dim in seen.dims)

    def element_bytes(self, seen: Seen) -> int:
        """Return the bytes of an element of a tensor."""
        return self._drafts[seen.tensor.node].results[seen.tensor.slot][1]

    def regroup(self, seen: Seen, shape: Sequence[int]) -> Seen:
        """Return A view of another shape, row-major."""
        factors = [factor for dim in seen.dims for factor in dim]
        targets = [self.atoms.fresh(size) for size in shape]
        self.atoms.unify([factor.atom for factor in factors], targets)
        leaves = self._leaves(factors)[::-1]
        dims = [
            self._popped(leaves, size) or (DimensionFactor(None, target),)
            for target, size in zip(targets, shape, strict=True)
        ]
        return self.notice(Seen(seen.tensor, tuple(dims)))

    def _popped(self, leaves: list[DimensionFactor], size: int) -> tuple[DimensionFactor, ...]:
        """Remove and return the last factors with a product of `size` elements."""
        found = []
        while size > 1:
            found.append(leaves.pop())
            size //= self.atoms.size(found[-1].atom)
        return tuple(found)

    def notice(self, seen: Seen) -> Seen:
        """Note dimensions that get names, merged ones too (the skipped e of Fig. 5.2b)."""
        self._named += [
            tuple(factor.atom for factor in dim) for dim in seen.dims if any(f.owner is not None for f in dim)
        ]
        return seen

    def repeated(self, size: int) -> tuple[DimensionFactor, ...]:
        """Return A dimension that a tensor is repeated over."""
        return (DimensionFactor(None, self.atoms.fresh(size)),)

    def tie(self, first: Seen, second: Seen) -> None:
        """Unify two tensors dimension by dimension."""
        for one, other in zip(first.dims, second.dims, strict=True):
            self.atoms.unify([factor.atom for factor in one], [factor.atom for factor in other])

    def _leaves(self, factors: Iterable[DimensionFactor]) -> list[DimensionFactor]:
        """Return the factors of more than one element, as far as they are split now."""
        return [
            DimensionFactor(owner, leaf)
            for owner, atom in factors
            for leaf in self.atoms.leaves([atom])
            if self.atoms.size(leaf) > 1
        ]

    def add(
        self,
        name: str,
        kind: OperatorKind,
        specification: Specification,
        operands: Sequence[Seen],
        shapes: Sequence[tuple[Sequence[int], int]],
        *,
        phase: Phase = Phase.FORWARD,
        **notes: object,
    ) -> list[Seen]:
        """Add an operator.

        Parameters
        ----------
        name, kind, phase
            Of the node.
        specification : Specification
            Roles of all dimensions.
        operands : sequence of Seen
            What it reads.
        shapes : sequence of (shape, bytes of an element)
            Of its results.
        **notes
            More attributes of ``Node``.

        Returns
        -------
        list of Seen
            Its results.
        """
        roles = self._roles(specification, operands, [shape for shape, _ in shapes])
        read = []
        for seen, word in zip(operands, specification.operands, strict=True):
            divided = []
            for dim, part in zip(seen.dims, word, strict=True):  # the factors of each role
                leaves = self._leaves(dim)[::-1]
                divided.append([(label, self._popped(leaves, self._extent(roles[label]))) for label in part])
            read.append((seen.tensor, divided))
        draft = _Draft(name, kind, roles, read, [], phase, specification.whole, dict(notes))
        made = []
        for (shape, element_bytes), word in zip(shapes, specification.results, strict=True):
            made.append(self._result(draft, word, element_bytes))
            if (own := self.shape(made[-1])) != tuple(shape):
                raise TreadleError(f"its rule makes a tensor of {own}; expected {tuple(shape)}")
        self._drafts.append(draft)
        return made

    def _result(self, draft: _Draft, word: Word, element_bytes: int) -> Seen:
        """Note a result of the operator that comes next."""
        slot, own, dims = len(draft.results), [], []
        for place, given in enumerate(word):
            part = tuple(label for label in given if self._extent(draft.roles[label]) > 1) or given[:1]
            if not part:  # a dimension of size 1 is an atom of its own, as f and g of Fig. 5.2(b)
                part = (f"1.{slot}.{place}",)
                draft.roles[part[0]] = [self.atoms.fresh(1)]
            own.append(part)
            atoms = [(at, atom) for at, label in enumerate(part) for atom in draft.roles[label]]
            dims.append(tuple(DimensionFactor((place, at), atom) for at, atom in atoms))
        draft.results.append((tuple(own), element_bytes))
        return self.notice(Seen(TensorRef(len(self._drafts), slot), tuple(dims)))

    def _roles(
        self, specification: Specification, operands: Sequence[Seen], shapes: Sequence[Sequence[int]]
    ) -> dict[str, list[int]]:
        """Return the base dimensions of every role, and unify dimensions that share a role."""
        given: list[tuple[tuple[str, ...], int, list[int]]] = []
        for seen, word in zip(operands, specification.operands, strict=True):
            for dim, size, part in zip(seen.dims, self.shape(seen), word, strict=True):
                given.append((part, size, [factor.atom for factor in dim]))
        sides = [(part, size) for part, size, _ in given]
        for shape, word in zip(shapes, specification.results, strict=True):
            sides += zip(word, shape, strict=True)
        sizes = self._sizes(sides)
        roles: dict[str, list[int]] = {}
        for part, _, atoms in given:  # roles that stand alone begin as the atoms that they are
            if len(part) == 1:
                roles.setdefault(part[0], atoms)
        for label, size in sizes.items():
            if label not in roles:
                roles[label] = [self.atoms.fresh(size)]
        for part, _, atoms in given:
            if part:
                self.atoms.unify(atoms, [atom for label in part for atom in roles[label]])
        return roles

    def _extent(self, atoms: Sequence[int]) -> int:
        return prod(self.atoms.size(atom) for atom in atoms)

    @staticmethod
    def _sizes(sides: Sequence[tuple[tuple[str, ...], int]]) -> dict[str, int]:
        sizes = {part[0]: size for part, size in sides if len(part) == 1}
        for part, size in sides:
            missing = [label for label in part if label not in sizes]
            known = prod(sizes[label] for label in part if label in sizes)
            if len(missing) > 1 or (missing and size % known):
                raise TreadleError(f"the rule leaves the sizes of {', '.join(missing)} open")
            if missing:
                sizes[missing[0]] = size // known
        for part, size in sides:
            if prod(sizes[label] for label in part) != size and part:
                raise TreadleError(f"the rule gives {' x '.join(part)} two sizes")
        return sizes

    def add_placeholder(self, name: str, shape: Sequence[int], element_bytes: int, **notes: object) -> Seen:
        """Add a placeholder."""
        word = tuple((f"{place}",) for place in range(len(shape)))
        specification = Specification((), (word,), frozenset())
        phase = Phase.BACKWARD if notes.get("source") is Source.TANGENT else Phase.FORWARD
        kind, shapes = OperatorKind.PLACEHOLDER, [(shape, element_bytes)]
        return self.add(name, kind, specification, [], shapes, phase=phase, **notes)[0]

    def finish(
        self,
        outputs: Sequence[Seen],
        *,
        gradients: Mapping[TensorRef, Seen],
        tangents: Mapping[TensorRef, TensorRef],
    ) -> ComputeGraph:
        """Return the graph of all operators so far, which gives these outputs."""
        words = [[(f"{n}.{place}",) for place in range(len(seen.dims))] for n, seen in enumerate(outputs)]
        specification = Specification(tuple(map(tuple, words)), (), frozenset())
        self.add("output", OperatorKind.OUTPUT, specification, outputs, [], phase=Phase.BACKWARD)
        numbers, atoms = self._numbered()
        indices = [self._indices(draft, numbers) for draft in self._drafts]
        nodes = [self._node(number, indices, numbers) for number in range(len(self._drafts))]
        operands = tuple(Operand(one.tensor, one.dims, one.dims) for one in nodes[-1].operands)
        nodes[-1] = Node("output", OperatorKind.OUTPUT, operands, phase=Phase.BACKWARD)
        ties = {parameter: seen.tensor for parameter, seen in gradients.items()}
        return ComputeGraph(atoms, tuple(nodes), ties, dict(tangents))

    def _numbered(self) -> tuple[dict[int, int], tuple[BaseDim, ...]]:
        """Return the final numbers of leaves, and base dimensions named by appearance, also merged ones."""
        found: dict[int, BaseDim] = {}
        merged: set[tuple[int, ...]] = set()
        names = dim_names()
        for dim in self._named:
            leaves = self.atoms.leaves(dim)
            if len(leaves) > 1 and leaves not in merged:
                merged.add(leaves)
                if all(leaf in found for leaf in leaves):
                    next(names)
            for leaf in leaves:
                if leaf not in found:
                    found[leaf] = BaseDim(next(names), self.atoms.size(leaf))
        # what no tensor has: contracted roles of tensors that are repeated over them
        roles = [atom for draft in self._drafts for role in draft.roles.values() for atom in role]
        for leaf in self.atoms.leaves(roles):
            if leaf not in found and self.atoms.size(leaf) > 1:
                found[leaf] = BaseDim(next(names), self.atoms.size(leaf))
        return {leaf: number for number, leaf in enumerate(found)}, tuple(found.values())

    def _role_leaves(self, draft: _Draft, label: str) -> list[int]:
        leaves = self.atoms.leaves(draft.roles[label])
        if label.startswith("1."):
            return list(leaves)
        return [leaf for leaf in leaves if self.atoms.size(leaf) > 1] or list(leaves[:1])

    def _indices(self, draft: _Draft, numbers: Mapping[int, int]) -> list[_Places]:
        """Return for each result the tensor's indices by (owner, leaf), in order."""
        found = []
        for word, _ in draft.results:
            counted: Counter[int] = Counter()
            mine: _Places = {}
            for place, part in enumerate(word):
                for at, label in enumerate(part):
                    for leaf in self._role_leaves(draft, label):
                        index = Index(numbers[leaf], counted[leaf])
                        counted[leaf] += 1
                        mine.setdefault(((place, at), leaf), []).append(index)
            found.append(mine)
        return found

    def _node(self, number: int, indices: Sequence[Sequence[_Places]], numbers: Mapping[int, int]) -> Node:
        draft = self._drafts[number]
        counted: Counter[int] = Counter()
        roles: dict[str, list[tuple[int, Index]]] = {label: [] for label in draft.roles}
        for label, found in roles.items():
            for leaf in self._role_leaves(draft, label):
                if leaf in numbers:
                    found.append((leaf, Index(numbers[leaf], counted[leaf])))
                    counted[leaf] += 1
        long = {
            label: [role for leaf, role in some if self.atoms.size(leaf) > 1] for label, some in roles.items()
        }
        operands = []
        for tensor, shape in draft.operands:
            left = {key: iter(some) for key, some in indices[tensor.node][tensor.slot].items()}
            dims = []
            for dim in shape:
                factors = [factor for _, some in dim for factor in self._leaves(some)]
                seen = zip(factors, [role for label, _ in dim for role in long[label]], strict=True)
                dims.append([(next(left[f.owner, f.atom]), role) for f, role in seen if f.owner is not None])
            operands.append(Operand(tensor, *_unzipped([dim for dim in dims if dim])))
        results = []
        for own, (word, size) in zip(indices[number], draft.results, strict=True):
            left = {key: iter(some) for key, some in own.items()}
            dims = []
            for place, part in enumerate(word):
                leaves = [(at, *pair) for at, label in enumerate(part) for pair in roles[label]]
                dims.append([(next(left[(place, at), leaf]), role) for at, leaf, role in leaves])
            results.append(Result(*_unzipped(dims), size))
        whole = frozenset(index for label in draft.whole for _, index in roles[label])
        if "arguments" in draft.notes:
            called = [
                [[list(role) for label, _ in dim for role in long[label]] for dim in shape]
                for _, shape in draft.operands
            ]
            draft.notes["arguments"] = _with_dims(draft.notes["arguments"], called)
        return Node(
            draft.name, draft.kind, tuple(operands), tuple(results), draft.phase, whole=whole, **draft.notes
        )


_Places = dict[tuple[tuple[int, int], int], list[Index]]
"""Indices of a tensor by owner and leaf."""


def _unzipped(dims: Iterable[Sequence[tuple[Index, Index]]]) -> tuple[Dims, Dims]:
    """Return the factors and roles of dimensions from pairs of them."""
    first, second = ([tuple(pair[at] for pair in dim) for dim in dims] for at in (0, 1))
    return tuple(first), tuple(second)


def _with_dims(value: object, called: Sequence[object]) -> object:
    """Arguments in which each tensor has the roles of its dimensions as called, with those of one element
    (no role) and those that it is repeated over.
    """
    if isinstance(value, Mapping):
        if "operand" in value:
            return {**value, "dims": called[value["operand"]]}
        return {name: _with_dims(one, called) for name, one in value.items()}
    return [_with_dims(one, called) for one in value] if isinstance(value, list) else value
