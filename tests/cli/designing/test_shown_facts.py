"""What is shown of a fabric, line by line: odd fabrics by hand, and facts by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from treadle.cli.designing.fabric_text import fact_lines

import treadle
from treadle.cli.designing import topology
from treadle.render.quantities import Rates
from treadle.topologies.topology import Topology, TopologyBuilder

GB = 10**9


def uneven(*, is_connected: bool = True) -> Topology:
    """a gets 3 and sends 5 GB/s, b the other way round; c and d are even."""
    builder = TopologyBuilder("uneven")
    for name in "abcd":
        builder.compute(name)
    builder.link("a", "b", 5 * GB)
    builder.link("b", "a", 3 * GB)
    if is_connected:
        builder.duplex("b", "c", GB)
    builder.duplex("c", "d", GB)
    return builder.build()


def test_balance_and_connection() -> None:
    ring = treadle.parse("ring:3")
    assert topology._balance(ring, Rates()) == "yes"
    assert topology._connection(ring) == "yes"
    assert topology._balance(uneven(), Rates()) == "no: a receives 3 GB/s and sends 5 GB/s and 1 more nodes"
    assert topology._balance(uneven(), Rates("Gbit/s")).startswith("no: a receives 24 Gbit/s and sends 40")
    builder = TopologyBuilder("one way")
    for name in "ab":
        builder.compute(name)
    builder.link("b", "a", 2)
    assert topology._connection(builder.build()) == "no: a does not reach b"
    assert topology._connection(uneven(is_connected=False)) == "no: a does not reach c"


def test_switches_that_are_alike_in_one_line() -> None:
    assert topology._named(["a", "b", "c"]) == "a, b, c"
    assert topology._named(["a", "b", "c", "d"]) == "a and 3 more"
    assert topology._capable(treadle.parse("ring:3")) == []
    asking = topology._capable(treadle.parse("dgx_h100(2, nvls=True)"))
    assert asking == [
        (
            "box0.nvswitch, box1.nvswitch",
            "multicast and aggregation, for a rank that asks, itself included",
        )
    ]


def entry(name: str, signature: str, summary: str = "a `fabric`") -> Any:
    return SimpleNamespace(name=name, group="Some Group", signature=signature, summary=summary)


def test_the_catalogue_by_groups() -> None:
    links = 'bandwidth="1B/s", latency="0ns")'
    one, two = entry("a", f"a(n, *, {links}"), entry("b", f"b({links}")
    assert list(topology._group_lines("G", [one, two])) == [
        'G (also bandwidth="1B/s", latency="0ns"):',
        *("  a(n)", "      a fabric", "  b()", "      a fabric"),
    ]
    other = entry("c", "c(n)")
    assert list(topology._group_lines("G", [one, other])) == [
        "G:",
        *(f"  a(n, *, {links}", "      a fabric", "  c(n)", "      a fabric"),
    ]
    three = entry("slim_fly", "", "Of Diameter-2")
    for text, matches in (
        ("", True),
        ("SLIM-fly group", True),
        ("diameter 2", True),
        ("diameter 3", False),
        ("slim fat", False),
    ):
        assert topology._matches(three, text) is matches


def facts(**changes: Any) -> Any:
    values = {
        "degrees": None,
        "degree": None,
        "is_bidirectional": True,
        "n_ranks": 8,
        "diameter": None,
        "bounds": None,
        "distances": None,
        "allgather": None,
        "reduce_scatter": None,
        "is_direct": False,
        "is_moore_optimal": False,
        "is_moore_optimal_bidirectional": False,
        "is_vertex_transitive": None,
        "is_reverse_symmetric": None,
        "intersection_array": None,
        "omissions": (),
    }
    return SimpleNamespace(**(values | changes))


def bounds(steps: int = 2, pairs: int | None = None, **changes: Any) -> Any:
    values = {
        "steps": steps,
        "steps_bidirectional": pairs,
        "mean_distance": Fraction(4, 3),
        "pair_rate": Fraction(GB, 4),
    }
    return SimpleNamespace(**(values | changes))


def distances(**changes: Any) -> Any:
    values = {
        "mean": Fraction(5, 3),
        "per_node": (Fraction(1), Fraction(3), Fraction(7, 2)),
        "diameter": 2,
        "is_alike": True,
        "pair_rate": None,
    }
    return SimpleNamespace(**(values | changes))


RING = treadle.parse("ring(4, bandwidth='2GB/s')")


def lines(fabric: Topology = RING, **changes: Any) -> list[str]:
    return list(fact_lines(fabric, facts(**changes), Rates()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        (
            {"degrees": (2, 4), "omissions": ("this", "that")},
            [
                "degree     2 to 4, not regular; links come in opposite pairs",
                "left out   this",
                "left out   that",
            ],
        ),
        (
            {"degrees": (3, 3), "degree": 3, "is_bidirectional": False},
            ["degree     3, regular; some links are one-way"],
        ),
        ({"degrees": (0, 0), "degree": 0, "n_ranks": 1, "diameter": 3}, ["degree     0, regular"]),
        ({"diameter": 1}, ["diameter   1 hop"]),
        ({"diameter": 2, "n_ranks": 2}, ["diameter   2 hops"]),
        ({"bounds": bounds()}, ["diameter   not known; the degree allows 2"]),
        ({"diameter": 3, "bounds": bounds(2, 2)}, ["diameter   3 hops; the degree allows 2"]),
        (
            {"diameter": 3, "bounds": bounds(1, 2)},
            ["diameter   3 hops; the degree allows 1 (2 if links come in pairs)"],
        ),
        (
            {"diameter": 3, "bounds": bounds(), "is_moore_optimal": True},
            ["diameter   3 hops; Moore-optimal, as few as the degree allows"],
        ),
        (
            {"diameter": 3, "bounds": bounds(), "is_moore_optimal_bidirectional": True},
            [
                "diameter   3 hops; Moore-optimal for links that come in pairs (one-way links: at least 2)",
            ],
        ),
        (
            {"diameter": 2, "distances": distances()},
            [
                "diameter   2 hops",
                "distances  1.667 hops on average",
                "           3, 3.50 nodes at 1 to 2 hops from every node",
            ],
        ),
        (
            {
                "bounds": bounds(),
                "distances": distances(
                    mean=Fraction(1), per_node=(Fraction(1), Fraction(7)), diameter=1, is_alike=False
                ),
            },
            [
                "diameter   not known; the degree allows 2",
                "distances  1 hop on average, at least 1.333",
                "           7 nodes at 1 hop on average",
            ],
        ),
        ({"distances": distances(mean=None)}, []),
        (
            {
                "is_direct": True,
                "is_vertex_transitive": True,
                "is_reverse_symmetric": False,
                "intersection_array": "{2,1;1,1}",
            },
            [
                "symmetries vertex-transitive: yes; reverse-symmetric: no",
                "           distance-regular, intersection array {2,1;1,1}",
            ],
        ),
        ({"is_direct": True}, ["symmetries vertex-transitive: undecided; reverse-symmetric: undecided"]),
    ],
)
def test_facts_of_a_fabric(changes: dict[str, Any], told: list[str]) -> None:
    assert lines(**changes) == told


def test_only_some_distances_are_told() -> None:
    for count, end in ((12, "12"), (13, "12, ...")):
        per_node = tuple(Fraction(place) for place in range(count + 1))
        told = lines(distances=distances(per_node=per_node, diameter=count))
        assert told[-1].endswith(f"11, {end} nodes at 1 to {count} hops from every node")


def cost(steps: int, **changes: Any) -> Any:
    values = {
        "node_bandwidth": 2 * GB,
        "n_ranks": 8,
        "t_b": Fraction(9, 8),
        "is_bw_optimal": False,
        "diameter": steps,
        "seconds_per_byte": Fraction(1, 4 * GB),
    }
    return SimpleNamespace(**(values | changes))


def test_costs_of_breadth_first_broadcast() -> None:
    best = cost(1, t_b=Fraction(7, 8), is_bw_optimal=True)
    assert lines(allgather=best, reduce_scatter=cost(2)) == [
        "breadth-first broadcast",
        "           allgather      1 step, T_B = 7/8 M/B = 0.8750, bandwidth-optimal",
        "           reduce-scatter 2 steps, T_B = 9/8 M/B = 1.1250, at least 7/8",
    ]
    assert lines(allgather=cost(2, node_bandwidth=None), reduce_scatter=best)[1] == (
        "           allgather      2 steps, algbw 4 GB/s, busbw 3.5 GB/s"
    )
    assert lines(allgather=best) == lines(reduce_scatter=best) == []


def test_rates_of_pairs_by_distances() -> None:
    found = distances(mean=None, pair_rate=Fraction(GB, 2))
    start = "all-to-all at most 0.25 of a link's bandwidth per pair, by distances"
    assert lines(distances=found) == [start]
    assert lines(distances=found, bounds=bounds())[-1] == f"{start}; the degree allows 0.125"
    assert lines(distances=found, bounds=bounds(pair_rate=None))[-1] == start
    assert lines(uneven(), distances=found) == [
        "all-to-all at most 500 MB/s for each pair of nodes, by distances"
    ]


def test_what_was_read_from_a_file() -> None:
    found: Any = SimpleNamespace(
        format="nccl",
        recognised={"boxes": "2 of 4", "a long subject": "x"},
        defaulted=("one",),
        warnings=("two", "three"),
    )
    assert list(topology._import_lines("x.xml", found, uneven())) == [
        "file        x.xml, read as nccl",
        "boxes       2 of 4",
        "a long subject x",
        "defaulted   one",
        "warning     two",
        "warning     three",
        "fabric      uneven: 4 compute nodes, 0 switches, 6 links",
    ]
