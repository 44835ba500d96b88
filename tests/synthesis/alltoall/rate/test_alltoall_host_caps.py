"""Injection caps in the rate of an all-to-all, its certificate, and the plans made from it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies import parse, ring, torus
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links

A2A = CollectiveKind.ALLTOALL


def capped(topology: Topology, *caps: int) -> Topology:
    """Caps of all compute nodes, in turn."""
    hosts = np.resize(np.array(caps), topology.n_nodes)
    return replace(topology, injection_bytes_per_s=np.where(topology.is_compute, hosts, 0))


@pytest.mark.parametrize(("cap", "rate"), [(4, Fraction(1, 9)), (2, Fraction(1, 13))])
def test_cards_that_forward_leave_hosts_their_own_data(cap: int, rate: Fraction) -> None:
    """At 2 links of 6 a host's own 26 shards are the limit, at 4 the links are."""
    fabric = capped(torus(3, 3, 3), cap)
    everyone = on_all_ranks(fabric, A2A)
    found = optimal_rate(fabric, everyone, cards_forward=True)
    assert found.exact == found.upper == rate
    assert found.certificate.pair_rate_bound(fabric, everyone) == rate
    assert found.rate == pytest.approx(float(rate))


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
