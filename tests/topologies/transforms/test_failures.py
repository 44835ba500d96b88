"""What failed, by names and patterns as people type them; the fabric's name stays an expression."""

from itertools import pairwise

import pytest

from treadle.errors import TopologyError
from treadle.topologies import parse, without_failures
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.failures import named_failures, without_links_and_nodes

FABRIC = "leaf_spine(4, 2, gpus_per_leaf=2)"


def pairs(topology: Topology) -> set[tuple[str, str]]:
    """Names at the ends of every link."""
    names = topology.node_names
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    return {(names[tail], names[head]) for tail, head in ends}


def both(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)


@pytest.mark.parametrize(
    ("failed", "gone"),
    [
        ("leaf3--spine1", {("leaf3", "spine1"), ("spine1", "leaf3")}),
        ("leaf3->spine1", {("leaf3", "spine1")}),
        ("spine1->leaf3, leaf0->spine0", {("spine1", "leaf3"), ("leaf0", "spine0")}),
        (["spine1->leaf3", "leaf0->spine0"], {("spine1", "leaf3"), ("leaf0", "spine0")}),
        ("leaf?->spine1", {(f"leaf{one}", "spine1") for one in range(4)}),
        ("leaf[01]--spine1", {pair for one in "01" for pair in both(f"leaf{one}", "spine1")}),
        ("leaf3--*.gpu1", {("leaf3", "leaf3.gpu1"), ("leaf3.gpu1", "leaf3")}),
        (
            "leaf1--leaf1.gpu*,leaf1--leaf1.gpu0",
            {pair for one in "01" for pair in both("leaf1", f"leaf1.gpu{one}")},
        ),
    ],
)
def test_just_these_links_go(failed: str | list[str], gone: set[tuple[str, str]]) -> None:
    fabric = parse(FABRIC)
    left = without_failures(fabric, failed)
    assert pairs(fabric) - pairs(left) == gone
    assert left.node_names == fabric.node_names
    assert parse(left.name) == left
    assert parse(left.name).name == left.name


@pytest.mark.parametrize(
    ("failed", "gone"),
    [
        ("leaf2.gpu1", {"leaf2.gpu1"}),
        ("leaf*.gpu1", {f"leaf{leaf}.gpu1" for leaf in range(4)}),
        ("spine1", {"spine1"}),
        ("leaf*--spine0", {"spine0"}),  # which leads nowhere then
        ("leaf*--spine0,spine0", {"spine0"}),
        ("leaf*--spine0,spine0,leaf0.gpu0", {"spine0", "leaf0.gpu0"}),
    ],
)
def test_just_these_nodes_go(failed: str, gone: set[str]) -> None:
    fabric = parse(FABRIC)
    left = without_failures(fabric, failed)
    assert set(fabric.node_names) - set(left.node_names) == gone
    assert parse(left.name) == left
    assert parse(left.name).name == left.name


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        ("leaf3--spine9", "no node is called 'spine9'; did you mean"),
        ("leaf3--leaf2", "there is no link 'leaf3--leaf2'"),
        ("leaf?--leaf?", "there is no link 'leaf.--leaf.'"),
        ("spien1", "no node is called 'spien1'; did you mean"),
        ("pod*", "no node and no link is called as 'pod.'"),
        ("pod*--spine0", "no node and no link is called as 'pod.--spine0'"),
        ("", "no node is called ''"),
        ("spine0,,spine1", "no node is called ''"),
        ("*.gpu*", "no compute node is left"),
    ],
)
def test_what_there_is_not_is_said(failed: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        without_failures(parse(FABRIC), failed)


def test_names_with_arrows_commas_and_stars_mean_themselves() -> None:
    build = TopologyBuilder("odd")
    names = ("a--b", "c,d", "e*", "ef")
    for name in names:
        build.compute(name)
    for one, other in pairwise((*names, names[0])):
        build.duplex(one, other, 1)
    fabric = build.build()
    assert named_failures(fabric, "a--b--c,d") == (("a--b--c,d",), ())
    assert named_failures(fabric, "c,d") == ((), ("c,d",))
    assert named_failures(fabric, "a--b") == ((), ("a--b",))
    assert named_failures(fabric, "e*") == ((), ("e*",))
    assert named_failures(fabric, "e?") == ((), ("e*", "ef"))
    assert named_failures(fabric, ["e*--ef", "c,d->e*", "e[f]"]) == (("e*--ef", "c,d->e*"), ("ef",))


def test_an_unknown_node_is_refused_where_links_took_others_along() -> None:
    fabric = parse(FABRIC)
    links = [f"leaf{one}--spine0" for one in range(4)]
    assert "spine0" not in without_links_and_nodes(fabric, links, ["spine0"]).node_names
    with pytest.raises(TopologyError, match="no node is called 'spine7'"):
        without_links_and_nodes(fabric, links, ["spine7"])


def test_an_arrow_in_a_pattern_means_links_that_way_only() -> None:
    fabric = parse("ring(4, bidirectional=False)")
    assert named_failures(fabric, "n?->n0") == (("n3->n0",), ())
    assert set(named_failures(fabric, "n?--n0")[0]) == {"n1--n0", "n3--n0"}


def test_one_of_several_cables_fails_by_its_number() -> None:
    fabric = parse("with_parallel_links(ring(4), 3)")
    assert named_failures(fabric, "n0--n1#2, n1->n2#0,n3") == (("n0--n1#2", "n1->n2#0"), ("n3",))
    left = without_failures(fabric, "n0--n1#2,n1->n2#0")
    assert left.n_links == fabric.n_links - 3
    assert parse(left.name) == left
    with pytest.raises(TopologyError, match="there is no link 'n0--n1#3'"):
        without_failures(fabric, "n0--n1#3")
    with pytest.raises(TopologyError, match="no node is called 'n9#0'"):
        without_failures(fabric, "n0--n9#0")
