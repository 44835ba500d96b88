"""A layout as Python: `parallelize_module` and `fully_shard`, with a policy of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from treadle.errors import InfeasibleError
from treadle.parallelism.exporting.export_layout import (
    CutStyle,
    ExportedWeight,
    ExportLayout,
    PartLayout,
    RecomputeSetting,
    WeightUse,
)
from treadle.unsupported import Unsupported

_HEAD = '''\
"""{title}

Written by treadle. Mesh, in the order of ranks: {mesh}.
{remarks}"""

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts


def make_mesh(device: str = "cuda") -> DeviceMesh:
    return init_device_mesh(device, {shape}, mesh_dim_names={names})


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Applied to the model on every rank; each is given its part of the samples{sequence}."""
'''
_SELECTIVE = '''

PRODUCTS = {products}
"""Of the matrix products of a forward pass, in order: what is kept."""
_PRODUCT_OPERATORS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)


def _policy():
    """Products by their number; the rest of the forward pass runs again{attention}."""
    seen = {{False: 0, True: 0}}

    def policy(context, operator, *args, **kwargs):
        if operator in _PRODUCT_OPERATORS:
            number = seen[context.is_recompute]
            seen[context.is_recompute] += 1
            if PRODUCTS[number % len(PRODUCTS)]:
                return CheckpointPolicy.MUST_SAVE
        elif {keeps_attention} and "scaled_dot_product" in str(operator):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)
