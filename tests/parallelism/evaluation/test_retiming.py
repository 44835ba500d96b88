"""Plans timed by `train`: named layouts are recognised, and take nearly as long as the evaluator says."""

from __future__ import annotations

import pytest

from parallelism.evaluation.known_layouts import (
    HIDDEN,
    MODEL,
    TOKENS,
    costs,
    data_parallel,
    tensor_parallel,
    whole,
)
from parallelism.evaluation.named_layouts import by_letter, laid_out
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.resimulation import Resimulated, nearest_layout, resimulate
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import ACCELERATORS
from treadle.training.forms.layer_passes import layer_seconds
from treadle.training.models.zoo import zoo_model
from treadle.training.training_options import TrainingOptions
from treadle.unsupported import Unsupported

TIMES = RooflineTimes(ACCELERATORS["h100"], "bf16", 0.5)
FIRST = lambda path, letters: Sharding((("dp",), *((),) * (len(letters) - 1)))  # noqa: E731


def timed(plan: ParallelPlan, overlap: str) -> tuple[Evaluation, Resimulated]:
    own = costs(*plan.mesh.axis_names)
    found = resimulate(plan, MODEL, zoo_model("llama-3-8b"), own, TIMES, options=TrainingOptions(kappa=1))
    assert isinstance(found, Resimulated)
    assert found.layout.left_out == ()
    return evaluate(plan, MODEL, own, DeviceNumbers.of(TIMES), overlap=overlap), found


def test_compute_is_that_of_train() -> None:
    """But for products of keys and of values: under tensor parallelism each reads all tokens by itself."""
    for plan, words, tolerance in (
        (data_parallel(), "dp=8", 0.005),
        (data_parallel(FIRST), "fsdp=8", 0.005),
        (tensor_parallel(), "tp=8", 0.02),
    ):
        mine, other = timed(plan, "layer")
        assert other.mesh == words
        assert mine.compute_s == pytest.approx(float(other.outcome.compute_s), rel=tolerance)


def test_replicas_and_shards_take_what_train_says_within_three_percent() -> None:
    """There the first gather and the last gradients hide behind nothing; here each part hides its own."""
    for plan in (data_parallel(), data_parallel(FIRST)):
        mine, other = timed(plan, "layer")
        assert mine.seconds == pytest.approx(float(other.outcome.iteration_s), rel=0.03)


def test_tensor_parallelism_takes_what_train_says_where_nothing_overlaps() -> None:
    """`train` waits for all exchanges but gathers of inputs again, beside half of what is computed then.

    Both keep parts of these inputs: six gathers and four scatters a block.
    """
    mine, other = timed(tensor_parallel(), "none")
    blocks = next(one for one in mine.parts if one.part == "block")
    gather_s = 1e-6 + 2 * 16 * TOKENS * HIDDEN / 100e9
    assert blocks.communication_s == pytest.approx(10 * gather_s, rel=1e-3)
    setup = other.outcome.setup
    dense_s = float(layer_seconds(TIMES, setup.model.layer("block 0"), setup.local).dense[1])
    # two blocks of equal length; before attention there is half of one
    hidden_s = min(gather_s, dense_s / 8) + min(gather_s, dense_s / 4)
    assert mine.seconds - 32 * hidden_s == pytest.approx(float(other.outcome.iteration_s), rel=0.03)


def test_cuts_that_differ_from_operator_to_operator_are_shares_of_the_work() -> None:
    def cut(node: object, letters: frozenset[str]) -> dict[str, str]:
        if "f" in letters and "b" in letters:
            return {"x": "f"}
        return {"x": "b"} if "b" in letters else {}

    plan = laid_out(MODEL, Mesh((8,), ("x",)), cut, boundary={"x": "b"}, stored=whole)  # type: ignore[arg-type]
    layout = nearest_layout(plan, MODEL)
    assert not isinstance(layout, Unsupported)
    assert dict(layout.axes) in ({"tp": ("x",)}, {"dp": ("x",)})
    assert len(layout.left_out) == 1
    assert "of the work along x" in layout.left_out[0]


def test_an_axis_that_nothing_uses_is_refused() -> None:
    plan = laid_out(MODEL, Mesh((8,), ("x",)), by_letter("x"), boundary={}, stored=whole)
    found = resimulate(plan, MODEL, zoo_model("llama-3-8b"), costs("x"), TIMES)
    assert isinstance(found, Unsupported)
    assert "most of the work is done 8 times along x" in str(found)
