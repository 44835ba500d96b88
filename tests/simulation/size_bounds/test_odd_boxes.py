"""Bounds on boxes of unequal size and links of unequal length: as late as the check allows, no later."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.costs.link_classes import CLASSES, data_rates
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.size_bounds.crossing import crossing_time
from treadle.simulation.size_bounds.direct_messages import DirectPairs
from treadle.simulation.size_bounds.distance import farthest_pair, receives_from
from treadle.simulation.size_bounds.message_terms import FAR_NS, boxes_of, is_near, message_terms
from treadle.simulation.size_bounds.problem_bounds import find_size_bounds, protocols_of
from treadle.simulation.size_bounds.reach import reach_certificate, reach_time_ns, shortest_ns
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import (
    DirectCertificate,
    GrowthCertificate,
    GrowthClass,
    ReachCertificate,
    ReachClass,
    RelayedCertificate,
    SizeBound,
    SizeProof,
)
from treadle.topologies.topology import Topology, TopologyBuilder

BOX = ClassCost(700, 40, 30, Fraction(4, 5))
NETWORK = ClassCost(3000, 300, 110, Fraction(9, 10))
HOP = ClassCost(900, 60, 500, Fraction(19, 20))
COSTS = Protocol("only", BOX, NETWORK, HOP, launch_ns=6000)


def odd_boxes(*, copies: bool = False, blurred: bool = False, cap: int = 0) -> Topology:
    """Boxes of three, two and one rank on switches of their own; cards of unlike speed and length."""
    builder = TopologyBuilder("odd boxes")
    for box, size in enumerate((3, 2, 1)):
        switch = builder.switch(f"box{box}.switch", multicast=copies, aggregation=copies)
        for place in range(size):
            name = builder.compute(f"box{box}.gpu{place}", injection_bytes_per_s=cap * (1 + box + place))
            builder.duplex(name, switch, 10**11, 10 * box + place)
    net = builder.switch("net", multicast=blurred)
    for box, size in enumerate((3, 2, 1)):
        for place in range(size):
            speed, length = (10 + place) * 10**9, 100 * (1 + box) + 7 * place
            builder.duplex(f"box{box}.gpu{place}", net, speed, length)
    if blurred:
        builder.duplex("box0.switch", "net", 10**9, 5)
        builder.duplex("box0.gpu0", "box0.gpu1", 10**9, 5)  # so that it is a box, though its switch leads out
    return builder.build()


def odd_ring() -> Topology:
    """Five ranks in a ring, there and back, whose links are 10, 20, ... ns long; back twice as fast."""
    builder = TopologyBuilder("odd ring")
    names = [builder.compute(f"r{rank}") for rank in range(5)]
    for rank, name in enumerate(names):
        after = names[(rank + 1) % 5]
        builder.link(name, after, 10**10, 10 * (rank + 1))
        builder.link(after, name, 2 * 10**10, 10 * (rank + 1))
    return builder.build()


def collective_of(topology: Topology, kind: str) -> Collective:
    return on_all_ranks(topology, CollectiveKind(kind), root=2 if kind in ("broadcast", "reduce") else None)


KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")


@pytest.mark.parametrize(
    ("fabric", "kind"),
    [
        *(("boxes", kind) for kind in KINDS),
        *(("ring", kind) for kind in KINDS),
        *(("copies", kind) for kind in ("allgather", "allreduce", "broadcast")),
        *(("blurred", kind) for kind in ("allgather", "reduce")),
        *(("capped", kind) for kind in ("allreduce", "reduce-scatter")),
    ],
)
def test_every_proof_is_as_late_as_the_check_allows(fabric: str, kind: str) -> None:
    topology = {
        "boxes": odd_boxes,
        "copies": lambda: odd_boxes(copies=True),
        "blurred": lambda: odd_boxes(blurred=True),
        "capped": lambda: odd_boxes(cap=10**9),
        "ring": odd_ring,
    }[fabric]()
    collective = collective_of(topology, kind)
    model = CostModel("m", "made up", (COSTS,))
    bounds = find_size_bounds(
        topology,
        collective,
        None,
        [1, 2**22] if fabric != "boxes" else [1, 5000, 2**22],
        SimulationOptions(),
        model,
    )
    for bound in bounds:
        check_size_bounds(topology, collective, [COSTS], [bound])
        assert [proof.time for proof in bound.proofs] == sorted(
            (proof.time for proof in bound.proofs), reverse=True
        )
        for proof in bound.proofs:
            if proof.certificate.kind == "relayed" and fabric == "ring":
                continue
            # growth is found by coarser steps; the shortest message is taken for 1 ns less than it is here
            late = 8 * proof.certificate.step_ns if isinstance(proof.certificate, GrowthCertificate) else 2
            later = replace(proof, time=proof.time + Fraction(late, 10**9))
            with pytest.raises(ScheduleError, match="size bound: "):
                check_size_bounds(
                    topology, collective, [COSTS], [SizeBound(bound.size_bytes, "only", (later,))]
                )


def test_what_is_proved_of_odd_boxes() -> None:
    """Which proofs there are, and the farthest pair: from box 0's last card to the lone rank."""
    topology = odd_boxes()
    model = CostModel("m", "made up", (COSTS,))

    def found(kind: str, sharing: Sharing = Sharing.SLICE_ORDER) -> dict[str, Fraction]:
        options = SimulationOptions(sharing=sharing)
        (bound,) = find_size_bounds(topology, collective_of(topology, kind), None, [5000], options, model)
        return {proof.certificate.kind: proof.time * 10**9 for proof in bound.proofs}

    assert set(found("allgather")) == {"crossing", "distance", "reach", "gathered", "growth"}
    assert set(found("allgather", Sharing.FAIR)) == {"crossing", "distance", "gathered"}
    assert set(found("broadcast")) == {"crossing", "distance", "reach"}
    # card 1 of box 1 (207 ns) to box 2's (300), a hop of 110 more on each; 300 and 3000 of the message
    assert found("allgather")["distance"] == 6000 + 207 + 300 + 2 * 110 + 3300
    # from rank 2, card 2 of box 0: 114 ns
    assert found("broadcast")["distance"] == 6000 + 114 + 300 + 2 * 110 + 3300


