"""The same step on one device, by PyTorch's own autograd: what an execution is compared with.

Nothing of the compute graph is used but which argument of a part the part before feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle.errors import TreadleError
from treadle.parallelism.graph.compute_graph import Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart

Make = Callable[[], tuple[Any, tuple[Any, ...]]]
"""A module and its positional arguments; random numbers come from the global generator."""


@dataclass
class RunValues:
    """Whole tensors of one run of a part.

    Parameters
    ----------
    part : str
    placeholders : dict from node number to Tensor
    outputs : list of Tensor
        In the order of the graph's output.
    gradients : dict from node number to Tensor
        Of parameters and of inputs that require it.
    """

    part: str
    placeholders: dict[int, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    gradients: dict[int, Any] = field(default_factory=dict)


def reference_step(model: ModelGraph, makes: Make | Mapping[str, Make], *, seed: int) -> list[RunValues]:
    """Return the values of all runs of all parts, in the order of the model.

    Parameters
    ----------
    model : ModelGraph
    makes : function, or mapping from part name to function
        As `capture` takes them: of the whole model, or of each part, each run of which draws its own
        parameters.
    seed : int

    Raises
    ------
    TreadleError
        If what a part makes now is not what was captured.
    """
    import torch

    if not isinstance(makes, Mapping):
        return _whole_step(model, makes, seed)
    runs: list[RunValues] = []
    parts = [part for part, _ in model.runs()]
    shared = {tie.second: tie.first for tie in model.ties}
    by_name: dict[tuple[str, str], Any] = {}
    flowing: Any = None
    all_outputs, all_tangents = [], []
    generator = torch.Generator().manual_seed(seed + 1)
    for number, part in enumerate(parts):
        torch.manual_seed(seed + 1000 * number)
        module, arguments = makes[part.name]()
        values = _placeholders(part, module, arguments)
        for (name, path), first in shared.items():
            if name == part.name:
                owner, _, own = path.rpartition(".")
                setattr(module.get_submodule(owner), own, by_name[first])
                values[part.parameters[path].node] = by_name[first]
        by_name.update({(part.name, path): values[tensor.node] for path, tensor in part.parameters.items()})
        if part.enters is not None and flowing is not None:
            at = int(part.graph.nodes[part.enters.node].path)
            arguments = (*arguments[:at], flowing, *arguments[at + 1 :])
            values[part.enters.node] = flowing
        outputs = [one for one in _flat(module(*arguments)) if isinstance(one, torch.Tensor)]
        runs.append(RunValues(part.name, values, outputs))
        forward = [operand.tensor for operand in part.graph.nodes[-1].operands][: len(outputs)]
        if len(forward) < len(outputs):
            raise TreadleError(f"execution: {part.name} gives other outputs than it was captured with")
        flowing = None
        for tensor, output in zip(forward, outputs, strict=True):
            if tensor == part.leaves and number + 1 < len(parts):
                flowing = output
                flowing.retain_grad()
            elif tensor in part.graph.tangents:
                tangent = torch.randn(output.shape, dtype=output.dtype, generator=generator)
                values[part.graph.tangents[tensor].node] = tangent
                all_outputs.append(output)
                all_tangents.append(tangent)
    torch.autograd.backward(all_outputs, all_tangents)
    for run, part in zip(runs, parts, strict=True):
        run.gradients = _gradients(part, run.placeholders)
        run.placeholders = {node: value.detach() for node, value in run.placeholders.items()}
        run.outputs = [output.detach() for output in run.outputs]
    return runs


def _whole_step(model: ModelGraph, make: Make, seed: int) -> list[RunValues]:
    """Return the reference of a model that was captured in full: tensors between its parts are unknown."""
    import torch

    torch.manual_seed(seed)
    module, arguments = make()
    made = [one for one in _flat(module(*arguments)) if isinstance(one, torch.Tensor)]
    outputs = [one for one in made if one.requires_grad]
    generator = torch.Generator().manual_seed(seed + 1)
    tangents = [torch.randn(one.shape, dtype=one.dtype, generator=generator) for one in outputs]
    torch.autograd.backward(outputs, tangents)
    runs: list[RunValues] = []
    left = list(zip(outputs, tangents, strict=True))
    for part, nth in model.runs():
        values = _placeholders(part, module, arguments, nth)
        run = RunValues(part.name, {node: value.detach() for node, value in values.items()})
        for tensor, tangent in part.graph.tangents.items():
            if tensor == part.leaves:
                run.outputs.append(None)
            elif left:
                output, run.placeholders[tangent.node] = left.pop(0)
                run.outputs.append(output.detach())
            else:
                raise TreadleError(f"execution: {model.name} gives fewer outputs than it was captured with")
        run.gradients = _gradients(part, values)
        runs.append(run)
    if left:
        raise TreadleError(f"execution: {model.name} gives more outputs than it was captured with")
    return runs


def _gradients(part: ModelPart, values: Mapping[int, Any]) -> dict[int, Any]:
    leaves = {node: value for node, value in values.items() if TensorRef(node) in part.graph.gradients}
    return {node: leaf.grad.detach() for node, leaf in leaves.items() if leaf.grad is not None}


def path_of_run(path: str, nth: int) -> str:
    """Return the name that a parameter has in one run of a repeated part.

    Examples
    --------
    >>> path_of_run("layers.*.wq.weight", 3), path_of_run("layers.[1:32:2].w1.weight", 2)
    ('layers.3.wq.weight', 'layers.5.w1.weight')
    """
    words = []
    for word in path.split("."):
        if word == "*":
            words.append(str(nth))
        elif word.startswith("["):
            start, _, *step = word[1:-1].split(":")
            words.append(str(int(start) + nth * int(step[0] if step else 1)))
        else:
            words.append(word.split("|")[nth] if "|" in word else word)
    return ".".join(words)


def _placeholders(part: ModelPart, module: Any, arguments: tuple[Any, ...], nth: int = 0) -> dict[int, Any]:
    """Return the tensors of placeholders."""
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    given = {str(number): value for number, value in enumerate(_flat(arguments))}
    values = {}
    for number, node in enumerate(part.graph.nodes):
        is_crossing = TensorRef(number) == part.enters and not node.path.isdigit()
        if node.source is None or node.source is Source.TANGENT or is_crossing:
            continue
        if node.source is Source.INPUT:
            value = given.get(node.path)
        else:
            table = parameters if node.source is Source.PARAMETER else buffers
            value = table.get(path_of_run(node.path, nth))
        shape = part.graph.shape(TensorRef(number))
        if value is None or tuple(value.shape) != shape:
            raise TreadleError(
                f"execution: {part.name}: {node.source.value} {node.path or node.name!r} of shape {shape} "
                "is not what make() gives now"
            )
        values[number] = value
    return values


def numbers_of(value: Any) -> Any:
    """Return a tensor as an array; NumPy has no bfloat16."""
    import torch

    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def _flat(value: Any) -> list[Any]:
    import torch

    return list(torch.utils._pytree.tree_leaves(value))
