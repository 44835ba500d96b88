"""Witnesses of allreduce bounds: what they prove, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.allreduce_fabrics import allreduce
from samples.strategies import symmetric_topologies
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.certificate import Certificate, certificate_from_json
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.synthesis.trees.allreduce import allreduce_bound
from treadle.topologies import Topology, TopologyBuilder
from treadle.topologies.catalogue.graphs import path, ring
from treadle.topologies.catalogue.platforms import dgx_h100

HALF = Fraction(1, 2)


def star(*, capable: bool) -> Topology:
    builder = TopologyBuilder("star")
    for i in range(4):
        builder.compute(f"gpu{i}")
    builder.switch("hub", multicast=capable, aggregation=capable, turns_round=capable)
    for i in range(4):
        builder.duplex(f"gpu{i}", "hub", 6)
    return builder.build()


def test_lengths_by_hand() -> None:
    """A star of 4 at 6: b.l = 48, three edges of two links both ways 12, with a branching hub 8."""
    lengths = DualCertificate((Fraction(1),) * 8)
    assert lengths.bound(star(capable=False), allreduce(star(capable=False))) == 4
    assert lengths.bound(star(capable=True), allreduce(star(capable=True))) == 6
    aggregating = replace(star(capable=True), multicast=star(capable=False).multicast)
    assert lengths.bound(aggregating, allreduce(aggregating)) == Fraction(48, 6 + 4)


def test_cuts_by_hand() -> None:
    """Reducing into and broadcasting out of all but one rank of a star, with potential at the hub."""
    everyone = frozenset(range(5))
    cuts = tuple((tuple(sorted(everyone - {i})), Fraction(1)) for i in range(4))
    singles = tuple(((i,), Fraction(1)) for i in range(4))
    topology, collective = star(capable=False), allreduce(star(capable=False))
    # every rank in 3 + 1 sets; each down link in one broadcast set, each link up in one, no link twice
    plain = CutCombinationCertificate(cuts, singles)
    assert plain.bound(topology, collective) == Fraction(4 * 6, 4)
    # all but one rank both ways: the hub's potential halves the price between links up and links down
    potential = CutCombinationCertificate(cuts, cuts, ((4, HALF),), ((4, -HALF),))
    assert potential.bound(topology, collective) == Fraction(8 * 6 * HALF, 6)
    with pytest.raises(ScheduleError, match="node 4 must not have a potential"):
        potential.bound(star(capable=True), collective)


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


def test_prices_must_pay_for_operations() -> None:
    """All but one rank, both ways: an operation of a rank parts it from the others in three of four sets."""
    topology, collective = asked_star(), allreduce(asked_star())
    everyone = frozenset(range(5))
    cuts = tuple((tuple(sorted(everyone - {i})), Fraction(1)) for i in range(4))
    potentials = ((4, HALF),), ((4, -HALF),)
    for price, bound in ((Fraction(3, 5), Fraction(8 * 6 * 3, 5 * 6)), (Fraction(7, 12), None)):
        prices = tuple((link, price) for link in range(8))
        certificate = CutCombinationCertificate(cuts, cuts, *potentials, prices)
        if bound is not None:
            assert certificate.bound(topology, collective) == bound == Fraction(24, 5)
            assert allreduce_bound(topology, collective).algbw == bound
            continue
        with pytest.raises(ScheduleError, match="operations of 'gpu0' at switch 'hub' exceeds"):
            certificate.bound(topology, collective)
    # without prices the switch counts as one that works by itself
    with pytest.raises(ScheduleError, match="node 4 must not have a potential"):
        CutCombinationCertificate(cuts, cuts, *potentials).bound(topology, collective)
    singles = tuple(((i,), Fraction(1)) for i in range(4))
    rooted = CutCombinationCertificate((*cuts, (tuple(range(1, 5)), Fraction(1))), singles)
    assert rooted.bound(topology, collective) == rooted.bound(star(capable=True), collective)


def test_roots_at_branching_switches_must_be_covered() -> None:
    topology = star(capable=True)
    certificate = CutCombinationCertificate(tuple(((i,), Fraction(1)) for i in range(4)), ())
    with pytest.raises(ScheduleError, match="some root is in no set"):
        certificate.bound(topology, allreduce(topology))


@settings(max_examples=12)
@given(symmetric_topologies(), st.data())
def test_any_lengths_and_any_cuts_bound_the_optimum(topology: Topology, data: st.DataObject) -> None:
    collective = allreduce(topology)
    optimum = allreduce_bound(topology, collective).algbw
    rationals = st.fractions(0, 3, max_denominator=6)
    certificate = DualCertificate(
        tuple(data.draw(rationals) + Fraction(1, 7) for _ in range(topology.n_links))
    )
    assert certificate.bound(topology, collective) >= optimum
    sets = st.sets(st.integers(0, topology.n_nodes - 1)).filter(lambda s: not s.issuperset(collective.ranks))
    cuts = st.lists(st.tuples(sets.map(lambda s: tuple(sorted(s))), rationals), max_size=5).map(tuple)
    singles = tuple(((rank,), Fraction(1, 5)) for rank in collective.ranks)
    relays = [
        st.tuples(st.just(node), st.fractions(-2, 2, max_denominator=4))
        for node in topology.switches.tolist()
    ]
    potentials = st.tuples(*relays)
    combination = CutCombinationCertificate(
        data.draw(cuts) + singles, data.draw(cuts), data.draw(potentials), data.draw(potentials)
    )
    assert combination.bound(topology, collective) >= optimum


@pytest.mark.parametrize("topology", [path(3), dgx_h100(2, nvls=True)], ids=["path", "H100"])
def test_json_round_trip(topology: Topology) -> None:
    bound = allreduce_bound(topology, allreduce(topology))
    text = json.dumps(bound.certificate.to_json())
    again = certificate_from_json(json.loads(text))
    assert again == bound.certificate
    assert again.bound(topology, allreduce(topology)) == bound.algbw


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


def test_other_collectives_are_refused() -> None:
    topology = path(3)
    for certificate in (DualCertificate((ONE,) * 4), CutCombinationCertificate((), ())):
        with pytest.raises(ScheduleError, match="bounds an allreduce, not allgather"):
            certificate.bound(topology, Collective(CollectiveKind.ALLGATHER, (0, 1, 2)))


def test_denominators_without_a_common_measure_are_refused() -> None:
    """Of a few kilobytes of text they would make numbers of megabytes, which no message can print."""
    topology = ring(16)
    collective = allreduce(topology)
    small = tuple(Fraction(1, 10**900 + number) for number in range(topology.n_links))
    lengths = DualCertificate(small)
    cuts = CutCombinationCertificate(tuple(((node,), small[node]) for node in range(16)), ())
    for certificate in (lengths, cuts):
        with pytest.raises(ScheduleError, match="no common denominator below"):
            certificate.bound(topology, collective)
    alike = DualCertificate((Fraction(1, 10**900 + 1),) * topology.n_links)
    assert alike.bound(topology, collective) == allreduce_bound(topology, collective).algbw


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


@pytest.mark.parametrize("n", [2, 3, 5])
def test_unit_lengths_bound_one_way_rings(n: int) -> None:
    """Every rank must send and receive (N - 1) / N of the buffer twice: T <= b / 2 * N / (N - 1)."""
    topology = ring(n, bidirectional=False)
    certificate = DualCertificate((ONE,) * n)
    assert certificate.bound(topology, allreduce(topology)) == Fraction(n, 2 * (n - 1))
    assert allreduce_bound(topology, allreduce(topology)).algbw == Fraction(n, 2 * (n - 1))
