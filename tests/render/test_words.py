"""Words of the reports: node sets, exact bandwidths, durations."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from treadle.cli.main import main
from treadle.errors import FormatError
from treadle.options.rows import integers, seconds
from treadle.planning import bound, make_problem
from treadle.render.names import describe_links, describe_nodes
from treadle.render.quantities import Rates, busbw
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.topologies import TopologyBuilder, parse


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["box0.gpu0"], "{box0.gpu0}"),
        (["box0.*"], "{box0.*} (17 nodes)"),
        (["box0.*", "box1.*"], "{box0.*, box1.*} (34 nodes)"),
        (["box0.*", "box2.*", "ib1"], "all but {box1.*, ib0} (35 nodes)"),
        (["box0.*", "ib1"], "{box0.*, ib1} (18 nodes)"),
        (["box0.gpu0", "box0.gpu1", "box0.gpu2", "box1.gpu5"], "{box0.gpu0-2, box1.gpu5} (4 nodes)"),
        (["box0.*", "box1.*", "ib0", "ib1"], "all but {box2.*} (36 nodes)"),
    ],
)
def test_node_sets_in_few_words(names: list[str], text: str) -> None:
    fabric = parse("dgx_a100:3")
    nodes = {
        node
        for name in names
        for node, found in enumerate(fabric.node_names)
        if found == name or (name.endswith("*") and found.startswith(name[:-1]))
    }
    assert describe_nodes(fabric, nodes) == text


def test_a_box_of_one_node_has_that_nodes_name() -> None:
    """`a.*` would hide which node it is."""
    builder = TopologyBuilder("lone")
    for name in ("a.gpu7", "b.gpu0", "b.gpu1", "c.gpu2", "c.gpu3"):
        builder.compute(name)
    builder.duplex("a.gpu7", "b.gpu0", 1)
    assert describe_nodes(builder.build(), [0]) == "{a.gpu7}"
    assert describe_nodes(builder.build(), [1, 2]) == "{b.*} (2 nodes)"


def test_names_without_boxes_become_ranges() -> None:
    fabric = parse("ring:12")
    assert describe_nodes(fabric, [0, 1, 2, 7]) == "{n0-2, n7} (4 nodes)"
    assert describe_nodes(fabric, range(12)) == "{n0-11} (12 nodes)"
    assert describe_nodes(fabric, range(1, 12)) == "{n1-11} (11 nodes)"
    assert describe_nodes(parse("ring:40"), range(0, 40, 2)).endswith("... (14 more)} (20 nodes)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1040 * 10**9, 3), "346.67 GB/s (1040/3)"),
        (Fraction(25 * 10**9), "25 GB/s"),
        (Fraction(12_500_000_000), "12.5 GB/s"),
        (Fraction(4, 3), "1.33 B/s (4/3)"),
        (Fraction(10**9, 10007), "99.93 kB/s"),
    ],
)
def test_exact_bandwidths(value: Fraction, text: str) -> None:
    assert Rates().exact(value) == text


def test_durations_and_integers() -> None:
    assert seconds("1.5s", "") == 1.5
    assert seconds("2min", "") == 120
    assert integers("1,-2, 3", "x") == (1, -2, 3)
    for text in ("", "1,", "a", "1;2"):
        with pytest.raises(FormatError, match="--weights"):
            integers(text, "--weights")
    for text in ("5", "0s", "s", "-1s", "1 parsec"):
        with pytest.raises(FormatError):
            seconds(text, "")


def test_link_sets_as_patterns() -> None:
    fabric = parse("dgx_a100:2")
    up = [e for e in range(fabric.n_links) if ".gpu" in fabric.link_name(e).split("->")[0]]
    assert (
        describe_links(fabric, up)
        == "all links gpu -> nvswitch (16 of 300 GB/s) and gpu -> nic (16 of 25 GB/s)"
    )
    both = [e for e in range(fabric.n_links) if "gpu" in fabric.link_name(e)]
    assert (
        describe_links(fabric, both)
        == "all links gpu <-> nvswitch (32 of 300 GB/s) and gpu <-> nic (32 of 25 GB/s)"
    )
    assert describe_links(fabric, both[:4]) == "4 of 32 links gpu <-> nvswitch (300 GB/s)"
    assert describe_links(fabric, up[:1]) == "link box0.gpu0 -> box0.nvswitch (300 GB/s)"
    assert describe_links(fabric, range(fabric.n_links)) == "all 96 links"
    assert describe_links(fabric, []) == ""
    torus = parse("torus:4,4")
    assert describe_links(torus, range(5)) == "5 of 64 links n -> n (1 B/s)"


def test_rates_in_a_chosen_unit() -> None:
    value = Fraction(1040 * 10**9, 3)
    assert Rates("Gbit/s").exact(value) == "2773.33 Gbit/s (8320/3)"
    assert Rates("GiB/s")(2**30) == "1 GiB/s"
    assert Rates("GB/s")(1) == "1e-09 GB/s"  # never rounded to nothing
    assert Rates("Mbit/s").number(25e6, 1) == "200.0"
    assert Rates().number(25e9, 2) == "25.00"
    assert Rates().link(25 * 10**9 // 3) == "8.333333333 GB/s"
    with pytest.raises(FormatError, match="unit 'GB': expected one such as GB/s"):
        Rates("GB")


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("allgather", Fraction(3, 4)),
        ("reduce-scatter", Fraction(3, 4)),
        ("allreduce", Fraction(3, 2)),
        ("alltoall", Fraction(3, 4)),
        ("broadcast", Fraction(1)),
        ("reduce", Fraction(1)),
    ],
)
def test_busbw_is_that_of_nccl_tests(kind: str, factor: Fraction) -> None:
    """doc/PERFORMANCE.md of nccl-tests, "Bus Bandwidth"."""
    collective = make_problem("ring:4", kind).collective
    assert busbw(Fraction(8), collective) == 8 * factor
    assert Rates().both(Fraction(8), collective) == f"8 B/s algbw, {8 * factor} B/s busbw"


@pytest.mark.parametrize("kind", CollectiveKind)
def test_busbw_stands_beside_algbw_wherever_a_rate_is_printed(
    kind: CollectiveKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric, plan = 'ring(4, bandwidth="1GB/s")', str(tmp_path / "plan")
    algorithm = "pairwise" if kind is CollectiveKind.ALLTOALL else "ring"
    scaled = Rates()(busbw(bound(fabric, kind).bound.algbw, make_problem(fabric, kind).collective))
    for argv in (
        ["bound", fabric, kind.value],
        ["solve", fabric, kind.value, "-o", plan],
        ["compare", fabric, kind.value, "--algorithms", algorithm],
        ["run", plan, "--size", "1K", "--iterations", "1"],
        ["simulate", plan, "--size", "1K"],
        ["verify", plan],
    ):
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert f"{scaled} busbw" in out
        assert "busbw" in out
        assert main([*argv, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        for name in ("", "optimal_"):
            if f"{name}algbw_exact" in values:
                algbw, scaled_exact = (Fraction(values[f"{name}{one}_exact"]) for one in ("algbw", "busbw"))
                assert scaled_exact == algbw * busbw_factor(kind, 4)
        assert "optimal_busbw_exact" in values


@pytest.mark.parametrize("kind", ["allgather", "reduce_scatter"])
@pytest.mark.parametrize("fabric", ["dgx_a100:2", "star(4)", "pods:3,3"])
def test_cuts_are_told_from_their_smaller_side(
    fabric: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bound", fabric, kind, "--unit", "B/s"]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("bottleneck")]
    found = re.fullmatch(
        r"bottleneck   cut: (\d+) of (\d+) shards must (enter|leave) \{(\S+)\}(?: \((\d+) nodes\))? "
        r"over (\d+) B/s",
        line,
    )
    assert found is not None, line
    demand, total, way, place, n_nodes, capacity = found.groups()
    topology, name = parse(fabric), place.replace("*", "")
    side = np.array([one == name or ("*" in place and one.startswith(name)) for one in topology.node_names])
    assert side.sum() == int(n_nodes or 1)
    n_inside, n_ranks = int(side[topology.compute_nodes].sum()), len(topology.compute_nodes)
    assert 2 * n_inside <= n_ranks == int(total)
    ends = (topology.heads, topology.tails) if way == "enter" else (topology.tails, topology.heads)
    assert int(capacity) == topology.bandwidths[side[ends[0]] & ~side[ends[1]]].sum()
    # what the others have comes in, what they want goes out
    assert int(demand) == n_ranks - n_inside
    assert (way == "enter") == (kind == "allgather")
