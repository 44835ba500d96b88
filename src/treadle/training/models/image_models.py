"""Convolutional networks for images, layer by layer, as in studies of data parallelism.

Weights, strides and paddings are those of torchvision, so that sizes and FLOPs can be compared with its
published ones. A sample is an image; a layer is a convolution or product with the norm and activation after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from treadle.training.models.model_layer import ModelLayer, Saved, Weight, Work, WorkKind, product_work
from treadle.training.models.training_model import TrainingModel

CLASSES = 1000


@dataclass(frozen=True)
class Features:
    """Output of a layer: channels of square maps."""

    channels: int
    size: int

    @property
    def elements(self) -> int:
        """Elements of a sample."""
        return self.channels * self.size * self.size


@dataclass(frozen=True)
class Kernel:
    """A convolution: output channels, window (rows, columns), stride, padding (rows, columns), groups."""

    channels: int
    window: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: tuple[int, int] = (1, 1)
    groups: int = 1
    has_norm: bool = True

    def after(self, before: Features) -> Features:
        """Return the output; maps stay square (a window of 1 x 7 is padded to keep the size)."""
        steps = before.size + 2 * self.padding[0] - self.window[0]
        return Features(self.channels, steps // self.stride + 1)


def _square(channels: int, window: int, stride: int = 1, padding: int = 0) -> Kernel:
    return Kernel(channels, (window, window), stride, (padding, padding))


class LayerList:
    """Layers in the order of addition, also in branches, and the output of the last one."""

    def __init__(self, size: int) -> None:
        self.layers: list[ModelLayer] = []
        self.now = Features(3, size)
        self._kept: list[Features] = []

    def convolve(self, kernel: Kernel, before: Features | None = None) -> Features:
        """Add a convolution of `before` (by default of the last layer's output)."""
        before = before or self.now
        after = kernel.after(before)
        taps = kernel.window[0] * kernel.window[1] * before.channels // kernel.groups
        product = product_work("convolution", taps, kernel.channels, split=False)
        moved = before.elements + after.elements
        product = replace(product, flops=2 * taps * after.elements, moved_elements=moved)
        saved = []
        if not any(one is before for one in self._kept):  # the input of several branches is saved once
            saved.append(Saved("input", before.elements, split=False))
            self._kept.append(before)
        # norm and activation read the convolution's result twice (statistics, scaling) and write it
        name, numbers, touches = ("norm", 2, 3) if kernel.has_norm else ("bias", 1, 2)
        if kernel.has_norm:
            saved.append(Saved("norm input", after.elements, split=False))
        weights = [
            Weight("kernel", taps * kernel.channels, split=False),
            Weight(name, numbers * kernel.channels, split=False),
        ]
        work = "norm" if kernel.has_norm else "activation"
        rest = Work(work, WorkKind.ELEMENTWISE, moved_elements=touches * after.elements, split=False)
        self._add("convolution", weights, [product, rest], saved, after)
        return after

    def follow(self, kernels: Sequence[Kernel], now: Features) -> Features:
        """Add convolutions one after another; return the output of the last one."""
        for kernel in kernels:
            now = self.convolve(kernel, now)
        return now

    def branch(self, branches: Sequence[Sequence[Kernel]], *, pooled: int = 0) -> None:
        """Add branches from the same input; `pooled` channels come from a pooling without weights."""
        entry = self.now
        ends = [self.follow(kernels, entry) for kernels in branches]
        self.now = Features(pooled + sum(end.channels for end in ends), ends[-1].size)

    def fork(self, stem: Sequence[Kernel], ends: Sequence[Kernel], entry: Features) -> int:
        """Add a branch that forks at its end; return the channels of its ends."""
        now = self.follow(stem, entry)
        return sum(self.convolve(kernel, now).channels for kernel in ends)

    def pool(self, window: int, stride: int, padding: int = 0) -> None:
        """Add maxima or means of windows, without weights; their time is neglected."""
        size = (self.now.size + 2 * padding - window) // stride + 1
        self.now = Features(self.now.channels, size)

    def multiply(self, columns: int, before: Features | None = None) -> None:
        """Add a fully connected layer."""
        before = before or self.now
        rows = before.elements
        self._add(
            "product",
            [Weight("matrix", rows * columns, split=False), Weight("bias", columns, split=False)],
            [product_work("product", rows, columns, split=False)],
            [Saved("input", rows, split=False)],
            Features(columns, 1),
        )

    def _add(
        self,
        kind: str,
        weights: Sequence[Weight],
        works: Sequence[Work],
        saved: Sequence[Saved],
        after: Features,
    ) -> None:
        name, parts = f"{kind} {len(self.layers)}", (tuple(weights), tuple(works), tuple(saved))
        self.layers.append(ModelLayer(name, "", *parts, boundary_elements=after.elements))
        self.now = after

    def classified(self, name: str, source: str, widths: Sequence[int] = ()) -> TrainingModel:
        """Return the model with products of these widths, and a last one with a number for each class."""
        for columns in (*widths, CLASSES):
            self.multiply(columns)
        return self.model(name, source)

    def model(self, name: str, source: str) -> TrainingModel:
        """Return the model of these layers."""
        return TrainingModel(
            name, tuple(self.layers), unit="sample", source=f"{source}; as torchvision builds it"
        )


def alexnet() -> TrainingModel:
    """Return AlexNet: five convolutions, three products."""
    found = LayerList(224)
    for channels, window, stride, padding, is_pooled in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        found.convolve(Kernel(channels, (window, window), stride, (padding, padding), has_norm=False))
        if is_pooled:
            found.pool(3, 2)
    return found.classified("alexnet", "Krizhevsky 2014 (One weird trick)", (4096, 4096))


def vgg(name: str, per_stage: Sequence[int]) -> TrainingModel:
    """Return VGG: stages of 3 x 3 convolutions, each followed by a pooling, and three products."""
    found = LayerList(224)
    for count, channels in zip(per_stage, (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            found.convolve(Kernel(channels, has_norm=False))
        found.pool(2, 2)
    return found.classified(name, "Simonyan, Zisserman 2015, table 1", (4096, 4096))


def resnet(name: str, blocks: Sequence[int], *, has_bottlenecks: bool) -> TrainingModel:
    """Return ResNet; from the second stage on the first block halves the maps, with a product as shortcut."""
    found = LayerList(224)
    found.convolve(_square(64, 7, 2, 3))
    found.pool(3, 2, 1)
    widening = 4 if has_bottlenecks else 1
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for index in range(count):
            stride = 2 if stage and not index else 1
            entry = found.now
            kernels = [_square(width, 3, stride, 1), _square(width, 3, 1, 1)]
            if has_bottlenecks:
                kernels = [_square(width, 1), kernels[0], _square(width * widening, 1)]
            if entry != found.follow(kernels, entry):
                found.convolve(_square(width * widening, 1, stride), entry)
    found.pool(found.now.size, 1)
    return found.classified(name, "He et al. 2016, table 1")


def mobilenet_v2() -> TrainingModel:
    """Return MobileNet v2: inverted residuals that widen, filter each channel, and narrow."""
    found = LayerList(224)
    found.convolve(_square(32, 3, 2, 1))
    for widening, channels, count, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for index in range(count):
            wide = found.now.channels * widening
            if widening > 1:
                found.convolve(_square(wide, 1))
            found.convolve(Kernel(wide, stride=first_stride if not index else 1, groups=wide))
            found.convolve(_square(channels, 1))
    found.convolve(_square(1280, 1))
    found.pool(found.now.size, 1)
    return found.classified("mobilenet-v2", "Sandler et al. 2018, table 2")


def _tall(channels: int, length: int) -> Kernel:
    return Kernel(channels, (length, 1), 1, (length // 2, 0))


def _flat(channels: int, length: int) -> Kernel:
    return Kernel(channels, (1, length), 1, (0, length // 2))


def inception_v3() -> TrainingModel:
    """Return Inception v3: blocks A to E, and the auxiliary classifier of training (its layers come last)."""
    found = LayerList(299)
    found.follow([_square(32, 3, 2), _square(32, 3), _square(64, 3, 1, 1)], found.now)
    found.pool(3, 2)
    found.follow([_square(80, 1), _square(192, 3)], found.now)
    found.pool(3, 2)
    for width in (32, 64, 64):
        double = [_square(64, 1), _square(96, 3, 1, 1), _square(96, 3, 1, 1)]
        found.branch([[_square(64, 1)], [_square(48, 1), _square(64, 5, 1, 2)], double, [_square(width, 1)]])
    halving = [_square(64, 1), _square(96, 3, 1, 1), _square(96, 3, 2)]
    found.branch([[_square(384, 3, 2)], halving], pooled=288)
    for width in (128, 160, 160, 192):
        long = [_square(width, 1), _tall(width, 7), _flat(width, 7), _tall(width, 7), _flat(192, 7)]
        short = [_square(width, 1), _flat(width, 7), _tall(192, 7)]
        found.branch([[_square(192, 1)], short, long, [_square(192, 1)]])
    before_auxiliary = found.now
    halving = [_square(192, 1), _flat(192, 7), _tall(192, 7), _square(192, 3, 2)]
    found.branch([[_square(192, 1), _square(320, 3, 2)], halving], pooled=768)
    for _ in range(2):
        entry = found.now
        channels = found.convolve(_square(320, 1), entry).channels
        ends = [_flat(384, 3), _tall(384, 3)]
        channels += found.fork([_square(384, 1)], ends, entry)
        channels += found.fork([_square(448, 1), _square(384, 3, 1, 1)], ends, entry)
        channels += found.convolve(_square(192, 1), entry).channels
        found.now = Features(channels, entry.size)
    found.pool(found.now.size, 1)
    found.multiply(CLASSES)
    pooled = Features(before_auxiliary.channels, 5)
    found.multiply(CLASSES, found.follow([_square(128, 1), _square(768, 5)], pooled))
    return found.model("inception-v3", "Szegedy et al. 2016, table 1")


IMAGE_MODELS: Mapping[str, Callable[[], TrainingModel]] = MappingProxyType(
    {
        "alexnet": alexnet,
        "vgg-16": lambda: vgg("vgg-16", (2, 2, 3, 3, 3)),
        "vgg-19": lambda: vgg("vgg-19", (2, 2, 4, 4, 4)),
        "resnet-18": lambda: resnet("resnet-18", (2, 2, 2, 2), has_bottlenecks=False),
        "resnet-50": lambda: resnet("resnet-50", (3, 4, 6, 3), has_bottlenecks=True),
        "resnet-101": lambda: resnet("resnet-101", (3, 4, 23, 3), has_bottlenecks=True),
        "resnet-152": lambda: resnet("resnet-152", (3, 8, 36, 3), has_bottlenecks=True),
        "mobilenet-v2": mobilenet_v2,
        "inception-v3": inception_v3,
    }
)
"""Builders by name."""
