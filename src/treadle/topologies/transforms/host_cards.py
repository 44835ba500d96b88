"""Fabrics of hosts behind cards that do not forward, as fabrics of hosts with injection caps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, frozen, offsets_of
from treadle.topologies.topology import Topology, node_columns


@dataclass(frozen=True, eq=False)
class HostFabric:
    """A fabric without its cards.

    Parameters
    ----------
    direct : Topology
        The hosts with the links between their cards; the link between card and host is the host's cap.
    way_offset : array of int64, shape (m + 1,)
    way_links : array of int32
        Link i of `direct` is way_links[way_offset[i]:way_offset[i + 1]] of the fabric with cards.
    """

    direct: Topology
    way_offset: Int64Array
    way_links: Int32Array


def without_cards(topology: Topology) -> HostFabric | None:
    """Take out cards that lead to and from one host alone; None if a switch is anything else.

    Such a card is two switches, as `with_host_bottleneck` makes them: one from which the only link goes to
    the host, and one to which the only link comes from it. What a node passes on goes through its host.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck
    >>> without_cards(with_host_bottleneck(ring(4), bandwidth=1)).direct.injection_bytes_per_s.tolist()
    [1, 1, 1, 1]
    >>> without_cards(with_host_bottleneck(ring(4), bandwidth=1, nic_forwards=True)) is None
    True
    """
    n, tails, heads = len(topology.compute_nodes), topology.tails, topology.heads
    if not topology.switches.size or not topology.is_compute[:n].all():
        return None
    owner = np.arange(topology.n_nodes)
    host_link = np.full(topology.n_nodes, -1)
    for links, card_end, host_end in (
        (np.flatnonzero(topology.is_compute[heads] & ~topology.is_compute[tails]), tails, heads),
        (np.flatnonzero(topology.is_compute[tails] & ~topology.is_compute[heads]), heads, tails),
    ):
        same_side = np.bincount(card_end, minlength=topology.n_nodes)
        of_host = np.bincount(host_end, minlength=topology.n_nodes)
        for link in links.tolist():
            card, host = int(card_end[link]), int(host_end[link])
            # one link alone on this side of the card, as of the host, and the card is that of no other link
            if same_side[card] != 1 or of_host[host] != 1 or owner[card] != card:
                return None
            owner[card], host_link[card] = host, link
    if (host_link[n:] < 0).any():
        return None
    caps = topology.injection_bytes_per_s[:n].copy()
    for card in range(n, topology.n_nodes):
        host, between = owner[card], topology.bandwidths[host_link[card]]
        caps[host] = between if not caps[host] else min(caps[host], between)
    network = np.setdiff1d(np.arange(topology.n_links), host_link)
    first, last = host_link[tails[network]], host_link[heads[network]]
    lengths = 1 + (first >= 0) + (last >= 0)
    columns = np.stack([first, network, last], axis=1)
    direct = replace(
        topology,
        node_names=topology.node_names[:n],
        tails=owner[tails[network]],
        heads=owner[heads[network]],
        bandwidths=topology.bandwidths[network],
        latencies_ns=topology.latencies_ns[network],
        **{**node_columns(topology, slice(n)), "injection_bytes_per_s": caps},
    )
    return HostFabric(direct, offsets_of(lengths), frozen(columns[columns >= 0], np.int32))


def forwards_in_host(topology: Topology, before: Int64Array, after: Int64Array) -> BoolArray:
    """Whether data that come over links `before` and leave over `after` pass the memory of the node between.

    A node between two compute nodes stands for host and card, and the card forwards. A node next to a switch
    has no card in that place: it is memory.
    """
    is_compute = topology.is_compute
    through: BoolArray = is_compute[topology.heads[before]] & ~(
        is_compute[topology.tails[before]] & is_compute[topology.heads[after]]
    )
    return through


def hosts_passed(topology: Topology, path_offset: Int64Array, path_links: Int32Array) -> Int64Array:
    """Return the hosts whose memory paths pass between their ends, rising."""
    links = path_links.astype(np.int64)
    inner = np.setdiff1d(np.arange(len(links)), path_offset)
    passed = inner[forwards_in_host(topology, links[inner - 1], links[inner])]
    return np.unique(topology.tails[links[passed]])
