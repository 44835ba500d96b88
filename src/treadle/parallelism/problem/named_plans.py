"""Plans that have names, as restrictions of the problem: parallelism of data, tensors, context, experts.

Along each axis of the mesh a named plan says what is cut: samples, tokens, heads and inner dimensions, or
experts; and whether parameters are sharded over it. What it leaves open (which dimension of a parameter is
cut, from which state readers share a tensor) the search settles, so that each named plan is at its best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.operator_clusters import factors
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


class Again(Enum):
    """What the backward pass computes again."""

    NOTHING = ""
    POINTWISE = "selective recompute"
    """All but products and attention."""
    ALL = "full recompute"


@dataclass(frozen=True)
class NamedPlan:
    """A plan by the use of each axis.

    Parameters
    ----------
    uses : mapping from axis to Use
    again : Again
    """

    uses: Mapping[str, Use]
    again: Again

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


def named_plans(table: VariableTable) -> Iterator[NamedPlan]:
    """The named plans of a mesh: every axis for replicas or shards, and one or two for something else."""
    axes = list(table.sizes)
    special = [Use.TENSORS, Use.CONTEXT] + ([Use.EXPERTS] if _Letters(table).experts else [])
    layouts: list[dict[str, Use]] = [dict.fromkeys(axes, Use.REPLICAS), dict.fromkeys(axes, Use.SHARDS)]
    layouts += [{one: Use.SHARDS if one == axis else Use.REPLICAS for one in axes} for axis in axes]
    for use in special:
        layouts.append(dict.fromkeys(axes, use))
        for rest in (Use.REPLICAS, Use.SHARDS):
            layouts += [{one: use if one == axis else rest for one in axes} for axis in axes]
    if Use.EXPERTS in special:
        layouts += [
            {one: Use.EXPERTS if one == axis else Use.TENSORS if one == other else Use.SHARDS for one in axes}
            for axis in axes
            for other in axes
            if axis != other
        ]
    seen = set()
    for layout in layouts:
        key = tuple(layout.values())
        if key not in seen:
            seen.add(key)
            for again in Again:
                yield NamedPlan(layout, again)


class _Letters:
    """Names of atoms by what they stand for."""

    def __init__(self, table: VariableTable) -> None:
        model = table.model
        self.batch, self.sequence = model.batch, model.sequence
        outside: set[str] = {self.batch, self.sequence}
        inside: set[str] = set()
        experts: list[str] = []
        for values in table.values:
            graph = values.graph
            for tensor in (values.part.enters, values.part.leaves):
                if tensor is not None:
                    outside.update(graph.atoms[index.atom].name for index in factors(graph, tensor))
            for tensor in values.part.parameters.values():
                inside.update(graph.atoms[index.atom].name for index in factors(graph, tensor))
            experts += [
                graph.atoms[node.results[0].roles[0][0].atom].name
                for node in graph.nodes
                if node.kind is OperatorKind.DISPATCH
            ]
        self.experts = frozenset(experts)
        self.inner = frozenset(inside - outside - self.experts)


def domains_of(table: VariableTable, plan: NamedPlan) -> Domains:
    """The states that a named plan may take, ascending, per variable."""
    letters = _Letters(table)
    found: list[Int64Array] = []
    for variable in table.variables:
        if isinstance(variable, OperatorVariable):
            allowed = _of_operator(variable, plan, letters)
        else:
            allowed = _of_state(table, variable, plan, letters)
        found.append(np.flatnonzero(allowed).astype(np.int64))
    return tuple(found)


def _wanted(use: Use, letters: _Letters) -> list[frozenset[str]]:
    """Letters that an axis cuts, the most wanted first."""
    tokens = [frozenset({letters.batch}), frozenset({letters.sequence})]
    if use is Use.TENSORS:
        return [letters.inner, tokens[1], tokens[0]]
    if use is Use.CONTEXT:
        return tokens[::-1]
    if use is Use.EXPERTS:
        return [letters.experts, *tokens]
    return tokens


def _of_operator(variable: OperatorVariable, plan: NamedPlan, letters: _Letters) -> BoolArray:
    left = list(range(len(variable.strategies)))
    for place, use in enumerate(plan.uses.values()):
        for wanted in _wanted(use, letters):
            some = [
                row for row in left if wanted & set(variable.strategies[row].choices[place].atom.split(","))
            ]
            if some:
                if use is Use.TENSORS:  # sums of summands stay so
                    some += [row for row in left if variable.strategies[row].choices[place].atom == "+"]
                left = sorted(some)
                break
        else:
            whole = [row for row in left if not variable.strategies[row].choices[place].atom]
            left = whole or left
    rows = np.zeros(len(variable.strategies), bool)
    rows[left] = True
    return np.repeat(rows, len(variable.keeps)) & np.tile(_flags(variable, plan.again), len(rows))


def _flags(variable: OperatorVariable, again: Again) -> BoolArray:
    if Keep.RECOMPUTED not in variable.keeps or variable.cluster.phase is Phase.BACKWARD:
        return np.ones(len(variable.keeps), bool)
    nodes = [variable.graph.nodes[member] for member in variable.cluster.members]
    if again is Again.POINTWISE and all(len(node.linear) == 1 and len(node.linear[0]) > 1 for node in nodes):
        return np.ones(len(variable.keeps), bool)  # a sum of products is worth saving
    kinds = {node.kind for node in nodes}
    heavy = {OperatorKind.EINSUM, OperatorKind.ATTENTION, OperatorKind.DISPATCH, OperatorKind.COMBINE}
    is_again = again is Again.ALL or (again is Again.POINTWISE and not kinds & heavy)
    refused = Keep.SAVED if is_again else Keep.RECOMPUTED
    return np.array([keep is not refused for keep in variable.keeps])


def _of_state(table: VariableTable, variable: StateVariable, plan: NamedPlan, letters: _Letters) -> BoolArray:
    graph = table.values[variable.part].graph
    own = [graph.atoms[index.atom].name for index in factors(graph, variable.tensor)]
    if variable.wait is Wait.BOUNDARY:
        own = [own[at] for at in table.wide(variable.part, variable.tensor)]
    is_parameter = (variable.part, variable.tensor) in table.stored
    allowed = np.ones(variable.size, bool)
    for axis, use in plan.uses.items():
        places = [
            next((own[at] for at, axes in enumerate(state.dims) if axis in axes), "")
            for state in variable.states
        ]
        options = _places(variable, use, letters, own, is_parameter)
        for wanted in options:
            some = allowed & np.array([wanted is None or place in wanted for place in places])
            if some.any():
                allowed = some
                break
    return allowed


def _places(
    variable: StateVariable, use: Use, letters: _Letters, own: list[str], is_parameter: bool
) -> list[frozenset[str] | None]:
    """Sets of letters that an axis may cut of a tensor, the most wanted first; None: any; "": none."""
    names, whole = frozenset(own), frozenset({""})
    if is_parameter:
        local = {Use.TENSORS: letters.inner, Use.EXPERTS: letters.experts}.get(use, frozenset()) & names
        if variable.wait is Wait.SHARED:
            return [local or whole]
        if use is Use.REPLICAS:
            return [whole]
        return [local, names] if local else [names]
    tokens = frozenset({letters.batch, letters.sequence})
    if variable.wait is Wait.BOUNDARY:
        if use is Use.TENSORS:
            return [frozenset({letters.sequence}), whole]
        return [one for one in _wanted(use, letters) if one & names]
    own_letters = frozenset().union(*_wanted(use, letters))
    if use in (Use.TENSORS, Use.EXPERTS):
        return [own_letters | whole]
    return [tokens | letters.experts | whole, None]