def test_which_protocols_bounds_are_of() -> None:
    every = ClassCost(alpha_ns=70)
    assert protocols_of(SimulationOptions(alpha_ns=70), None) == (Protocol("alpha", every, every, every),)
    assert protocols_of(SimulationOptions(costs=COSTS), None) == (COSTS,)
    other = Protocol("other")
    model = CostModel("m", "s", (other, COSTS))
    assert protocols_of(SimulationOptions(alpha_ns=70), model) == (other, COSTS)
    collective = collective_of(odd_ring(), "allgather")
    named = find_size_bounds(odd_ring(), collective, None, [1], SimulationOptions(costs=COSTS))
    assert [one.protocol for one in named] == ["only"]
    plain = find_size_bounds(odd_ring(), collective, None, [1, 2], SimulationOptions(alpha_ns=70))
    assert [(one.size_bytes, one.protocol) for one in plain] == [(1, ""), (2, "")]
    # of two protocols the one that may be faster; without a launch that is the other
    (both,) = find_size_bounds(odd_ring(), collective, None, [1], SimulationOptions(), model)
    assert both.protocol == "other"


def test_terms_of_odd_boxes() -> None:
    terms = message_terms(odd_boxes(), COSTS)
    box, hop, network = range(3)
    assert CLASSES[box].value == "box"
    assert (terms.classes, terms.is_blurred, terms.copies) == ((box, network), False, frozenset())
    assert terms.least_of("alpha_ns", (box, network)) == 700
    assert terms.most_of("alpha_ns", (box, network)) == 3000
    assert terms.least_of("occupancy_ns", (network,)) == 300

    def rates(protocol: Protocol, *links: tuple[int, int, bool]) -> list[int]:
        classes, bandwidths, leaves = (np.array(column) for column in zip(*links, strict=True))
        return data_rates(protocol, bandwidths, classes, leaves).tolist()

    links = ((box, 1000, False), (network, 1001, True), (hop, 1, True))
    assert rates(COSTS, *links) == [800, 900, 1]
    narrow = Protocol("p", BOX, NETWORK, HOP, channels=2, channel_bytes_per_s=300)
    assert rates(narrow, (box, 1000, True), (box, 1000, False), (box, 700, True)) == [600, 800, 560]
    topology = terms.topology
    ranks = [topology.node_names.index(f"box{box}.gpu{place}") for box, place in
             ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0))]  # fmt: skip
    of_box = boxes_of(terms)
    together = {frozenset(pair) for pair in combinations(ranks, 2) if of_box[pair[0]] == of_box[pair[1]]}
    assert together == {
        *(frozenset(pair) for pair in combinations(ranks[:3], 2)),
        frozenset(ranks[3:5]),
    }
    near = is_near(terms)
    lengths = terms.latency_ns - topology.latencies_ns
    assert set(lengths[near].tolist()) == {30}
    assert set(lengths[~near].tolist()) == {110}
    # the shortest first link and the shortest last one, though both are of one rank
    assert shortest_ns(terms, near) == 0 + 0 + 2 * 30
    assert shortest_ns(terms, ~near) == 20 + 20 + 2 * 110


