"""Plans that have names, as restrictions of the problem: parallelism of data, tensors, context, experts.

Along each axis of the mesh a named plan says what is cut: samples, tokens, heads and inner dimensions, or
experts; and whether parameters are sharded over it. What it leaves open (which dimension of a parameter is
cut, from which state readers share a tensor) the search settles, so that each named plan is at its best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from itertools import permutations

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.graph.compute_graph import OperatorKind
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable, Wait

Domains = tuple[Int64Array, ...]


class Use(Enum):
    """What an axis of the mesh is for."""

    REPLICAS = "DP"
    SHARDS = "FSDP"
    TENSORS = "TP"
    CONTEXT = "CP"
    EXPERTS = "EP"


class RecomputePolicy(Enum):
    """What the backward pass computes again."""

    NOTHING = ""
    POINTWISE = "selective recompute"
    """All but products and attention."""
    ALL = "full recompute"


@dataclass(frozen=True)
class Preset:
    """A plan by the use of each axis.

    Parameters
    ----------
    uses : mapping from axis to Use
    again : Again
    """

    uses: Mapping[str, Use]
    again: RecomputePolicy

    @property
    def name(self) -> str:
        """As people call it: ``TP nv x FSDP ib, full recompute``."""
        uses = list(self.uses.values())
        words = " x ".join(
            f"{use.value} {','.join(axis for axis, one in self.uses.items() if one is use)}"
            for use in reversed(Use)
            if use in uses
        )
        if len(set(uses)) == 1:
            words = uses[0].value
        elif set(uses) == {Use.REPLICAS, Use.SHARDS}:
            words = f"HSDP {','.join(axis for axis, one in self.uses.items() if one is Use.SHARDS)}"
        return f"{words}, {self.again.value}" if self.again.value else words


def presets(table: VariableTable) -> Iterator[Preset]:
    """The named plans of a mesh: every axis for replicas or shards, and one or two for something else."""
    axes = list(table.sizes)
    special = [Use.TENSORS, Use.CONTEXT] + ([Use.EXPERTS] if _Letters(table).experts else [])
    layouts: list[dict[str, Use]] = [dict.fromkeys(axes, Use.REPLICAS), dict.fromkeys(axes, Use.SHARDS)]
    layouts += [dict.fromkeys(axes, Use.REPLICAS) | {axis: Use.SHARDS} for axis in axes]
    for use in special:
        layouts.append(dict.fromkeys(axes, use))
        for rest in (Use.REPLICAS, Use.SHARDS):
            layouts += [dict.fromkeys(axes, rest) | {axis: use} for axis in axes]
    if Use.EXPERTS in special:
        layouts += [
            dict.fromkeys(axes, Use.SHARDS) | {axis: Use.EXPERTS, other: Use.TENSORS}
            for axis, other in permutations(axes, 2)
        ]
    for uses in dict.fromkeys(tuple(layout.values()) for layout in layouts):
        for again in RecomputePolicy:
            yield Preset(dict(zip(axes, uses, strict=True)), again)


class _Letters:
    """Names of atoms by what they stand for."""

    def __init__(self, table: VariableTable) -> None:
        self.batch, self.sequence = table.model.batch, table.model.sequence
        outside, inside, experts = {self.batch, self.sequence}, set[str](), set[str]()
        for values in table.values:
            graph, part = values.graph, values.part
            ends = [tensor for tensor in (part.enters, part.leaves) if tensor is not None]
            outside.update(graph.dim_name(index) for tensor in ends for index in graph.factors(tensor))
            parameters = part.parameters.values()
            inside.update(graph.dim_name(index) for tensor in parameters for index in graph.factors(tensor))
            sent = [node for node in graph.nodes if node.kind is OperatorKind.DISPATCH]
            experts.update(graph.dim_name(node.results[0].roles[0][0]) for node in sent)
        self.experts = frozenset(experts)
        self.inner = frozenset(inside - outside - experts)

    def wanted(self, use: Use) -> list[frozenset[str]]:
        """Letters that an axis cuts, the most wanted first."""
        batch, sequence = frozenset({self.batch}), frozenset({self.sequence})
        by_use = {
            Use.TENSORS: [self.inner, sequence, batch],
            Use.CONTEXT: [sequence, batch],
            Use.EXPERTS: [self.experts, batch, sequence],
        }
        return by_use.get(use, [batch, sequence])


class NamedDomains:
    """The states that named plans may take.

    Parameters
    ----------
    table : VariableTable
    """

    def __init__(self, table: VariableTable) -> None:
        self.table, self.letters = table, _Letters(table)
        self._flags: dict[tuple[int, RecomputePolicy], BoolArray] = {}
        self._cuts: list[dict[str, dict[str, BoolArray]]] = []
        for variable in table.variables:
            if isinstance(variable, OperatorVariable):
                rows = [[set(one.atom.split(",")) for one in row.choices] for row in variable.strategies]
            else:
                own = _names(table, variable)
                places = [
                    {axis: name for name, axes in zip(own, state.dims, strict=True) for axis in axes}
                    for state in variable.states
                ]
                rows = [[{place.get(axis, "")} for axis in table.sizes] for place in places]
            by_axis = zip(table.sizes, zip(*rows, strict=True), strict=True)
            self._cuts.append({axis: _masks(letters) for axis, letters in by_axis})

    def of(self, plan: Preset) -> Domains:
        """The states that a named plan may take, ascending, per variable."""
        found: list[Int64Array] = []
        for number, (variable, cuts) in enumerate(zip(self.table.variables, self._cuts, strict=True)):
            if isinstance(variable, OperatorVariable):
                if (number, plan.again) not in self._flags:
                    self._flags[number, plan.again] = _flags(variable, plan.again)
                allowed = np.repeat(self._strategies(variable, cuts, plan), len(variable.keeps))
                allowed &= np.tile(self._flags[number, plan.again], len(variable.strategies))
            else:
                allowed = np.ones(variable.size, np.bool_)
                for axis, use in plan.uses.items():
                    allowed = _narrowed(allowed, cuts[axis], self._places(variable, use))
            found.append(np.flatnonzero(allowed).astype(np.int64))
        return tuple(found)

    def _strategies(
        self, variable: OperatorVariable, cuts: Mapping[str, Mapping[str, BoolArray]], plan: Preset
    ) -> BoolArray:
        left = np.ones(len(variable.strategies), np.bool_)
        for axis, use in plan.uses.items():
            wanted = self.letters.wanted(use)
            some = _narrowed(left, cuts[axis], [*wanted, _WHOLE])
            if use is Use.TENSORS and _cutting(left, cuts[axis], frozenset().union(*wanted)).any():
                some = some | _cutting(left, cuts[axis], {"+"})  # sums of summands stay so
            left = some
        return left

    def _places(self, variable: StateVariable, use: Use) -> list[frozenset[str]]:
        """Sets of letters that an axis may cut of a tensor, the most wanted first; "": none."""
        letters, names = self.letters, frozenset(_names(self.table, variable))
        wanted = letters.wanted(use)
        if (variable.part, variable.tensor) in self.table.stored:
            local = wanted[0] & names if use in (Use.TENSORS, Use.EXPERTS) else frozenset()
            if variable.wait is Wait.SHARED:
                return [local or _WHOLE]
            if use is Use.REPLICAS:
                return [_WHOLE]
            return [local, names] if local else [names]
        if variable.wait is Wait.BOUNDARY:
            if use is Use.TENSORS:
                return [frozenset({letters.sequence}), _WHOLE]
            return [one for one in wanted if one & names]
        if use in (Use.TENSORS, Use.EXPERTS):
            return [_WHOLE.union(*wanted)]
        return [_WHOLE | {letters.batch, letters.sequence} | letters.experts]


_WHOLE = frozenset({""})


def _names(table: VariableTable, variable: StateVariable) -> list[str]:
    """Letters of a tensor's factors, as states of the variable have them."""
    graph = table.values[variable.part].graph
    own = [graph.dim_name(index) for index in graph.factors(variable.tensor)]
    if variable.wait is Wait.BOUNDARY:
        return [own[at] for at in table.wide(variable.part, variable.tensor)]
    return own