'''


def torch_code(layout: ExportLayout) -> str:
    """Return A module with `make_mesh` and `parallelize(model, mesh)`.

    Parameters
    ----------
    layout : Layout

    Raises
    ------
    InfeasibleError
        If it has context parallelism or stages, which these calls do not make.
    """
    for use in (WeightUse.CONTEXT, WeightUse.PIPELINE):
        if layout.of_use(use):
            raise InfeasibleError(
                f"export: {use.value} along {layout.of_use(use)[0]}; parallelize_module and fully_shard have "
                "none (torchtitan's settings do)"
            )
    # within blocks whose sequence is cut between them nothing is whole but by pairs of columns and rows
    for part in layout.parts if layout.cuts_sequence else ():
        for weight in part.weights:
            if part.repeats > 1 and (weight.is_gathered or weight.is_given_whole):
                raise InfeasibleError(
                    f"export: {part.name}: {weight.path} is cut without a pair; expected columns and then "
                    "rows where the sequence is cut between blocks"
                )
    shape, names = [size for size, _ in layout.axes.values()], list(layout.axes)
    replicated = layout.of_use(WeightUse.REPLICATED)
    if replicated and not layout.of_use(WeightUse.SHARDED):
        # where nothing is sharded `fully_shard` shards over an axis of one rank
        shape.insert(names.index(replicated[-1]) + 1, 1)
        names.insert(names.index(replicated[-1]) + 1, "alone")
    lost = "".join(f"- {one.place}: {one.reason}\n" for one in unsaid(layout))
    blocks = [part for part in layout.parts if part.repeats > 1] or list(layout.parts)
    has_table = any(weight.is_table for part in layout.parts for weight in part.weights)
    lines = [
        _HEAD.format(
            title=f"Layout of {layout.model}.",
            mesh="; ".join(f"{name} = {size} ({use.value})" for name, (size, use) in layout.axes.items()),
            remarks=f"What the plan says beyond that:\n{lost}"
            if lost
            else "It says all that the plan does.\n",
            shape=tuple(shape),
            names=str(tuple(names)).replace("'", '"'),
            sequence=", and of the sequence" if layout.cuts_sequence and not has_table else "",
        ).rstrip("\n")
    ]
    lines += [*_tensor_lines(layout), *_checkpoint_lines(blocks), *_shard_lines(layout, blocks)]
    text = "\n".join(lines) + "\n    return model\n"
    for part in [part for part in blocks if part.recompute is RecomputeSetting.SOME][:1]:
        text += _SELECTIVE.format(
            products=part.saved_products,
            keeps_attention=part.saves_attention,
            attention=", attention is kept" if part.saves_attention else "",
        )
    return text


def unsaid(layout: ExportLayout) -> tuple[Unsupported, ...]:
    """Return the parts of the plan that the code does not express."""
    found = list(layout.lost)
    most = max(part.repeats for part in layout.parts)
    for part in layout.parts:
        if part.repeats == 1 < most and part.recompute is not RecomputeSetting.NONE:
            found.append(Unsupported("is computed again in the backward pass; the code keeps it", part.name))
        if part.repeats > 1 and not all(_split(weight.path)[0] for weight in part.weights):
            reason = "its paths do not say where its layers are; the code has none of them"
            found.append(Unsupported(reason, part.name))
        found += [
            Unsupported("its results stay cut; the code gathers them", f"{part.name}: {weight.path}")
            for weight in part.weights
            if weight.style is CutStyle.COLUMNS and weight.is_gathered
        ]
    return tuple(found)


def _tensor_lines(layout: ExportLayout) -> Iterator[str]:
    tensor = layout.of_use(WeightUse.TENSOR)
    if not tensor:
        return
    at_rest = "Shard(1)" if layout.cuts_sequence else "Replicate()"
    for part in layout.parts:
        inner: dict[str, dict[str, str]] = {}  # by the module that is repeated (``layers.*``)
        for weight in part.weights:
            style = _style(weight, at_rest, cuts_sequence=layout.cuts_sequence)
            if style:
                owner, name = _split(weight.path.rpartition(".")[0])
                styles = inner.setdefault(owner, {})
                if weight.style is not None or name not in styles:  # a bias has the style of its module
                    styles[name] = style
        for owner, styles in inner.items():
            yield f"    for part in {_modules(owner)}:"
            yield "        styles = {"
            yield from (f'            "{name}": {style},' for name, style in styles.items())
            yield "        }"
            yield f'        parallelize_module(part, mesh["{tensor[0]}"], styles)'


def _style(weight: ExportedWeight, at_rest: str, *, cuts_sequence: bool) -> str:
    if weight.style is None:
        moves = f"PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts={at_rest})"
        return "" if not cuts_sequence else moves if weight.is_table else "SequenceParallel()"
    is_rows = weight.style is CutStyle.ROWS
    given = "input_layouts=Replicate(), " if is_rows and (weight.is_table or weight.is_given_whole) else ""
    if is_rows or weight.is_table:
        return f"{weight.style.value}({given}output_layouts={at_rest})"
    gathered = ", output_layouts=Replicate()" if weight.is_gathered else ""
    return f"ColwiseParallel(input_layouts={at_rest}{gathered})"


def _split(path: str) -> tuple[str, str]:
    """Return A path's words up to that which counts layers, and those after it."""
    words = path.split(".")
    for number, word in enumerate(words, 1):
        if word == "*" or re.fullmatch(r"\[\d+:\d+(:\d+)?\]|\d+(\|\d+)+", word):
            return ".".join(words[:number]), ".".join(words[number:])
    return "", path


def _modules(owner: str) -> str:
    """Return an expression for the modules that a path with a pattern stands for."""
    if not owner:
        return "[model]"
    parent, _, last = owner.rpartition(".")
    return _chosen(f'list(model.get_submodule("{parent}").children())', last)


def _chosen(layers: str, word: str) -> str:
    """Return an expression for the layers of a list that a word of a path stands for."""
    if "|" in word:
        return f"[{layers}[at] for at in ({word.replace('|', ', ')})]"
    return layers if word == "*" else f"{layers}{word}"


def _checkpoint_lines(blocks: list[PartLayout]) -> Iterator[str]:
    for part in [part for part in blocks if part.recompute is not RecomputeSetting.NONE]:
        extra = ", context_fn=_policy" if part.recompute is RecomputeSetting.SOME else ""
        for owner in sorted({_split(weight.path)[0] for weight in part.weights}):
            if not owner:
                yield f"    model = checkpoint_wrapper(model{extra})"
                continue
            parent, _, last = owner.rpartition(".")
            yield f'    layers = model.get_submodule("{parent}")'
            yield f"    for name, block in {_chosen('list(layers.named_children())', last)}:"
            yield f"        setattr(layers, name, checkpoint_wrapper(block{extra}))"


def _subscript(axes: Sequence[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in axes)
    return f"[{quoted}]"


def _shard_lines(layout: ExportLayout, blocks: list[PartLayout]) -> Iterator[str]:
    replicated, sharded = layout.of_use(WeightUse.REPLICATED), layout.of_use(WeightUse.SHARDED)
    if not replicated and not sharded:
        return
    names = list(layout.axes)
    if replicated and sharded and names.index(replicated[-1]) > names.index(sharded[0]):
        raise InfeasibleError(
            f"export: parameters are sharded over {', '.join(sharded)} and replicated over "
            f"{', '.join(replicated)}; fully_shard takes the replicating axes first"
        )
    words = []
    for several, joint in ((replicated, "copies"), (sharded, "parts")):
        words.append(several[0] if several else "alone")
        if len(several) > 1:
            words[-1] = joint
            yield f'    mesh{_subscript(several)}._flatten("{joint}")'
    yield f"    data = mesh{_subscript(words if replicated else words[1:])}"
    dims = {
        weight.path.rpartition(".")[0]: weight.shard_dim for part in layout.parts for weight in part.weights
    }
    options = f"mesh=data, reshard_after_forward={layout.gathers_again}"
    if any(dims.values()):
        columns = sorted({_split(path)[1] for path, dim in dims.items() if dim == 1})
        yield f"    columns = {columns!r}"
        yield "    second = {id(m.weight) for n, m in model.named_modules() if n.endswith(tuple(columns))}"
        options += ", shard_placement_fn=lambda p: Shard(1) if id(p) in second else Shard(0)"
    for part in blocks:
        for owner in sorted({_split(weight.path)[0] for weight in part.weights} - {""}):
            yield f"    for part in {_modules(owner)}:"
            yield f"        fully_shard(part, {options})"
    yield f"    fully_shard(model, {options})"
