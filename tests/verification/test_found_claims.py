"""Findings, loads and claims: texts, limits and exact rates, of odd fabrics by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.claims import (
    check_algbw,
    check_bound,
    check_compute_nodes,
    check_kind,
    check_members,
)
from treadle.verification.loads import add_overloads, algbw_of
from treadle.verification.schedules import verify, verify_plan
from treadle.verification.violations import Findings, Report, Violation, ViolationKind


def texts(found: Findings | Report) -> list[str]:
    """All that is wrong."""
    kept = found.kept if isinstance(found, Findings) else found.violations
    return [str(one) for one in kept]


def test_findings_are_counted_beyond_what_is_told() -> None:
    found = Findings(3)
    asked: list[int] = []

    def describe(place: int) -> str:
        asked.append(place)
        return f"place {place}"

    found.add(ViolationKind.LOAD, "one")
    found.add_all(ViolationKind.SPAN, range(5), describe)
    assert texts(found) == ["load: one", "span: place 0", "span: place 1"]
    assert asked == [0, 1]
    assert found.total == 6
    found.add(ViolationKind.LOAD, "unsaid")
    assert (len(found.kept), found.total) == (3, 7)
    few = Findings(10)
    few.add_all(ViolationKind.SPAN, range(2), str)
    assert texts(few) == ["span: 0", "span: 1"]
    assert few.total == 2


def test_findings_of_a_place_are_adopted() -> None:
    inner, outer = Findings(5), Findings(2)
    inner.add_all(ViolationKind.HELD, range(9), str)
    outer.add(ViolationKind.LINK, "own")
    outer.adopt("job x", inner)
    assert texts(outer) == ["link: own", "held: job x: 0"]
    assert outer.total == 10
    outer.adopt("job y", inner)
    assert (len(outer.kept), outer.total) == (2, 19)


def test_reports_say_all_that_was_measured() -> None:
    found = Findings(1)
    assert found.report() == Report((), 0, None, None, None, None, None, True)
    measured = found.report(
        algbw=Fraction(3), bound=Fraction(3), height_max=2, n_steps=4, n_layers=5, height_is_exact=False
    )
    assert measured == Report((), 0, Fraction(3), Fraction(3), 2, 4, 5, False)
    assert measured.is_ok
    assert measured.is_optimal
    assert not replace(measured, bound=Fraction(4)).is_optimal
    assert not replace(measured, bound=None, algbw=None).is_optimal
    found.add_all(ViolationKind.LOAD, range(2), str)
    wrong = found.report(algbw=Fraction(3), bound=Fraction(3))
    assert (wrong.violations, wrong.n_violations) == ((Violation(ViolationKind.LOAD, "0"),), 2)
    assert not wrong.is_ok
    assert not wrong.is_optimal


def fabric() -> Topology:
    """Hosts a (at most 6 bytes/s out and in), b and c; a has 4 and 5 bytes/s, b 3, c 7 to a switch."""
    builder = TopologyBuilder("odd")
    builder.compute("a", injection_bytes_per_s=6)
    builder.compute("b")
    builder.compute("c")
    builder.switch("sw")
    builder.duplex("a", "sw", 4)
    builder.duplex("a", "sw", 5)
    builder.duplex("b", "sw", 3)
    builder.duplex("c", "sw", 7)
    return builder.build()


FABRIC = fabric()
LINKS = ["a->sw", "sw->a", "a->sw", "sw->a", "b->sw", "sw->b", "c->sw", "sw->c"]


def loads(*values: int) -> Any:
    return np.array(values, dtype=object)


@pytest.mark.parametrize(
    ("carried", "algbw"),
    [
        ((1, 0, 0, 0, 0, 0, 0, 0), 4),
        ((0, 0, 1, 0, 0, 0, 0, 0), 5),
        ((0, 1, 0, 1, 0, 0, 0, 0), 3),  # 2 units into a host of 6 bytes/s
        ((2, 0, 3, 0, 0, 0, 0, 0), Fraction(6, 5)),  # 5 units out of it; links alone: 5/3
        ((2, 0, 0, 0, 2, 0, 7, 0), 1),  # 7 over 7 bytes/s; b: 3/2
        ((0, 0, 0, 0, 2, 3, 0, 2), 1),
    ],
)
def test_the_fullest_link_or_host_sets_the_rate(carried: tuple[int, ...], algbw: Any) -> None:
    assert [FABRIC.link_name(link) for link in range(FABRIC.n_links)] == LINKS
    assert algbw_of(FABRIC, loads(*carried), 1) == algbw
    assert algbw_of(FABRIC, np.array(carried, dtype=np.int64), 4) == 4 * algbw


def test_what_is_too_full_is_named() -> None:
    """At 3/2 bytes/s of 4 units each link has room for its bandwidth times 8/3."""
    found = Findings(9)
    # rooms: 10.67, 13.33, 8 of b, 18.67 of c; 16 out of a host and into it
    add_overloads(FABRIC, loads(11, 10, 13, 7, 8, 9, 18, 19), 4, Fraction(3, 2), found)
    assert texts(found) == [
        "load: link a->sw carries 11 of 4 units; its 4 bytes/s allow algbw 16/11, not 3/2",
        "load: link sw->b carries 9 of 4 units; its 3 bytes/s allow algbw 4/3, not 3/2",
        "load: link sw->c carries 19 of 4 units; its 7 bytes/s allow algbw 28/19, not 3/2",
        "load: host side out of a carries 24 of 4 units; its 6 bytes/s allow algbw 1, not 3/2",
        "load: host side into a carries 17 of 4 units; its 6 bytes/s allow algbw 24/17, not 3/2",
    ]
    exact = Findings(9)
    add_overloads(FABRIC, loads(4, 5, 5, 4, 3, 3, 7, 7), 1, Fraction(1), exact)
    assert texts(exact) == [
        "load: link sw->a carries 5 of 1 units; its 4 bytes/s allow algbw 4/5, not 1",
        "load: host side out of a carries 9 of 1 units; its 6 bytes/s allow algbw 2/3, not 1",
        "load: host side into a carries 9 of 1 units; its 6 bytes/s allow algbw 2/3, not 1",
    ]


def posed(kind: str = "allgather", **fields: Any) -> Collective:
    return Collective(CollectiveKind(kind), **({"ranks": (2, 0, 1)} | fields))


def test_members_are_the_compute_nodes() -> None:
    found = Findings(9)
    check_members(FABRIC, posed(), found)
    check_compute_nodes(FABRIC, posed(ranks=(2, 0), forwarders=(1,)), found)
    assert found.total == 0
    check_members(FABRIC, posed(ranks=(3, 0, 9, -1), forwarders=(1,)), found)
    assert texts(found) == [
        "membership: rank or forwarder -1 is not a compute node of the fabric",
        "membership: rank or forwarder 'sw' is not a compute node of the fabric",
        "membership: rank or forwarder 9 is not a compute node of the fabric",
        "membership: compute node 'c' is neither a rank nor a forwarder",
    ]
    outside = Findings(9)
    check_compute_nodes(FABRIC, posed(ranks=(4, 0, 1)), outside)  # one beyond the last node
    assert texts(outside)[0] == "membership: rank or forwarder 4 is not a compute node of the fabric"
    grouped = Findings(9)
    check_members(FABRIC, posed(ranks=(0, 1, 2, 3), groups=((0, 1), (2, 3))), grouped)
    assert texts(grouped) == ["shape: the schedule is for one group, found 2"]


def test_schedules_are_for_their_collective() -> None:
    found = Findings(9)
    schedule: Any = SimpleNamespace(kind=CollectiveKind.REDUCE)
    assert check_kind(posed("reduce", root=0), schedule, found)
    assert found.total == 0
    assert not check_kind(posed(), schedule, found)
    assert texts(found) == ["shape: the schedule is for reduce, not allgather"]


class Proof:
    """Proves 5 bytes/s, or nothing."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        assert (topology, collective) == (FABRIC, posed())
        if self.reason:
            raise ScheduleError(self.reason)
        return Fraction(5)


