"""Convolutional networks and recommendation against published sizes and FLOPs, and by hand."""

from __future__ import annotations

import pytest

from treadle.training.models.image_models import IMAGE_MODELS, Features, Kernel, LayerList
from treadle.training.models.recommendation import CRITEO_ROWS, CRITEO_TABLES, ROW_MULTIPLE, dlrm
from treadle.training.models.zoo import zoo_model

TORCHVISION = {
    # num_params and GFLOPS (products of one multiplication and addition) in its documentation of weights.
    "alexnet": (61_100_840, 0.714),
    "vgg-16": (138_357_544, 15.47),
    "vgg-19": (143_667_240, 19.632),
    "resnet-18": (11_689_512, 1.814),
    "resnet-50": (25_557_032, 4.089),
    "resnet-101": (44_549_160, 7.801),
    "resnet-152": (60_192_808, 11.514),
    "mobilenet-v2": (3_504_872, 0.301),
    "inception-v3": (27_161_264, 5.713),
}
AUXILIARY = 3
"""Layers of Inception's auxiliary classifier, which torchvision counts in parameters but not in FLOPs."""


@pytest.mark.parametrize("name", sorted(IMAGE_MODELS))
def test_sizes_and_flops_are_those_of_torchvision(name: str) -> None:
    model = zoo_model(name)
    parameters, products = TORCHVISION[name]
    assert model.unit == "sample"
    assert model.parameters == parameters
    layers = model.layers[:-AUXILIARY] if name == "inception-v3" else model.layers
    flops = sum(layer.forward_flops({"": 1}) for layer in layers)
    assert round(float(flops) / 2e9, 3) == products


def test_a_convolution_by_hand() -> None:
    layers = LayerList(10)
    after = layers.convolve(Kernel(8, (3, 3), 2, (1, 1)))
    assert after == Features(8, 5)
    (layer,) = layers.layers
    assert layer.parameters == 3 * 3 * 3 * 8 + 2 * 8
    assert layer.forward_flops({"": 1}) == 2 * 27 * 8 * 25
    assert sum(one.elements for one in layer.saved) == 300 + 200
    assert layer.boundary_elements == 200


def test_what_branches_share_is_saved_once() -> None:
    layers = LayerList(4)
    entry = layers.now
    for _ in range(3):
        layers.convolve(Kernel(2, (1, 1), 1, (0, 0), has_norm=False), entry)
    assert [sum(one.elements for one in layer.saved) for layer in layers.layers] == [48, 0, 0]


CRITEO = (
    "39884407,39043,17289,7420,20263,3,7120,1543,63,38532952,2953546,403346,10,2208,11938,155,4,976,14,"
    "39979772,25641295,39664985,585935,12972,108,36"
)
"""Rows of each table, as MLPerf's reference prints them."""


def test_recommendation_by_hand() -> None:
    sizes = [int(size) for size in CRITEO.split(",")]
    assert (sum(sizes), len(sizes)) == (CRITEO_ROWS, CRITEO_TABLES)
    model = zoo_model("dlrm")
    tables = model.layer("tables")
    assert tables.experts % ROW_MULTIPLE == 0
    assert CRITEO_ROWS <= tables.experts < CRITEO_ROWS * 1.0004
    assert tables.parameters == tables.experts * 128
    assert (tables.routed_elements, tables.exchanges) == (26 * 128, 1)
    assert tables.active_parameters == 26 * 128
    bottom = 14 * 512 + 513 * 256 + 257 * 128
    top = 480 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257
    assert model.parameters - tables.parameters == bottom + top
    biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert model.forward_flops({"": 1}) == 2 * (bottom + top - biases) + 2 * 27 * 27 * 128


def test_a_recommender_of_ones_own() -> None:
    model = dlrm("own", rows=10, tables=3, width=4, bottom=(5, 4), top=(2, 1))
    assert model.layer("tables").parameters == ROW_MULTIPLE * 4
    assert model.layer("top 0").parameters == (6 + 4 + 1) * 2
