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
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.size_bounds.message_terms import boxes_of, is_near, message_terms
from treadle.simulation.size_bounds.problem_bounds import find_size_bounds
from treadle.simulation.size_bounds.reach import shortest_ns
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import (
    GrowthCertificate,
    SizeBound,
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
