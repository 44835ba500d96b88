"""Convolutional networks and recommendation against published sizes and FLOPs, and by hand."""

from __future__ import annotations

from treadle.training.models.image_models import Kernel, LayerList
from treadle.training.models.recommendation import ROW_MULTIPLE, dlrm


def test_what_branches_share_is_saved_once() -> None:
    layers = LayerList(4)
    entry = layers.now
    for _ in range(3):
        layers.convolve(Kernel(2, (1, 1), 1, (0, 0), has_norm=False), entry)
    assert [sum(one.elements for one in layer.saved) for layer in layers.layers] == [48, 0, 0]


def test_a_recommender_of_ones_own() -> None:
    model = dlrm("own", rows=10, tables=3, width=4, bottom=(5, 4), top=(2, 1))
    assert model.layer("tables").parameters == ROW_MULTIPLE * 4
    assert model.layer("top 0").parameters == (6 + 4 + 1) * 2
