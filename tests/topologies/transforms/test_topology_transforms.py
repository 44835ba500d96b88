import random

import pytest

from treadle.errors import TopologyError
from treadle.topologies import (
    TopologyBuilder,
    dgx_a100,
    mi250,
    non_eulerian_nodes,
    path,
    ring,
    subset,
    trimmed,
    with_failed_links,
    with_failed_nodes,
)


def links_of(topology):
    """Sorted (tail name, head name, bandwidth) of every link."""
    names = topology.node_names
    columns = (topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist())
    return sorted((names[u], names[v], b) for u, v, b in zip(*columns, strict=True))


def has_balanced_switches(topology):
    surplus = topology.egress_bytes_per_s() - topology.ingress_bytes_per_s()
    return not surplus[topology.switches].any()


def test_an_unbalanced_dead_end_stays_until_it_is_trimmed():
    # Without the NIC's last way in, the rail would look balanced though it is not.
    fabric = with_failed_links(dgx_a100(2), "box0.gpu1--box0.nic1", "box0.nic1->ib1")
    assert "box0.nic1" in fabric.node_names
    assert len(non_eulerian_nodes(fabric)) == 2
    assert links_of(trimmed(fabric)) == links_of(with_failed_nodes(dgx_a100(2), "box0.nic1"))


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


def test_trimming_is_exact_for_huge_bandwidths():
    for seed in range(20):
        assert has_balanced_switches(trimmed(random_digraph(seed, 2**50)))
