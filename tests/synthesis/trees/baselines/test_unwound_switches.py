"""Figure B.1: what unwinding switches loses, and the minimality-or-saturation dilemma of appendix B.4."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from reference.unwound_switches import Shape, unwind
from samples.table import BASELINES
from treadle.errors import TopologyError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import algbw
from treadle.synthesis.trees.optimality import optimum
from treadle.topologies.catalogue import graphs, platforms
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify

B = 7
"""The figure's b; any value will do."""


def figure_b1a() -> Topology:
    """Two boxes of four: 10b to the box's switch, b to the global one."""
    builder = TopologyBuilder("figure B.1a")
    for box, i in product((1, 2), range(1, 5)):
        builder.compute(f"c{box}{i}")
    for switch in ("s0", "s1", "s2"):
        builder.switch(switch)
    for box, i in product((1, 2), range(1, 5)):
        builder.duplex(f"c{box}{i}", f"s{box}", 10 * B)
        builder.duplex(f"c{box}{i}", "s0", B)
    return builder.build()


def brute_force_rate(topology: Topology) -> Fraction:
    """x* by trying every cut: the least B+(S) / |S and ranks| over S that leaves out a rank."""
    rows = list(
        zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    )
    ranks = topology.compute_nodes.tolist()
    best = None
    for mask in range(1, 1 << topology.n_nodes):
        inside = sum(mask >> v & 1 for v in ranks)
        if not 0 < inside < len(ranks):
            continue
        leaving = sum(b for u, v, b in rows if mask >> u & 1 and not mask >> v & 1)
        ratio = Fraction(leaving, inside)
        best = ratio if best is None else min(best, ratio)
    assert best is not None
    return best


def test_rings_lose_a_factor_of_four() -> None:
    """Figure B.1(d): the box cut keeps b of 4b."""
    topology = figure_b1a()
    unwound = unwind(topology, Shape.RING)
    assert brute_force_rate(topology) == B
    assert brute_force_rate(unwound.topology) / unwound.scale == Fraction(B, 4)
    assert len(unwound.topology.switches) == 0


def test_cliques_lose_less() -> None:
    """Each of the 16 pairs across the boxes gets b/7: 16b/7 of 4b."""
    unwound = unwind(figure_b1a(), Shape.CLIQUE)
    assert brute_force_rate(unwound.topology) / unwound.scale == Fraction(16, 7) / 4 * B
    assert unwound.scale == 3  # 10b/3 + b/7 = 73/3 in a box, b/7 = 1 across
    assert sorted(set(unwound.topology.bandwidths.tolist())) == [3, 73]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize(
    "topology",
    [platforms.dgx_a100(2), platforms.dgx_a100_flat(4), platforms.mi250(2, 8), platforms.dgx_h100(1)],
    ids=lambda topology: topology.name,
)
def test_unwinding_never_gains(topology: Topology, shape: Shape) -> None:
    unwound = unwind(topology, shape)
    before = optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER)).algbw
    after = optimum(unwound.topology, on_all_ranks(unwound.topology, CollectiveKind.ALLGATHER)).algbw
    assert after / unwound.scale <= before
    assert unwound.topology.node_names == tuple(topology.node_names[v] for v in topology.compute_nodes)


def test_a_fabric_without_switches_stays() -> None:
    assert brute_force_rate(unwind(graphs.torus(3, 3), Shape.RING).topology) == Fraction(4, 8)


def test_one_way_ports_are_refused() -> None:
    builder = TopologyBuilder("one way")
    for node in "abc":
        builder.compute(node)
    builder.switch("s")
    builder.link("a", "s", 1)
    builder.link("s", "b", 1)
    builder.duplex("c", "s", 1)
    with pytest.raises(TopologyError, match="'a' has a link in one direction only with switch 's'"):
        unwind(builder.build(), Shape.RING)


# Appendix B.4. A step schedule cuts each shard into c chunks and works in slots in which one chunk crosses a
# thin link and ten cross a thick one. The bound of the box cut is c slots: 4c chunks over four links.


def least_slots(chunks: int) -> int:
    """Fewest slots of any step schedule on figure B.1(a).

    What a GPU holds after T slots entered its box in the first T - 1 slots (at most four chunks a slot) or
    came straight to it in the last one (at most one), because a chunk cannot be passed on in the slot that
    brings it. It lacks 4c chunks of the other box at first, so 4 (T - 1) + 1 >= 4c.
    """
    slots = 1
    while 4 * (slots - 1) + 1 < 4 * chunks:
        slots += 1
    return slots


def pipelined_slots(chunks: int) -> int:
    """Slots that a real step schedule takes: to the peer, then to the three others of its box.

    Plays the sends: at most one chunk per slot and thin port, ten per thick port, and nothing is sent in the
    slot that brought it.
    """
    everything = {(gpu, c) for gpu in range(8) for c in range(chunks)}
    held = [{(gpu, c) for c in range(chunks)} for gpu in range(8)]
    slot = 0
    while any(have != everything for have in held):
        arriving: list[set[tuple[int, int]]] = [set() for _ in range(8)]
        box_out, box_in = [0] * 8, [0] * 8
        for gpu in range(8):
            if slot < chunks:
                arriving[(gpu + 4) % 8].add((gpu, slot))
            for other in range(gpu // 4 * 4, gpu // 4 * 4 + 4):
                for chunk in sorted(held[gpu]):
                    known = chunk in held[other] or chunk in arriving[other]
                    # a GPU passes on its own chunks and those of its peer
                    if not known and chunk[0] % 4 == gpu % 4 and box_out[gpu] < 10 and box_in[other] < 10:
                        arriving[other].add(chunk)
                        box_out[gpu] += 1
                        box_in[other] += 1
        for have, new in zip(held, arriving, strict=True):
            have |= new
        slot += 1
    return slot


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 8, 13])
def test_step_schedules_stay_above_the_bound(chunks: int) -> None:
    """The best step schedule takes c + 1 slots where the bound is c: never equal, close for many chunks."""
    assert least_slots(chunks) == pipelined_slots(chunks) == chunks + 1


def test_a_tree_flow_meets_the_bound() -> None:
    """(M/N)(4/4b): the trees that cross the boxes once load each thin link with one shard of eight."""
    topology = figure_b1a()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    best = optimum(topology, collective)
    assert best.algbw == 8 * B == 8 * brute_force_rate(topology)
    for name in ("halving-doubling", "hierarchical-ring"):
        schedule = BASELINES[name](topology, collective)
        report = verify(topology, collective, schedule, certificate=best.certificate)
        assert report.violations == ()
        assert algbw(topology, schedule) == best.algbw
