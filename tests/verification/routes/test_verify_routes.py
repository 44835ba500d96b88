"""Routes of an all-to-all judged word by word: ranks out of order, unequal links, demands and caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import ring
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes.round_check import verify_timed_routes
from treadle.verification.routes.route_check import verify_routes
from treadle.verification.violations import Report

LINKS = (
    ("c", "a", 6),
    ("a", "w", 5),
    ("w", "b", 7),
    ("b", "a", 8),
    ("a", "b", 3),
    ("b", "c", 9),
    ("b", "b", 1),
)


def fabric(**caps: int) -> Topology:
    """Nodes a, b, c and a switch w; one link is a loop."""
    builder = TopologyBuilder("odd")
    for name in "abc":
        builder.compute(name, injection_bytes_per_s=caps.get(name, 0))
    builder.switch("w")
    for tail, head, bandwidth in LINKS:
        builder.link(tail, head, bandwidth)
    return builder.build()


FABRIC = fabric()
WANTED = Demands(np.array([[0, 2, 3], [1, 0, 0], [0, 4, 0]]))
ODD = Collective(CollectiveKind.ALLTOALL, (2, 0, 1), demands=WANTED)
"""Ranks 0, 1, 2 are c, a, b; rank 1 gets six units."""
Way = tuple[int, int, int, int, list[int]]
WAYS: list[Way] = [
    (0, 1, 10, 0, [0]),
    (0, 2, 6, 0, [0, 4]),
    (0, 2, 9, 1, [0, 1, 2]),
    (1, 0, 5, 0, [4, 5]),
    (2, 1, 20, 2, [3]),
]


def made(*changes: tuple[int, Way | None], chunks: int = 5) -> RouteSchedule:
    """The right routes, of five chunks a unit, but for some paths that are others or left out."""
    changed = dict(changes)
    ways = [changed.get(place, way) for place, way in enumerate(WAYS)]
    return routes_from_paths(3, chunks, [way for way in ways if way is not None])


def told(report: Report) -> list[str]:
    return [str(one) for one in report.violations]


@pytest.mark.parametrize(
    ("caps", "algbw"),
    [
        # of 25 chunks c->a 6 bytes/s, a fifth of a unit each: six units in 25 / 6 / 5 s
        ({}, Fraction(36, 5)),
        # b sends 4 units and gets 3 through 4 bytes/s: a second, or at the least not more
        ({"b": 4}, Fraction(6)),
        ({"b": 5}, Fraction(36, 5)),
        # a gets six units and sends one
        ({"a": 7}, Fraction(7)),
        ({"a": 7, "b": 4}, Fraction(6)),
        # c sends five and gets one
        ({"c": 5, "a": 100}, Fraction(6)),
    ],
)
def test_the_slowest_link_or_host_tells_the_rate(caps: dict[str, int], algbw: Fraction) -> None:
    report = verify_routes(fabric(**caps), ODD, made(), claimed_algbw=algbw)
    assert report == Report((), 0, algbw, None, None, n_layers=3)
    assert told(verify_routes(fabric(**caps), ODD, made(), claimed_algbw=Fraction(5, 3))) == [
        f"claim: algbw is {algbw} bytes/s by the loads, not 5/3 as claimed"
    ]


@pytest.mark.parametrize(
    ("place", "way", "said"),
    [
        (0, None, ["units: rank 0 to rank 1: its paths carry 0 chunks, expected 10"]),
        (
            1,
            (2, 0, 6, 0, [5]),
            [
                "units: rank 0 to rank 2: its paths carry 9 chunks, expected 15",
                "units: rank 2 to rank 0: its paths carry 6 chunks, expected 0",
            ],
        ),
        (
            4,
            (1, 1, 20, 2, [3]),
            [
                "units: rank 1 to rank 1: its paths carry 20 chunks, expected 0",
                "units: rank 2 to rank 1: its paths carry 0 chunks, expected 20",
                "ends: path 4, rank 1 to rank 1: joins a rank to itself",
            ],
        ),
        (3, (1, 0, 5, 0, []), ["path: path 3, rank 1 to rank 0: has no link"]),
        (3, (1, 0, 5, 0, [4, 7]), ["link: path 3, rank 1 to rank 0: takes a link that the fabric lacks"]),
        (3, (1, 0, 5, 0, [4, 6, 5]), ["link: path 3, rank 1 to rank 0: takes a self-loop"]),
        (3, (1, 0, 5, 0, [0, 4, 5]), ["ends: path 3, rank 1 to rank 0: does not begin and end at its ranks"]),
        (1, (0, 2, 6, 0, [0, 3, 4]), ["path: path 1, rank 0 to rank 2: is not contiguous"]),
        (2, (0, 2, 9, 1, [0, 4, 3, 1, 2]), ["path: path 2, rank 0 to rank 2: visits a node twice"]),
        (2, (0, 2, 9, 1, [0, 4, 5, 0, 4]), ["path: path 2, rank 0 to rank 2: visits a node twice"]),
    ],
)
def test_each_fault_is_named_with_its_path(place: int, way: Way | None, said: list[str]) -> None:
    report = verify_routes(FABRIC, ODD, made((place, way)))
    assert (told(report), report.n_violations, report.algbw, report.n_layers) == (said, len(said), None, None)


def test_no_paths_at_all_serve_nobody() -> None:
    assert told(verify_routes(FABRIC, ODD, routes_from_paths(3, 5, []), max_layers=0)) == [
        f"units: rank {one} to rank {other}: its paths carry 0 chunks, expected {chunks}"
        for one, other, chunks in ((0, 1, 10), (0, 2, 15), (1, 0, 5), (2, 1, 20))
    ]


def test_faults_of_several_paths_are_told_up_to_a_limit() -> None:
    wrong = made((0, (0, 1, 10, 0, [0, 4])), (3, (1, 0, 5, 0, [5])), (4, (2, 1, 20, 2, [3, 3])))
    said = [
        "ends: path 0, rank 0 to rank 1: does not begin and end at its ranks",
        "ends: path 3, rank 1 to rank 0: does not begin and end at its ranks",
        "path: path 4, rank 2 to rank 1: is not contiguous",
    ]
    assert told(verify_routes(FABRIC, ODD, wrong)) == said
    report = verify_routes(FABRIC, ODD, wrong, limit=2)
    assert (told(report), report.n_violations) == (said[:2], 3)


def test_what_adapters_hold_and_how_far_routes_go() -> None:
    assert verify_routes(FABRIC, ODD, made(), max_routes=2, max_layers=3, max_hops=3).is_ok
    assert told(verify_routes(FABRIC, ODD, made(), max_routes=1, max_layers=2, max_hops=2)) == [
        "limit: rank 0 to rank 2: 2 routes, at most 1 fit",
        "limit: 3 layers are used, at most 2 fit",
        "limit: path 2, rank 0 to rank 2: 3 hops, at most 2 are allowed",
    ]
    risen = replace(made(), hop_layer=np.array([0, 0, 0, 1, 1, 4, 0, 0, 2]))
    assert verify_routes(FABRIC, ODD, risen, max_layers=5).n_layers == 5
    assert told(verify_routes(FABRIC, ODD, risen, max_layers=4)) == [
        "limit: 5 layers are used, at most 4 fit"
    ]


def test_routes_for_others_are_told() -> None:
    gather = on_all_ranks(FABRIC, CollectiveKind.ALLGATHER)
    report = verify_routes(FABRIC, gather, made(), claimed_optimal_algbw=Fraction(1))
    assert told(report) == ["shape: the routes are for alltoall, not allgather"]
    two = Collective(CollectiveKind.ALLTOALL, (2, 0), forwarders=(1,))
    report = verify_routes(FABRIC, two, made(), claimed_optimal_algbw=Fraction(1))
    assert told(report) == [
        "bound: optimal algbw 1 bytes/s is claimed without a certificate",
        "shape: the routes are for 3 ranks, the collective has 2",
    ]


def test_a_bound_on_what_leaves_the_first_rank() -> None:
    """Five units leave c by 6 bytes/s, so six units take 5 / 6 s; the routes leave nothing to gain."""
    certificate = FlowDualCertificate(np.array([1, 0, 0, 0, 0, 0, 0]))
    best = Fraction(36, 5)
    report = verify_routes(FABRIC, ODD, made(), claimed_optimal_algbw=best, certificate=certificate)
    assert report == Report((), 0, best, best, None, n_layers=3)
    report = verify_routes(
        fabric(b=4), ODD, made(), claimed_optimal_algbw=Fraction(7), certificate=certificate
    )
    assert (report.bound, told(report)) == (
        best,
        ["bound: the certificate proves 36/5 bytes/s, not the claimed optimum 7"],
    )
    report = verify_routes(FABRIC, ODD, made((0, None)), certificate=certificate)
    assert (report.bound, report.n_violations) == (best, 1)
    through = replace(certificate, hosts=np.array([[0, 1]]))
    assert told(verify_routes(fabric(b=4), ODD, made(), certificate=through)) == [
        "bound: the certificate counts data that pass through hosts with an injection cap, but routes leave "
        "these to adapters"
    ]


def circle(arcs: Sequence[tuple[int, int]], walks: Sequence[tuple[int, list[int]]]) -> list[str]:
    """What is said of paths, each with its layer, over a fabric of these arcs."""
    builder = TopologyBuilder("arcs")
    n = 1 + max(max(arc) for arc in arcs)
    for node in range(n):
        builder.compute(f"n{node}")
    for tail, head in arcs:
        builder.link(f"n{tail}", f"n{head}", 1)
    rows = [(arcs[links[0]][0], arcs[links[-1]][1], 1, layer, links) for layer, links in walks]
    matrix = np.zeros((n, n), dtype=np.int64)
    for tail, head, *_ in rows:
        matrix[tail, head] += 1
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=Demands(matrix))
    return turned(told(verify_routes(builder.build(), collective, routes_from_paths(n, 1, rows))))


def turned(said: list[str]) -> list[str]:
    """Circles that begin with the first of their links by name: each waits for the following one."""
    found = []
    for one in said:
        start, _, names = one.rpartition(": ")
        links = names.split(", ")
        first = links.index(min(links)) if "..." not in names else 0
        found.append(f"{start}: {', '.join([*links[first:], *links[:first]])}")
    return found


def test_only_the_links_of_the_circle_are_named() -> None:
    """Links 1, 2, 3 go round nodes 0, 1, 2; link 3 also waits for link 0, and link 4 for link 1."""
    arcs = [(0, 3), (0, 1), (1, 2), (2, 0), (3, 0)]
    round_them = [(0, [1, 2]), (0, [2, 3]), (0, [3, 1])]
    said = "deadlock: layer 0: 3 links wait for each other: n0->n1, n1->n2, n2->n0"
    assert circle(arcs, round_them) == [said]
    assert circle(arcs, [*round_them, (0, [3, 0]), (0, [4, 1])]) == [said]
    assert circle(arcs, [*round_them[:2], (1, [3, 1]), (0, [3, 0]), (0, [4, 1])]) == []
    both = [*round_them, *((2, links) for _, links in round_them)]
    assert circle(arcs, both) == [said, said.replace("layer 0", "layer 2")]


@pytest.mark.parametrize("n", [8, 9])
def test_eight_links_of_a_circle_are_named(n: int) -> None:
    arcs = [(node, (node + 1) % n) for node in range(n)]
    (said,) = circle(arcs, [(0, [node, (node + 1) % n]) for node in range(n)])
    start, _, names = said.partition(": ")[2].rpartition(": ")
    assert start == f"layer 0: {n} links wait for each other"
    named = names.removesuffix(", ...").split(", ")
    assert (len(named), names.endswith(", ...")) == (8, n == 9)
    first = int(named[0][1])
    assert named == [f"n{(first + i) % n}->n{(first + i + 1) % n}" for i in range(8)]


def test_layers_that_change_on_the_way_make_circles_of_their_own() -> None:
    """Of each pair of hops in a ring of three, the second is in another layer; one pair stays in its own."""
    topology = ring(3, bidirectional=False)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    rows = [(i, (i + k) % 3, 1, 0, [(i + h) % 3 for h in range(k)]) for i in range(3) for k in (1, 2)]
    routes = routes_from_paths(3, 1, rows)
    held = {tuple(routes.path(path)): path for path in range(6)}

    def said(layers: dict[tuple[int, int], tuple[int, int]]) -> list[str]:
        hops = np.zeros(9, dtype=np.int32)
        for links, of in layers.items():
            begin = routes.path_offset[held[links]]
            hops[begin : begin + 2] = of
        firsts = hops[routes.path_offset[:-1]]
        return turned(
            told(verify_routes(topology, collective, replace(routes, layer=firsts, hop_layer=hops)))
        )

    assert said({}) == ["deadlock: 3 links wait for each other: " + NAMES.format(0, 0, 0)]
    assert said({(0, 1): (0, 1), (1, 2): (1, 2), (2, 0): (2, 0)}) == [
        "deadlock: 3 links wait for each other: " + NAMES.format(0, 1, 2)
    ]
    assert said({(0, 1): (0, 1), (1, 2): (1, 2), (2, 0): (2, 3)}) == []
    assert said({(0, 1): (0, 1)}) == []


NAMES = "n0->n1 in layer {}, n1->n2 in layer {}, n2->n0 in layer {}"


def timed(*rounds: list[int], **changes: Any) -> TimedRoutes:
    """Rounds of paths: two of ten chunks from c to a, of six and nine from c to b, and so on."""
    offsets = np.cumsum([0, *map(len, rounds)])
    return replace(
        TimedRoutes(made(), offsets, np.array([path for one in rounds for path in one])), **changes
    )


ROUNDS = [*[[0, 2, 4, 4]] * 9, [1, 1, 0, 3], [1, 1, 1, 1, 3, 3, 3, 3], [4, 4]]


@pytest.mark.parametrize(
    ("caps", "seconds"),
    [
        # nine rounds: two chunks by c->a of 6 bytes/s; then three of c->a, as long as three of a->b of 3;
        # eight by a->b; two by b->a of 8
        ({}, 9 * Fraction(2, 6) + 1 + Fraction(8, 3) + Fraction(2, 8)),
        # c sends two, three, and four chunks, and gets up to four
        ({"c": 1}, 9 * Fraction(2) + 3 + 4 + Fraction(2, 8)),
        # a sends none, one and four, and gets three, one, none and two
        ({"a": 1}, 9 * Fraction(3) + 1 + 4 + 2),
    ],
)
def test_a_round_lasts_as_long_as_its_slowest_link_or_host(caps: dict[str, int], seconds: Fraction) -> None:
    """Six units of five chunks."""
    report = verify_timed_routes(fabric(**caps), ODD, timed(*ROUNDS), claimed_algbw=30 / seconds)
    assert report == Report((), 0, 30 / seconds, None, None, n_steps=12, n_layers=3)
    report = verify_timed_routes(fabric(**caps), ODD, timed(*ROUNDS), claimed_algbw=Fraction(3))
    assert told(report) == [f"claim: algbw is {30 / seconds} bytes/s by the loads, not 3 as claimed"]


def test_rounds_keep_to_what_hosts_may_send_and_get() -> None:
    assert verify_timed_routes(FABRIC, ODD, timed(*ROUNDS), max_flows=4).is_ok
    report = verify_timed_routes(FABRIC, ODD, timed(*ROUNDS), max_flows=3, claimed_algbw=Fraction(3))
    assert (report.algbw, told(report)) == (
        None,
        [
            "limit: round 10: rank 0 sends 4 chunks, at most 3 may",
            "limit: round 10: rank 1 sends 4 chunks, at most 3 may",
            "limit: round 10: rank 0 gets 4 chunks, at most 3 may",
            "limit: round 10: rank 2 gets 4 chunks, at most 3 may",
        ],
    )
    # equal rounds that follow each other are told of once
    assert told(verify_timed_routes(FABRIC, ODD, timed(*ROUNDS), max_flows=2))[0] == (
        "limit: round 0: rank 1 gets 3 chunks, at most 2 may"
    )
    assert told(verify_timed_routes(FABRIC, ODD, timed(*ROUNDS), max_flows=2))[1] == (
        "limit: round 9: rank 0 sends 3 chunks, at most 2 may"
    )


def test_each_path_sets_out_as_often_as_it_has_chunks() -> None:
    changed = [*ROUNDS[:-1], [4, 3]]
    report = verify_timed_routes(FABRIC, ODD, timed(*changed), max_flows=1)
    assert told(report) == [
        "delivery: path 3: 6 chunks set out, expected 5",
        "delivery: path 4: 19 chunks set out, expected 20",
    ]
    astray = replace(made(), path_links=np.where(made().path_links == 3, 2, made().path_links))
    report = verify_timed_routes(FABRIC, ODD, timed(*changed, routes=astray))
    assert told(report) == ["ends: path 4, rank 2 to rank 1: does not begin and end at its ranks"]
    assert told(verify_timed_routes(FABRIC, ODD, timed(*ROUNDS), max_routes=1, max_layers=2)) == [
        "limit: rank 0 to rank 2: 2 routes, at most 1 fit",
        "limit: 3 layers are used, at most 2 fit",
    ]
