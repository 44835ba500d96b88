"""Code for models that have a name and no module: blocks are found where torchtitan has them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from parallelism.exporting.layouts import laid_out
from treadle.parallelism.exporting.export_layout import layout_of
from treadle.parallelism.exporting.torch_code import torch_code, unsaid
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.schedules.mesh import Mesh
from treadle.training.models.zoo import zoo_model

MESH = Mesh((4, 2), ("dp", "tp"))


def written(name: str, cut: dict[str, str], **choices: object) -> tuple[str, list[str]]:
    """The code's lines within `parallelize`, and what it says that it leaves out."""
    model = model_graph(zoo_model(name), batch=8, sequence=64)
    layout = layout_of(laid_out(model, MESH, cut, **choices), model)  # type: ignore[arg-type]
    text = torch_code(layout)
    compile(text, "layout.py", "exec")
    return text.partition("def parallelize(")[2], [str(one) for one in unsaid(layout)]


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b"])
def test_blocks_are_cut_sharded_and_computed_again_one_by_one(name: str) -> None:
    code, left = written(name, {"dp": "b", "tp": "kf"}, sharded=("dp",), recompute="full")
    lines = code.splitlines()
    blocks = 'for part in list(model.get_submodule("layers").children()):'
    assert [f"    {blocks}", "        fully_shard(part, mesh=data, reshard_after_forward=True)"] in map(
        list, pairwise(lines)
    )
    assert [
        "    for name, block in list(layers.named_children()):",
        "        setattr(layers, name, checkpoint_wrapper(block))",
    ] in map(list, pairwise(lines))
    for module in ("attention.wq", "attention.wk", "attention.wv"):
        assert f'            "{module}": ColwiseParallel(' in code
    assert not [one for one in left if "where its layers are" in one]


def test_blocks_of_several_kinds_are_told_apart() -> None:
    """DeepSeek-V3 begins with three dense blocks; in Gemma-2 every second has a window."""
    code, _ = written("deepseek-v3", {"dp": "b"}, sharded=("dp",))
    for places in ("[0:3]", "[3:61]"):
        assert f'    for part in list(model.get_submodule("layers").children()){places}:\n' in code
    code, _ = written("gemma-2-2b", {"dp": "b"}, sharded=("dp",))
    for places in ("[0:25:2]", "[1:26:2]"):
        assert f'    for part in list(model.get_submodule("layers").children()){places}:\n' in code
