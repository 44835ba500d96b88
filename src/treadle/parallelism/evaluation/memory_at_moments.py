"""Memory of a rank at each moment of a part's run: every tensor from its creation to its last use.

A moment is an operator that runs. Besides what is held throughout (`evaluation.held_throughout`) there are:

- tensors that wait for a reader, in the state from which readers take them; one chunk of those within a loop;
- what was gathered or resharded for the operators of the unit that runs, where that is another state;
- the operator's results.

A loop's operators take what comes from outside for all chunks, and give what goes out after the last: both
are whole while it runs. What waits in the state in which it is saved is counted as saved, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.parallelism.evaluation.part_run import LEAVES, PartRun, RunUnit
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.state.sharding import Sharding
from treadle.unsupported import Unsupported


@dataclass(frozen=True)
class Held:
    """Something that a rank holds: what for, which tensor, and its bytes."""

    why: str
    tensor: str
    n_bytes: int


@dataclass(frozen=True)
class Moment:
    """While one operator of a part runs.

    Parameters
    ----------
    part : str
    phase : Phase
    node : str
    contents : tuple of Held
        Largest first.
    """

    part: str
    phase: Phase
    node: str
    contents: tuple[Held, ...]

    @property
    def n_bytes(self) -> int:
        """Peak of all that is held."""
        return sum(one.n_bytes for one in self.contents)


@dataclass(frozen=True)
class _Life:
    """From the first to the last unit in which a tensor is there."""

    first: int
    last: int
    held: Held


def moments(run: PartRun) -> Iterator[Moment]:
    """Yield all moments of a run."""
    for phase in Phase:
        units = run.units(phase)
        assert not isinstance(units, Unsupported)
        lives = tuple(_lives(run, phase, units))
        for at, unit in enumerate(units):
            there = [life.held for life in lives if life.first <= at <= life.last]
            there += _taken(run, phase, unit)
            for number in unit.nodes:
                contents = [one for one in (*there, *_inside(run, phase, unit, number)) if one.n_bytes]
                contents.sort(key=lambda one: -one.n_bytes)
                yield Moment(run.part.name, phase, run.graph.nodes[number].name, tuple(contents))


def saved(run: PartRun) -> Iterator[Held]:
    """Yield the tensors that one run saves from its forward to its backward pass."""
    for tensor in run.graph.tensors():
        name = run.graph.spelled(tensor)
        state = run.plan.saved(name)
        is_stored = run.graph.nodes[tensor.node].kind is OperatorKind.PLACEHOLDER
        if state is not None and not (is_stored and run.stored(tensor) == state):
            yield Held("saved", name, run.local_bytes(tensor, state))


def _lives(run: PartRun, phase: Phase, units: tuple[RunUnit, ...]) -> Iterator[_Life]:
    """Yield the tensors that wait for others than the unit that makes them."""
    unit_of = {number: at for at, unit in enumerate(units) for number in unit.nodes}
    for (tensor, when), readings in run.readings.items():
        if when is not phase:
            continue
        node, name = run.graph.nodes[tensor.node], run.graph.spelled(tensor)
        held = run.held(tensor, phase)
        readers = [unit_of[one.node] for one in readings if one.node != LEAVES]
        is_made, is_tangent = tensor.node in unit_of, node.source is Source.TANGENT
        # what comes from before takes no memory of its own where it is stored or saved
        is_there = not is_made and not is_tangent and held == run.source(tensor, phase)
        if _is_kept(run, tensor, held) or is_there:
            continue
        first = unit_of[tensor.node] if is_made else min(readers, default=len(units))
        last = max(readers, default=-1)
        enters = run.part.enters
        if len(readers) < len(readings) and enters is not None and run.graph.gradients.get(enters) == tensor:
            last = len(units) - 1  # the gradient of what entered waits for the part before
        if is_tangent:  # it is there from the beginning, as the part after gave it
            given = run.source(tensor, phase)
            assert isinstance(given, Sharding)
            if given == held:
                first = 0
            elif first > 0:
                yield _Life(0, first - 1, Held("waiting", name, run.local_bytes(tensor, given)))
        # in its own unit a tensor is a result, whole where it goes out of a loop
        first += is_made
        if first <= last:
            yield _Life(first, last, Held("waiting", name, run.local_bytes(tensor, held)))


def _is_kept(run: PartRun, tensor: TensorRef, held: Sharding) -> bool:
    """Whether it waits in the state that is counted as saved."""
    return run.plan.saved(run.graph.spelled(tensor)) == held


def _taken(run: PartRun, phase: Phase, unit: RunUnit) -> Iterator[Held]:
    """Yield the resharded outside tensors of a unit: each operand separately, as it is paid."""
    for (tensor, when), readings in run.readings.items():
        if when is phase and tensor.node not in unit.nodes:
            held = run.held(tensor, phase)
            for one in readings:
                if one.node in unit.nodes and one.state != held:
                    yield Held("taken", run.graph.spelled(tensor), run.local_bytes(tensor, one.state))


def _inside(run: PartRun, phase: Phase, unit: RunUnit, number: int) -> Iterator[Held]:
    """Yield the results of a unit's operator; in a loop also a chunk of the tensors inside it."""
    place = {node: at for at, node in enumerate(unit.nodes)}
    for node in unit.nodes:
        for tensor, state in zip(run.graph.results(node), run.operator(node).outputs, strict=True):
            name, readings = run.graph.spelled(tensor), run.readings.get((tensor, phase), ())
            goes_out = any(one.node not in place for one in readings) or not readings
            if unit.chunk is None or goes_out or run.plan.saved(name) is not None:
                if not (phase is Phase.FORWARD and _is_kept(run, tensor, state)):
                    yield Held("result", name, run.local_bytes(tensor, state))
                continue
            last = max(place[one.node] for one in readings)
            if place[node] <= place[number] <= last:
                n_bytes = run.local_bytes(tensor, state) // unit.chunk.n_chunks
                yield Held("chunk", name, n_bytes)
                for other in {one.state for one in readings if one.node == number} - {state}:
                    yield Held("taken", name, run.local_bytes(tensor, other) // unit.chunk.n_chunks)
