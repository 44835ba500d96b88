"""Every alternative is worth its code: a fabric on which trees are higher, or slower, without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from treadle.planning import solve
from treadle.schedulers.solving import SolveResult
from treadle.synthesis.trees.allreduce import bound
from treadle.synthesis.trees.packers import packers
from treadle.synthesis.trees.packers.packed import Packer
from treadle.synthesis.trees.tight_cuts import layer_solution
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.unsupported import Unsupported

GB = 10**9


def boxes_on_two_planes(sizes: Sequence[int]) -> Topology:
    """Boxes of these numbers of GPUs, GPU j of each on plane j mod 2."""
    builder = TopologyBuilder("boxes")
    planes = [builder.switch(f"plane{number}") for number in range(2)]
    for box, size in enumerate(sizes):
        inner = builder.switch(f"box{box}")
        for number in range(size):
            gpu = builder.compute(f"box{box}.gpu{number}")
            builder.duplex(gpu, inner, 300 * GB)
            builder.duplex(gpu, planes[number % 2], 25 * GB)
    return builder.build()


def asked_star(up: Sequence[int], down: Sequence[int]) -> Topology:
    """GPUs at a switch that copies and adds for those who ask, links of these bandwidths up and down."""
    builder = TopologyBuilder("star")
    builder.switch("switch", multicast=True, aggregation=True)
    for number, (there, back) in enumerate(zip(up, down, strict=True)):
        builder.compute(f"gpu{number}")
        builder.link(f"gpu{number}", "switch", there)
        builder.link("switch", f"gpu{number}", back)
    return builder.build()


def uneven() -> Topology:
    chance = random.Random(1)
    return boxes_on_two_planes([chance.choice((2, 3, 4, 6, 8)) for _ in range(100)])


BY_BOX = tuple(1 + rank // 8 % 2 for rank in range(512))
FORMS: dict[str, tuple[Callable[[], Topology], dict[str, Any]]] = {
    "relay_trees": (lambda: parse("punctured(dgx_h100(64), links=1, seed=1)"), {}),
    "relay_planes": (lambda: parse("rail_optimized(64)"), {"weights": BY_BOX, "trees": 1}),
    "relayed_stars": (uneven, {}),
    "spread_on_planes": (lambda: parse("punctured(dgx_a100(64), links=1, seed=1)"), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_closed_forms_are_lower(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric, options = FORMS[form]
    topology = fabric()
    found = solve(topology, "allgather", **options)
    monkeypatch.setattr(layer_solution, form, lambda *_: Unsupported("left out"))
    check_lower(found, solve(topology, "allgather", **options))


@pytest.mark.parametrize(
    ("packer", "fabric"),
    [
        (Packer.SHORTEST_PATHS, "hamming(2,24)"),
        (Packer.MATCHING, "double_binary_tree(100)"),
        (Packer.PRICED_MATCHING, "double_binary_tree(150)"),
    ],
)
def test_packers_are_lower(packer: Packer, fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = solve(fabric, "allgather")
    attempt = packers._attempt

    def without(name: Packer, **context: Any) -> packers._Attempt:
        if name is packer:
            return packers._Attempt(None, "failed: left out", 0.0 if packer is Packer.MATCHING else None)
        return attempt(name, **context)

    monkeypatch.setattr(packers, "_attempt", without)
    check_lower(found, solve(fabric, "allgather"))


def check_lower(found: SolveResult, other: SolveResult) -> None:
    assert found.report.algbw == other.report.algbw
    assert found.report.height_max is not None
    assert other.report.height_max is not None
    assert found.report.height_max < other.report.height_max


def test_column_generation_by_switches_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = asked_star([9, 10, 6, 7], [10, 6, 7, 9])
    assert solve(topology, "allreduce").report.algbw == 6
    monkeypatch.setattr(bound, "can_pack_rooted_trees", lambda network: False)
    assert solve(topology, "allreduce").report.algbw == Fraction(28, 5)
