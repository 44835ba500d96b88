"""Explanations of a found plan: its file, a tensor's history, differences from another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.parallelism.explaining.plan_changes import PlanChanges, changes_between
from treadle.parallelism.explaining.state_format import dims_of, matching_tensors, spelled_state
from treadle.parallelism.explaining.tensor_story import TensorStory, tensor_story
from treadle.parallelism.exporting.export_layout import layout_of
from treadle.parallelism.exporting.torch_code import torch_code, unsaid
from treadle.parallelism.exporting.torchtitan import torchtitan_settings
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.parallelism.plan.plan_json import format_plan_json, read_plan
from treadle.parallelism.plan.plan_setting import PlanSetting, stored_fabric
from treadle.parallelism.problem.variables import StateVariable
from treadle.parallelism.search.local_moves import improved
from treadle.parallelism.search.minimax import peak_memory, step_time
from treadle.parallelism.search.slices import Slice, boxes_of, consistent
from treadle.parallelism.searching.parallel_result import FabricSearch, ParallelizeResult
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.unsupported import Unsupported

_MOST_ALTERNATIVES = 8


@dataclass(frozen=True)
class OtherState:
    """Another state of a tensor, and the step with it.

    Parameters
    ----------
    what : str
        ``stored``, ``kept``, ``shared``, ``made``.
    state : str
    seconds : float
    more : float
        Share of the step that it takes more.
    memory_bytes : float
    """

    what: str
    state: str
    seconds: float
    more: float
    memory_bytes: float


@brief("story", "alternatives")
@dataclass(frozen=True)
class ExplainedTensor:
    """A tensor through the step, and what else there was.

    Parameters
    ----------
    story : TensorStory
    alternatives : tuple of OtherState
        The cheapest first; what keeps to the limit of memory.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> (told,) = planning.explain_tensor(found, "tok_embeddings")
    >>> [f"{other.what} {other.state}: {other.more:+.1%}" for other in told.alternatives]
    ['stored whole: +1.0%']
    """

    story: TensorStory
    alternatives: tuple[OtherState, ...]


def explain_parallel_plan(result: ParallelizeResult) -> str:
    """Format the first fabric's plan as a file, with the setting it was computed for.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> planning.explain_parallel_plan(found).splitlines()[1]
    ' "treadle": "parallel plan",'
    """
    request, search = result.request, result.searches[0]
    made_for = PlanSetting(stored_fabric(search.topology), request.device, request.tokens, request.sequence)
    return format_plan_json(replace(result.plan, setting=made_for))


def explain_tensor(result: ParallelizeResult, name: str) -> tuple[ExplainedTensor, ...]:
    """Explain the states of tensors with a name, in the plan of the first fabric.

    Parameters
    ----------
    result : ParallelizeResult
    name : str
        ``wq``, ``query``, ``block/attention_normed``: a parameter, or what an operator makes.

    Raises
    ------
    FormatError
        If there is no such tensor.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> (told,) = planning.explain_tensor(found, "tok_embeddings")
    >>> [(leg.when, leg.what, leg.state) for leg in told.story.legs][:2]
    [('forward', 'stored', 'h:0'), ('forward', 'embedding takes', 'h:0')]
    """
    search = result.searches[0]
    posed, parts = search.found.posed, {part.name: part for part in result.model.parts}
    return tuple(
        ExplainedTensor(
            tensor_story(search.best.plan, parts[part], tensor, posed.problem.mesh, posed.costs),
            _alternatives(result, search, list(parts).index(part), tensor),
        )
        for part, tensor in matching_tensors(result.model, name)
    )


def _alternatives(
    result: ParallelizeResult, search: FabricSearch, part: int, tensor: TensorRef
) -> tuple[OtherState, ...]:
    """Try each other state of the tensor's own variables, and adapt the rest one choice at a time."""
    posed, plan = search.found.posed, search.found.plan
    assert plan is not None, "a result has a plan"
    graph, table = posed.problem.graph, posed.problem.table
    aim = step_time(graph, overlap=result.request.overlap, memory_bytes=result.request.memory_bytes)
    memory, now = peak_memory(graph), aim.value(graph.amounts(plan))
    names, found = dims_of(result.model.parts[part], tensor), []
    others = (
        (number, variable.wait.value, state, sharding)
        for number, variable in enumerate(table.variables)
        if isinstance(variable, StateVariable) and (variable.part, variable.tensor) == (part, tensor)
        for state, sharding in enumerate(variable.states)
        if state != plan[number]
    )
    for number, what, state, sharding in others:
        domains = consistent(graph, boxes_of(posed.within, number, [np.array([state])])[0])
        changed = (*plan[:number], state, *plan[number + 1 :])
        # the changed state must be allowed with all others as they are
        if domains is None or not graph.is_allowed(changed):
            continue
        part_of_graph = Slice(graph, domains)
        if (labels := part_of_graph.labels(changed)) is None:
            continue
        amounts = graph.amounts(part_of_graph.plan(improved(part_of_graph, aim, labels)))
        if aim.fits(amounts):
            words, value = spelled_state(names, sharding), aim.value(amounts)
            found.append(OtherState(what, words, value, value / now - 1, memory.value(amounts)))
    return tuple(sorted(found, key=lambda one: one.seconds)[:_MOST_ALTERNATIVES])


def plan_changes(result: ParallelizeResult, path: Path | str) -> PlanChanges:
    """List the differences between the first fabric's plan and one of a file, and their costs.

    Parameters
    ----------
    result : ParallelizeResult
    path : Path or str

    Raises
    ------
    FormatError
        If the file is not a plan, or belongs to another model.

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
    >>> sorted({change.what for change in found.changes})[-1]
    'stored tok_embeddings.weight'
    """
    other = read_plan(str(path))
    search = result.searches[0]
    try:
        changes = tuple(changes_between(result.model, search.best.plan, other))
    except FormatError as error:
        raise FormatError(str(error), source=str(path)) from None
    theirs = PlanSearch(result.model, result.request).priced(str(path), other, search.costs_on(other.mesh))
    return PlanChanges(search.best, theirs, changes)


def exported_plan(result: ParallelizeResult, suffix: str) -> tuple[str, tuple[Unsupported, ...]]:
    """Export the first fabric's plan for other tools, with what the format cannot express.

    Parameters
    ----------
    result : ParallelizeResult
    suffix : str
        ``.py``: code that calls parallelize_module and fully_shard; ``.toml``: settings of torchtitan.

    Raises
    ------
    InfeasibleError
        If nothing of the plan's structure is left there.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> text, lost = planning.exported_plan(found, ".py")
    >>> text.splitlines()[0].strip('"')
    'Layout of words.'
    """
    layout = layout_of(result.plan, result.model)
    if suffix == ".toml":
        return torchtitan_settings(layout, result.plan), layout.lost
    return torch_code(layout), unsaid(layout)
