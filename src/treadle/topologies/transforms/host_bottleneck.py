"""Hosts that are slower than their network cards, as a fabric with nodes for both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.errors import TopologyError
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.naming import call_expression
from treadle.topologies.topology import MAX_BANDWIDTH, SWITCH_FLAGS, Topology


def with_host_bottleneck(topology: Topology, *, bandwidth: int = 0, nic_forwards: bool = False) -> Topology:
    """Each compute node as a host behind a network card: all it sends and receives passes a slower link.

    Parameters
    ----------
    topology : Topology
    bandwidth : int
        From card to host and from host to card, bytes/s each; 0 takes each node's own injection cap, and
        leaves nodes without one as they are.
    nic_forwards : bool
        False: what a node passes on goes through its host (store and forward). True: the card forwards by
        itself, and only what starts or ends at the host passes the bottleneck.

    Returns
    -------
    Topology
        Nodes keep their indices; the cards follow, as switches ``name.in`` and ``name.out``, or ``name.nic``
        if cards forward. Links keep their numbers, with ends at the cards; then come, for every host, the
        link from its card and the link to its card. Injection caps that became links are gone.

    Raises
    ------
    TopologyError
        If no host is slower (bandwidth 0 and no injection caps), a name is taken, the bandwidth is out of
        range or the fabric too large.

    Notes
    -----
    Figure 2 of Efficient all-to-all Collective Communication Schedules for Direct-connect Topologies. There
    a card is one node and its arrows keep data from turning round in it; two switches do the same.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> with_host_bottleneck(torus(3, 3, 3), bandwidth=4)
    <Topology with_host_bottleneck(torus(3, 3, 3), bandwidth="4B/s"): 27 compute, 54 switches, 216 links>
    """
    name = "with_host_bottleneck"
    check_count(name, "bandwidth", bandwidth, least=0, most=MAX_BANDWIDTH)
    caps = topology.injection_bytes_per_s
    slow = topology.is_compute if bandwidth else caps > 0
    hosts = np.flatnonzero(slow)
    if not hosts.size:
        hint = "give the bandwidth between host and card"
        raise TopologyError(f"{name}: {topology.name} has no injection caps; {hint}")
    n, cards = topology.n_nodes, 1 if nic_forwards else 2
    check_size(name, n + cards * len(hosts), topology.n_links + 2 * len(hosts))
    entry, leave = np.arange(n), np.arange(n)
    entry[hosts] = n + cards * np.arange(len(hosts))
    leave[hosts] = entry[hosts] + cards - 1
    ends = ("nic",) if nic_forwards else ("in", "out")
    new_names = [f"{topology.node_names[host]}.{end}" for host in hosts.tolist() for end in ends]
    cleared = np.zeros(len(new_names), dtype=np.bool_)
    flags = {key: np.append(getattr(topology, key), cleared) for key in ("is_compute", *SWITCH_FLAGS)}
    between = np.repeat(np.full(len(hosts), bandwidth) if bandwidth else caps[hosts], 2)
    return replace(
        topology,
        name=call_expression(with_host_bottleneck, {**locals(), "topology": topology.name}),
        node_names=(*topology.node_names, *new_names),
        tails=np.concatenate([leave[topology.tails], np.stack([entry[hosts], hosts], axis=1).ravel()]),
        heads=np.concatenate([entry[topology.heads], np.stack([hosts, leave[hosts]], axis=1).ravel()]),
        bandwidths=np.concatenate([topology.bandwidths, between]),
        latencies_ns=np.concatenate([topology.latencies_ns, np.zeros(2 * len(hosts), dtype=np.int64)]),
        injection_bytes_per_s=np.zeros(n + len(new_names), dtype=np.int64),
        **flags,
    )
