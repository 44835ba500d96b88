import itertools
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from reference.optimum import optimal_algbw
from samples.strategies import eulerian_topologies
from treadle.errors import TopologyError
from treadle.topologies import (
    Topology,
    TopologyBuilder,
    are_ranks_connected,
    complete,
    dgx_a100,
    dgx_a100_flat,
    dgx_h100,
    has_uniform_links,
    is_eulerian,
    is_symmetric,
    leaf_spine,
    mi250,
    non_eulerian_nodes,
    path,
    ring,
    subset,
    trimmed,
    unreachable_pair,
    with_failed_links,
    with_failed_nodes,
)
from treadle.topologies.transforms.balance import balanced_capacities

GB = 10**9


def links_of(topology):
    """Sorted (tail name, head name, bandwidth) of every link."""
    names = topology.node_names
    columns = (topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist())
    return sorted((names[u], names[v], b) for u, v, b in zip(*columns, strict=True))


def has_balanced_switches(topology):
    surplus = topology.egress_bytes_per_s() - topology.ingress_bytes_per_s()
    return not surplus[topology.switches].any()


def test_a_link_fails_in_one_direction_or_both():
    whole = links_of(ring(4))
    one_way = links_of(with_failed_links(ring(4), "n0->n1"))
    assert one_way == [link for link in whole if link[:2] != ("n0", "n1")]
    both = links_of(with_failed_links(ring(4), "n1--n0"))
    assert both == [link for link in whole if set(link[:2]) != {"n0", "n1"}]
    assert links_of(with_failed_links(ring(4), "n0->n1", "n1->n0")) == both
    assert with_failed_links(ring(4)) == ring(4)


def test_parallel_links_fail_together_and_names_may_hold_arrows():
    builder = TopologyBuilder("odd")
    for name in ("a->b", "c", "a"):
        builder.compute(name)
    builder.link("a->b", "c", 3)
    builder.link("a->b", "c", 4)
    builder.link("c", "a->b", 7)
    builder.link("a", "c", 1)
    assert links_of(with_failed_links(builder.build(), "a->b->c")) == [("a", "c", 1), ("c", "a->b", 7)]


def test_a_number_means_one_cable_or_link_of_several():
    builder = TopologyBuilder("several")
    for name in ("a", "b", "b#1"):
        builder.compute(name)
    for bandwidth in (3, 4):
        builder.duplex("a", "b", bandwidth)
    builder.link("b", "a", 5)
    builder.link("a", "b#1", 6)
    fabric = builder.build()
    whole = [("a", "b", 3), ("b", "a", 3), ("a", "b", 4), ("b", "a", 4), ("b", "a", 5), ("a", "b#1", 6)]
    for name, gone in (
        ("a--b#0", [0, 1]),
        ("b--a#1", [2, 3]),
        ("a->b#0", [0]),
        ("a->b#1", [5]),  # as it stands it is the link to the node of that name
        ("a->b#1#0", [5]),
        ("b->a#2", [4]),
        ("a->b", [0, 2]),
    ):
        left = with_failed_links(fabric, name)
        assert links_of(left) == sorted(link for place, link in enumerate(whole) if place not in gone)
    with pytest.raises(TopologyError, match=r"no link 'a--b#2': cables of both .* from 0, 2 in all"):
        with_failed_links(fabric, "a--b#2")
    with pytest.raises(TopologyError, match=r"no link 'b->a#3': links that way .* from 0, 3 in all"):
        with_failed_links(fabric, "b->a#3")


def test_compute_nodes_stay_and_switches_that_lead_nowhere_go():
    isolated = with_failed_links(dgx_a100_flat(2), "box0.gpu3--ib0", "box0.gpu3--box0.nvswitch")
    assert len(isolated.compute_nodes) == 16
    assert unreachable_pair(isolated) == (0, 3)
    # NIC 3 keeps its rail only, then nothing needs it.
    cut = with_failed_links(dgx_a100(2), "box0.gpu3--box0.nic3")
    assert "box0.nic3" not in cut.node_names
    assert is_eulerian(cut)
    # A failed leaf takes its uplinks along, and a spine that joins nothing goes too.
    single = with_failed_nodes(leaf_spine(2, 1, gpus_per_leaf=2), "leaf0")
    assert single.node_names == ("leaf0.gpu0", "leaf0.gpu1", "leaf1", "leaf1.gpu0", "leaf1.gpu1")


def test_a_one_way_link_keeps_its_switch():
    fabric = with_failed_links(dgx_a100(2), "box0.nic1->ib1")
    assert "box0.nic1" in fabric.node_names
    names = [fabric.node_names[v] for v in non_eulerian_nodes(fabric)]
    assert names == ["box0.nic1", "ib1"] or names == ["ib1", "box0.nic1"]


