"""Injection caps in an all-to-all's rate: links of a larger fabric, or limits on hosts' own data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from treadle.arrays import Float64Array, Int64Array, frozen
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import RateResult
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck


def without_caps(topology: Topology) -> Topology:
    """The same fabric with hosts that are as fast as their links."""
    return replace(topology, injection_bytes_per_s=np.zeros(topology.n_nodes, dtype=np.int64))


def folded(found: RateResult, topology: Topology) -> RateResult:
    """A result on `with_host_bottleneck(topology)` as one on the fabric itself.

    Links keep their numbers there, so flows and lengths lose what is at the cards; the lengths of the ways
    into hosts and out of them go to the certificate's hosts.
    """
    m = topology.n_links
    lengths = found.certificate.lengths
    return replace(
        found,
        topology=topology,
        loads=frozen(found.loads[:m], np.float64),
        stored_flow=partial(_flow_on_links, found, m),
        certificate=FlowDualCertificate(lengths[:m], lengths[m:].reshape(-1, 2)),
    )


def _flow_on_links(found: RateResult, n_links: int) -> Float64Array:
    return frozen(found.flow.by_source[:, :n_links], np.float64)


def unfolded(found: RateResult) -> RateResult | None:
    """A result on a fabric with injection caps as one on `with_host_bottleneck` of it; None without caps."""
    topology, certificate = found.topology, found.certificate
    hosts = np.flatnonzero(topology.injection_bytes_per_s)
    if not hosts.size or certificate.cards_forward:
        return None
    flow = found.flow.by_source
    ways = np.zeros((len(flow), 2 * len(hosts)))
    for column, host in enumerate(hosts.tolist()):
        ways[:, 2 * column] = flow[:, topology.heads == host].sum(axis=1)
        ways[:, 2 * column + 1] = flow[:, topology.tails == host].sum(axis=1)
    by_source = ConcurrentFlow(np.concatenate([flow, ways], axis=1))
    at_hosts = (
        certificate.hosts.reshape(-1) if len(certificate.hosts) else np.zeros(2 * len(hosts), dtype=np.int64)
    )
    return replace(
        found,
        topology=with_host_bottleneck(topology),
        loads=by_source.loads,
        stored_flow=by_source,
        certificate=FlowDualCertificate(np.concatenate([certificate.lengths, at_hosts])),
    )


def limited_by_hosts(found: RateResult, topology: Topology) -> RateResult:
    """A result without caps, with those of hosts whose cards forward: own data only passes the host.

    Parameters
    ----------
    found : RateResult
        On the fabric without caps.
    topology : Topology
        With caps.
    """
    limit, certificate = tightest_host(topology, found.collective)
    exact: Fraction | None = found.exact
    if limit is None or limit >= found.upper:
        certificate = found.certificate
    # the links carry more than the host lets in: its cap alone is the optimum
    elif found.rate >= float(limit) or (exact is not None and exact >= limit):
        exact = limit
    upper = found.upper if limit is None else min(found.upper, limit)
    return replace(
        found,
        topology=topology,
        rate=min(found.rate, float(upper)),
        upper=upper,
        exact=None if exact is None else min(exact, upper),
        certificate=certificate,
    )


def tightest_host(topology: Topology, collective: Collective) -> tuple[Fraction | None, FlowDualCertificate]:
    """The least rate at which a host's own data fills its cap, and the length of that way alone.

    None if no host has both a cap and something to send or get.
    """
    wanted: Int64Array = np.zeros((topology.n_nodes, 2), dtype=np.int64)
    wanted[list(collective.ranks)] = np.stack(collective.pair_demands.totals, axis=1)
    hosts = np.flatnonzero(topology.injection_bytes_per_s)
    limit, place = None, (0, 0)
    for row, host in enumerate(hosts.tolist()):
        for way in np.flatnonzero(wanted[host]).tolist():
            rate = Fraction(int(topology.injection_bytes_per_s[host]), int(wanted[host, way]))
            if limit is None or rate < limit:
                limit, place = rate, (row, way)
    ways = np.zeros((len(hosts), 2), dtype=np.int64)
    if limit is not None:
        ways[place] = 1
    return limit, FlowDualCertificate(np.zeros(topology.n_links, dtype=np.int64), ways, cards_forward=True)
