"""No line through a foreign box or node, no text over another: on fabrics of all kinds and random ones."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import numpy as np
import pytest

from treadle.topologies.expressions import parse as build_topology
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.failures import without_failures
from treadle.viz.box_inside import text_width
from treadle.viz.drawing_layout import DrawingLayout, Mark, Point, Shape
from treadle.viz.fabric_layout import fabric_layout
from treadle.viz.painting import Painting
from treadle.viz.svg import svg

FABRICS = (
    "dgx_a100(2)",
    "dgx_h100(8)",
    "mi250(2)",
    "mi300x(4)",
    "gb200_nvl72(2)",
    "leaf_spine(4, 8)",
    "rail_optimized(8)",
    "fat_tree(4)",
    "pods(2, 4)",
    "pods(4, 4)",
    "pods(4, 32)",
    "dgx_h100(16)",
    "dgx_h100(64)",
    "leaf_spine(32, 16)",
    "torus(8, 8)",
    "torus(16, 16)",
    "generalized_kautz(4, 64)",
    "complete(8)",
    "dragonfly(4, 2)",
    "hypercube(5)",
    "torus(32, 32)",
)

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def box_of(mark: Mark, margin: float = 0.0) -> Box:
    high = mark.height / 2
    return mark.left + margin, mark.y - high + margin, mark.right - margin, mark.y + high - margin


def crosses(start: Point, end: Point, box: Box) -> bool:
    """Whether a segment meets the inside of a rectangle (Liang and Barsky's clipping)."""
    low, high = 0.0, 1.0
    for at, span, least, most in (
        (start[0], end[0] - start[0], box[0], box[2]),
        (start[1], end[1] - start[1], box[1], box[3]),
    ):
        if span == 0:
            if not least < at < most:
                return False
            continue
        first, last = sorted(((least - at) / span, (most - at) / span))
        low, high = max(low, first), min(high, last)
    return high - low > 1e-6


def crossings(layout: DrawingLayout) -> list[str]:
    found = []
    frames = [(f.x, f.y, f.x + f.width, f.y + f.height) for f in layout.frames]
    inside = [
        {n for n, m in enumerate(layout.marks) if b[0] < m.x < b[2] and b[1] < m.y < b[3]} for b in frames
    ]
    for line in layout.lines:
        for stroke in line.strokes:
            for start, end in pairwise(stroke):
                for number, mark in enumerate(layout.marks):
                    if number not in line.ends and crosses(start, end, box_of(mark, 0.5)):
                        found.append(f"{line.ends} through mark {number} {mark.label}")
                for frame, own in zip(frames, inside, strict=True):
                    if not own & set(line.ends) and crosses(start, end, frame):
                        found.append(f"{line.ends} through a frame")
    return found


def texts(layout: DrawingLayout) -> list[Box]:
    found = []
    for mark in layout.marks:
        if mark.label and mark.shape is not Shape.MORE:
            half = text_width(mark.label) / 2
            found.append((mark.x - half, mark.y - 5, mark.x + half, mark.y + 5))
    for frame in layout.frames:
        if frame.label:
            y = frame.label_y
            found.append((frame.x + 8, y - 5, frame.x + 8 + text_width(frame.label), y + 5))
    return found


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def check(layout: DrawingLayout) -> None:
    assert crossings(layout) == []
    assert not any(overlap(one, other) for one, other in combinations(texts(layout), 2))
    assert not any(overlap(box_of(a), box_of(b)) for a, b in combinations(layout.marks, 2))
    for mark in layout.marks:
        left, top, right, bottom = box_of(mark)
        assert min(left, top) >= 0
        assert right <= layout.width
        assert bottom <= layout.height
    for line in layout.lines:
        for mark, (x, y) in zip(
            (layout.marks[end] for end in line.ends), (line.strokes[0][0], line.strokes[-1][-1]), strict=True
        ):
            if len(line.strokes) == 1:  # a line begins and ends at its own marks
                assert abs(x - mark.x) <= mark.width / 2 + 1e-6
                assert abs(y - mark.y) <= mark.height / 2 + 1e-6


@pytest.mark.parametrize("name", FABRICS)
def test_lines_and_texts_keep_apart(name: str) -> None:
    layout = fabric_layout(build_topology(name))
    check(layout)
    assert layout.width <= 1200  # more boxes than that stand in two rows
    assert layout == fabric_layout(build_topology(name))


@pytest.mark.parametrize("name", FABRICS)
def test_what_is_drawn_is_the_fabric(name: str) -> None:
    topology = build_topology(name)
    layout = fabric_layout(topology)
    if not layout.left_out:
        assert sorted(node for mark in layout.marks for node in mark.nodes) == list(range(topology.n_nodes))
        drawn = sorted(link for line in layout.lines for link in line.links)
        assert drawn == np.flatnonzero(topology.tails != topology.heads).tolist()
    for line in layout.lines:
        ends = [set(layout.marks[end].nodes) for end in line.ends]
        for links, (tail, head) in ((line.forward, ends), (line.backward, ends[::-1])):
            assert all(int(topology.tails[link]) in tail for link in links)
            assert all(int(topology.heads[link]) in head for link in links)


def random_boxes(seed: int) -> Topology:
    """Boxes with cards and switches of their own, direct links within and between, two levels of switches."""
    rng = random.Random(seed)
    builder = TopologyBuilder(f"random {seed}")
    outer = [f"leaf{k}" for k in range(rng.randint(1, 3))]
    top = [f"spine{k}" for k in range(rng.choice((0, 1, 2)))]
    for switch in (*outer, *top):
        builder.switch(switch)
    gpus: list[str] = []
    for box in range(rng.randint(1, 5)):
        own = [builder.compute(f"box{box}.gpu{k}") for k in range(rng.randint(1, 6))]
        gpus += own
        inner = builder.switch(f"box{box}.nvswitch") if rng.random() < 0.6 else None
        cards = [builder.switch(f"box{box}.nic{k}") for k in range(rng.choice((0, 1, len(own))))]
        for place, gpu in enumerate(own):
            if inner:
                builder.duplex(gpu, inner, 100)
            door = cards[place % len(cards)] if cards else rng.choice(outer)
            builder.duplex(gpu, door, 25)
        for card in cards:
            builder.duplex(card, rng.choice(outer), 25)
        if rng.random() < 0.4:
            for one, other in combinations(own, 2):
                if rng.random() < 0.5:
                    builder.duplex(one, other, 50)
    for leaf in outer:
        for spine in top:
            builder.duplex(leaf, spine, 400)
    if len(outer) > 1 and not top:
        for one, other in pairwise(outer):
            builder.duplex(one, other, 400)
    if rng.random() < 0.3 and len(gpus) > 2:
        one, other = rng.sample(gpus, 2)
        builder.duplex(one, other, 10)
    return builder.build()


@pytest.mark.parametrize("seed", range(60))
def test_random_clusters_keep_apart(seed: int) -> None:
    check(fabric_layout(random_boxes(seed)))


@pytest.mark.parametrize("name", ["dgx_h100(16)", "mi250(8)", "pods(4, 4)", "leaf_spine(16, 8)"])
def test_pictures_of_128_ranks_are_small(name: str) -> None:
    topology = build_topology(name)
    assert len(topology.compute_nodes) == 128
    assert len(svg(Painting(fabric_layout(topology))).encode()) <= 20_000


def test_a_damaged_box_is_a_kind_of_its_own() -> None:
    whole = build_topology("dgx_h100(64)")
    layout = fabric_layout(without_failures(whole, ["box5.gpu3--ib0"]))
    titles = [frame.label for frame in layout.frames if not frame.is_labelled_below]
    assert titles[1:] == ["63 x box of 8 ranks, here the first", "1 box of 8 ranks"]