def test_an_unbalanced_dead_end_stays_until_it_is_trimmed():
    # Without the NIC's last way in, the rail would look balanced though it is not.
    fabric = with_failed_links(dgx_a100(2), "box0.gpu1--box0.nic1", "box0.nic1->ib1")
    assert "box0.nic1" in fabric.node_names
    assert len(non_eulerian_nodes(fabric)) == 2
    assert links_of(trimmed(fabric)) == links_of(with_failed_nodes(dgx_a100(2), "box0.nic1"))


def test_failed_nodes_keep_the_rest():
    fabric = with_failed_nodes(dgx_a100(2), "box1.nic0", "ib1")
    assert len(fabric.compute_nodes) == 16
    assert not any(name.endswith(("nic1", "nic3", "nic5", "nic7")) for name in fabric.node_names)
    assert is_eulerian(fabric)
    assert is_symmetric(fabric)
    assert links_of(with_failed_nodes(ring(4), "n2")) == [
        ("n0", "n1", 1),
        ("n0", "n3", 1),
        ("n1", "n0", 1),
        ("n3", "n0", 1),
    ]


def test_attributes_follow_their_nodes():
    fabric = with_failed_nodes(dgx_h100(2, nvls=True, sharp=True), "box0.gpu0")
    assert [fabric.node_names[v] for v in np.flatnonzero(fabric.multicast)] == [
        "box0.nvswitch",
        "box1.nvswitch",
        "ib0",
    ]
    assert [fabric.node_names[v] for v in np.flatnonzero(fabric.turns_round)] == ["ib0"]
    capped = Topology(
        "capped",
        ("a", "b", "c"),
        np.ones(3, bool),
        np.array([0, 2]),
        np.array([2, 0]),
        np.array([5, 6]),
        latencies_ns=np.array([7, 8]),
        injection_bytes_per_s=np.array([1, 2, 3]),
    )
    left = with_failed_nodes(capped, "b")
    assert left.injection_bytes_per_s.tolist() == [1, 3]
    assert left.latencies_ns.tolist() == [7, 8]
    assert (left.tails.tolist(), left.heads.tolist()) == ([0, 1], [1, 0])


