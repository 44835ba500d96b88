"""The code that is written for layouts by hand, line for line; nothing of it runs here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.errors import InfeasibleError
from treadle.parallelism.exporting.export_layout import (
    CutStyle,
    ExportedWeight,
    ExportLayout,
    PartLayout,
    RecomputeSetting,
    WeightUse,
)
from treadle.parallelism.exporting.torch_code import _split, _style, torch_code, unsaid
from treadle.unsupported import Unsupported

COLUMNS, ROWS = CutStyle.COLUMNS, CutStyle.ROWS
TABLE = PartLayout(
    "table", 1, (ExportedWeight("words.weight", True, ROWS, 0),), RecomputeSetting.NONE, (), True
)
BLOCK = PartLayout(
    "block",
    3,
    (
        ExportedWeight("layers.*.up.weight", False, COLUMNS, 0),
        ExportedWeight("layers.*.down.weight", False, ROWS, 1),
        ExportedWeight("layers.*.norm.weight", False, None, 0),
    ),
    RecomputeSetting.SOME,
    (True, False),
    False,
)
HEAD = PartLayout(
    "head", 1, (ExportedWeight("head.weight", False, COLUMNS, 0, True),), RecomputeSetting.ALL, (True,), True
)
LAYOUT = ExportLayout(
    "small",
    {"dp": (4, WeightUse.SHARDED), "tp": (2, WeightUse.TENSOR)},
    True,
    True,
    (TABLE, BLOCK, HEAD),
    (Unsupported("is lost", "here"),),
)


def body(layout: ExportLayout) -> list[str]:
    """What `parallelize` does."""
    _, _, text = torch_code(layout).partition("def parallelize(")
    lines = text.partition("    return model\n")[0].splitlines()
    return [line.removeprefix("    ") for line in lines[2:]]


def test_a_layout_line_for_line() -> None:
    text = torch_code(LAYOUT)
    head = text.partition('"""\n\nimport')[0]
    assert head == (
        '"""Layout of small.\n\n'
        "Written by treadle. Mesh, in the order of ranks: dp = 4 (data parallel, parameters sharded); "
        "tp = 2 (tensor parallel).\n"
        "What the plan says beyond that:\n"
        "- here: is lost\n"
        "- head: is computed again in the backward pass; the code keeps it\n"
        "- head: head.weight: its results stay cut; the code gathers them\n"
    )
    assert '    return init_device_mesh(device, (4, 2), mesh_dim_names=("dp", "tp"))\n' in text
    assert body(LAYOUT) == [
        "for part in [model]:",
        "    styles = {",
        '        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),',
        "    }",
        '    parallelize_module(part, mesh["tp"], styles)',
        'for part in list(model.get_submodule("layers").children()):',
        "    styles = {",
        '        "up": ColwiseParallel(input_layouts=Shard(1)),',
        '        "down": RowwiseParallel(output_layouts=Shard(1)),',
        '        "norm": SequenceParallel(),',
        "    }",
        '    parallelize_module(part, mesh["tp"], styles)',
        "for part in [model]:",
        "    styles = {",
        '        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),',
        "    }",
        '    parallelize_module(part, mesh["tp"], styles)',
        'layers = model.get_submodule("layers")',
        "for name, block in list(layers.named_children()):",
        "    setattr(layers, name, checkpoint_wrapper(block, context_fn=_policy))",
        'data = mesh["dp"]',
        "columns = ['down']",
        "second = {id(m.weight) for n, m in model.named_modules() if n.endswith(tuple(columns))}",
        'for part in list(model.get_submodule("layers").children()):',
        "    fully_shard(part, mesh=data, reshard_after_forward=True, shard_placement_fn=lambda p: "
        "Shard(1) if id(p) in second else Shard(0))",
        "fully_shard(model, mesh=data, reshard_after_forward=True, shard_placement_fn=lambda p: "
        "Shard(1) if id(p) in second else Shard(0))",
    ]
    # the table gathers samples of the sequence by itself; without one each rank is given a part
    assert 'part of the samples."""\n' in text
    assert 'of the samples, and of the sequence."""\n' in torch_code(replace(LAYOUT, parts=(BLOCK, HEAD)))
    assert "\nPRODUCTS = (True, False)\n" in text
    assert 'the rest of the forward pass runs again."""\n' in text
    assert 'elif False and "scaled_dot_product"' in text
    attention = torch_code(replace(LAYOUT, parts=(replace(BLOCK, saves_attention=True),)))
    assert 'runs again, attention is kept."""\n' in attention
    assert 'elif True and "scaled_dot_product"' in attention


