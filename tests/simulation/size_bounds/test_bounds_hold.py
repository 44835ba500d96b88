"""No schedule of any scheduler ends before the bound of its size, whatever the fabric and the costs are."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from treadle.api.compare import compare
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder

KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
ROUNDED = Fraction(1, 10**9)
"""Of simulations whose ticks do not measure all durations."""


def random_fabric(draw: random.Random) -> Topology:
    """One to three boxes of one to four ranks: switches, meshes, rings; rails, a switch or cables between."""
    builder = TopologyBuilder("random")
    boxes, per = draw.randint(1, 3), draw.randint(1, 4)
    per = 2 if boxes * per < 2 else per
    fast, slow = draw.choice((10, 50, 300)) * 10**9, draw.choice((5, 25, 50)) * 10**9
    near_ns, far_ns = draw.choice((0, 0, 100, 700)), draw.choice((0, 0, 100, 2500))
    turns, in_box = draw.random() < 0.5, draw.random() < 0.25
    pattern = "box{}.gpu{}" if draw.random() < 0.7 else "n{}x{}"
    rows = [[builder.compute(pattern.format(i, j)) for j in range(per)] for i in range(boxes)]
    style, network = draw.choice(("switch", "mesh", "ring")), draw.choice(("switch", "rails", "cables"))
    for i, row in enumerate(rows if per > 1 else []):
        if style == "switch":
            able = {"multicast": in_box, "aggregation": in_box, "turns_round": in_box and turns}
            switch = builder.switch(f"box{i}.switch", **able)
            for name in row:
                builder.duplex(name, switch, fast, near_ns)
        for j, name in enumerate(row):
            others = (
                row[:j] if style == "mesh" else [row[j - 1]] if style == "ring" and (j or per > 2) else []
            )
            for other in others:
                builder.duplex(name, other, fast, near_ns)
    for j in range(per if boxes > 1 and network != "switch" else 0):
        rail = builder.switch(f"rail{j}") if network == "rails" else ""
        for i, row in enumerate(rows):
            if rail or i or boxes > 2:
                builder.duplex(row[j], rail or rows[i - 1][j], slow, far_ns)
    if boxes > 1 and network == "switch":
        copies = draw.random() < 0.15
        switch = builder.switch("ib", multicast=copies, turns_round=copies and turns)
        for row in rows:
            for name in row:
                builder.duplex(name, switch, slow, far_ns)
    return builder.build()


def random_costs(draw: random.Random) -> CostModel:
    """One or two protocols, some with a ceiling."""

    def cost() -> ClassCost:
        share = draw.choice((Fraction(1), Fraction(1, 2), Fraction(9, 10)))
        return ClassCost(
            draw.choice((0, 500, 5000)), draw.choice((0, 50, 1000)), draw.choice((0, 0, 300)), share
        )

    protocols = []
    for name in ("one", "two")[: draw.choice((1, 1, 2))]:
        ceiling = draw.choice(((), (), (4, 3 * 10**9)))
        protocols.append(Protocol(name, cost(), cost(), cost(), draw.choice((0, 3000)), *ceiling))
    return CostModel("random", "drawn", tuple(protocols))


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_undercuts_a_bound(seed: int) -> None:
    """`size_bounds`, of which `compare` asks, also raises where the check does not agree."""
    draw = random.Random(f"bounds {seed}")
    fabric, kind = random_fabric(draw), KINDS[seed % len(KINDS)]
    sizes = sorted(draw.sample((1, 1000, 2**14, 2**18, 2**22, 2**26), 2))
    model = random_costs(draw) if draw.random() < 0.85 else None
    found = compare(fabric, kind, sizes=sizes, cost_model=model)
    rows = [row for row in found.rows if row.measured is not None]
    assert rows
    for row in rows:
        assert row.measured is not None
        for at in row.measured.sizes:
            assert at.bound is not None
            assert at.time >= at.bound.time * (1 - ROUNDED), (row.algorithm, at.size_bytes, at.bound)
            assert at.efficiency == pytest.approx(float(at.bound.time / at.time))


def test_bounds_are_attained() -> None:
    """One message to each of seven mates over one link: 7 g + alpha, and 1 KB is hardly anything more."""
    found = compare("dgx_a100:1", "allgather", sizes=["8B"], cost_model="reference", algorithms=["one-shot"])
    (row,) = found.rows
    assert row.measured is not None
    (at,) = row.measured.sizes
    assert at.bound is not None
    assert at.bound.reason == "reach"
    assert at.bound.time == Fraction(7 * 50 + 1000, 10**9)
    assert at.efficiency == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("bandwidth", [1, 2, 3, MAX_BANDWIDTH - 1, MAX_BANDWIDTH])
def test_bounds_of_extreme_bandwidths(bandwidth: int) -> None:
    """Links may have anything from one byte a second to 2**50: bounds are found, and hold, for all."""
    builder = TopologyBuilder("triangle")
    names = [builder.compute(f"gpu{place}") for place in range(3)]
    for place, name in enumerate(names):
        builder.duplex(name, names[place - 1], bandwidth)
    builder.duplex(names[0], names[1], 7)
    found = compare(
        builder.build(), "allgather", sizes=["1KB"], cost_model="reference", algorithms=["one-shot"]
    )
    (row,) = found.rows
    assert row.measured is not None
    (at,) = row.measured.sizes
    assert at.bound is not None
    assert at.time >= at.bound.time > 0
