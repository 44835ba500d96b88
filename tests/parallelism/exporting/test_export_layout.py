"""Plans by hand as frameworks see them: uses of axes, styles of weights, and all that is lost, in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from parallelism.evaluation.named_layouts import Cut, both, by_letter, laid_out
from parallelism.plan.small_models import small_model
from treadle.errors import InfeasibleError
from treadle.parallelism.exporting.export_layout import (
    ExportLayout,
    RecomputeSetting,
    WeightUse,
    layout_of,
)
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh

MODEL = small_model(3, t=16, h=8, f=64)
MESH = Mesh((2, 4, 1), ("x", "y", "idle"))
TENSORS = both(by_letter("x", "f"), by_letter("y", "t"))
STORED = {"up": (("y",), ("x",)), "down": (("x",), ("y",)), "w": (("y",),)}
"""Weights by their inner dimension f along x, and in parts over y."""


def plan(
    cut: Cut, stored: Mapping[str, tuple[tuple[str, ...], ...]], *, mesh: Mesh = MESH, again: str = ""
) -> ParallelPlan:
    return laid_out(
        MODEL,
        mesh,
        cut,
        boundary={"y": "t"},
        stored=lambda path, letters: Sharding(stored.get(path, ((),) * len(letters))),
        recomputed=lambda node: node.name in again.split(),
    )


def lost(layout: ExportLayout) -> list[str]:
    return [str(one) for one in layout.lost]


@pytest.mark.parametrize(
    ("again", "block", "head", "words"),
    [
        ("u a", RecomputeSetting.ALL, RecomputeSetting.NONE, []),
        ("u a z q", RecomputeSetting.ALL, RecomputeSetting.ALL, []),
        ("u", RecomputeSetting.SOME, RecomputeSetting.NONE,
         ["block: a: is kept for the backward pass; a policy by operator computes it again"]),
        ("a", RecomputeSetting.SOME, RecomputeSetting.NONE, []),
    ],
)  # fmt: skip
def test_what_is_computed_again(
    again: str, block: RecomputeSetting, head: RecomputeSetting, words: list[str]
) -> None:
    layout = layout_of(plan(TENSORS, STORED, again=again), MODEL)
    assert [part.recompute for part in layout.parts] == [block, head]
    assert [part.saved_products for part in layout.parts] == [("u" not in again, True), ()]
    assert lost(layout) == words


def test_stages_are_an_axis_of_their_own() -> None:
    one = plan(by_letter("y", "t"), {}, mesh=Mesh((4,), ("y",)))
    staged = replace(one, mesh=Mesh((2, 4), ("x", "y")), pipeline=Pipeline("x", (2, 2), 3))
    assert layout_of(staged, MODEL).axes == {"x": (2, WeightUse.PIPELINE), "y": (4, WeightUse.REPLICATED)}


def test_plans_of_which_nothing_is_left_are_refused() -> None:
    def words(one: ParallelPlan) -> str:
        with pytest.raises(InfeasibleError) as caught:
            layout_of(one, MODEL)
        return str(caught.value)

    assert words(plan(both(by_letter("x", "h"), by_letter("y", "f")), {})) == (
        "export: axes x and y both cut weights; frameworks have one tensor-parallel axis"
    )
    assert words(plan(lambda node, own: {"y": "f"} if node.name == "ddown" else {}, {})) == (
        "export: along y products are cut by nothing and others; expected samples, tokens or weights along "
        "a whole axis"
    )
    one = plan(TENSORS, STORED)
    two = replace(one, parts={**one.parts, "block": one.parts["block"] * 2}, layers={"block": (0, 1, 1)})
    assert words(two) == "export: layers of block have 2 plans; frameworks have one for all layers"


@pytest.mark.parametrize(("zero", "n_lost"), [(0, 0), (1, 1), (2, 1)])
def test_optimizer_states_that_replicas_share_are_told(zero: int, n_lost: int) -> None:
    spread = replace(plan(by_letter("y", "t"), {}), zero=zero)
    found = [one for one in lost(layout_of(spread, MODEL)) if "ZeRO" in one]
    assert len(found) == n_lost
    assert all(f"(ZeRO-{zero})" in one for one in found)