@pytest.mark.parametrize(
    ("claimed", "proof", "bound", "wrong"),
    [
        (None, None, None, []),
        (5, None, None, ["bound: optimal algbw 5 bytes/s is claimed without a certificate"]),
        (None, Proof("too few"), None, ["bound: the certificate proves no bound: too few"]),
        (None, Proof(), 5, []),
        (5, Proof(), 5, []),
        (6, Proof(), 5, ["bound: the certificate proves 5 bytes/s, not the claimed optimum 6"]),
        (4, Proof(), 5, ["bound: the certificate proves 5 bytes/s, not the claimed optimum 4"]),
    ],
)
def test_the_claimed_optimum_is_what_is_proved(
    claimed: Any, proof: Any, bound: Any, wrong: list[str]
) -> None:
    found = Findings(9)
    claim = None if claimed is None else Fraction(claimed)
    assert check_bound(FABRIC, posed(), claim, proof, found) == bound
    assert texts(found) == wrong


@pytest.mark.parametrize(
    ("claimed", "bound", "wrong"),
    [
        (None, None, []),
        (3, 3, []),
        (None, 2, ["bound: algbw 3 bytes/s exceeds the bound 2, so the certificate is false"]),
        (2, 4, ["claim: algbw is 3 bytes/s by the loads, not 2 as claimed"]),
        (4, None, ["claim: algbw is 3 bytes/s by the loads, not 4 as claimed"]),
    ],
)
def test_the_claimed_rate_is_that_of_the_loads(claimed: Any, bound: Any, wrong: list[str]) -> None:
    found = Findings(9)
    rates = [None if one is None else Fraction(one) for one in (claimed, bound)]
    check_algbw(Fraction(3), claimed=rates[0], bound=rates[1], found=found)
    assert texts(found) == wrong


