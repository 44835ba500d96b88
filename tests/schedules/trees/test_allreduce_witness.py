"""Witnesses of allreduce bounds: what they prove, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from samples.allreduce_fabrics import allreduce
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.certificate import Certificate, certificate_from_json
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.topologies import Topology, TopologyBuilder
from treadle.topologies.catalogue.graphs import path
from treadle.topologies.catalogue.platforms import dgx_h100


def star(*, capable: bool) -> Topology:
    builder = TopologyBuilder("star")
    for i in range(4):
        builder.compute(f"gpu{i}")
    builder.switch("hub", multicast=capable, aggregation=capable, turns_round=capable)
    for i in range(4):
        builder.duplex(f"gpu{i}", "hub", 6)
    return builder.build()


def asked_star() -> Topology:
    """A star of 4 at 6 whose hub works for ranks that ask."""
    topology = star(capable=True)
    return replace(topology, turns_round=topology.turns_round & False)


def test_lengths_by_hand_with_operations() -> None:
    """An operation of one rank crosses 1 + 4 links, so a pair of trees is 10 long; sends alone 12."""
    topology = asked_star()
    assert DualCertificate((Fraction(1),) * 8).bound(topology, allreduce(topology)) == Fraction(48, 10)
    aggregating = replace(topology, multicast=topology.multicast & False)
    assert DualCertificate((Fraction(1),) * 8).bound(aggregating, allreduce(aggregating)) == Fraction(48, 11)
    # long links to one rank: it is better asked by another, and the group's are paid once all the same
    unequal = DualCertificate((Fraction(3),) * 2 + (Fraction(1),) * 6)
    assert unequal.bound(topology, allreduce(topology)) == Fraction(6 * 12, 2 * (3 + 3 + 1))


ONE = Fraction(1)


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (DualCertificate((ONE,) * 3), "3 lengths, expected 4"),
        (DualCertificate((ONE, ONE, -ONE, -ONE)), "must not be negative"),
        (DualCertificate((Fraction(0),) * 4), "connected at length 0"),
        (CutCombinationCertificate((((0, 1, 2), ONE),), ()), "contains every rank"),
        (CutCombinationCertificate((((0, 7), ONE),), ()), "beyond the 3 of"),
        (CutCombinationCertificate((((0,), -ONE),), ()), "must not be negative"),
        (CutCombinationCertificate((((0,), ONE),), ()), "some root is in no set"),
        (CutCombinationCertificate((), ()), "some root is in no set"),
        (CutCombinationCertificate((), (), ((0, ONE),)), "node 0 must not have a potential"),
        (CutCombinationCertificate((), (), ((9, ONE),)), "node 9 must not have a potential"),
        (CutCombinationCertificate((), (), prices=((4, ONE),)), "a price for link 4 of 4"),
        (CutCombinationCertificate((), (), prices=((0, -ONE),)), "prices must not be negative"),
    ],
)
def test_false_witnesses_prove_nothing(certificate: Certificate, message: str) -> None:
    topology = path(3)
    with pytest.raises(ScheduleError, match=message):
        certificate.bound(topology, allreduce(topology))


def test_pairs_of_very_many_ranks_at_asked_switches_are_refused() -> None:
    """Their distances would take a gigabyte."""
    builder = TopologyBuilder("star")
    builder.switch("hub", multicast=True, aggregation=True, turns_round=False)
    for i in range(1025):
        builder.compute(f"gpu{i}")
        builder.duplex(f"gpu{i}", "hub", 6)
    topology = builder.build()
    with pytest.raises(ScheduleError, match=r"1025 ranks .* expected at most 1024"):
        DualCertificate((Fraction(1),) * topology.n_links).bound(topology, allreduce(topology))


def test_too_many_branching_switches_are_refused() -> None:
    topology = dgx_h100(13, 3, nvls=True)
    with pytest.raises(ScheduleError, match="13 switches branch, expected at most 12"):
        DualCertificate((ONE,) * topology.n_links).bound(topology, allreduce(topology))


NO_CUTS: dict[str, object] = CutCombinationCertificate((), ()).to_json()


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "lengths"},
        {"kind": "lengths", "lengths": [1]},
        {"kind": "lengths", "lengths": ["1/0"]},
        {"kind": "lengths", "lengths": ["1.5"]},
        {"kind": "lengths", "lengths": ["9" * 2000]},
        {"kind": "lengths", "lengths": ["1"], "more": 1},
        {"kind": "cut-combination"},
        {**NO_CUTS, "broadcast_cuts": 1},
        {**NO_CUTS, "prices": {}},
        {**NO_CUTS, "prices": [{"link": 0, "multiplier": "1"}]},
        {**NO_CUTS, "prices": [{"link": -1, "price": "1"}]},
        {**NO_CUTS, "broadcast_cuts": [[]]},
        {**NO_CUTS, "reduce_cuts": [{"nodes": 1, "multiplier": "1"}]},
        {**NO_CUTS, "reduce_cuts": [{"nodes": [True], "multiplier": "1"}]},
        {**NO_CUTS, "reduce_potentials": [{"node": -1, "potential": "1"}]},
        {**NO_CUTS, "reduce_potentials": [{"node": 1, "potential": 1}]},
    ],
)
def test_malformed_json_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        certificate_from_json(value)