def test_copies_make_messages_of_their_class() -> None:
    able = message_terms(odd_boxes(copies=True), COSTS)
    # a lone rank and its switch are no box
    assert (able.is_blurred, able.copies) == (False, frozenset({0, 2}))
    blurred = message_terms(odd_boxes(blurred=True), COSTS)
    assert blurred.is_blurred
    # a message may change its class: the least of all counts
    assert blurred.least_of("alpha_ns", (2,)) == 700
    assert blurred.most_of("alpha_ns", (2,)) == 700


def ways_by_force(topology: Topology, latency: list[int], starts: list[int]) -> list[int]:
    found = [0 if node in starts else FAR_NS for node in range(topology.n_nodes)]
    for _ in range(topology.n_nodes):
        for tail, head, own in zip(topology.tails, topology.heads, latency, strict=True):
            found[head] = min(found[head], found[tail] + own)
    return [min(one, FAR_NS) for one in found]


def test_ways_are_shortest_in_both_directions() -> None:
    terms = message_terms(odd_ring(), COSTS)
    topology, latency = terms.topology, terms.latency_ns.tolist()
    starts = np.zeros((2, 5), dtype=np.bool_)
    starts[0, 3] = starts[1, 0] = starts[1, 1] = True
    expected = [ways_by_force(topology, latency, [3]), ways_by_force(topology, latency, [0, 1])]
    assert terms.least_latencies(starts).tolist() == expected
    one_way = TopologyBuilder("one way")
    names = [one_way.compute(f"r{rank}") for rank in range(3)]
    one_way.link(names[0], names[1], 10**9, 5)
    one_way.link(names[1], names[2], 10**9, 9)
    terms = message_terms(one_way.build(), Protocol("p"))
    start = np.array([[False, True, False]])
    assert terms.least_latencies(start).tolist() == [[FAR_NS, 0, 9]]
    assert terms.least_latencies(start, reverse=True).tolist() == [[5, 0, FAR_NS]]
    assert terms.least_latencies(start, (0,)).tolist() == [[FAR_NS, 0, FAR_NS]]


def test_when_all_bytes_have_crossed() -> None:
    """3 bytes/ns from 10 ns on, 5 more from 20 ns on: 30 bytes until then."""
    windows = [(10, Fraction(3 * 10**9)), (20, Fraction(5 * 10**9))]
    times = {size: crossing_time(windows, size) * 10**9 for size in (3, 27, 30, 38, 46)}
    assert times == {3: 11, 27: 19, 30: 20, 38: 21, 46: 22}
    assert crossing_time([], 5) == 0
    assert crossing_time(windows[:1], Fraction(3, 2)) * 10**9 == Fraction(21, 2)


