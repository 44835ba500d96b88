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
from treadle.parallelism.exporting.torch_code import torch_code, unsaid
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
