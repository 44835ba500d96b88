"""Layers of images and of clicks by hand: what is read and written, kept and handed on."""

from __future__ import annotations

import pytest

from treadle.training.models.image_models import Features, Kernel, LayerList
from treadle.training.models.recommendation import ROW_MULTIPLE, dlrm


def test_maps_after_windows() -> None:
    layers = LayerList(10)
    for window, stride, padding, size in ((3, 2, 0, 4), (2, 1, 1, 5), (5, 1, 0, 1)):
        layers.pool(window, stride, padding)
        assert layers.now == Features(3, size)
    assert Kernel(7).after(Features(2, 9)) == Features(7, 9)
    assert Kernel(7, (5, 5), 3, (2, 2)).after(Features(2, 9)) == Features(7, 3)


def test_branches_are_joined() -> None:
    layers = LayerList(8)
    one = Kernel(5, (1, 1), 1, (0, 0))
    halving = Kernel(7, (3, 3), 2, (1, 1))
    layers.branch([[one, halving], [halving]], pooled=3)
    assert layers.now == Features(3 + 7 + 7, 4)
    assert [layer.boundary_elements for layer in layers.layers] == [5 * 64, 7 * 16, 7 * 16]
    assert layers.fork([one], [halving, one, one], Features(3, 8)) == 7 + 5 + 5


@pytest.mark.parametrize(("rows", "filled"), [(1, 1), (ROW_MULTIPLE, 1), (ROW_MULTIPLE + 1, 2)])
def test_rows_are_filled_up(rows: int, filled: int) -> None:
    model = dlrm("own", rows=rows, tables=1, width=1, bottom=(1, 1), top=(1,))
    assert model.layer("tables").experts == filled * ROW_MULTIPLE