def test_when_messages_of_a_rank_are_through() -> None:
    """Two links, free for 5 and 40 ns: 30 and 2 for each byte, never later than two messages are."""
    pairs = DirectPairs(DirectCertificate(0, 1), 1000, (40, 5), 30, Fraction(2))
    # a byte: 32 ns and 5 on the one link; then both: 30 + 2 b + 45 over two
    assert [pairs.time_ns(size) for size in (1, 2, 3, 10)] == [37, 39, Fraction(81, 2), Fraction(95, 2)]
    assert pairs.time_ns(10**6) == 1000
    assert replace(pairs, free_ns=()).time_ns(5) == 0


@pytest.mark.parametrize(
    ("count", "box_ranks", "near", "far", "time"),
    [
        # nothing but far messages over two links: 1, then 3 at 30, ...; the first two again at 40
        (3, 1, None, ReachClass(10, 20, 2), 30),
        (4, 1, None, ReachClass(10, 20, 2), 40),
        (5, 1, None, ReachClass(10, 20, 2), 40),
        (6, 1, None, ReachClass(10, 20, 2), 50),
        # over one link: tellers at 0 (arrivals at 30, 40, 50, 60) and at 30 (60)
        (4, 1, None, ReachClass(10, 20, 1), 50),
        (6, 1, None, ReachClass(10, 20, 1), 60),
        (7, 1, None, ReachClass(10, 20, 1), 70),
        # a box of three: mates at 6 and 7; over the network at 30, whose mates follow 6 later
        (2, 3, ReachClass(1, 5, 1), ReachClass(10, 20, 1), 6),
        (3, 3, ReachClass(1, 5, 1), ReachClass(10, 20, 1), 7),
        (4, 3, ReachClass(1, 5, 1), ReachClass(10, 20, 1), 30),
        (5, 3, ReachClass(1, 5, 1), ReachClass(10, 20, 1), 36),
        (3, 3, ReachClass(1, 5, 2), ReachClass(10, 20, 1), 6),
        # messages that are copied, or take no time of their sender, reach all at once
        (3, 3, ReachClass(1, 5, 1, True), ReachClass(10, 20, 1), 6),
        (3, 3, ReachClass(0, 5, 1), ReachClass(10, 20, 1), 5),
        (9, 3, ReachClass(1, 5, 1), ReachClass(10, 20, 1, True), 30),
        (9, 1, None, ReachClass(0, 20, 1), 20),
        (3, 3, ReachClass(1, 5, 1), None, 7),
        (4, 3, ReachClass(1, 5, 1), None, FAR_NS),
        (1, 3, ReachClass(1, 5, 1), None, 0),
    ],
)
def test_when_so_many_may_know(
    count: int, box_ranks: int, near: ReachClass | None, far: ReachClass | None, time: int
) -> None:
    assert reach_time_ns(ReachCertificate(0, count, box_ranks, near, far)) == time


def test_whose_data_most_need() -> None:
    topology = odd_boxes()
    terms = message_terms(topology, COSTS)
    everybody = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    # cards of two links each: one of the box, one of the network
    near = ReachClass(40, 60 + 700, 1)
    far = ReachClass(300, 20 + 110 + 3000, 2)  # one link of the network at least: box 2's to its switch
    assert reach_certificate(terms, everybody) == ReachCertificate(0, 6, 3, near, far)
    weighted = replace(everybody, weights=(0, 0, 5, 1, 1, 1))
    found = reach_certificate(terms, weighted)
    assert found is not None
    assert (found.source, found.count) == (2, 6)
    scattered = replace(on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER), weights=(3, 0, 5, 1, 0, 1))
    found = reach_certificate(terms, scattered)
    assert found is not None
    assert (found.source, found.count) == (1, 5)
    assert reach_certificate(terms, on_all_ranks(topology, CollectiveKind.REDUCE, root=1)) is None
    assert reach_certificate(message_terms(odd_boxes(blurred=True), COSTS), everybody) is None


