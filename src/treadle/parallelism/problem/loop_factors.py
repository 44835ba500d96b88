"""What holds operators of a loop together: all run in it or none, cut alike, in chunks that divide."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from treadle.arrays import BoolArray
from treadle.parallelism.graph.compute_graph import Index, TensorRef
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.loops import LoopChoice, Region
from treadle.parallelism.problem.operator_clusters import factors, flat
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable
from treadle.parallelism.state.sharding import Sharding

Forbidden = tuple[tuple[int, ...], BoolArray]
_Key = tuple[LoopChoice, tuple[str, ...]]


def loop_rules(table: VariableTable) -> Iterator[Forbidden]:
    """Scopes, and the states that no plan takes."""
    for part, regions in enumerate(table.regions):
        for region in regions:
            yield from _rules(table, part, region)


def _rules(table: VariableTable, part: int, region: Region) -> Iterator[Forbidden]:
    values = table.values[part]
    owners = {node: at for at, one in enumerate(values.clusters) for node in one.members}
    clusters = sorted({owners[node] for node in region.nodes})
    keys = {at: _keys(table, table.operator(part, at), region) for at in clusters}
    for at in clusters:
        wrong = np.array([key is not None and key[1] == ("",) for key in keys[at]])
        yield (table.operators[part, at],), wrong
    pairs = {
        (owners[tensor.node], owners[number])
        for tensor in region.tensors
        for number in region.nodes
        if any(operand.tensor == tensor for operand in values.graph.nodes[number].operands)
    }
    for maker, reader in sorted(pairs):
        if maker == reader:
            continue
        numbering: dict[_Key | None, int] = {None: 0}
        mine, theirs = (
            np.array([numbering.setdefault(key, len(numbering)) for key in keys[at]])
            for at in (maker, reader)
        )
        clash = mine[:, None] != theirs[None, :]
        variable = table.operator(part, maker)
        is_late = values.clusters[maker].phase is not values.clusters[reader].phase
        if is_late:  # of what is saved whole, a loop of the backward pass may still take chunks
            clash &= ~variable.is_kept(Keep.SAVED)[:, None]
        yield (table.operators[part, maker], table.operators[part, reader]), clash


def _keys(table: VariableTable, variable: OperatorVariable, region: Region) -> list[_Key | None]:
    """By state the loop and the axes that cut its letter; the axes ("",) where chunks do not divide."""
    found: list[_Key | None] = []
    for state in range(variable.size):
        loop = variable.loop(state)
        if loop is None or loop.region != region.number:
            found.append(None)
            continue
        strategy = variable.strategy(state)
        axes: set[tuple[str, ...]] = set()
        size = 0
        for member in sorted(region.nodes & variable.cluster.member_set):
            role = region.letters[loop.letter][member]
            size = variable.graph.atoms[role.atom].size
            node = variable.graph.nodes[member]
            for at, operand in enumerate(node.operands):
                indices = [index for index, one in flat(operand) if one == role]
                axes.update(_cuts(variable, operand.tensor, indices, strategy.operands[member, at]))
            for tensor, sharding in strategy.results.items():
                if tensor.node == member:
                    result = node.results[tensor.slot]
                    pairs = [
                        pair
                        for dim, roles in zip(result.dims, result.roles, strict=True)
                        for pair in zip(dim, roles, strict=True)
                    ]
                    indices = [index for index, one in pairs if one == role]
                    axes.update(_cuts(variable, tensor, indices, sharding))
        ranks = prod(table.sizes[axis] for one in axes for axis in one)
        divides = len(axes) == 1 and size % (ranks * loop.n_chunks) == 0
        found.append((loop, next(iter(axes)) if divides else ("",)))
    return found


def _cuts(
    variable: OperatorVariable, tensor: TensorRef, indices: list[Index], state: Sharding
) -> list[tuple[str, ...]]:
    """The axes that cut these factors of a tensor."""
    own = factors(variable.graph, tensor)
    return [state.dims[own.index(index)] for index in indices]
