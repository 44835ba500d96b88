"""Variables of the search: each cluster's execution, and the state of each tensor between its uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import permutations, product
from math import prod
from typing import TypeVar

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.graph.compute_graph import ComputeGraph, TensorRef
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.choices import ClusterStrategy
from treadle.parallelism.problem.loops import LoopChoice
from treadle.parallelism.problem.operator_clusters import Cluster
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.state.sharding import Sharding


class Wait(Enum):
    """Reason why a tensor has its own state."""

    STORED = "stored"
    """A parameter, with its gradient and the optimizer's state."""
    BOUNDARY = "boundary"
    """Activations between layers, or their gradient."""
    KEPT = "kept"
    """Availability of a forward tensor in the backward pass."""
    SHARED = "shared"
    """One state from which all readers of a phase take it."""


@dataclass(frozen=True, eq=False)
class View:
    """States of a tensor by the state of a variable.

    Parameters
    ----------
    states : tuple of Sharding
        Distinct ones, over the tensor's flat factors.
    index : int array
        By state of the variable which of them.
    """

    states: tuple[Sharding, ...]
    index: Int64Array

    @property
    def is_partial(self) -> BoolArray:
        """Whether ranks hold partial sums, by state."""
        return np.array([bool(state.partial) for state in self.states])[self.index]

    def state(self, label: int) -> Sharding:
        """Return the tensor's state in a state of the variable."""
        return self.states[int(self.index[label])]


def view_of(states: Sequence[Sharding]) -> View:
    """Return A view from one state for each state of the variable."""
    distinct = {state: at for at, state in enumerate(dict.fromkeys(states))}
    return View(tuple(distinct), np.array([distinct[state] for state in states], np.int64))


def same_states(first: View, second: View) -> BoolArray:
    """Whether states of two variables are equal, by both states."""
    number = {state: at for at, state in enumerate(first.states)}
    theirs = np.array([number.get(state, -1) for state in second.states], np.int64)
    return np.asarray(first.index[:, None] == theirs[second.index][None, :])


