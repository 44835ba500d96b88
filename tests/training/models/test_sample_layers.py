"""Layers of images and of clicks by hand: what is read and written, kept and handed on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.training.models.image_models import Features, Kernel, LayerList
from treadle.training.models.model_layer import ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.recommendation import ROW_MULTIPLE, dlrm

MATMUL, ELEMENTWISE, LOOKUP = WorkKind.MATMUL, WorkKind.ELEMENTWISE, WorkKind.LOOKUP


def whole(name: str, elements: int) -> Saved:
    return Saved(name, elements, split=False)


def product(name: str, rows: int, columns: int) -> Work:
    return Work(
        name,
        MATMUL,
        flops=2 * rows * columns,
        moved_elements=rows + columns,
        weight_elements=rows * columns,
        split=False,
    )


def test_a_convolution_and_a_product() -> None:
    """27 taps of 3 x 10 x 10 make 8 x 5 x 5; of three groups 1 x 3 taps see a channel each."""
    layers = LayerList(10)
    layers.convolve(Kernel(8, (3, 3), 2, (1, 1)))
    layers.now = Features(3, 4)
    layers.convolve(Kernel(6, (1, 3), 1, (0, 1), groups=3, has_norm=False))
    layers.multiply(11)
    with_norm, grouped, last = layers.layers
    assert with_norm == ModelLayer(
        "convolution 0",
        weights=(Weight("kernel", 27 * 8, split=False), Weight("norm", 16, split=False)),
        works=(
            Work(
                "convolution",
                MATMUL,
                flops=2 * 27 * 200,
                moved_elements=300 + 200,
                weight_elements=27 * 8,
                split=False,
            ),
            Work("norm", ELEMENTWISE, moved_elements=600, split=False),
        ),
        saved=(whole("input", 300), whole("norm input", 200)),
        boundary_elements=200,
    )
    assert grouped.name == "convolution 1"
    assert grouped.weights == (Weight("kernel", 18, split=False), Weight("bias", 6, split=False))
    # a window of one row keeps four rows without padding; of three columns, padded by one, four columns
    assert grouped.works == (
        Work(
            "convolution",
            MATMUL,
            flops=2 * 3 * 96,
            moved_elements=48 + 96,
            weight_elements=18,
            split=False,
        ),
        Work("activation", ELEMENTWISE, moved_elements=192, split=False),
    )
    assert last == ModelLayer(
        "product 2",
        weights=(Weight("matrix", 96 * 11, split=False), Weight("bias", 11, split=False)),
        works=(product("product", 96, 11),),
        saved=(whole("input", 96),),
        boundary_elements=11,
    )


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


def test_a_recommender() -> None:
    """Three tables of four columns; pairs of four vectors are six."""
    model = dlrm("own", rows=10, tables=3, width=4, bottom=(5, 9, 4), top=(2, 1), source="by hand")
    assert (model.unit, model.source) == ("sample", "by hand")
    tables, *rest = model.layers
    assert tables == ModelLayer(
        "tables",
        weights=(Weight("tables", 4 * ROW_MULTIPLE, split=False, expert=True),),
        works=(Work("rows", LOOKUP, moved_elements=24, split=False, expert=True),),
        saved=(whole("numbers", 6),),
        boundary_elements=12,
        experts=ROW_MULTIPLE,
        top_k=3,
        routed_elements=12,
        exchanges=1,
    )
    assert model.layer("interaction") == ModelLayer(
        "interaction",
        works=(Work("pairs", MATMUL, flops=2 * 4 * 4 * 4, moved_elements=16 + 6, split=False),),
        saved=(whole("vectors", 16),),
        boundary_elements=10,
    )
    widths = {"bottom 0": (5, 9), "bottom 1": (9, 4), "top 0": (10, 2), "top 1": (2, 1)}
    assert [layer.name for layer in rest] == ["bottom 0", "bottom 1", "interaction", "top 0", "top 1"]
    for name, (rows, columns) in widths.items():
        assert model.layer(name) == ModelLayer(
            name,
            weights=(Weight("matrix", (rows + 1) * columns, split=False),),
            works=(replace(product("product", rows, columns), moved_elements=rows + 3 * columns),),
            saved=(whole("input", rows),),
            boundary_elements=columns,
        )


@pytest.mark.parametrize(("rows", "filled"), [(1, 1), (ROW_MULTIPLE, 1), (ROW_MULTIPLE + 1, 2)])
def test_rows_are_filled_up(rows: int, filled: int) -> None:
    model = dlrm("own", rows=rows, tables=1, width=1, bottom=(1, 1), top=(1,))
    assert model.layer("tables").experts == filled * ROW_MULTIPLE
