"""Certificates: bounds of cuts by hand, and refusals of what proves nothing, word for word."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.certificate import BottleneckCut, certificate_from_json
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_certificate import MAX_LENGTHS, GroupDualCertificate
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.topologies.topology import Topology, TopologyBuilder


def fabric() -> Topology:
    """Ranks a, b, c around a switch w; links of 2, 3, 5, 7, 11, 13 bytes/s."""
    builder = TopologyBuilder("odd")
    for name in "abc":
        builder.compute(name)
    builder.switch("w")
    for tail, head, bandwidth in (*("aw2", "wa3", "bw5", "wb7"), ("c", "w", 11), ("w", "c", 13)):
        builder.link(tail, head, int(bandwidth))
    return builder.build()


FABRIC = fabric()


def posed(kind: str = "allgather", **fields: Any) -> Collective:
    """Ranks 0, 1, 2 are c, a, b."""
    return Collective(CollectiveKind(kind), (2, 0, 1), **fields)


@pytest.mark.parametrize(
    ("collective", "nodes", "bound"),
    [
        # the shard of a leaves by 2 bytes/s; b and c together by 5 + 11; of weights 1, 4, 2 those of a
        (posed(), (0,), 3 * 2),
        (posed(), (1, 2), Fraction(3 * 16, 2)),
        (posed(weights=(1, 4, 2)), (0,), Fraction(7 * 2, 4)),
        (posed(weights=(1, 4, 2)), (1, 2, 3), Fraction(7 * 3, 3)),
        # partial results enter instead
        (posed("reduce-scatter"), (0,), 3 * 3),
        (posed("reduce-scatter", weights=(1, 4, 2)), (1, 2, 3), Fraction(7 * 2, 3)),
        (posed("broadcast", root=1), (0,), 2),
        (posed("reduce", root=1), (0,), 3),
    ],
)
def test_bounds_of_cuts(collective: Collective, nodes: tuple[int, ...], bound: Fraction) -> None:
    assert BottleneckCut(nodes).bound(FABRIC, collective) == bound


@pytest.mark.parametrize(
    ("collective", "nodes", "text"),
    [
        (posed("allreduce"), (0,), "a single cut is not a certificate for an allreduce"),
        (posed(), (0, 4), "the cut names a node beyond the 4 of odd"),
        (posed(), (-1, 0), "the cut names a node beyond the 4 of odd"),
        (posed(), (0, 1, 2), "the cut contains every rank, so nothing has to cross it"),
        (posed(), (3,), "the cut contains no data, so nothing has to cross it"),
        (posed(), (), "the cut contains no data, so nothing has to cross it"),
        (posed("broadcast", root=1), (1, 2), "the cut contains no data, so nothing has to cross it"),
    ],
)
def test_cuts_that_prove_nothing(collective: Collective, nodes: tuple[int, ...], text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        BottleneckCut(nodes).bound(FABRIC, collective)
    assert str(caught.value) == text


def test_lengths_between_ranks_that_are_apart_prove_nothing() -> None:
    builder = TopologyBuilder("apart")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    with pytest.raises(ScheduleError, match=r"^length certificate: the ranks are not connected$"):
        DualCertificate((Fraction(1),) * 2).bound(builder.build(), posed("allreduce"))


LENGTHS = "length certificate: expected the keys kind and lengths, a list"
DISTANCES = (
    "distance certificate: expected the keys kind and lengths, a list; optional: hosts, a list, and "
    "cards_forward, true or false"
)
CUTS = (
    "cut combination: expected the keys kind, broadcast_cuts, reduce_cuts, broadcast_potentials, "
    "reduce_potentials"
)
RUNS = "group length certificate: expected the keys kind, values, run_value, run_links, three lists"
KEYS = "bottleneck cut: expected the keys kind and nodes, a list"
NODES = "bottleneck cut: nodes must be node indices"
FAR = "distance certificate: lengths must be integers from 0 to 2**40"
MANY = "group length certificate: run_value and run_links must be as many integers"
SHORT = f"group length certificate: runs of 1 or more links, at most {MAX_LENGTHS} in all"
NO_CUTS = CutCombinationCertificate((), ()).to_json()
GROUPS: dict[str, Any] = {
    "kind": "group-lengths",
    "values": ["0", "1/3"],
    "run_value": [0, 1],
    "run_links": [1, 2],
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "certificate: expected an object"),
        (
            {"kind": "cuts"},
            "certificate: kind 'cuts', expected one of cut, lengths, cut-combination, distances, "
            "group-lengths",
        ),
        ({"kind": "cut"}, KEYS),
        ({"kind": "cut", "nodes": [0], "more": 1}, KEYS),
        ({"kind": "cut", "nodes": 0}, KEYS),
        ({"kind": "cut", "nodes": [0, True]}, NODES),
        ({"kind": "cut", "nodes": [-1, 0]}, NODES),
        ({"kind": "cut", "nodes": [0, 2**31]}, NODES),
        ({"kind": "cut", "nodes": [0, 2, 1]}, "bottleneck cut: nodes must rise"),
        ({"kind": "cut", "nodes": [0, 2, 2]}, "bottleneck cut: nodes must rise"),
        ({"kind": "lengths"}, LENGTHS),
        ({"kind": "lengths", "lengths": "1"}, LENGTHS),
        ({"kind": "lengths", "lengths": ["1"], "more": 1}, LENGTHS),
        ({"kind": "lengths", "lengths": ["1", "1/02"]}, "certificate: '1/02' is not a rational p/q"),
        ({"kind": "lengths", "lengths": ["1/0"]}, "certificate: '1/0' is not a rational p/q"),
        ({"kind": "lengths", "lengths": ["9" * 1001]}, f"certificate: '{'9' * 40}' is not a rational p/q"),
        (
            {"kind": "lengths", "lengths": [f"1/{'9' * 1001}"]},
            f"certificate: '1/{'9' * 38}' is not a rational p/q",
        ),
        ({"kind": "distances"}, DISTANCES),
        ({"kind": "distances", "lengths": [1], "more": 1}, DISTANCES),
        ({"kind": "distances", "lengths": [1], "hosts": 1}, DISTANCES),
        ({"kind": "distances", "lengths": [1], "cards_forward": 1}, DISTANCES),
        (
            {"kind": "distances", "lengths": [1], "hosts": [[1]]},
            "distance certificate: hosts: expected two lengths for each",
        ),
        (
            {"kind": "distances", "lengths": [2**40 + 1]},
            FAR,
        ),
        ({"kind": "distances", "lengths": [1], "hosts": [[1, -1]]}, FAR),
        ({"kind": "distances", "lengths": [True]}, FAR),
        ({"kind": "cut-combination"}, CUTS),
        (NO_CUTS | {"more": 1}, CUTS),
        (NO_CUTS | {"reduce_cuts": {}}, "cut combination: expected lists of objects"),
        (NO_CUTS | {"prices": {}}, "cut combination: expected lists of objects"),
        (
            NO_CUTS | {"broadcast_cuts": [[]]},
            "cut combination: expected objects with the keys nodes and multiplier",
        ),
        (
            NO_CUTS | {"prices": [{"link": 0, "potential": "1"}]},
            "cut combination: expected objects with the keys link and price",
        ),
        (
            NO_CUTS | {"reduce_potentials": [{"node": 0}]},
            "cut combination: expected objects with the keys node and potential",
        ),
        (
            NO_CUTS | {"reduce_cuts": [{"nodes": 1, "multiplier": "1"}]},
            "cut combination: nodes must be a list of node indices",
        ),
        (
            NO_CUTS | {"reduce_cuts": [{"nodes": [2**31], "multiplier": "1"}]},
            "cut combination: 2147483648 is not a node index",
        ),
        (
            NO_CUTS | {"broadcast_potentials": [{"node": -1, "potential": "1"}]},
            "cut combination: -1 is not a node index",
        ),
        (NO_CUTS | {"prices": [{"link": 1, "price": 2}]}, "certificate: '2' is not a rational p/q"),
        (GROUPS | {"more": 1}, RUNS),
        (GROUPS | {"values": "0"}, RUNS),
        (GROUPS | {"run_links": None}, RUNS),
        (GROUPS | {"values": ["0", 1]}, "certificate: '1' is not a rational p/q"),
        (
            GROUPS | {"run_value": [0]},
            MANY,
        ),
        (GROUPS | {"run_value": [0, True]}, MANY),
        (GROUPS | {"run_links": [1, 1.0]}, MANY),
        (GROUPS | {"run_value": [0, 2]}, "group length certificate: run_value must be 0 to 1"),
        (GROUPS | {"run_value": [-1, 0]}, "group length certificate: run_value must be 0 to 1"),
        (
            GROUPS | {"run_links": [1, 0]},
            SHORT,
        ),
        (GROUPS | {"run_links": [1, MAX_LENGTHS]}, SHORT),
    ],
)
def test_what_is_no_witness(value: Any, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        certificate_from_json(value)
    assert str(caught.value) == text


def test_witnesses_at_their_limits() -> None:
    assert certificate_from_json({"kind": "cut", "nodes": [0, 2**31 - 1]}) == BottleneckCut((0, 2**31 - 1))
    assert certificate_from_json({"kind": "cut", "nodes": []}) == BottleneckCut(())
    long = Fraction(int("9" * 1000), int("8" * 1000))
    found = certificate_from_json({"kind": "lengths", "lengths": [f"-{'9' * 1000}/{'8' * 1000}", "0"]})
    assert found == DualCertificate((-long, Fraction(0)))
    found = certificate_from_json({"kind": "distances", "lengths": [0, 2**40], "hosts": [[2**40, 0]]})
    assert found == FlowDualCertificate(np.array([0, 2**40]), np.array([[2**40, 0]]))
    assert found != FlowDualCertificate(np.array([0, 2**40]), np.array([[2**40, 0]]), cards_forward=True)
    third = Fraction(1, 3)
    assert certificate_from_json(GROUPS) == GroupDualCertificate((Fraction(0), third, third))
    prices = [{"link": 2**31 - 1, "price": "1/2"}]
    found = certificate_from_json(NO_CUTS | {"prices": prices})
    assert found == CutCombinationCertificate((), (), prices=((2**31 - 1, Fraction(1, 2)),))
    for one in (BottleneckCut((1, 2)), found, DualCertificate((third,)), GroupDualCertificate((third,))):
        assert certificate_from_json(one.to_json()) == one


def test_refusals_of_long_values_are_short() -> None:
    long = "x" * 1000
    for value, said in (
        ({"kind": long}, f"certificate: kind '{long[:39]}, expected one of "),
        (
            {
                "kind": "cut-combination",
                "broadcast_cuts": [{"nodes": [long], "multiplier": "1"}],
                **{key: [] for key in ("reduce_cuts", "broadcast_potentials", "reduce_potentials")},
            },
            f"cut combination: '{long[:39]} is not a node index",
        ),
    ):
        with pytest.raises(FormatError) as caught:
            certificate_from_json(value)
        assert str(caught.value).startswith(said)
        assert len(str(caught.value)) < 200
