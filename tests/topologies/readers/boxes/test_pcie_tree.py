"""What is left of PCIe trees carries as much between every GPU and every NIC as what it stands for."""

from __future__ import annotations

import random
from collections.abc import Iterable

import networkx as nx
import pytest

from treadle.topologies.readers.boxes.box import Box, Bridge, BridgeKind, Gpu, Nic, Slot
from treadle.topologies.readers.boxes.pcie_tree import (
    HALF_GB_PER_S,
    PcieLink,
    PciePosition,
    full_tree,
    near_nics,
    near_tree,
)

GB = 10**9
FAR = 10**15


def random_box(seed: int) -> Box:
    """Up to six GPUs and six NICs below a tree of up to eight bridges."""
    chance = random.Random(seed)
    bridges = [Bridge(kind=BridgeKind.HOST, name="CPU")]
    for number in range(chance.randint(1, 8)):
        above = chance.randrange(len(bridges))
        bridges.append(
            Bridge(
                kind=BridgeKind.SWITCH,
                name=f"switch {number}",
                above=above,
                bandwidth=chance.choice([4, 8, 16, 31, 63]) * GB - chance.randint(0, 9),
            )
        )

    def slot() -> Slot:
        return Slot(above=chance.randrange(len(bridges)), bandwidth=chance.choice([8, 16, 31]) * GB - 7)

    gpus = tuple(Gpu(name=f"GPU {i}", slot=slot()) for i in range(chance.randint(1, 6)))
    nics = tuple(
        Nic(name=f"n{i}", bandwidth=chance.choice([5, 12, 25, 50]) * GB // 2, slot=slot())
        for i in range(chance.randint(1, 6))
    )
    return Box(gpus=gpus, nics=nics, bridges=tuple(bridges))


def rounded(bandwidth: int) -> int:
    return bandwidth // HALF_GB_PER_S * HALF_GB_PER_S


def lowest_shared(box: Box, slot: Slot, others: Iterable[Slot]) -> int | None:
    """The lowest switch above a device that is also above one of the others, by looking at each."""
    for bridge in box.chain(slot):
        if box.bridges[bridge].kind is BridgeKind.SWITCH and any(bridge in box.chain(one) for one in others):
            return bridge
    return None


def graph_of_paths(box: Box, nics: Iterable[int]) -> nx.Graph:
    """Every link of the box on the way from a GPU to a NIC over the lowest switch of either, as it is."""
    graph = nx.Graph()
    slots = {nic: box.nics[nic].slot for nic in nics}
    for number, gpu in enumerate(box.gpus):
        for nic, slot in slots.items():
            shared = lowest_shared(box, gpu.slot, [slot])
            if shared is None or shared not in (
                lowest_shared(box, gpu.slot, slots.values()),
                lowest_shared(box, slot, [one.slot for one in box.gpus]),
            ):
                continue
            for end, place in ((f"gpu{number}", gpu.slot), (f"nic{nic}", slot)):
                below, bandwidth = end, place.bandwidth
                for bridge in box.chain(place):
                    assert bandwidth is not None
                    graph.add_edge(below, bridge, capacity=rounded(bandwidth))
                    if bridge == shared:
                        break
                    below, bandwidth = bridge, box.bridges[bridge].bandwidth
    return graph


def graph_of_links(links: Iterable[PcieLink]) -> nx.Graph:
    graph = nx.Graph()
    for link in links:
        ends = [
            f"{end.kind}{end.number}" if end.kind != "bridge" else end.number
            for end in (link.lower, link.upper)
        ]
        assert link.bandwidth is not None
        graph.add_edge(*ends, capacity=link.bandwidth)
    return graph


def flow(graph: nx.Graph, box: Box, gpus: Iterable[int], speeds: dict[int, int]) -> int:
    """The most that some GPUs get from all NICs, none of which takes more than its port."""
    joined = graph.copy()
    joined.add_nodes_from(["network", "collective"])
    for nic, speed in speeds.items():
        joined.add_edge("network", f"nic{nic}", capacity=speed)
    for gpu in gpus:
        joined.add_edge("collective", f"gpu{gpu}", capacity=FAR)
    return int(nx.maximum_flow_value(joined, "network", "collective"))


@pytest.mark.parametrize("seed", range(50))
def test_near_trees_carry_what_the_paths_do(seed: int) -> None:
    box = random_box(seed)
    near = near_nics(box, range(len(box.nics)))
    every = [gpu.slot for gpu in box.gpus]
    assert near == tuple(
        number for number, nic in enumerate(box.nics) if lowest_shared(box, nic.slot, every) is not None
    )
    speeds = {nic: box.nics[nic].bandwidth or 0 for nic in near}
    whole, kept = graph_of_paths(box, near), graph_of_links(near_tree(box, speeds))
    assert set(kept) <= set(whole)
    assert {one for one in kept if isinstance(one, str)} == {one for one in whole if isinstance(one, str)}
    n = len(box.gpus)
    for chosen in range(1, 2**n):
        gpus = [gpu for gpu in range(n) if chosen >> gpu & 1]
        assert flow(kept, box, gpus, speeds) == flow(whole, box, gpus, speeds), gpus


@pytest.mark.parametrize("seed", range(18))
def test_full_trees_carry_what_the_tree_does(seed: int) -> None:
    box = random_box(seed)
    speeds = {nic: one.bandwidth or 0 for nic, one in enumerate(box.nics)}
    whole = nx.Graph()
    for number, bridge in enumerate(box.bridges):
        if bridge.above is not None and bridge.bandwidth is not None:
            whole.add_edge(number, bridge.above, capacity=rounded(bridge.bandwidth))
    for kind, slots in (("gpu", [one.slot for one in box.gpus]), ("nic", [one.slot for one in box.nics])):
        for number, slot in enumerate(slots):
            whole.add_edge(f"{kind}{number}", slot.above, capacity=rounded(slot.bandwidth or 0))
    kept = graph_of_links(full_tree(box, speeds))
    for chosen in range(1, 2 ** len(box.gpus)):
        gpus = [gpu for gpu in range(len(box.gpus)) if chosen >> gpu & 1]
        assert flow(kept, box, gpus, speeds) == flow(whole, box, gpus, speeds)
    for one in range(len(box.gpus)):
        for other in range(one):
            assert nx.maximum_flow_value(kept, f"gpu{one}", f"gpu{other}") == nx.maximum_flow_value(
                whole, f"gpu{one}", f"gpu{other}"
            )


HALF = GB // 2


def bridge(
    name: str, above: int | None = None, bandwidth: int | None = None, *, card: bool = False
) -> Bridge:
    kind = BridgeKind.HOST if above is None else BridgeKind.CARD if card else BridgeKind.SWITCH
    return Bridge(kind=kind, name=name, above=above, bandwidth=bandwidth)


def gpu(number: int, above: int | None, bandwidth: int = 16 * GB) -> Gpu:
    return Gpu(name=f"G{number}", slot=Slot(above=above, bandwidth=bandwidth))


def nic(number: int, above: int | None, speed: int = 5 * GB, bandwidth: int | None = 8 * GB) -> Nic:
    return Nic(name=f"n{number}", bandwidth=speed, slot=Slot(above=above, bandwidth=bandwidth))


def spot(kind: str, number: int) -> PciePosition:
    return PciePosition(kind, number)


def test_near_trees_are_rounded_and_capped() -> None:
    """A GPU's way is cut to what its NICs take; bandwidths are rounded down to half a GB/s."""
    bridges = (bridge("c"), bridge("s", 0))
    box = Box(
        gpus=(gpu(0, 1, 4 * GB + 3), gpu(1, 1, 31 * GB)),
        nics=(nic(0, 1, 5 * GB, 3 * GB + HALF + 1), nic(1, 1, HALF - 1, GB), nic(2, 0), nic(3, None)),
        bridges=bridges,
    )
    assert near_nics(box, range(4)) == (0, 1)
    assert near_nics(box, [1]) == (1,)
    up = spot("bridge", 1)
    assert near_tree(box, {0: 5 * GB, 1: HALF - 1}) == (
        PcieLink(spot("gpu", 0), up, 4 * GB - 1),
        PcieLink(spot("gpu", 1), up, 4 * GB - 1),
        PcieLink(spot("nic", 0), up, 3 * GB + HALF),
        PcieLink(spot("nic", 1), up, HALF - 1),
    )
    assert near_tree(box, {0: 9 * GB}) == (
        PcieLink(spot("gpu", 0), up, 3 * GB + HALF),
        PcieLink(spot("gpu", 1), up, 3 * GB + HALF),
        PcieLink(spot("nic", 0), up, 3 * GB + HALF),
    )


def test_chains_of_bridges_have_the_least_bandwidth() -> None:
    bridges = (bridge("c"), bridge("s", 0, 9 * GB), bridge("t", 1, 6 * GB), bridge("u", 2))
    box = Box(gpus=(gpu(0, 3), gpu(1, 1)), nics=(nic(0, 1, 50 * GB, None),), bridges=bridges)
    up = spot("bridge", 1)
    assert {link.lower: link.bandwidth for link in near_tree(box, {0: 50 * GB})} == {
        spot("gpu", 0): 6 * GB,
        spot("gpu", 1): 16 * GB,
        spot("nic", 0): 50 * GB,
    }
    top = spot("bridge", 0)
    ends = {link.lower: (link.upper, link.bandwidth) for link in full_tree(box, {0: 50 * GB})}
    assert ends == {
        spot("gpu", 0): (up, 6 * GB),
        spot("gpu", 1): (up, 16 * GB),
        spot("nic", 0): (up, 50 * GB),
        up: (top, 9 * GB),
    }


@pytest.mark.parametrize(
    ("lanes", "stays"), [(11 * GB, True), (12 * GB, False), (12 * GB + 3, False), (None, False)]
)
def test_cards_stay_where_their_ports_want_more(lanes: int | None, stays: bool) -> None:
    """Two ports of 5 and 7 GB/s behind the lanes of one card."""
    bridges = (bridge("c"), bridge("s", 0, 30 * GB), bridge("card", 1, lanes, card=True))
    box = Box(
        gpus=(gpu(0, 1), gpu(1, 1)), nics=(nic(0, 2, 5 * GB, None), nic(1, 2, 7 * GB, None)), bridges=bridges
    )
    for tree in (near_tree(box, {0: 5 * GB, 1: 7 * GB}), full_tree(box, {0: 5 * GB, 1: 7 * GB})):
        ends = {link.lower: link.upper for link in tree}
        assert ends[spot("nic", 0)] == ends[spot("nic", 1)] == spot("bridge", 2 if stays else 1)
        assert (spot("bridge", 2) in ends) is stays


def test_a_nic_of_one_gpu_hangs_from_it() -> None:
    """Where the GPU's own lanes carry all that its NICs do; else the switch stays."""
    bridges = (bridge("c"), bridge("s", 0))
    nics = (nic(0, 1, 5 * GB), nic(1, 1, 7 * GB))
    wide = Box(gpus=(gpu(0, 1, 12 * GB),), nics=nics, bridges=bridges)
    assert near_tree(wide, {0: 5 * GB, 1: 7 * GB}) == (
        PcieLink(spot("nic", 0), spot("gpu", 0), 5 * GB),
        PcieLink(spot("nic", 1), spot("gpu", 0), 7 * GB),
    )
    narrow = Box(gpus=(gpu(0, 1, 12 * GB - 1),), nics=nics, bridges=bridges)
    assert near_tree(narrow, {0: 5 * GB, 1: 7 * GB}) == (
        PcieLink(spot("gpu", 0), spot("bridge", 1), 11 * GB + HALF),
        PcieLink(spot("nic", 0), spot("bridge", 1), 5 * GB),
        PcieLink(spot("nic", 1), spot("bridge", 1), 7 * GB),
    )