def _masks(rows: Sequence[Set[str]]) -> dict[str, BoolArray]:
    """By letter the rows that have it."""
    return {name: np.array([name in one for one in rows], np.bool_) for name in set().union(*rows)}


def _cutting(left: BoolArray, masks: Mapping[str, BoolArray], wanted: Set[str]) -> BoolArray:
    """Of the rows that are left those with one of some letters."""
    found = np.zeros_like(left)
    for name in wanted & masks.keys():
        found |= masks[name]
    return left & found


def _narrowed(left: BoolArray, masks: Mapping[str, BoolArray], wanted: Sequence[Set[str]]) -> BoolArray:
    """Of the rows that are left those with a letter of the first set that any has; all if none has one."""
    options = (_cutting(left, masks, names) for names in wanted)
    return next((some for some in options if some.any()), left)


def _flags(variable: OperatorVariable, again: RecomputePolicy) -> BoolArray:
    nodes = [variable.graph.nodes[member] for member in variable.cluster.members]
    # a sum of products is worth saving
    is_open = again is RecomputePolicy.POINTWISE and all(len(n.linear) == 1 < len(n.linear[0]) for n in nodes)
    if ActivationPolicy.RECOMPUTED not in variable.keeps or is_open:
        return np.ones(len(variable.keeps), bool)
    heavy = {OperatorKind.EINSUM, OperatorKind.ATTENTION, OperatorKind.DISPATCH, OperatorKind.COMBINE}
    is_light = heavy.isdisjoint(node.kind for node in nodes)
    is_again = again is RecomputePolicy.ALL or (again is RecomputePolicy.POINTWISE and is_light)
    refused = ActivationPolicy.SAVED if is_again else ActivationPolicy.RECOMPUTED
    return np.array([keep is not refused for keep in variable.keeps])