def test_subset_is_the_8_plus_8_case():
    expected = mi250(2, gpus_per_box=8)
    names = [f"box{b}.gpu{i}" for b in range(2) for i in range(8)]
    assert subset(mi250(2), *names) == expected
    assert subset(mi250(2), "16-23", *range(8)) == subset(expected, "8-15", "0-7") != expected
    # One box of two keeps its way through the InfiniBand switch; only what leads nowhere goes.
    assert subset(dgx_a100_flat(2), "0-7").node_names == (*dgx_a100_flat(1).node_names, "ib0")
    assert optimal_algbw(subset(mi250(2), "0-7", "16-23")) == 208 * GB


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: with_failed_links(mi250(2), "box0.gpu1->ib"), "no node is called 'ib'; did you mean 'ib0'"),
        (lambda: with_failed_links(ring(4), "n0->n2"), "there is no link 'n0->n2'"),
        (lambda: with_failed_links(ring(4), "n0--n2"), "there is no link"),
        (lambda: with_failed_links(ring(4), "n0"), "expected 'tail->head' or 'one--other'"),
        (lambda: with_failed_links(ring(4), ""), "expected 'tail->head' or 'one--other'"),
        (lambda: with_failed_nodes(ring(4), "m0"), "no node is called 'm0'"),
        (lambda: with_failed_nodes(ring(2), "n0", "n1"), "no compute node is left"),
        (lambda: subset(ring(4)), "at least one"),
        (lambda: subset(ring(4), 4), "not within ranks 0 to 3"),
        (lambda: subset(ring(4), -1), "not within ranks"),
        (lambda: subset(ring(4), "2-1"), "not within ranks"),
        (lambda: subset(ring(4), "0-4"), "not within ranks"),
        (lambda: subset(ring(4), "x"), "no node is called 'x'"),
        (lambda: subset(ring(4), True), "expected a rank or a name"),
        (lambda: subset(dgx_a100(1), "box0.nvswitch"), "is a switch"),
    ],
)
def test_wrong_names_are_refused(make, message):
    with pytest.raises(TopologyError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_trimming_a_nic_that_receives_only():
    fabric = trimmed(with_failed_links(dgx_a100(2), "box0.nic1->ib1"))
    assert has_balanced_switches(fabric)
    # The other direction goes, and then the NIC, which leads nowhere: nothing else is touched.
    assert links_of(fabric) == links_of(with_failed_nodes(dgx_a100(2), "box0.nic1"))


def test_trimming_keeps_what_is_balanced():
    for fabric in (ring(5), ring(5, bidirectional=False), dgx_a100(2)):
        assert trimmed(fabric) is fabric
    assert trimmed(path(1)) == path(1)


def random_digraph(seed, most):
    source = random.Random(seed)
    builder = TopologyBuilder("random")
    nodes = [builder.compute(f"n{i}") for i in range(source.randint(1, 3))]
    nodes += [builder.switch(f"s{i}") for i in range(source.randint(1, 4))]
    for node in nodes:  # no switch without a link
        builder.link(node, source.choice(nodes), source.randint(1, most))
    for _ in range(source.randint(1, 16)):
        tail, head = source.choices(nodes, k=2)
        builder.link(tail, head, source.randint(1, most))
    return builder.build()


@pytest.mark.parametrize("seed", range(25))
def test_trimming_keeps_the_largest_total(seed):
    fabric = random_digraph(seed, 20)
    kept = balanced_capacities(fabric.tails, fabric.heads, fabric.bandwidths, fabric.switches.tolist())
    result = trimmed(fabric)
    assert has_balanced_switches(result)
    original = {}
    for u, v, b in links_of(fabric):
        original.setdefault((u, v), []).append(b)
    for u, v, _ in links_of(result):
        assert (u, v) in original
    carried = fabric.tails != fabric.heads
    balance = np.zeros((fabric.n_nodes, fabric.n_links))
    np.add.at(balance, (fabric.tails, np.arange(fabric.n_links)), 1)
    np.add.at(balance, (fabric.heads, np.arange(fabric.n_links)), -1)
    largest = linprog(
        -carried.astype(float),
        A_eq=balance[fabric.switches],
        b_eq=np.zeros(len(fabric.switches)),
        bounds=[(0, b) for b in fabric.bandwidths.tolist()],
    )
    assert kept[carried].sum() == round(-largest.fun)


def test_trimming_is_exact_for_huge_bandwidths():
    for seed in range(20):
        assert has_balanced_switches(trimmed(random_digraph(seed, 2**50)))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(eulerian_topologies(), st.data())
def test_trimming_after_failures_never_raises_a_bandwidth(fabric, data):
    links = data.draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=3))
    failed = with_failed_links(fabric, *{fabric.link_name(link) for link in links})
    result = trimmed(failed)
    assert has_balanced_switches(result)
    before = {}
    for u, v, b in links_of(failed):
        before[u, v] = before.get((u, v), 0) + b
    after = {}
    for u, v, b in links_of(result):
        after[u, v] = after.get((u, v), 0) + b
    assert all(b <= before[ends] for ends, b in after.items())


def test_predicates():
    assert has_uniform_links(complete(4))
    assert not has_uniform_links(dgx_a100(2))
    one_way = with_failed_links(path(3), "n1->n2")
    assert unreachable_pair(one_way) == (0, 2)
    assert unreachable_pair(with_failed_links(path(3), "n2->n1")) == (2, 0)
    assert are_ranks_connected(ring(6, bidirectional=False))
    assert not is_symmetric(one_way)
    builder = TopologyBuilder("split")
    builder.compute("a"), builder.compute("b")
    builder.link("a", "b", 3)
    builder.link("a", "b", 4)
    builder.link("b", "a", 7)
    assert is_symmetric(builder.build())
    graph = nx.DiGraph((u, v) for u, v, _ in links_of(one_way))
    assert not nx.is_strongly_connected(graph)


def test_chains_of_switches_that_lead_nowhere_go_whole():
    # s0-s1-s2 hangs off a; t receives more from b than it returns; u joins both, so a route may use it
    builder = TopologyBuilder("chain")
    a, b = builder.compute("a"), builder.compute("b")
    builder.duplex(a, b, 5)
    chain = [builder.switch(f"s{i}") for i in range(3)]
    for one, other in itertools.pairwise([a, *chain]):
        builder.duplex(one, other, 2)
    t, u = builder.switch("t"), builder.switch("u")
    builder.link(b, t, 3)
    builder.link(t, b, 2)
    builder.duplex(a, u, 1)
    builder.duplex(u, b, 1)
    whole = builder.build()
    assert with_failed_links(whole, "a--b").node_names == ("a", "b", "t", "u")
    assert with_failed_links(whole, "a--b", "a->u").node_names == ("a", "b", "t", "u")
    assert with_failed_links(whole, "a--b", "a--u").node_names == ("a", "b", "t")