def test_replicas_of_shards_and_weights_by_themselves() -> None:
    """Several axes of a use are flattened; parts that are not repeated stand for themselves."""
    axes = {
        "a": (2, WeightUse.REPLICATED), "b": (3, WeightUse.REPLICATED),
        "c": (5, WeightUse.SHARDED), "d": (7, WeightUse.SHARDED),
    }  # fmt: skip
    weights = (ExportedWeight("w.weight", False, None, 0), ExportedWeight("n.weight", True, None, 0))
    alone = PartLayout("all", 1, weights, RecomputeSetting.ALL, (), True)
    layout = ExportLayout("small", axes, False, False, (alone,), ())
    assert unsaid(layout) == ()
    assert "\nIt says all that the plan does.\n" in torch_code(layout)
    assert body(layout) == [
        "model = checkpoint_wrapper(model)",
        'mesh["a", "b"]._flatten("copies")',
        'mesh["c", "d"]._flatten("parts")',
        'data = mesh["copies", "parts"]',
        "fully_shard(model, mesh=data, reshard_after_forward=False)",
    ]
    assert "PRODUCTS =" not in torch_code(layout)


@pytest.mark.parametrize(
    ("axes", "shape", "names", "lines"),
    [
        # an axis of one rank behind the last one that replicates
        ({"a": "REPLICATED", "t": "TENSOR", "b": "REPLICATED", "n": "NONE"}, (2, 3, 4, 1, 5),
         '("a", "t", "b", "alone", "n")',
         ['mesh["a", "b"]._flatten("copies")', 'data = mesh["copies", "alone"]']),
        ({"a": "REPLICATED"}, (2, 1), '("a", "alone")', ['data = mesh["a", "alone"]']),
        ({"a": "SHARDED", "t": "TENSOR"}, (2, 3), '("a", "t")', ['data = mesh["a"]']),
        ({"a": "REPLICATED", "b": "SHARDED"}, (2, 3), '("a", "b")', ['data = mesh["a", "b"]']),
        ({"t": "TENSOR"}, (2,), '("t",)', []),
    ],
)  # fmt: skip
def test_meshes_have_something_to_shard_over(
    axes: dict[str, str], shape: tuple[int, ...], names: str, lines: list[str]
) -> None:
    layout = replace(
        LAYOUT,
        axes={name: (at + 2, WeightUse[use]) for at, (name, use) in enumerate(axes.items())},
        parts=(replace(BLOCK, recompute=RecomputeSetting.NONE),),
    )
    assert f"init_device_mesh(device, {shape}, mesh_dim_names={names})" in torch_code(layout)
    found = [line for line in body(layout) if line.startswith(("mesh", "data"))]
    assert found == lines
    assert any("fully_shard" in line for line in body(layout)) == bool(lines)


@pytest.mark.parametrize(
    ("weight", "whole", "cut"),
    [
        ((True, None), "",
         "PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1))"),
        ((True, COLUMNS), "ColwiseParallel(output_layouts=Replicate())",
         "ColwiseParallel(output_layouts=Shard(1))"),
        ((True, ROWS), "RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate())",
         "RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))"),
        ((False, None), "", "SequenceParallel()"),
        ((False, COLUMNS), "ColwiseParallel(input_layouts=Replicate())",
         "ColwiseParallel(input_layouts=Shard(1))"),
        ((False, ROWS), "RowwiseParallel(output_layouts=Replicate())",
         "RowwiseParallel(output_layouts=Shard(1))"),
    ],
)  # fmt: skip
def test_styles_of_weights(weight: tuple[bool, CutStyle | None], whole: str, cut: str) -> None:
    """Where the sequence stays whole between blocks, and where it is cut."""
    is_table, style = weight
    one = ExportedWeight("w", is_table, style, 0)
    assert _style(one, "Replicate()", cuts_sequence=False) == whole
    assert _style(one, "Shard(1)", cuts_sequence=True) == cut
    if style is ROWS and not is_table:
        given = _style(replace(one, is_given_whole=True), "Shard(1)", cuts_sequence=True)
        assert given == "RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))"


