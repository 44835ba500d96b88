"""Axes along which a model has nothing to share."""

from __future__ import annotations

import pytest

from samples.training.small_steps import mesh_of
from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.suitable import check_suitable
from treadle.training.models.zoo import zoo_model


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("resnet-50", {"tp": 2}, "mesh tp=2: resnet-50 has no matrices that tensor parallelism cuts"),
        ("resnet-50", {"cp": 2}, "has no keys and values to pass along cp"),
        ("gpt2", {"dp": 2, "ep": 4}, "mesh dp=2,ep=4: gpt2 has no experts to spread over ep"),
        ("mixtral-8x7b", {"ep": 16}, "expected ep to divide the 8 experts of mixtral-8x7b"),
    ],
)
def test_axes_without_use_are_refused(name: str, axes: dict[str, int], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check_suitable(zoo_model(name), ParallelLayout(mesh_of(**axes)))


def test_axes_of_one_rank_are_nothing_to_refuse() -> None:
    check_suitable(zoo_model("resnet-50"), ParallelLayout(mesh_of(dp=8, tp=1, ep=1)))
    check_suitable(zoo_model("mixtral-8x7b"), ParallelLayout(mesh_of(cp=2, tp=8, ep=8)))
