"""Parts of the hierarchical all-to-all: which pairs look alike, mean lengths, merged paths, the program."""

from __future__ import annotations

import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps.relays import RelayPath, RelayPaths
from treadle.topologies.topology import TopologyBuilder

ALLTOALL = CollectiveKind.ALLTOALL


def everyone() -> Collective:
    return Collective(ALLTOALL, (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("planes", "spines", "count"), [(3, 5, 15), (4, 4, 16), (3, 7, 7), (7, 3, 7), (17, 1, 16)]
)
def test_legs_with_choices_are_combined_or_go_in_step(planes: int, spines: int, count: int) -> None:
    """From a0 over a1, by any of the planes in its box, to b1, by any spine: all pairs of up to 16 paths."""
    builder = TopologyBuilder("planes")
    names = ("a0", "a1", "b0", "b1")
    for name in names:
        builder.compute(name)
    for plane in range(planes):
        for box in "ab":
            builder.switch(f"{box} plane {plane}")
            for lane in "01":
                builder.duplex(f"{box}{lane}", f"{box} plane {plane}", 8)
    for spine in range(spines):
        builder.switch(f"spine {spine}")
        for name in names:
            builder.duplex(name, f"spine {spine}", 2)
    fabric = builder.build()
    ways = RelayPaths(fabric, everyone(), [(0, 1), (2, 3)])
    paths = ways.paths(RelayPath.RELAY_BEFORE, 0, 3)
    assert [share for share, _ in paths] == [pytest.approx(1 / count)] * count
    through = [[fabric.node_names[fabric.heads[link]] for link in links][:-1] for _, links in paths]
    assert len({tuple(nodes) for nodes in through}) == count
    assert all(nodes[1] == "a1" and len(nodes) == 3 for nodes in through)
    for place, choices, word in ((0, min(planes, 16), "a plane"), (2, spines, "spine")):
        used = [nodes[place] for nodes in through]
        assert all(name.startswith(word) for name in used)
        times = [used.count(name) for name in set(used)]
        assert len(times) == choices
        assert max(times) - min(times) <= 1