def test_a_bias_has_the_style_of_its_module() -> None:
    """Whether it comes before the module's matrix or after it."""
    bias = ExportedWeight("layers.*.down.bias", False, None, 0)
    for weights in ((bias, *BLOCK.weights), (*BLOCK.weights, bias)):
        parts = tuple(replace(one, weights=weights) if one is BLOCK else one for one in LAYOUT.parts)
        lines = body(replace(LAYOUT, parts=parts))
        assert [line.strip() for line in lines if '"down": ' in line] == [
            '"down": RowwiseParallel(output_layouts=Shard(1)),'
        ]


def test_layers_are_counted_by_a_star_or_a_slice() -> None:
    assert _split("a.layers.*.up.w") == ("a.layers.*", "up.w")
    assert _split("a.layers.[1:7].up") == ("a.layers.[1:7]", "up")
    assert _split("layers.[0:8:2].up") == ("layers.[0:8:2]", "up")
    assert _split("layers.[0:].up") == ("", "layers.[0:].up")
    sliced = tuple(replace(one, path=one.path.replace("*", "[0:6:2]")) for one in BLOCK.weights)
    block = replace(BLOCK, weights=sliced, recompute=RecomputeSetting.ALL)
    lines = body(replace(LAYOUT, parts=(block,)))
    assert lines[0] == 'for part in list(model.get_submodule("layers").children())[0:6:2]:'
    assert "for name, block in list(layers.named_children())[0:6:2]:" in lines
    assert "    setattr(layers, name, checkpoint_wrapper(block))" in lines
    assert 'layers = model.get_submodule("layers")' in lines


def test_layers_without_a_rule_are_counted_one_by_one() -> None:
    assert _split("layers.0|3|4.up") == ("layers.0|3|4", "up")
    few = tuple(replace(one, path=one.path.replace("*", "0|3|4")) for one in BLOCK.weights)
    block = replace(BLOCK, weights=few, recompute=RecomputeSetting.ALL)
    lines = body(replace(LAYOUT, parts=(block,)))
    chosen = 'for part in [list(model.get_submodule("layers").children())[at] for at in (0, 3, 4)]:'
    assert [line for line in lines if line.startswith("for part")] == [chosen] * 2
    assert "for name, block in [list(layers.named_children())[at] for at in (0, 3, 4)]:" in lines


def test_layers_that_no_path_counts_are_told() -> None:
    lost = tuple(replace(one, path=one.path.replace("layers.*.", "")) for one in BLOCK.weights)
    layout = replace(LAYOUT, parts=(replace(BLOCK, weights=lost),))
    told = "block: its paths do not say where its layers are; the code has none of them"
    assert told in [str(one) for one in unsaid(layout)]
    assert f"- {told}\n" in torch_code(layout)
    assert told not in [str(one) for one in unsaid(LAYOUT)]


def test_layouts_that_code_cannot_make_are_refused() -> None:
    def words(**changes: object) -> str:
        with pytest.raises(InfeasibleError) as caught:
            torch_code(replace(LAYOUT, **changes))  # type: ignore[arg-type]
        return str(caught.value)

    assert words(axes={"dp": (2, WeightUse.SHARDED), "cp": (2, WeightUse.CONTEXT)}) == (
        "export: context parallel along cp; parallelize_module and fully_shard have none (torchtitan's "
        "settings do)"
    )
    assert words(axes={"pp": (2, WeightUse.PIPELINE)}).startswith("export: pipeline along pp; ")
    assert words(axes={"s": (2, WeightUse.SHARDED), "r": (2, WeightUse.REPLICATED)}) == (
        "export: parameters are sharded over s and replicated over r; fully_shard takes the replicating axes "
        "first"
    )
    up, down, norm = BLOCK.weights
    for weights in ((replace(up, is_gathered=True), down), (up, replace(down, is_given_whole=True), norm)):
        path = next(one.path for one in weights if one.is_gathered or one.is_given_whole)
        assert words(parts=(replace(BLOCK, weights=weights),)) == (
            f"export: block: {path} is cut without a pair; expected columns and then rows where the sequence "
            "is cut between blocks"
        )
        torch_code(replace(LAYOUT, parts=(replace(BLOCK, weights=weights),), cuts_sequence=False))
