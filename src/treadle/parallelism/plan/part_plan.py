"""Plan of one run of a part of a model: states of its tensors, and inputs and results of each operator.

What a plan means, for a tensor t of a part and each phase:

- *Source.* Forward: what its operator makes (`OperatorPlan.outputs`), or where it is stored (a parameter,
  another placeholder, the boundary's activation). Backward: of gradients what their operator makes; of a
  forward tensor what its operator makes once more where that is `Keep.RECOMPUTED`, what was kept
  (`TensorPlan.saved`) where it is `Keep.SAVED`, else where it is stored.
- *Readers.* Operators of that phase that have it as an operand; recomputed operators are readers of both
  phases. What leaves the part goes to the boundary's activation, the gradient of what enters to that of the
  boundary, a parameter's gradient to the state in which the parameter is stored.
- *Transitions.* From the source to each reader's state; with `TensorPlan.shared`, once from the source to
  that, and from there to each reader. From the source of the forward phase to `TensorPlan.saved`. Each reader
  pays for itself, each of its operands too: what several take in one state is shared in that state.

A state has one list of axes for each factor of the tensor: `factors` of ``Result.dims``, or of
``Operand.dims`` where an operator takes it (views regroup dimensions; factors of one element count).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import Node, Operand, Phase, Result
from treadle.parallelism.state.sharding import Sharding

MOST_CHUNKS = 2**20
MOST_PARTS = 2**31


class ActivationPolicy(Enum):
    """Source of forward results for the backward pass."""

    SAVED = "saved"
    RECOMPUTED = "recomputed"
    UNUSED = "unused"
    """It needs none of them."""


class Chunk(NamedTuple):
    """A loop that an operator runs in, over equal parts of each rank's part of a dimension.

    All operators of one phase of a part with as many chunks and the same number of loop run in one loop. Each
    names its dimension by its own role: queries of self-attention may be ``s`` in one operator and ``s'``
    in the next; what they must agree in is the factor of each tensor between them. Of these tensors only one
    chunk is ever there, unless they lack the dimension: those are sums over the chunks, and go out of the
    loop.

    Parameters
    ----------
    letter : str
        A role of the operator: the base dimension's name, and ``'`` for repetitions (``s'``: keys of a
        sequence).
    n_chunks : int
        At least 2.
    loop : int
        Distinguishes loops with as many chunks.
    """

    letter: str
    n_chunks: int
    loop: int = 0

    @property
    def of_loop(self) -> tuple[int, int]:
        """Key of a loop: chunks, and its number."""
        return self.n_chunks, self.loop


@brief("node", "keep", "states")
@dataclass(frozen=True)
class OperatorPlan:
    """Inputs, results and execution of an operator.

    Parameters
    ----------
    node : str
        Its name in the part's graph.
    inputs : tuple of Sharding
        One for each operand, with a dimension for each factor of ``operand.dims``.
    outputs : tuple of Sharding
        One for each result, with a dimension for each factor of ``result.dims``.
    parts : int
        Each rank does 1 / parts of the work.
    keep : Keep or None
        None in the backward pass.
    chunk : Chunk or None

    Raises
    ------
    ScheduleError
        For numbers out of range.
    """

    node: str
    inputs: tuple[Sharding, ...]
    outputs: tuple[Sharding, ...]
    parts: int = 1
    keep: ActivationPolicy | None = None
    chunk: Chunk | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.parts <= MOST_PARTS:
            raise ScheduleError(f"plan of {self.node}: {self.parts} parts; expected 1 to {MOST_PARTS}")
        if self.chunk is not None:
            letter, n_chunks, loop = self.chunk
            object.__setattr__(self, "chunk", Chunk(letter, n_chunks, loop))
            if not letter or not 2 <= n_chunks <= MOST_CHUNKS or not 0 <= loop <= MOST_CHUNKS:
                given = f"plan of {self.node}: chunks {letter!r}, {n_chunks}, {loop}"
                wanted = "expected a dimension, 2 chunks or more, and the number of a loop"
                raise ScheduleError(f"{given}; {wanted}")

    @property
    def states(self) -> str:
        """Describe its inputs and results."""
        return f"{'; '.join(map(str, self.inputs))} -> {'; '.join(map(str, self.outputs))}"


@dataclass(frozen=True)
class TensorPlan:
    """Handling of a tensor between its operator and its readers, in one phase.

    Parameters
    ----------
    tensor : str
        As ``ComputeGraph.spelled``: ``node``, or ``node.slot``.
    phase : Phase
        Of the readers.
    shared : Sharding or None
        The state from which all readers of the phase take it, in place of the source.
    saved : Sharding or None
        The state in which the forward phase keeps it for the backward one.

    Raises
    ------
    ScheduleError
        If it is saved in the backward phase, or says nothing.
    """

    tensor: str
    phase: Phase
    shared: Sharding | None = None
    saved: Sharding | None = None

    def __post_init__(self) -> None:
        if self.saved is not None and self.phase is not Phase.FORWARD:
            raise ScheduleError(f"plan of {self.tensor}: saved in the backward phase, not the forward one")
        if self.shared is None and self.saved is None:
            raise ScheduleError(f"plan of {self.tensor}: neither shared nor saved; expected no entry for it")


@dataclass(frozen=True)
class Boundary:
    """States of what goes from part to part and from layer to layer.

    Parameters
    ----------
    activation, gradient : Sharding
        A dimension for each factor of more than one element, as ``ModelPart.factors`` lists them.
    """

    activation: Sharding
    gradient: Sharding

    def __post_init__(self) -> None:
        if len(self.activation.dims) != len(self.gradient.dims):
            raise ScheduleError("plan: activation and gradient differ in their number of factors")


@brief("operators", "tensors", "parameters", "n_recomputed", "n_chunked")
@dataclass(frozen=True)
class PartPlan:
    """One way to run a part.

    Parameters
    ----------
    operators : mapping from node name to OperatorPlan
        Every node but placeholders and the output.
    tensors : mapping from (tensor, Phase) to TensorPlan
        Those that are shared or saved.
    parameters : mapping from path to Sharding
        State in which weight, gradient and optimizer state are stored.
    inputs : mapping from node name to Sharding
        Where other placeholders lie: buffers, tokens, the tangent of a loss; not those of the boundary.
    boundary : Boundary or None
        None: that of the whole plan.

    Raises
    ------
    ScheduleError
        If keys and entries differ, or something that is stored is partial.
    """

    operators: Mapping[str, OperatorPlan]
    tensors: Mapping[tuple[str, Phase], TensorPlan] = field(default_factory=lambda: MappingProxyType({}))
    parameters: Mapping[str, Sharding] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, Sharding] = field(default_factory=lambda: MappingProxyType({}))
    boundary: Boundary | None = None

    def __post_init__(self) -> None:
        for name, one in self.operators.items():
            if one.node != name:
                raise ScheduleError(f"plan: {name!r} is the plan of {one.node!r}")
        for key, entry in self.tensors.items():
            if (entry.tensor, entry.phase) != key:
                raise ScheduleError(f"plan: {key[0]!r} is the plan of {entry.tensor!r}")
        for path, sharding in {**self.parameters, **self.inputs}.items():
            if sharding.partial:
                raise ScheduleError(f"plan: {path} is stored as partial sums; store it replicated or sharded")
        for name in ("operators", "tensors", "parameters", "inputs"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def n_recomputed(self) -> int:
        """Operators that run once more in the backward pass."""
        return sum(one.keep is ActivationPolicy.RECOMPUTED for one in self.operators.values())

    @property
    def n_chunked(self) -> int:
        """Operators in loops."""
        return sum(one.chunk is not None for one in self.operators.values())

    def shared(self, tensor: str, phase: Phase) -> Sharding | None:
        """Return the state from which all readers of a phase take a tensor, if there is one."""
        entry = self.tensors.get((tensor, phase))
        return None if entry is None else entry.shared

    def saved(self, tensor: str) -> Sharding | None:
        """Return the state in which a tensor is kept for the backward pass, if it is."""
        entry = self.tensors.get((tensor, Phase.FORWARD))
        return None if entry is None else entry.saved


def sides(node: Node, plan: OperatorPlan) -> Iterator[tuple[Operand | Result, Sharding]]:
    """Yield the operands and results of a node, each with the state that its plan gives it."""
    yield from zip(node.operands, plan.inputs, strict=True)
    yield from zip(node.results, plan.outputs, strict=True)
