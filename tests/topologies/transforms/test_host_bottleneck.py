"""Hosts behind network cards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle import topologies as t
from treadle.errors import TopologyError


def test_what_a_node_passes_on_goes_through_its_host() -> None:
    ring = t.ring(3, bidirectional=False, bandwidth=5, latency=7)
    slow = t.with_host_bottleneck(ring, bandwidth=2)
    assert slow.node_names[:3] == ring.node_names
    assert slow.node_names[3:] == ("n0.in", "n0.out", "n1.in", "n1.out", "n2.in", "n2.out")
    assert [slow.link_name(link) for link in range(3)] == ["n0.out->n1.in", "n1.out->n2.in", "n2.out->n0.in"]
    assert [slow.link_name(link) for link in range(3, 5)] == ["n0.in->n0", "n0->n0.out"]
    assert slow.bandwidths.tolist() == [5] * 3 + [2] * 6
    assert slow.latencies_ns.tolist() == [7] * 3 + [0] * 6
    assert slow.compute_nodes.tolist() == [0, 1, 2]


def test_cards_that_forward_are_one_node() -> None:
    slow = t.with_host_bottleneck(t.ring(3), bandwidth=1, nic_forwards=True)
    assert slow.node_names[3:] == ("n0.nic", "n1.nic", "n2.nic")
    assert slow.n_links == 6 + 6
    assert slow.link_name(6) == "n0.nic->n0"
    assert slow.link_name(7) == "n0->n0.nic"


def test_injection_caps_become_links() -> None:
    ring = replace(t.ring(3), injection_bytes_per_s=np.array([0, 4, 0]))
    slow = t.with_host_bottleneck(ring)
    assert slow.n_nodes == 5
    assert slow.bandwidths.tolist() == [1] * 6 + [4] * 2
    assert not slow.injection_bytes_per_s.any()
    with pytest.raises(TopologyError, match="no injection caps; give the bandwidth"):
        t.with_host_bottleneck(t.ring(3))


def test_switches_stay_as_they_are() -> None:
    star = t.leaf_spine(1, 1, gpus_per_leaf=2)
    slow = t.with_host_bottleneck(star, bandwidth=1)
    assert slow.n_nodes == star.n_nodes + 2 * len(star.compute_nodes)
    able = t.dgx_h100(2, 1, nvls=True, sharp=True)
    slow = t.with_host_bottleneck(able, bandwidth=1)
    for key in ("multicast", "aggregation", "turns_round"):
        assert getattr(slow, key).tolist() == [*getattr(able, key).tolist(), *[False] * 4]


def test_the_name_is_the_expression() -> None:
    for slow in (
        t.with_host_bottleneck(t.torus(3, 3), bandwidth=4),
        t.with_host_bottleneck(t.ring(4), bandwidth=10**9, nic_forwards=True),
    ):
        assert t.parse(slow.name) == slow


def test_bad_values_are_refused() -> None:
    for bandwidth in (-1, 2**51, True):
        with pytest.raises(TopologyError, match="bandwidth"):
            t.with_host_bottleneck(t.ring(4), bandwidth=bandwidth)
    twice = t.with_host_bottleneck(t.with_links(t.ring(4), bandwidth=3), bandwidth=2)
    with pytest.raises(TopologyError, match="named twice"):
        t.with_host_bottleneck(twice, bandwidth=1)