@dataclass(frozen=True, eq=False)
class OperatorVariable:
    """Execution of a cluster: a strategy, and for forward clusters the policy for the backward pass.

    Parameters
    ----------
    name : str
    part : int
    cluster : Cluster
    graph : ComputeGraph
    strategies : tuple of ClusterStrategy
    keeps : tuple of Keep or None
        (None,) in the backward pass. States run through them fastest.
    loops : tuple of LoopChoice or None
        As many: the loop that it runs in.
    """

    name: str
    part: int
    cluster: Cluster
    graph: ComputeGraph
    strategies: tuple[ClusterStrategy, ...]
    keeps: tuple[ActivationPolicy | None, ...]
    loops: tuple[LoopChoice | None, ...]

    @property
    def size(self) -> int:
        """States."""
        return len(self.strategies) * len(self.keeps)

    def strategy(self, state: int) -> ClusterStrategy:
        """Return the strategy of a state."""
        return self.strategies[state // len(self.keeps)]

    def policy(self, state: int) -> ActivationPolicy | None:
        """Return the flag of a state."""
        return self.keeps[state % len(self.keeps)]

    def loop(self, state: int) -> LoopChoice | None:
        """Return the loop of a state."""
        return self.loops[state % len(self.keeps)]

    @property
    def fraction(self) -> FloatArray:
        """Fraction of a tensor that exists simultaneously within its loop, by state."""
        one = [1.0 if loop is None else 1 / loop.n_chunks for loop in self.loops]
        return np.tile(np.array(one), len(self.strategies))

    def by_state(self, amounts: Sequence[float] | FloatArray) -> FloatArray:
        """Return the amounts by strategy, as amounts by state."""
        return np.repeat(np.asarray(amounts, np.float64), len(self.keeps))

    def is_saved(self, keep: ActivationPolicy) -> BoolArray:
        """Whether each state has that flag."""
        return np.tile(np.array([one is keep for one in self.keeps]), len(self.strategies))

    @cached_property
    def _readers(self) -> Mapping[TensorRef, list[tuple[int, int]]]:
        found: dict[TensorRef, list[tuple[int, int]]] = {}
        for member in self.cluster.members:
            for at, operand in enumerate(self.graph.nodes[member].operands):
                found.setdefault(operand.tensor, []).append((member, at))
        return found

    def n_readings(self, tensor: TensorRef) -> int:
        """Return the operands of members that are a tensor."""
        return len(self._readers.get(tensor, ()))

    def taken(self, tensor: TensorRef) -> View:
        """Return the states in which it takes a tensor from outside."""
        return self.operand(*self._readers[tensor][0])

    def operand(self, member: int, at: int) -> View:
        """Return the states in which a member takes one of its operands."""
        return self._repeated([one.operands[member, at] for one in self.strategies])

    def result_states(self, tensor: TensorRef) -> View:
        """Return the states in which it makes a tensor."""
        return self._repeated([one.results[tensor] for one in self.strategies])

    def _repeated(self, states: list[Sharding]) -> View:
        found = view_of(states)
        return View(found.states, np.repeat(found.index, len(self.keeps)))

    @property
    def state_keys(self) -> Int64Array:
        """Keys of states: the dimension of each axis, then the flag."""
        rows = [[choice.letter for choice in one.choices] for one in self.strategies]
        table = np.repeat(np.array(rows, np.int64).reshape(len(rows), -1), len(self.keeps), axis=0)
        flags = np.tile(np.arange(len(self.keeps), dtype=np.int64), len(self.strategies))
        return np.column_stack([table, flags])


@dataclass(frozen=True, eq=False)
class StateVariable:
    """In which state a tensor waits.

    Parameters
    ----------
    name : str
    wait : Wait
    part : int
        Of the tensor; of boundaries and tied parameters the first.
    tensor : TensorRef
    states : tuple of Sharding
        Over the tensor's flat factors.
    axes : tuple of str
        Of the mesh.
    is_early : tuple of bool
        By state: what readers of the backward pass share is there from its beginning, for those that are
        computed again.
    """

    name: str
    wait: Wait
    part: int
    tensor: TensorRef
    states: tuple[Sharding, ...]
    axes: tuple[str, ...] = ()
    is_early: tuple[bool, ...] = ()

    @property
    def size(self) -> int:
        """States."""
        return len(self.states)

    @property
    def view(self) -> View:
        """Its states."""
        return view_of(self.states)

    @property
    def early(self) -> BoolArray:
        """Whether each state is early."""
        return np.array(self.is_early or (False,) * self.size)

    @property
    def state_keys(self) -> Int64Array:
        """Keys of states: each axis's effect, then the order of axes."""
        rows = []
        for number, state in enumerate(self.states):
            places = {axis: at for at, names in enumerate(state.dims) for axis in names}
            places.update(dict.fromkeys(state.partial, -2))
            rows.append([*(places.get(axis, -1) for axis in self.axes), number])
        return np.array(rows, np.int64).reshape(len(rows), -1)


Variable = OperatorVariable | StateVariable
Scope = tuple[int, ...]
"""Numbers of one variable, or of two in ascending order."""
Amounts = TypeVar("Amounts", FloatArray, BoolArray)


def ascending(scope: Scope, amounts: Amounts) -> tuple[Scope, Amounts]:
    """Return amounts by the states of one variable or two, the variables ascending and each once."""
    if len(scope) == 1 or scope[0] < scope[1]:
        return scope, amounts
    if scope[0] == scope[1]:
        return scope[:1], np.diagonal(amounts).copy()
    return scope[::-1], amounts.T


def states_over(
    factor_sizes: Sequence[int], cut: frozenset[int], sizes: Mapping[str, int], *, all_orders: bool
) -> Iterator[Sharding]:
    """Yield every way to cut some factors by some axes.

    Parameters
    ----------
    factor_sizes : sequence of int
        Of the tensor's flat factors.
    cut : frozenset of int
        Places of factors that may be cut.
    sizes : mapping from axis to its ranks
    all_orders : bool
        Also axes that cut one factor in other orders than the mesh's.
    """
    places = [-1, *sorted(cut)]
    for combination in product(places, repeat=len(sizes)):
        by_axis = dict(zip(sizes, combination, strict=True))
        lists = [[axis for axis, place in by_axis.items() if place == at] for at in range(len(factor_sizes))]
        shards = [prod(sizes[axis] for axis in axes) for axes in lists]
        if not any(size % n for size, n in zip(factor_sizes, shards, strict=True)):
            orders = [list(permutations(axes)) if all_orders else [tuple(axes)] for axes in lists]
            yield from map(Sharding, product(*orders))