def test_who_needs_whose_data() -> None:
    topology = odd_ring()

    def rows(kind: str, chosen: list[int], **values: object) -> list[str]:
        made = replace(collective_of(topology, kind), **values)  # type: ignore[arg-type]
        return ["".join(str(int(one)) for one in row) for row in receives_from(made, chosen)]

    assert rows("allgather", [1, 3]) == ["10111", "11101"]
    assert rows("allgather", [1, 3], weights=(1, 0, 1, 2, 1)) == ["00000", "11101"]
    assert rows("reduce-scatter", [1, 3], weights=(1, 0, 1, 2, 1)) == ["10111", "10101"]
    assert rows("allreduce", [4]) == ["11110"]
    assert rows("broadcast", [2], root=2) == ["11011"]


def test_the_farthest_pair_of_a_ring() -> None:
    """Links of 10 ... 50 ns and 500 of each hop: of pairs two hops apart the one over 40 and 50."""
    topology = odd_ring()
    terms = message_terms(topology, COSTS)
    gather = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = farthest_pair(terms, gather)
    assert found is not None
    assert {found[0].source, found[0].target} == {0, 3}
    assert found[1] == 40 + 50 + 2 * 500 + 60 + 900
    reduce = on_all_ranks(topology, CollectiveKind.REDUCE, root=1)
    found = farthest_pair(terms, reduce)
    assert found is not None
    # to rank 1 from rank 3 over 20 and 30, from rank 4 over 50 and 10
    assert (found[0].source, found[0].target) == (4, 1)
    assert found[1] == 50 + 10 + 2 * 500 + 60 + 900


def test_steps_of_growth_are_a_fraction_of_the_least_delay() -> None:
    near, far = GrowthClass(1, 1000, (5,)), GrowthClass(1, 1700, (5,))
    assert GrowthCertificate(2, near, far, None).step_ns == 6
    assert GrowthCertificate(2, None, far, None).step_ns == 10
    assert GrowthCertificate(2, GrowthClass(1, 159, (5,)), far, None).step_ns == 0


def test_bounds_without_proofs_or_of_unknown_protocols_are_refused() -> None:
    topology = odd_ring()
    collective = collective_of(topology, "allgather")
    (bound,) = find_size_bounds(topology, collective, None, [1], SimulationOptions(costs=COSTS))
    other = Protocol("other")
    for protocols, wrong, words in (
        ([COSTS], replace(bound, proofs=()), "size bound: protocol 'only' of only, no proof"),
        ([COSTS, other], replace(bound, protocol="x"), "size bound: protocol 'x' of only, other, no proof"),
        ([COSTS], replace(bound, proofs=bound.proofs[::-1]), "size bound: its first proof is not the latest"),
    ):
        with pytest.raises(ScheduleError) as caught:
            check_size_bounds(topology, collective, protocols, [wrong])
        assert str(caught.value) == words
    # of a single protocol whatever it says
    check_size_bounds(topology, collective, [COSTS], [replace(bound, protocol="x")])
    check_size_bounds(topology, collective, [other, COSTS], [bound])
    with pytest.raises(ScheduleError, match="size bound: "):
        check_size_bounds(topology, collective, [other, COSTS], [replace(bound, protocol="other")])


def test_counts_of_ranks_do_not_hold_where_messages_change_their_class() -> None:
    topology = odd_boxes(blurred=True)
    certificate = ReachCertificate(0, 2, 3, ReachClass(0, 0, 9), ReachClass(0, 0, 9))
    bound = SizeBound(1, "only", (SizeProof(Fraction(0), certificate),))
    with pytest.raises(ScheduleError) as caught:
        check_size_bounds(topology, collective_of(topology, "allgather"), [COSTS], [bound])
    assert str(caught.value) == ("size bound: switches change the class of messages; no count of ranks holds")
    for one, words in (
        (DirectCertificate(0, 1), "size bound: pairs are counted only where all links are of one class"),
        (
            RelayedCertificate(Fraction(1)),
            "size bound: pairs are counted only where all links are of one class",
        ),
    ):
        bound = SizeBound(1, "only", (SizeProof(Fraction(0), one),))
        with pytest.raises(ScheduleError) as caught:
            check_size_bounds(odd_boxes(), collective_of(odd_boxes(), "allreduce"), [COSTS], [bound])
        assert str(caught.value) == words
