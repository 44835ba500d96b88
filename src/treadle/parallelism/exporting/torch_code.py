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
from treadle.refusal import Refusal

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
    """A module with `make_mesh` and `parallelize(model, mesh)`.

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
    _check_pairs(layout)
    shape, names = _mesh(layout)
    blocks = [part for part in layout.parts if part.repeats > 1] or list(layout.parts)
    has_table = any(weight.is_table for part in layout.parts for weight in part.weights)
    lines = [
        _HEAD.format(
            title=f"Layout of {layout.model}.",
            mesh="; ".join(f"{name} = {size} ({use.value})" for name, (size, use) in layout.axes.items()),
            remarks=_remarks(layout),
            shape=shape,
            names=str(names).replace("'", '"'),
            sequence=", and of the sequence" if layout.cuts_sequence and not has_table else "",
        ).rstrip("\n")
    ]
    lines += list(_tensor_lines(layout))
    lines += list(_checkpoint_lines(blocks))
    lines += list(_shard_lines(layout, blocks))
    lines.append("    return model")
    text = "\n".join(lines) + "\n"
    some = [part for part in blocks if part.recompute is RecomputeSetting.SOME]
    if some:
        part = some[0]
        text += _SELECTIVE.format(
            products=part.saved_products,
            keeps_attention=part.saves_attention,
            attention=", attention is kept" if part.saves_attention else "",
        )
    return text


def _check_pairs(layout: ExportLayout) -> None:
    """Within blocks whose sequence is cut between them nothing is whole but by pairs of columns and rows."""
    for part in layout.parts if layout.cuts_sequence else ():
        for weight in part.weights:
            if part.repeats > 1 and (weight.is_gathered or weight.is_given_whole):
                raise InfeasibleError(
                    f"export: {part.name}: {weight.path} is cut without a pair; expected columns and then "
                    "rows where the sequence is cut between blocks"
                )


def unsaid(layout: ExportLayout) -> tuple[Refusal, ...]:
    """What the plan says and the code does not."""
    found = list(layout.lost)
    most = max(part.repeats for part in layout.parts)
    for part in layout.parts:
        if part.repeats == 1 < most and part.recompute is not RecomputeSetting.NONE:
            found.append(Refusal("is computed again in the backward pass; the code keeps it", part.name))
        if part.repeats > 1 and not all(_split(weight.path)[0] for weight in part.weights):
            reason = "its paths do not say where its layers are; the code has none of them"
            found.append(Refusal(reason, part.name))
        found += [
            Refusal("its results stay cut; the code gathers them", f"{part.name}: {weight.path}")
            for weight in part.weights
            if weight.style is CutStyle.COLUMNS and weight.is_gathered
        ]
    return tuple(found)


def _remarks(layout: ExportLayout) -> str:
    lost = unsaid(layout)
    if not lost:
        return "It says all that the plan does.\n"
    lines = "\n".join(f"- {one.place}: {one.reason}" for one in lost)
    return f"What the plan says beyond that:\n{lines}\n"


def _mesh(layout: ExportLayout) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The mesh; where nothing is sharded, with an axis of one rank that `fully_shard` shards over."""
    shape = [size for size, _ in layout.axes.values()]
    names = list(layout.axes)
    if layout.of_use(WeightUse.REPLICATED) and not layout.of_use(WeightUse.SHARDED):
        last = max(names.index(name) for name in layout.of_use(WeightUse.REPLICATED))
        shape.insert(last + 1, 1)
        names.insert(last + 1, "alone")
    return tuple(shape), tuple(names)


def _tensor_lines(layout: ExportLayout) -> Iterator[str]:
    tensor = layout.of_use(WeightUse.TENSOR)
    if not tensor:
        return
    at_rest = "Shard(1)" if layout.cuts_sequence else "Replicate()"
    for part in layout.parts:
        styles = {
            weight.path.rpartition(".")[0]: style
            for weight in part.weights
            if (style := _style(weight, at_rest, cuts_sequence=layout.cuts_sequence))
        }
        for owner, inner in _by_owner(styles).items():
            yield f"    for part in {_modules(owner)}:"
            yield "        styles = {"
            yield from (f'            "{name}": {style},' for name, style in inner.items())
            yield "        }"
            yield f'        parallelize_module(part, mesh["{tensor[0]}"], styles)'


def _style(weight: ExportedWeight, at_rest: str, *, cuts_sequence: bool) -> str:
    if weight.is_table:
        if weight.style is None:
            moves = f"PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts={at_rest})"
            return moves if cuts_sequence else ""
        given = "input_layouts=Replicate(), " if weight.style is CutStyle.ROWS else ""
        return f"{weight.style.value}({given}output_layouts={at_rest})"
    if weight.style is CutStyle.COLUMNS:
        gathered = ", output_layouts=Replicate()" if weight.is_gathered else ""
        return f"ColwiseParallel(input_layouts={at_rest}{gathered})"
    if weight.style is CutStyle.ROWS:
        given = "input_layouts=Replicate(), " if weight.is_given_whole else ""
        return f"RowwiseParallel({given}output_layouts={at_rest})"
    return "SequenceParallel()" if cuts_sequence else ""


def _by_owner(styles: dict[str, str]) -> dict[str, dict[str, str]]:
    """Styles by the module that is repeated (``layers.*``) and the rest of the path."""
    found: dict[str, dict[str, str]] = {}
    for module, style in styles.items():
        owner, rest = _split(module)
        found.setdefault(owner, {})[rest] = style
    return found


def _split(path: str) -> tuple[str, str]:
    """A path's words up to that which counts layers, and those after it."""
    words = path.split(".")
    for number, word in enumerate(words):
        if word == "*" or re.fullmatch(r"\[\d+:\d+(:\d+)?\]|\d+(\|\d+)+", word):
            return ".".join(words[: number + 1]), ".".join(words[number + 1 :])
    return "", path


def _modules(owner: str) -> str:
    """An expression for the modules that a path with a pattern stands for."""
    if not owner:
        return "[model]"
    parent, _, last = owner.rpartition(".")
    return _chosen(f'list(model.get_submodule("{parent}").children())', last)


def _chosen(layers: str, word: str) -> str:
    """An expression for the layers of a list that a word of a path stands for."""
    if "|" in word:
        return f"[{layers}[at] for at in ({word.replace('|', ', ')})]"
    return layers if word == "*" else f"{layers}{word}"


def _checkpoint_lines(blocks: list[PartLayout]) -> Iterator[str]:
    for part in blocks:
        if part.recompute is RecomputeSetting.NONE:
            continue
        extra = ", context_fn=_policy" if part.recompute is RecomputeSetting.SOME else ""
        for owner in sorted({_split(weight.path)[0] for weight in part.weights}):
            if not owner:
                yield f"    model = checkpoint_wrapper(model{extra})"
                continue
            parent, _, last = owner.rpartition(".")
            yield f'    layers = model.get_submodule("{parent}")'
            yield f"    for name, block in {_chosen('list(layers.named_children())', last)}:"
            yield f"        setattr(layers, name, checkpoint_wrapper(block{extra}))"


def _key(names: Sequence[str]) -> str:
    """Axes of a mesh as a subscript."""
    quoted = ", ".join(f'"{name}"' for name in names)
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
    for number, several in enumerate((replicated, sharded)):
        name = several[0] if several else "alone"
        if len(several) > 1:
            name = ("copies", "parts")[number]
            yield f'    mesh{_key(several)}._flatten("{name}")'
        if several or number:
            words.append(name)
    yield f"    data = mesh{_key(words)}"
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