def test_plans_are_verified_entry_by_entry() -> None:
    """Claims are the last entry's; each has its own limit."""
    ring = treadle.solve("ring:3", "allgather", algorithm="ring").plan
    best = treadle.solve("ring:3", "allgather").plan
    low, high = replace(ring.entries[0], max_bytes=9), replace(best.entries[0], min_bytes=10)
    plan = replace(best, entries=(low, high), algbw=best.algbw * 2)
    first, last = verify_plan(plan, limit=1)
    assert first.is_ok
    assert first.height_max == 2
    assert first.bound == last.bound == best.algbw
    assert len(last.violations) == 1
    assert last.n_violations == 6 + 1  # each of the links, and the claim
    assert last.height_max == 1
    assert str(last.violations[0]).endswith(f"allow algbw {best.algbw}, not {best.algbw * 2}")
    other = treadle.parse("ring(3, bandwidth='4B/s')")
    scaled = verify_plan(plan, topology=other)[1]
    assert scaled.algbw == 4 * best.algbw
    assert scaled.bound == 4 * best.algbw
    assert [str(one).partition(":")[0] for one in scaled.violations] == ["bound", "claim"]


def test_forests_of_another_shape_are_refused() -> None:
    best = treadle.solve("ring:3", "allgather").plan
    schedule = best.entries[0].schedule
    larger = treadle.parse("ring:4")
    for topology, collective, text in (
        (best.topology, posed("reduce-scatter"), "shape: the schedule is for allgather, not reduce-scatter"),
        (
            larger,
            posed(ranks=(3, 0, 1, 2)),
            "shape: broadcast forest has 3 ranks, the collective 4",
        ),
    ):
        report = verify(topology, collective, schedule)
        assert texts(report) == [text]
        assert report == Report(report.violations, 1, None, None, None)
    proved = verify(best.topology, posed("reduce-scatter"), schedule, certificate=best.certificate)
    assert proved.bound == best.algbw
