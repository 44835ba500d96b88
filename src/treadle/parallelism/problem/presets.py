"""Presets (plans by the book) as restrictions of the problem: data, tensor, context and expert parallelism.

Along each axis of the mesh a preset fixes what is sharded (samples, tokens, heads and inner dimensions, or
experts) and whether parameters are sharded over it. The search chooses what a preset leaves open (the
dimension of a parameter that is sharded, the state from which readers share a tensor), so that each preset is
at its best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from itertools import permutations

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.graph.compute_graph import OperatorKind
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable, Variable, Wait

Domains = tuple[Int64Array, ...]


class _Use(Enum):
    """Use of a mesh axis."""

    REPLICAS = "DP"
    SHARDS = "FSDP"
    TENSORS = "TP"
    CONTEXT = "CP"
    EXPERTS = "EP"


class _Recompute(Enum):
    """Recomputation in the backward pass."""

    NOTHING = ""
    POINTWISE = "selective recompute"
    """All but products and attention."""
    ALL = "full recompute"


def preset_domains(table: VariableTable) -> dict[str, Domains]:
    """Return the states that each preset allows, ascending, per variable; presets are named as people do."""
    dims, found = _DimNames(table), dict[str, Domains]()
    masks = [_masks_by_axis(table, variable) for variable in table.variables]
    for uses in _layouts(list(table.sizes), has_experts=bool(dims.experts)):
        rows = []
        for variable, by_axis in zip(table.variables, masks, strict=True):
            n_rows = variable.size
            if isinstance(variable, OperatorVariable):
                n_rows = len(variable.strategies)
            allowed = np.ones(n_rows, np.bool_)
            for axis, use in uses.items():
                allowed = _allowed_rows(table, variable, dims, allowed, by_axis[axis], use)
            rows.append(allowed)
        for recompute in _Recompute:
            found[_preset_name(uses, recompute)] = tuple(
                np.flatnonzero(_with_policies(variable, allowed, recompute)).astype(np.int64)
                for variable, allowed in zip(table.variables, rows, strict=True)
            )
    return found


def _layouts(axes: list[str], *, has_experts: bool) -> Iterator[dict[str, _Use]]:
    """Yield the use of each axis: replicas or shards along all of them, and another use along one or two."""
    plain = (_Use.REPLICAS, _Use.SHARDS)
    layouts: list[dict[str, _Use]] = [dict.fromkeys(axes, use) for use in plain]
    layouts += [dict.fromkeys(axes, _Use.REPLICAS) | {axis: _Use.SHARDS} for axis in axes]
    for use in (_Use.TENSORS, _Use.CONTEXT, *([_Use.EXPERTS] if has_experts else [])):
        layouts.append(dict.fromkeys(axes, use))
        layouts += [dict.fromkeys(axes, rest) | {axis: use} for rest in plain for axis in axes]
    if has_experts:
        layouts += [
            dict.fromkeys(axes, _Use.SHARDS) | {axis: _Use.EXPERTS, other: _Use.TENSORS}
            for axis, other in permutations(axes, 2)
        ]
    for uses in dict.fromkeys(tuple(layout.values()) for layout in layouts):
        yield dict(zip(axes, uses, strict=True))


def _preset_name(uses: Mapping[str, _Use], recompute: _Recompute) -> str:
    """Return the common name: ``TP nv x FSDP ib, full recompute``."""
    axes = {use: ",".join(axis for axis, one in uses.items() if one is use) for use in reversed(_Use)}
    words = " x ".join(f"{use.value} {names}" for use, names in axes.items() if names)
    used = set(uses.values())
    if len(used) == 1:
        words = used.pop().value
    elif used == {_Use.REPLICAS, _Use.SHARDS}:
        words = f"HSDP {axes[_Use.SHARDS]}"
    return f"{words}, {recompute.value}" if recompute.value else words


class _DimNames:
    """Names of base dimensions by meaning."""

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

    def wanted(self, use: _Use) -> list[frozenset[str]]:
        """Return the dimensions that an axis shards, the preferred first."""
        batch, sequence = frozenset({self.batch}), frozenset({self.sequence})
        by_use = {
            _Use.TENSORS: [self.inner, sequence, batch],
            _Use.CONTEXT: [sequence, batch],
            _Use.EXPERTS: [self.experts, batch, sequence],
        }
        return by_use.get(use, [batch, sequence])


_NONE = frozenset({""})
"""No dimension is sharded."""


def _allowed_rows(
    table: VariableTable,
    variable: Variable,
    dims: _DimNames,
    left: BoolArray,
    masks: Mapping[str, BoolArray],
    use: _Use,
) -> BoolArray:
    """Select the remaining strategies, or states of a tensor, in which an axis has a use."""
    if isinstance(variable, StateVariable):
        return _narrow(left, masks, _tensor_dims(table, variable, dims, use))
    wanted = dims.wanted(use)
    allowed = _narrow(left, masks, [*wanted, _NONE])
    if use is _Use.TENSORS and _having(left, masks, frozenset().union(*wanted)).any():
        allowed = allowed | _having(left, masks, {"+"})  # sums of partial tensors stay partial
    return allowed


def _tensor_dims(
    table: VariableTable, variable: StateVariable, dims: _DimNames, use: _Use
) -> list[frozenset[str]]:
    """Return sets of dimensions that an axis may shard of a tensor, the preferred first."""
    names, wanted = frozenset(_factor_names(table, variable)), dims.wanted(use)
    if (variable.part, variable.tensor) in table.stored:
        local = wanted[0] & names if use in (_Use.TENSORS, _Use.EXPERTS) else frozenset()
        if variable.wait is Wait.SHARED:
            return [local or _NONE]
        if use is _Use.REPLICAS:
            return [_NONE]
        return [local, names] if local else [names]
    if variable.wait is Wait.BOUNDARY:
        if use is _Use.TENSORS:
            return [frozenset({dims.sequence}), _NONE]
        return [one for one in wanted if one & names]
    if use in (_Use.TENSORS, _Use.EXPERTS):
        return [_NONE.union(*wanted)]
    return [_NONE | {dims.batch, dims.sequence} | dims.experts]


def _factor_names(table: VariableTable, variable: StateVariable) -> list[str]:
    """Return the names of a tensor's factors, as in the variable's states."""
    graph = table.values[variable.part].graph
    names = [graph.dim_name(index) for index in graph.factors(variable.tensor)]
    if variable.wait is Wait.BOUNDARY:
        return [names[at] for at in table.wide(variable.part, variable.tensor)]
    return names


def _masks_by_axis(table: VariableTable, variable: Variable) -> dict[str, dict[str, BoolArray]]:
    """Return for each axis, and each dimension that it shards in some row, these rows."""
    if isinstance(variable, OperatorVariable):
        rows = [[set(one.atom.split(",")) for one in row.choices] for row in variable.strategies]
    else:
        names, rows = _factor_names(table, variable), []
        for state in variable.states:
            dim_of = {axis: name for name, axes in zip(names, state.dims, strict=True) for axis in axes}
            rows.append([{dim_of.get(axis, "")} for axis in table.sizes])
    return {
        axis: {name: np.array([name in one for one in cuts], np.bool_) for name in set().union(*cuts)}
        for axis, cuts in zip(table.sizes, zip(*rows, strict=True), strict=True)
    }


def _having(left: BoolArray, masks: Mapping[str, BoolArray], wanted: Set[str]) -> BoolArray:
    """Select the remaining rows with one of some dimensions."""
    found = np.zeros_like(left)
    for name in wanted & masks.keys():
        found |= masks[name]
    return left & found


def _narrow(left: BoolArray, masks: Mapping[str, BoolArray], wanted: Sequence[Set[str]]) -> BoolArray:
    """Select the remaining rows with a dimension of the first applicable set; all if none applies."""
    options = (_having(left, masks, names) for names in wanted)
    return next((some for some in options if some.any()), left)


def _with_policies(variable: Variable, allowed: BoolArray, recompute: _Recompute) -> BoolArray:
    """Return the allowed states of a variable from its allowed strategies."""
    if isinstance(variable, StateVariable):
        return allowed
    nodes = [variable.graph.nodes[member] for member in variable.cluster.members]
    policies = np.ones(len(variable.keeps), bool)
    # a sum of products is worth saving, so selective recomputation leaves it to the search
    is_sum = all(len(node.linear) == 1 < len(node.linear[0]) for node in nodes)
    if ActivationPolicy.RECOMPUTED in variable.keeps and not (is_sum and recompute is _Recompute.POINTWISE):
        heavy = {OperatorKind.EINSUM, OperatorKind.ATTENTION, OperatorKind.DISPATCH, OperatorKind.COMBINE}
        is_light = heavy.isdisjoint(node.kind for node in nodes)
        is_again = recompute is _Recompute.ALL or (recompute is _Recompute.POINTWISE and is_light)
        excluded = ActivationPolicy.SAVED if is_again else ActivationPolicy.RECOMPUTED
        policies = np.array([keep is not excluded for keep in variable.keeps])
    return np.asarray(np.repeat(allowed, len(policies)) & np.tile(policies, len(variable.strategies)))
