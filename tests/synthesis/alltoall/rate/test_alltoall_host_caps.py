"""Injection caps in the rate of an all-to-all, its certificate, and the plans made from it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies import parse, ring, torus, with_host_bottleneck
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.verification.routes.route_check import verify_routes

A2A = CollectiveKind.ALLTOALL


def capped(topology: Topology, *caps: int) -> Topology:
    """Caps of all compute nodes, in turn."""
    hosts = np.resize(np.array(caps), topology.n_nodes)
    return replace(topology, injection_bytes_per_s=np.where(topology.is_compute, hosts, 0))


def test_the_host_bottleneck_of_the_paper() -> None:
    """Section 5.2 of the all-to-all paper: f = 2/27 on the 3x3x3 torus where hosts inject at 4 links of 6."""
    fabric = capped(torus(3, 3, 3), 4)
    everyone = on_all_ranks(fabric, A2A)
    found = optimal_rate(fabric, everyone)
    assert found.exact == found.upper == Fraction(2, 27)
    assert found.certificate.pair_rate_bound(fabric, everyone) == Fraction(2, 27)
    assert found.binding_hosts().tolist() == list(range(27))
    assert not found.binding_links().size
    assert found.flow.by_source.shape == (27, 162)
    through = np.bincount(fabric.tails, weights=found.flow.loads)
    assert through * 2 / 27 == pytest.approx(4)


@pytest.mark.parametrize(("cap", "rate"), [(4, Fraction(1, 9)), (2, Fraction(1, 13))])
def test_cards_that_forward_leave_hosts_their_own_data(cap: int, rate: Fraction) -> None:
    """At 2 links of 6 a host's own 26 shards are the limit, at 4 the links are."""
    fabric = capped(torus(3, 3, 3), cap)
    everyone = on_all_ranks(fabric, A2A)
    found = optimal_rate(fabric, everyone, cards_forward=True)
    assert found.exact == found.upper == rate
    assert found.certificate.pair_rate_bound(fabric, everyone) == rate
    assert found.rate == pytest.approx(float(rate))


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(2, 5), extra_links=8, max_bandwidth=4), st.data())
def test_caps_are_links_of_a_larger_fabric(topology: Topology, data: st.DataObject) -> None:
    """Both models against figure 2's transform solved as a fabric of its own."""
    n = topology.n_nodes
    fabric = capped(topology, *data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n).filter(any)))
    matrix = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n))).reshape(n, n)
    matrix[0, 1] += 1
    collective = Collective(A2A, tuple(range(n)), demands=Demands(matrix))
    through = optimal_rate(fabric, collective)
    ends = optimal_rate(fabric, collective, cards_forward=True)
    for found, cards in ((through, False), (ends, True)):
        whole = optimal_rate(with_host_bottleneck(fabric, nic_forwards=cards), collective)
        assert found.exact == whole.exact == found.upper
        assert found.certificate.pair_rate_bound(fabric, collective) == found.upper
        again = certificate_from_json(json.loads(json.dumps(found.certificate.to_json())))
        assert again == found.certificate
    assert through.upper <= ends.upper
    through_host = np.bincount(fabric.heads, weights=through.flow.loads, minlength=n) * through.rate
    caps = fabric.injection_bytes_per_s
    assert (through_host[caps > 0] <= caps[caps > 0] * (1 + 1e-9)).all()


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(2, 5), extra_links=8), st.data())
def test_lengths_at_hosts_are_lengths_of_links_there(topology: Topology, data: st.DataObject) -> None:
    n, m = topology.n_nodes, topology.n_links
    fabric = capped(topology, *data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n).filter(any)))
    n_hosts = int((fabric.injection_bytes_per_s > 0).sum())
    some = st.integers(0, 9)
    lengths = np.array(data.draw(st.lists(some, min_size=m, max_size=m)), dtype=np.int64) + 1
    hosts = np.array(data.draw(st.lists(some, min_size=2 * n_hosts, max_size=2 * n_hosts)), dtype=np.int64)
    everyone = on_all_ranks(fabric, A2A)
    for cards in (False, True):
        whole = with_host_bottleneck(fabric, nic_forwards=cards)
        expected = FlowDualCertificate(np.concatenate([lengths, hosts])).pair_rate_bound(whole, everyone)
        certificate = FlowDualCertificate(lengths, hosts.reshape(-1, 2), cards)
        assert certificate.pair_rate_bound(fabric, everyone) == expected


