"""Axes along which a model has nothing to share."""

from __future__ import annotations

import pytest

from samples.training.small_steps import mesh_of
from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.suitable import check_positions, check_suitable
from treadle.training.models.zoo import zoo_model


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("resnet-50", {"tp": 2}, "mesh tp=2: resnet-50 has no matrices that tensor parallelism cuts"),
        ("resnet-50", {"cp": 2}, "has no keys and values to pass along cp"),
        ("gpt2", {"dp": 2, "ep": 4}, "mesh dp=2,ep=4: gpt2 has no experts to spread over ep"),
        ("gpt2", {"tp": 8}, "mesh tp=8: expected tp to divide the 12 attention heads of gpt2"),
        ("gpt2-xl", {"dp": 2, "tp": 2}, "expected tp to divide the 25 attention heads of gpt2-xl"),
        ("deepseek-v3", {"tp": 3}, "expected tp to divide the 128 attention heads of deepseek-v3"),
        ("mixtral-8x7b", {"ep": 16}, "expected ep to divide the 8 experts of mixtral-8x7b"),
    ],
)
def test_axes_without_use_are_refused(name: str, axes: dict[str, int], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check_suitable(zoo_model(name), ParallelLayout(mesh_of(**axes)))


def test_axes_of_one_rank_are_nothing_to_refuse() -> None:
    check_suitable(zoo_model("resnet-50"), ParallelLayout(mesh_of(dp=8, tp=1, ep=1)))
    check_suitable(zoo_model("gpt2"), ParallelLayout(mesh_of(tp=6)))
    check_suitable(zoo_model("mixtral-8x7b"), ParallelLayout(mesh_of(cp=2, tp=8, ep=8)))


def test_learned_positions_bound_the_sequence() -> None:
    check_positions(zoo_model("gpt2"), {"": 1024})
    with pytest.raises(
        ScheduleError, match=r"^model gpt2: 1025 tokens; expected at most its 1024 learned positions$"
    ):
        check_positions(zoo_model("gpt2"), {"": 1025})
    for name, tokens in (("llama-3-8b", 10**6), ("resnet-50", 1)):
        check_positions(zoo_model(name), {"": tokens})
    check_positions(zoo_model("switch-base-256"), {"encoder": 4096, "decoder": 4096})
