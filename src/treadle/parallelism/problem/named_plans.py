"""Plans that have names, as restrictions of the problem: parallelism of data, tensors, context, experts.

Along each axis of the mesh a named plan says what is cut: samples, tokens, heads and inner dimensions, or
experts; and whether parameters are sharded over it. What it leaves open (which dimension of a parameter is
cut, from which state readers share a tensor) the search settles, so that each named plan is at its best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.operator_clusters import factors
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable, Wait
from treadle.parallelism.state.sharding import Sharding

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


class NamedDomains:
    """The states that named plans may take.

    Parameters
    ----------
    table : VariableTable
    """

    def __init__(self, table: VariableTable) -> None:
        self.table, self.letters = table, _Letters(table)
        self._flags: dict[tuple[int, Again], BoolArray] = {}
        self._cuts: list[dict[str, dict[str, BoolArray]]] = []
        for variable in table.variables:
            if isinstance(variable, OperatorVariable):
                rows = [[set(one.atom.split(",")) for one in row.choices] for row in variable.strategies]
                self._cuts.append(_masks(dict(zip(table.sizes, zip(*rows, strict=True), strict=True))))
            else:
                own = _names(table, variable)
                places = {
                    axis: [_place(own, axis, state) for state in variable.states] for axis in table.sizes
                }
                self._cuts.append(_masks(places))

    def of(self, plan: NamedPlan) -> Domains:
        """The states that a named plan may take, ascending, per variable."""
        found: list[Int64Array] = []
        for number, (variable, cuts) in enumerate(zip(self.table.variables, self._cuts, strict=True)):
            if isinstance(variable, OperatorVariable):
                if (number, plan.again) not in self._flags:
                    self._flags[number, plan.again] = _flags(variable, plan.again)
                allowed = _of_operator(variable, cuts, plan, self.letters)
                allowed &= np.tile(self._flags[number, plan.again], len(variable.strategies))
            else:
                allowed = _of_state(self.table, variable, cuts, plan, self.letters)
            found.append(np.flatnonzero(allowed).astype(np.int64))
        return tuple(found)


def _names(table: VariableTable, variable: StateVariable) -> list[str]:
    """Letters of a tensor's factors, as states of the variable have them."""
    graph = table.values[variable.part].graph
    own = [graph.atoms[index.atom].name for index in factors(graph, variable.tensor)]
    return (
        own
        if variable.wait is not Wait.BOUNDARY
        else [own[at] for at in table.wide(variable.part, variable.tensor)]
    )


def _place(own: Sequence[str], axis: str, state: Sharding) -> set[str]:
    return {next((own[at] for at, axes in enumerate(state.dims) if axis in axes), "")}


def _masks(letters: Mapping[str, Sequence[Set[str]]]) -> dict[str, dict[str, BoolArray]]:
    """By axis and letter the rows in which the axis cuts the letter, from the letters of each row."""
    return {
        axis: {name: np.array([name in one for one in rows], np.bool_) for name in set().union(*rows)}
        for axis, rows in letters.items()
    }


def _cutting(masks: Mapping[str, BoolArray], wanted: Set[str], n_rows: int) -> BoolArray:
    """Rows with one of some letters."""
    found = np.zeros(n_rows, np.bool_)
    for name in wanted & masks.keys():
        found |= masks[name]
    return found


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


def _of_operator(
    variable: OperatorVariable,
    cuts: Mapping[str, Mapping[str, BoolArray]],
    plan: NamedPlan,
    letters: _Letters,
) -> BoolArray:
    n_rows = len(variable.strategies)
    left = np.ones(n_rows, np.bool_)
    for axis, use in plan.uses.items():
        for wanted in _wanted(use, letters):
            some = left & _cutting(cuts[axis], wanted, n_rows)
            if some.any():
                if use is Use.TENSORS:  # sums of summands stay so
                    some |= left & _cutting(cuts[axis], {"+"}, n_rows)
                left = some
                break
        else:
            whole = left & _cutting(cuts[axis], {""}, n_rows)
            left = whole if whole.any() else left
    return np.repeat(left, len(variable.keeps))


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


def _of_state(
    table: VariableTable,
    variable: StateVariable,
    cuts: Mapping[str, Mapping[str, BoolArray]],
    plan: NamedPlan,
    letters: _Letters,
) -> BoolArray:
    own = _names(table, variable)
    is_parameter = (variable.part, variable.tensor) in table.stored
    allowed = np.ones(variable.size, np.bool_)
    for axis, use in plan.uses.items():
        for wanted in _places(variable, use, letters, own, is_parameter):
            some = allowed if wanted is None else allowed & _cutting(cuts[axis], wanted, variable.size)
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
