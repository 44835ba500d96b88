"""Settings of torchtitan for layouts by hand, word for word; weights whose products follow each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from treadle.parallelism.exporting.export_layout import (
    ExportLayout,
    PartLayout,
    RecomputeSetting,
    WeightUse,
)
from treadle.parallelism.exporting.torchtitan import torchtitan_settings
from treadle.schedules.mesh import Mesh

PLAN = plain_plan(small_model(), Mesh((2, 2), ("pp", "x")))


def part(name: str, repeats: int, recompute: RecomputeSetting, *saved: bool) -> PartLayout:
    return PartLayout(name, repeats, (), recompute, saved, False)


BLOCK = part("block", 3, RecomputeSetting.NONE, True, False, True)
HEAD = part("head", 1, RecomputeSetting.ALL, False)
AXES = {
    "pp": (2, WeightUse.PIPELINE),
    "idle": (1, WeightUse.NONE),
    "pod": (3, WeightUse.REPLICATED),
    "dp": (5, WeightUse.SHARDED),
    "ep": (7, WeightUse.SHARDED),
    "cp": (11, WeightUse.CONTEXT),
    "tp": (13, WeightUse.TENSOR),
}
LAYOUT = ExportLayout("small", AXES, True, True, (BLOCK, HEAD), ())


@pytest.mark.parametrize(
    ("parts", "mode"),
    [
        ((BLOCK, HEAD), "none"),
        ((replace(BLOCK, repeats=1), HEAD), "selective"),
        ((replace(BLOCK, recompute=RecomputeSetting.ALL), HEAD), "full"),
        ((HEAD, replace(HEAD, name="tail")), "full"),
        ((BLOCK, replace(BLOCK, name="other", recompute=RecomputeSetting.ALL)), "selective"),
        ((replace(BLOCK, recompute=RecomputeSetting.SOME), HEAD), "selective"),
    ],
)
def test_checkpoints_are_those_of_repeated_parts(parts: tuple[PartLayout, ...], mode: str) -> None:
    """Of all parts where none is repeated; mixed ones are selective, by operators."""
    told = torchtitan_settings(replace(LAYOUT, parts=parts), PLAN)
    assert f'[activation_checkpoint]\nmode = "{mode}"\n' in told
    assert ('selective_ac_option = "op"' in told) == (mode == "selective")
