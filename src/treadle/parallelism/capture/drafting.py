"""A compute graph while it is made: roles whose atoms may still be split or unified.

Operators come one by one. Each role is a product of atoms; a tensor's dimension is a role of its operator,
or, as an operator sees it through views, any regrouping of such factors. Only at the end are atoms
numbered, named and primed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from treadle.errors import TreadleError
from treadle.parallelism.capture.specification import Specification, Word
from treadle.parallelism.graph.atoms import Atoms
from treadle.parallelism.graph.compute_graph import (
    Atom,
    ComputeGraph,
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
    letters,
)


class DimensionFactor(NamedTuple):
    """An atom as part of a tensor.

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
        self.atoms = Atoms()
        self._drafts: list[_Draft] = []
        self._named: list[tuple[int, ...]] = []  # dimensions in the order that they appear in, for letters

    def shape(self, seen: Seen) -> tuple[int, ...]:
        """Sizes of a tensor's dimensions as seen."""
        return tuple(prod(self.atoms.size(factor.atom) for factor in dim) for dim in seen.dims)

    def element_bytes(self, seen: Seen) -> int:
        """Bytes of an element of a tensor."""
        return self._drafts[seen.tensor.node].results[seen.tensor.slot][1]

    def regroup(self, seen: Seen, shape: Sequence[int]) -> Seen:
        """A view of another shape, row-major."""
        factors = [factor for dim in seen.dims for factor in dim]
        targets = [self.atoms.fresh(size) for size in shape]
        self.atoms.unify([factor.atom for factor in factors], targets)
        leaves = self._leaves(factors)[::-1]
        dims = []
        for target, size in zip(targets, shape, strict=True):
            dim, left = [], size
            while left > 1:
                dim.append(leaves.pop())
                left //= self.atoms.size(dim[-1].atom)
            dims.append(tuple(dim) if dim else (DimensionFactor(None, target),))
        return self.notice(Seen(seen.tensor, tuple(dims)))

    def notice(self, seen: Seen) -> Seen:
        """Dimensions that appear here take letters, merged ones too (the skipped e of Fig. 5.2b)."""
        self._named += [
            tuple(factor.atom for factor in dim) for dim in seen.dims if any(f.owner is not None for f in dim)
        ]
        return seen

    def repeated(self, size: int) -> tuple[DimensionFactor, ...]:
        """A dimension that a tensor is repeated over."""
        return (DimensionFactor(None, self.atoms.fresh(size)),)

    def tie(self, first: Seen, second: Seen) -> None:
        """Unify two tensors dimension by dimension."""
        for one, other in zip(first.dims, second.dims, strict=True):
            self.atoms.unify([factor.atom for factor in one], [factor.atom for factor in other])

    def _leaves(self, factors: Iterable[DimensionFactor]) -> list[DimensionFactor]:
        """Factors of more than one element, as far as they are split now."""
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
        read = [
            (
                seen.tensor,
                [self._divide(dim, part, roles) for dim, part in zip(seen.dims, word, strict=True)],
            )
            for seen, word in zip(operands, specification.operands, strict=True)
        ]
        draft = _Draft(name, kind, roles, read, [], phase, specification.whole, dict(notes))
        made = []
        for (shape, element_bytes), word in zip(shapes, specification.results, strict=True):
            made.append(self._result(draft, word, element_bytes))
            if self.shape(made[-1]) != tuple(shape):
                raise TreadleError(
                    f"its rule makes a tensor of {self.shape(made[-1])}; expected {tuple(shape)}"
                )
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
        """Atoms of every role: dimensions that share a role are unified."""
        sides: list[tuple[tuple[str, ...], int, list[int] | None]] = []
        for seen, word in zip(operands, specification.operands, strict=True):
            for dim, size, part in zip(seen.dims, self.shape(seen), word, strict=True):
                sides.append((part, size, [factor.atom for factor in dim]))
        for shape, word in zip(shapes, specification.results, strict=True):
            sides += [(part, size, None) for part, size in zip(word, shape, strict=True)]
        sizes = self._sizes(sides)
        roles: dict[str, list[int]] = {}
        for part, _, atoms in sides:  # roles that stand alone begin as the atoms that they are
            if len(part) == 1 and part[0] not in roles and atoms is not None:
                roles[part[0]] = atoms
        for label, size in sizes.items():
            if label not in roles:
                roles[label] = [self.atoms.fresh(size)]
        for part, _, atoms in sides:
            if atoms is not None and part:
                self.atoms.unify(atoms, [atom for label in part for atom in roles[label]])
        return roles

    def _extent(self, atoms: Sequence[int]) -> int:
        return prod(self.atoms.size(atom) for atom in atoms)

    @staticmethod
    def _sizes(sides: Sequence[tuple[tuple[str, ...], int, object]]) -> dict[str, int]:
        sizes = {part[0]: size for part, size, _ in sides if len(part) == 1}
        for part, size, _ in sides:
            missing = [label for label in part if label not in sizes]
            known = prod(sizes[label] for label in part if label in sizes)
            if len(missing) > 1 or (missing and size % known):
                raise TreadleError(f"the rule leaves the sizes of {', '.join(missing)} open")
            if missing:
                sizes[missing[0]] = size // known
        for part, size, _ in sides:
            if prod(sizes[label] for label in part) != size and part:
                raise TreadleError(f"the rule gives {' x '.join(part)} two sizes")
        return sizes

    def _divide(
        self, dim: tuple[DimensionFactor, ...], part: tuple[str, ...], roles: Mapping[str, list[int]]
    ) -> list[tuple[str, tuple[DimensionFactor, ...]]]:
        """A dimension's factors by role."""
        leaves = self._leaves(dim)[::-1]
        divided = []
        for label in part:
            size, mine = self._extent(roles[label]), []
            while size > 1:
                mine.append(leaves.pop())
                size //= self.atoms.size(mine[-1].atom)
            divided.append((label, tuple(mine)))
        return divided

    def place(self, name: str, shape: Sequence[int], element_bytes: int, **notes: object) -> Seen:
        """Add a placeholder."""
        word = tuple((f"{place}",) for place in range(len(shape)))
        specification = Specification((), (word,), frozenset())
        phase = Phase.BACKWARD if notes.get("source") is Source.TANGENT else Phase.FORWARD
        (seen,) = self.add(
            name, OperatorKind.PLACEHOLDER, specification, [], [(shape, element_bytes)], phase=phase, **notes
        )
        return seen

    def finish(
        self,
        outputs: Sequence[Seen],
        *,
        gradients: Mapping[TensorRef, Seen],
        tangents: Mapping[TensorRef, TensorRef],
    ) -> ComputeGraph:
        """The graph of all operators so far, which gives these outputs."""
        words = tuple(
            tuple((f"{n}.{place}",) for place in range(len(seen.dims))) for n, seen in enumerate(outputs)
        )
        specification = Specification(words, (), frozenset())
        self.add("output", OperatorKind.OUTPUT, specification, outputs, [], phase=Phase.BACKWARD)
        numbers, atoms = self._numbered()
        indices = [self._indices(draft, numbers) for draft in self._drafts]
        nodes = [self._node(number, indices, numbers) for number in range(len(self._drafts))]
        nodes[-1] = Node(
            "output",
            OperatorKind.OUTPUT,
            tuple(Operand(o.tensor, o.dims, o.dims) for o in nodes[-1].operands),
            phase=Phase.BACKWARD,
        )
        ties = {parameter: seen.tensor for parameter, seen in gradients.items()}
        return ComputeGraph(atoms, tuple(nodes), ties, dict(tangents))

    def _numbered(self) -> tuple[dict[int, int], tuple[Atom, ...]]:
        """Final numbers of leaves, and atoms with letters by appearance; merged dimensions take one too."""
        numbers: dict[int, int] = {}
        atoms: list[Atom] = []
        merged: set[tuple[int, ...]] = set()
        names = letters()
        for dim in self._named:
            leaves = self.atoms.leaves(dim)
            if len(leaves) > 1 and leaves not in merged:
                merged.add(leaves)
                is_old = all(leaf in numbers for leaf in leaves)
                if is_old:
                    next(names)
            for leaf in leaves:
                if leaf not in numbers:
                    numbers[leaf] = len(atoms)
                    atoms.append(Atom(next(names), self.atoms.size(leaf)))
        for (
            draft
        ) in self._drafts:  # what no tensor has: contracted roles of tensors that are repeated over them
            for leaf in self.atoms.leaves(atom for role in draft.roles.values() for atom in role):
                if leaf not in numbers and self.atoms.size(leaf) > 1:
                    numbers[leaf] = len(atoms)
                    atoms.append(Atom(next(names), self.atoms.size(leaf)))
        return numbers, tuple(atoms)

    def _role_leaves(self, draft: _Draft, label: str) -> list[int]:
        leaves = self.atoms.leaves(draft.roles[label])
        if label.startswith("1."):
            return list(leaves)
        return [leaf for leaf in leaves if self.atoms.size(leaf) > 1] or list(leaves[:1])

    def _indices(
        self, draft: _Draft, numbers: Mapping[int, int]
    ) -> list[dict[tuple[tuple[int, int], int], list[Index]]]:
        """For each result: (owner, leaf) -> the tensor's indices, in order."""
        found = []
        for word, _ in draft.results:
            counted: Counter[int] = Counter()
            mine: dict[tuple[tuple[int, int], int], list[Index]] = {}
            for place, part in enumerate(word):
                for at, label in enumerate(part):
                    for leaf in self._role_leaves(draft, label):
                        index = Index(numbers[leaf], counted[leaf])
                        counted[leaf] += 1
                        mine.setdefault(((place, at), leaf), []).append(index)
            found.append(mine)
        return found

    def _node(
        self,
        number: int,
        indices: Sequence[Sequence[Mapping[tuple[tuple[int, int], int], list[Index]]]],
        numbers: Mapping[int, int],
    ) -> Node:
        draft = self._drafts[number]
        counted: Counter[int] = Counter()
        roles: dict[str, list[tuple[int, Index]]] = {}
        for label in draft.roles:
            roles[label] = []
            for leaf in self._role_leaves(draft, label):
                if leaf in numbers:
                    roles[label].append((leaf, Index(numbers[leaf], counted[leaf])))
                    counted[leaf] += 1
        operands = []
        for tensor, shape in draft.operands:
            used: Counter[tuple[tuple[int, int], int]] = Counter()
            dims: list[tuple[Index, ...]] = []
            mine: list[tuple[Index, ...]] = []
            for dim in shape:
                pairs = []
                for label, factors in dim:
                    factors_now = self._leaves(factors)
                    targets = [index for leaf, index in roles[label] if self.atoms.size(leaf) > 1]
                    for factor, role in zip(factors_now, targets, strict=True):
                        if factor.owner is not None:
                            key = (factor.owner, factor.atom)
                            pairs.append((indices[tensor.node][tensor.slot][key][used[key]], role))
                            used[key] += 1
                if pairs:
                    dims.append(tuple(index for index, _ in pairs))
                    mine.append(tuple(role for _, role in pairs))
            operands.append(Operand(tensor, tuple(dims), tuple(mine)))
        results = []
        for slot, (word, size) in enumerate(draft.results):
            own: list[tuple[Index, ...]] = []
            theirs: list[tuple[Index, ...]] = []
            taken: Counter[tuple[tuple[int, int], int]] = Counter()
            for place, part in enumerate(word):
                pairs = []
                for at, label in enumerate(part):
                    for leaf, role in roles[label]:
                        key = ((place, at), leaf)
                        pairs.append((indices[number][slot][key][taken[key]], role))
                        taken[key] += 1
                own.append(tuple(index for index, _ in pairs))
                theirs.append(tuple(role for _, role in pairs))
            results.append(Result(tuple(own), tuple(theirs), size))
        whole = frozenset(index for label in draft.whole for _, index in roles[label])
        called = [
            [
                [list(role) for label, _ in dim for leaf, role in roles[label] if self.atoms.size(leaf) > 1]
                for dim in shape
            ]
            for _, shape in draft.operands
        ]
        if "arguments" in draft.notes:
            draft.notes["arguments"] = _with_dims(draft.notes["arguments"], called)
        return Node(
            draft.name,
            draft.kind,
            tuple(operands),
            tuple(results),
            draft.phase,
            whole=whole,
            **draft.notes,
        )


def _with_dims(value: object, called: Sequence[object]) -> object:
    """Arguments in which each tensor tells the roles of its dimensions as called, with those of one element
    (no role) and those that it is repeated over.
    """
    if isinstance(value, Mapping):
        if "operand" in value:
            return {**value, "dims": called[value["operand"]]}
        return {name: _with_dims(one, called) for name, one in value.items()}
    return [_with_dims(one, called) for one in value] if isinstance(value, list) else value