def test_a_large_fabric_with_caps_is_exact_by_its_symmetry() -> None:
    fabric = capped(torus(6, 6, 6), 4)
    found = optimal_rate(fabric, on_all_ranks(fabric, A2A))
    assert found.exact == Fraction(4, 216 * 9 // 2)  # distances from a node add up to 216 * 3 * 1.5
    maps = proposed_automorphisms(with_host_bottleneck(fabric))
    assert len(maps) == len(proposed_automorphisms(torus(6, 6, 6))) > 0


def test_caps_of_some_hosts_break_the_symmetry() -> None:
    fabric = replace(ring(6), injection_bytes_per_s=np.array([3, 0, 0, 3, 0, 0]))
    maps = proposed_automorphisms(with_host_bottleneck(fabric))
    assert all(set(one[[0, 3]].tolist()) == {0, 3} for one in maps)
    assert optimal_rate(fabric, on_all_ranks(fabric, A2A)).exact is not None


def test_a_start_carries_over() -> None:
    fabric = capped(parse("generalized_kautz(4, 48)"), 3)
    everyone = on_all_ranks(fabric, A2A)
    before = optimal_rate(fabric, everyone)
    broken = with_failed_links(fabric, fabric.link_name(int(np.flatnonzero(fabric.tails != fabric.heads)[0])))
    assert broken.injection_bytes_per_s.all()
    cold = optimal_rate(broken, everyone)
    warm = optimal_rate(broken, everyone, start=before)
    assert warm.gap <= 1e-3
    assert warm.rate <= float(cold.upper)
    assert cold.rate <= float(warm.upper)
    free = optimal_rate(parse("generalized_kautz(4, 48)"), everyone)
    assert optimal_rate(broken, everyone, start=free).gap <= 1e-3


def test_a_bound_on_forwarding_hosts_says_nothing_of_routes() -> None:
    fabric = capped(ring(3), 1)
    everyone = on_all_ranks(fabric, A2A)
    direct = {(int(t), int(h)): e for e, (t, h) in enumerate(zip(fabric.tails, fabric.heads, strict=True))}
    routes = routes_from_paths(3, 1, [(i, j, 1, 0, [link]) for (i, j), link in sorted(direct.items())])
    ways = np.ones((3, 2), dtype=np.int64)
    lengths = np.zeros(6, dtype=np.int64)
    through, ends = FlowDualCertificate(lengths, ways), FlowDualCertificate(lengths, ways, cards_forward=True)
    assert verify_routes(fabric, everyone, routes, certificate=ends).is_ok
    report = verify_routes(fabric, everyone, routes, certificate=through)
    assert "pass through hosts" in str(report.violations[0])


def test_malformed_lengths_of_hosts() -> None:
    fabric = capped(ring(3), 1)
    everyone = on_all_ranks(fabric, A2A)
    ones = np.ones(6, dtype=np.int64)
    with pytest.raises(ScheduleError, match="lengths of 2 hosts, expected 3"):
        FlowDualCertificate(ones, np.ones((2, 2), dtype=np.int64)).bound(fabric, everyone)
    with pytest.raises(ScheduleError, match="two per capped host"):
        FlowDualCertificate(ones, np.ones(6, dtype=np.int64))
    good = {"kind": "distances", "lengths": [1]}
    for wrong in ({"hosts": [[1]]}, {"hosts": [[1, True]]}, {"hosts": 3}, {"cards_forward": 1}, {"more": 0}):
        with pytest.raises(FormatError, match="distance certificate"):
            certificate_from_json(good | wrong)
