"""Differences between two plans of one model: boundaries, stored parameters, operators, saved tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.parallelism.explaining.state_format import dims_of, spelled_state
from treadle.parallelism.graph.compute_graph import OperatorKind, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import OperatorPlan, PartPlan
from treadle.parallelism.searching.parallel_result import PricedPlan

NOTHING = "-"


@dataclass(frozen=True)
class Change:
    """One thing that differs.

    Parameters
    ----------
    part : str
        "" for the whole plan.
    what : str
        ``stored layers.*.attention.wq.weight``, ``query``, ``mesh``.
    ours, theirs : str
    """

    part: str
    what: str
    ours: str
    theirs: str


@brief("ours", "theirs", "changes")
@dataclass(frozen=True)
class PlanChanges:
    """Differences between two plans, and their costs.

    Parameters
    ----------
    ours, theirs : PricedPlan
        Priced on the same fabric.
    changes : tuple of Change

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> options = {"gpu": "h100", "mesh": "2", "constraints": {"tok_embeddings.weight": "whole"}}
    >>> other = treadle.parallelize(words, "ring(2, bandwidth='5GB/s')", **options)
    >>> _ = Path("plan.json").write_text(planning.explain_parallel_plan(other))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='5GB/s')", **(options | {"constraints": {}}))
    >>> found = planning.plan_changes(found, "plan.json")
    >>> found.changes[0], f"{found.theirs.seconds / found.ours.seconds - 1:+.0%}"
    (Change(part='embedding', what='stored tok_embeddings.weight', ours='h:0', theirs='whole'), '+1%')
    """

    ours: PricedPlan
    theirs: PricedPlan
    changes: tuple[Change, ...]


def changes_between(model: ModelGraph, ours: ParallelPlan, theirs: ParallelPlan) -> Iterator[Change]:
    """Yield all differences in the order of the model.

    Raises
    ------
    FormatError
        If the other plan is of another model, or of another number of tokens.
    """
    if theirs.digest != ours.digest:
        raise FormatError(
            f"the other plan is of {theirs.model}, graph {theirs.digest[:12]}; this one of {ours.model}, "
            f"graph {ours.digest[:12]}: expected the same model, tokens and sequence"
        )
    yield from _unless_same("", "mesh", ours.mesh.notation, theirs.mesh.notation)
    yield from _unless_same("", "stages", _stages(ours), _stages(theirs))
    ends = [(part, end) for part in model.parts for end in (part.leaves, part.enters) if end is not None]
    names = [name for name, _ in ends[0][0].factors(ends[0][1])]
    states = [(plan.boundary.activation, plan.boundary.gradient) for plan in (ours, theirs)]
    for what, *pair in zip(("activations", "gradients"), *states, strict=True):
        yield from _unless_same("", f"{what} between layers", *(spelled_state(names, one) for one in pair))
    for part in model.parts:
        counts = [len(plan.parts[part.name]) for plan in (ours, theirs)]
        yield from _unless_same(part.name, "kinds of layers", *map(str, counts))
        for number in range(min(counts)):
            which = f" ({number + 1})" if max(counts) > 1 else ""
            yield from _in_part(part, ours.parts[part.name][number], theirs.parts[part.name][number], which)


def _in_part(part: ModelPart, ours: PartPlan, theirs: PartPlan, which: str) -> Iterator[Change]:
    name = part.name + which
    for path, tensor in part.parameters.items():
        letters = dims_of(part, tensor)
        states = [spelled_state(letters, plan.parameters[path]) for plan in (ours, theirs)]
        yield from _unless_same(name, f"stored {path}", *states)
    for number, node in enumerate(part.graph.nodes):
        if node.kind in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT):
            continue
        words = [_operator_words(part, number, plan.operators[node.name]) for plan in (ours, theirs)]
        yield from _unless_same(name, node.name, *words)
        for slot in range(len(node.results)):
            tensor = TensorRef(number, slot)
            spelled, letters = part.graph.spelled(tensor), dims_of(part, tensor)
            kept = [plan.saved(spelled) for plan in (ours, theirs)]
            words = [NOTHING if one is None else spelled_state(letters, one) for one in kept]
            yield from _unless_same(name, f"kept {spelled}", *words)


def _operator_words(part: ModelPart, number: int, plan: OperatorPlan) -> str:
    """Describe an operator's results, and how they reach the backward pass."""
    made = [
        spelled_state(dims_of(part, TensorRef(number, slot)), state)
        for slot, state in enumerate(plan.outputs)
    ]
    words = [", ".join(dict.fromkeys(made)), f"1/{plan.parts} of the work" if plan.parts > 1 else "all of it"]
    if plan.keep is not None:
        words.append(plan.keep.value)
    if plan.chunk is not None:
        words.append(f"in {plan.chunk.n_chunks} chunks of {plan.chunk.letter}")
    return "; ".join(words)


def _stages(plan: ParallelPlan) -> str:
    if plan.pipeline is None:
        return NOTHING
    layers = ",".join(map(str, plan.pipeline.layers))
    return f"{layers} along {plan.pipeline.axis}, {plan.pipeline.micro_batches} micro-batches"


def _unless_same(part: str, what: str, ours: str, theirs: str) -> Iterator[Change]:
    if ours != theirs:
        yield Change(part, what, ours, theirs)
