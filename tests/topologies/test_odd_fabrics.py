"""Fabrics as values, with odd figures: refusals in full, limits, boxes, rotations, predicates, notations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.errors import InfeasibleError, TopologyError
from treadle.topologies import parse
from treadle.topologies.distances import (
    all_to_all_bound,
    diameter,
    distance_distribution,
    distance_matrix,
    eccentricities,
    mean_distance,
)
from treadle.topologies.intersection_arrays import IntersectionArray, intersection_array
from treadle.topologies.moore import (
    all_to_all_limit,
    bandwidth_optimum,
    ideal_distribution,
    least_mean_distance,
    moore_bound,
    moore_steps,
)
from treadle.topologies.named_boxes import NETWORK, find_boxes, rank_boxes
from treadle.topologies.naming import MAX_NAME, as_name, expression, is_one_line
from treadle.topologies.properties import (
    has_uniform_links,
    is_regular,
    is_symmetric,
    n_components,
    non_eulerian_nodes,
    reached,
    unreachable_pair,
)
from treadle.topologies.rotation import box_rotation
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.typed_quantities import bandwidth_of, takes_quantities, with_units


def fabric(links: str, nodes: str = "abcS", **facts: Any) -> Topology:
    """Links such as ``ab5``: from a to b, 5 bytes/s; capitals are switches."""
    words = links.split()
    known: dict[str, Any] = {
        "name": "odd",
        "node_names": tuple(nodes),
        "is_compute": np.array([name.islower() for name in nodes]),
        "tails": np.array([nodes.index(word[0]) for word in words]),
        "heads": np.array([nodes.index(word[1]) for word in words]),
        "bandwidths": np.array([int(word[2:]) for word in words]),
    }
    return Topology(**(known | facts))


PLAIN = "aS5 Sb7 bc2 cS3"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"name": "a\nb"}, "name 'a\\nb': expected one line without control characters"),
        ({"node_names": ("a", "", "c", "S")}, "node name '': expected a non-empty string"),
        ({"node_names": ("a", 3, "c", "S")}, "node name 3: expected a non-empty string"),
        (
            {"node_names": ("a", "b\t", "c", "S")},
            "node name 'b\\t': expected one line without control characters",
        ),
        ({"node_names": ("a", "b", "a", "S")}, "node 'a' is named twice; names must be unique"),
        ({"tails": np.array([0, -1, 1, 2])}, "tails: node indices must be 0 to 3"),
        ({"heads": np.array([3, 4, 2, 3])}, "heads: node indices must be 0 to 3"),
        ({"bandwidths": np.array([5, 0, 2, 3])}, "link S->b: bandwidth 0 bytes/s, expected 1 to 2**50"),
        (
            {"bandwidths": np.array([5, 7, 2, 2**50 + 1])},
            f"link c->S: bandwidth {2**50 + 1} bytes/s, expected 1 to 2**50",
        ),
        ({"latencies_ns": np.array([0, 0, -1, 0])}, "link b->c: latency must not be negative"),
        ({"multicast": np.array([0, 1, 0, 1])}, "'b' is a compute node; only switches multicast"),
        ({"aggregation": np.array([0, 0, 1, 1])}, "'c' is a compute node; only switches multicast"),
        (
            {"turns_round": np.array([0, 0, 0, 1])},
            "'S': turns_round needs multicast or aggregation, and it has neither",
        ),
        (
            {"injection_bytes_per_s": np.array([0, -1, 0, 0])},
            "'b': injection cap -1 bytes/s, expected 0 (none) to 2**50",
        ),
        (
            {"injection_bytes_per_s": np.array([0, 2**50 + 1, 0, 0])},
            f"'b': injection cap {2**50 + 1} bytes/s, expected 0 (none) to 2**50",
        ),
        (
            {"injection_bytes_per_s": np.array([0, 1, 0, 1])},
            "'S' is a switch; injection caps are for compute nodes",
        ),
        ({"bandwidths": np.array([5, 7, 2])}, "bandwidths: expected 4 values, found shape (3,)"),
        ({"is_compute": np.array([True] * 5)}, "is_compute: expected 4 values, found shape (5,)"),
    ],
)
def test_fabrics_that_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        fabric(PLAIN, **facts)
    assert str(refused.value) == message


def test_a_switch_without_a_link_is_refused() -> None:
    with pytest.raises(TopologyError, match="switch 'S' has no link; remove it or connect it"):
        fabric("ab5 bc2")
    assert fabric("ab5 Sc2").n_links == 2
    assert fabric("ab5 cS2").n_links == 2


def test_bandwidths_add_up_to_less_than_2_to_the_62() -> None:
    most = np.full(4096, 2**50)
    ends = np.zeros(4096, dtype=np.int32)

    def made(bandwidths: np.ndarray) -> Topology:
        return Topology("big", ("a",), np.array([True]), ends, ends, bandwidths)

    with pytest.raises(TopologyError) as refused:
        made(most)
    assert str(refused.value) == f"big: links add up to {2**62} bytes/s, expected less than 2**62"
    most[7] -= 1
    assert made(most).n_links == 4096


def test_what_a_fabric_says_of_itself() -> None:
    found = fabric(
        "aS5 Sb7 bc2 cS3 bb9", latencies_ns=np.array([1, 2, 3, 4, 5]), multicast=np.array([0, 0, 0, 1])
    )
    assert (found.n_nodes, found.n_links) == (4, 5)
    assert found.egress_bytes_per_s().tolist() == [5, 2, 3, 7]
    assert found.ingress_bytes_per_s().tolist() == [0, 7, 2, 8]
    assert (found.compute_nodes.tolist(), found.switches.tolist()) == ([0, 1, 2], [3])
    assert (found.link_name(1), found.node_index("c")) == ("S->b", 2)
    with pytest.raises(TopologyError, match="odd: no node is called 'd'"):
        found.node_index("d")
    back = found.transpose()
    assert (back.name, back.tails.tolist(), back.heads.tolist()) == (
        "transpose(odd)",
        [3, 1, 2, 3, 1],
        [0, 3, 1, 2, 1],
    )
    assert not back.multicast.any()
    assert back.aggregation.tolist() == [False, False, False, True]
    assert back.transpose() == found
    assert repr(found) == "<Topology odd: 3 compute, 1 switch, 5 links>"
    assert non_eulerian_nodes(found).tolist() == [0, 1, 2, 3]
    assert non_eulerian_nodes(fabric("aS5 Sa4 Sa1 bc2", "abcS")).tolist() == [1, 2]


def test_builders_refuse_in_full() -> None:
    builder = TopologyBuilder("x")
    assert (
        builder.compute("a", injection_bytes_per_s=3),
        builder.switch("S", turns_round=True, multicast=True),
    ) == ("a", "S")
    for name in ("a", "S"):
        with pytest.raises(TopologyError, match=f"node '{name}' is named twice; names must be unique"):
            builder.compute(name)
    for make in (builder.link, builder.duplex):
        for tail, head, bandwidth, words in (
            ("a", "z", 1, "no node is called 'z'"),
            ("z", "a", 1, "no node is called 'z'"),
            ("a", "S", 0, "bandwidth 0 bytes/s, expected 1 to 2**50"),
            ("a", "S", 2**50 + 1, f"bandwidth {2**50 + 1} bytes/s, expected 1 to 2**50"),
        ):
            with pytest.raises(TopologyError) as refused:
                make(tail, head, bandwidth)
            assert str(refused.value) == f"link {tail}->{head}: {words}"
    assert builder.fabric_to_draw() is None
    builder.link("a", "S", "3B/s", 7)
    builder.duplex("S", "a", 2**50, 9)
    assert repr(builder) == "<TopologyBuilder x: 1 compute, 1 switches, 3 links>"
    found = builder.build()
    assert found.tails.tolist() == [0, 1, 0]
    assert found.heads.tolist() == [1, 0, 1]
    assert found.bandwidths.tolist() == [3, 2**50, 2**50]
    assert found.latencies_ns.tolist() == [7, 9, 9]
    assert (found.multicast.tolist(), found.aggregation.tolist(), found.turns_round.tolist()) == (
        *([False, True], [False, False], [False, True]),
    )
    assert found.injection_bytes_per_s.tolist() == [3, 0]
    assert builder.fabric_to_draw() == found


def test_names_of_fabrics() -> None:
    assert as_name("x" * MAX_NAME) == "x" * MAX_NAME
    assert as_name("x" * (MAX_NAME + 1)) == "x" * MAX_NAME + "..."
    assert MAX_NAME == 1000
    assert expression("f", 1, 2, some_bandwidth=(3, 4), latency=(5, 0), n=(6, 6), k=(7, 8)) == (
        'f(1, 2, some_bandwidth="3B/s", latency="5ns", k=7)'
    )
    assert all(is_one_line(text) for text in ("a b", "a\xa0b", "a\u200db", ""))
    assert not any(is_one_line(f"a{mark}b") for mark in "\x00\u2028\u2029\u202e\u2066\u200f\u061c")


def test_quantities_with_their_units() -> None:
    def made(n: int, *, nic_bandwidth: int = 5, latency: int = 0, width: int = 0) -> tuple[int, ...]:
        return n, nic_bandwidth, latency, width

    typed = with_units(made)
    assert typed("1", nic_bandwidth="2kB/s", latency="3us", width="4B/s") == ("1", 2000, 3000, "4B/s")
    assert typed(1, nic_bandwidth=np.int64(7), latency=2.0) == (1, 7, 2, 0)
    assert typed(1) == (1, 5, 0, 0)
    assert bandwidth_of(np.float64(25e9), "x") == 25 * 10**9
    with pytest.raises(TopologyError) as refused:
        typed(1, latency=2.5)
    words = "expected a text such as 5us, or an integer number of nanoseconds, found 2.5 of type float"
    assert str(refused.value) == f"made: latency: {words}"
    for wrong in (True, None, 2.5):
        with pytest.raises(
            TopologyError, match="x: expected a text such as 25GB/s, or an integer number of bytes/s"
        ):
            bandwidth_of(wrong, "x")
    assert [takes_quantities(one) for one in (made, len, 3, lambda bandwidths: 0, lambda bandwidth: 0)] == [
        *(True, False, False, False, True),
    ]


def test_boxes_by_names_or_hosts() -> None:
    boxes = TopologyBuilder("boxes")
    for name in ("x.0", "y.0", "y.1", "z"):
        boxes.compute(name)
    whole = boxes.build()
    assert rank_boxes(whole) == (0, 1, 1, 2)
    assert rank_boxes(whole, ["h", "i", "j", "i"]) == (0, 1, 1, 2)  # as many and as large
    assert rank_boxes(whole, ["h", "i", "h", "i"]) == (0, 1, 0, 1)


def test_switches_belong_to_the_box_that_is_nearest() -> None:
    """S hangs from box 0, T from both, U from S only; V from what is the network; W from nothing."""
    found = fabric("aS1 bT1 Ta1 SU1 TV1 VT1 cb1 WX1 XW1", "abcSTUVWX")
    boxes = find_boxes(found, (0, 1, 1))
    assert boxes.of_node.tolist() == [0, 1, 1, 0, NETWORK, 0, NETWORK, NETWORK, NETWORK]
    assert boxes.count == 2
    assert [links.tolist() for links in boxes.leaving(found)] == [[], [1]]


def test_rotations_of_boxes() -> None:
    """Boxes of two: a rotation takes each box to the next; links keep their figures."""
    ring = parse('ring(6, bandwidth="3B/s", latency="2ns")')
    found = box_rotation(ring, np.arange(6), 2)
    assert found is not None
    assert (found.boxes, found.links.shape) == (3, (3, 12))
    ends = [(int(ring.tails[e]), int(ring.heads[e])) for e in range(12)]
    for turns in range(3):
        moved = [ends[int(link)] for link in found.links[turns]]
        assert moved == [((tail + 2 * turns) % 6, (head + 2 * turns) % 6) for tail, head in ends]
    assert found.moves.all()
    assert found.first.tolist() == found.links.min(axis=0).tolist()
    assert box_rotation(parse("path(6)"), np.arange(6), 2) is None
    star = box_rotation(parse("dgx_a100_flat(2, 2)"), np.array([0, 1, 3, 4]), 2)
    assert star is not None
    assert star.boxes == 2
    for change in ({"bandwidths": np.array([3, 3, 3, 4])}, {"latencies_ns": np.array([0, 0, 0, 1])},
                   {"injection_bytes_per_s": np.array([1, 0, 0, 0])}):  # fmt: skip
        odd = fabric("ab3 bc3 cd3 da3", "abcd", **change)
        assert box_rotation(odd, np.arange(4), 1) is None
    even = fabric("ab3 bc4 cd3 da4", "abcd")
    turned = box_rotation(even, np.arange(4), 2)
    assert turned is not None
    assert turned.links.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert turned.first.tolist() == [0, 1, 0, 1]


def test_predicates_of_odd_fabrics() -> None:
    assert is_symmetric(fabric("ab5 ba2 ba3", "ab"))
    assert not is_symmetric(fabric("ab5 ba2 ba2", "ab"))
    assert not is_symmetric(fabric("ab5 bc5 ca5", "abc"))
    assert has_uniform_links(fabric("ab5 bc5", "abc"))
    assert has_uniform_links(fabric("", "abc"))
    assert not has_uniform_links(fabric("ab5 bc6", "abc"))
    assert is_regular(fabric("ab1 bc1 ca1 aa1 bb1 cc1", "abc"))
    assert not is_regular(fabric("ab1 bc1 ca1 aa1", "abc"))
    assert (
        unreachable_pair(fabric("ab1 bc1", "abc")) == (1, 0) == unreachable_pair(fabric("ab1 bc1 ac1", "abc"))
    )
    assert unreachable_pair(fabric("ba1", "ab")) == (0, 1)
    assert unreachable_pair(fabric("aS1 Sa1 Sb1 bS1", "abS")) is None
    chain = parse("uni_ring(1, 40)")
    assert reached(chain, 7).all()
    line = fabric("ab1 bc1 dc1", "abcd")
    assert reached(line, 1).tolist() == [False, True, True, False]
    assert reached(line, 2, backwards=True).tolist() == [True] * 4
    long = parse("path(50)")
    assert reached(long, 49, backwards=True).all()
    assert [n_components(fabric(text, "abcd")) for text in ("", "ab1", "ba1 cb1", "ab1 cd1 da1")] == [
        4,
        3,
        2,
        1,
    ]


def test_distances_of_odd_fabrics() -> None:
    """A one-way ring of three ranks with a switch on the way from c to a."""
    found = fabric("ab4 bc5 cS6 Sa7 bb9")
    assert distance_matrix(found).tolist() == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
    assert distance_matrix(found, sources=[2, 0]).tolist() == [[2, 3, 0], [0, 1, 2]]
    assert distance_distribution(found).tolist() == [[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1]]
    assert eccentricities(found).tolist() == [2, 3, 3]
    assert (diameter(found), diameter(found, sources=[0])) == (3, 2)
    assert mean_distance(found) == Fraction(12, 6)
    assert mean_distance(found, sources=[0]) == Fraction(3, 2)
    assert all_to_all_bound(found) == Fraction(22, 12)
    assert all_to_all_bound(found, sources=[0]) == Fraction(22, 9)
    wrong: tuple[tuple[list[int], str], ...] = (
        ([], "expected at least one source rank, found none"),
        ([0, 3], "source 3 is not a rank; expected 0 to 2"),
        ([-1], "source -1 is not a rank; expected 0 to 2"),
    )
    for sources, words in wrong:
        with pytest.raises(TopologyError, match=f"odd: {words}"):
            distance_matrix(found, sources=sources)
    with pytest.raises(InfeasibleError, match="odd: a cannot be reached from b; expected a connected fabric"):
        distance_matrix(fabric("ab1 bc1 ac1", "abc"))
    with pytest.raises(TopologyError, match="odd: a mean distance needs at least two compute nodes, found 1"):
        mean_distance(fabric("aS1 Sa1", "aS"))
    assert distance_matrix(parse("path(300)"))[0].tolist() == list(range(300))
    assert distance_matrix(parse("ring(130)")).sum() == 130 * 65 * 65


def test_bounds_of_small_graphs() -> None:
    assert [moore_bound(3, k) for k in (-1, 0, 1, 2, 3)] == [0, 1, 4, 13, 40]
    assert [moore_bound(3, k, bidirectional=True) for k in (-1, 0, 1, 2, 3)] == [0, 1, 4, 10, 22]
    assert [moore_bound(d, 4, bidirectional=True) for d in (1, 2)] == [2, 9]
    assert [moore_bound(1, k) for k in (0, 1, 4)] == [1, 2, 5]
    assert ideal_distribution(6, 1) == (1,) * 6
    assert ideal_distribution(2, 1, bidirectional=True) == (1, 1)
    assert ideal_distribution(6, 2, bidirectional=True) == (1, 2, 2, 1)
    assert ideal_distribution(7, 2, bidirectional=True) == (1, 2, 2, 2)
    assert ideal_distribution(15, 3) == (1, 3, 9, 2)
    assert ideal_distribution(15, 3, bidirectional=True) == (1, 3, 6, 5)
    assert (moore_steps(1, 3), moore_steps(13, 3), moore_steps(14, 3)) == (0, 2, 3)
    assert least_mean_distance(15, 3) == Fraction(3 + 18 + 6, 14)
    assert all_to_all_limit(15, 3, bidirectional=True) == Fraction(3, 3 + 12 + 15)
    assert bandwidth_optimum(1) == 0
    for wrong in ((0, 3), (3, 0)):
        with pytest.raises(
            TopologyError, match=r"ideal_distribution: [nd] must be an integer of at least 1, found 0"
        ):
            ideal_distribution(*wrong)
    with pytest.raises(
        TopologyError, match="least_mean_distance: n must be an integer of at least 2, found 1"
    ):
        least_mean_distance(1, 3)
    with pytest.raises(TopologyError, match="all_to_all_limit: n must be an integer of at least 2, found 1"):
        all_to_all_limit(1, 3)
    with pytest.raises(TopologyError, match="moore_bound: k must be an integer of at least -1, found -2"):
        moore_bound(1, -2)
    with pytest.raises(
        TopologyError, match="no connected bidirectional graph of degree 1 has 3 nodes; expected at"
    ):
        ideal_distribution(3, 1, bidirectional=True)


def test_intersection_arrays_in_words_and_rows() -> None:
    found = intersection_array(parse("odd_graph(3)"))
    assert found == IntersectionArray((3, 2), (1, 1))
    assert (str(found), found.at_distance()) == ("{3,2;1,1}", (1, 3, 6))
    assert found.records() == [
        {"distance": 0, "nodes": 1, "b": 3, "a": 0, "c": 0},
        {"distance": 1, "nodes": 3, "b": 2, "a": 0, "c": 1},
        {"distance": 2, "nodes": 6, "b": 0, "a": 2, "c": 1},
    ]
    for text, words in (
        ("leaf_spine(1, 1)", "it has switches"),
        ("uni_ring(1, 3)", "it has links in one direction only"),
        ("bi_ring(4, 3)", "it has parallel links or self-loops"),
        ("path(3)", "it has nodes of different degrees or no links"),
        ("path(1)", "it has nodes of different degrees or no links"),
        ("torus(3, 4)", "c_2 is 1 for a pair of nodes, 2 for another"),
    ):
        with pytest.raises(TopologyError, match="not distance-regular: "):
            intersection_array(parse(text))
        if words.startswith("it"):
            with pytest.raises(TopologyError, match=words):
                intersection_array(parse(text))
