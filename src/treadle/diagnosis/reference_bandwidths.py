"""Reference bandwidths of a measured busbw: NCCL's rings, the optimum, the in-network optimum.

NCCL's rule: each ring passes each GPU of a box over the box's own links, and enters and leaves each box once.
All rings together then carry at most the least cut that parts the GPUs of a box, within the box alone, and at
most the least cut that parts boxes, each taken as one; the maintainers of NCCL compare with that number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import compress
from time import monotonic

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of, sums_of
from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import find_bound
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind, busbw_factor
from treadle.schedules.trees.allreduce_certificate import DualCertificate
from treadle.synthesis.result import Bound
from treadle.topologies.named_boxes import NETWORK, Boxes, nvswitches
from treadle.topologies.topology import Topology

_PATIENCE_S = 2.0
"""Limit for in-network linear programs; they take minutes on racks of which some NICs are idle."""


@dataclass(frozen=True)
class Limit:
    """A busbw that cannot be passed, and the links that set it.

    Parameters
    ----------
    busbw : Fraction
        Bytes/s.
    links : tuple of int
        Links of the fabric that bind, rising; empty where nothing as short as that proves the limit.
    capacity : int
        Of these links together, bytes/s; 0 if they are not a cut.
    is_priced : bool
        The links are those with a price: no cut proves the limit, prices of many links do together.
    is_upper_bound : bool
        Perhaps no schedule attains the limit.
    """

    busbw: Fraction
    links: tuple[int, ...] = ()
    capacity: int = 0
    is_priced: bool = False
    is_upper_bound: bool = False


def egress_links(topology: Topology, boxes: Boxes, links: BoolArray | None = None) -> BoolArray:
    """Return box switches that reach the network over switches alone: PCIe, network cards.

    Parameters
    ----------
    topology : Topology
    boxes : Boxes
    links : array of bool, shape (links,), optional
        Those that there are; default all.
    """
    switches = ~topology.is_compute
    present = np.ones(topology.n_links, dtype=np.bool_) if links is None else links
    reached: BoolArray = switches & (boxes.of_node == NETWORK)
    while True:
        grown = reached.copy()
        ways = present & reached[topology.heads] & switches[topology.tails]
        grown[topology.tails[ways]] = True
        if (grown == reached).all():
            return np.asarray(reached & (boxes.of_node != NETWORK), dtype=np.bool_)
        reached = grown


def optimum(topology: Topology, kind: CollectiveKind, *, root: int | None = None) -> Limit:
    """Return the exact optimum as busbw, and the links that bind."""
    collective = Collective(kind, tuple(topology.compute_nodes.tolist()), root=root)
    found = find_bound(Problem(topology, collective))
    busbw = found.algbw * busbw_factor(kind, collective.group_size)
    if kind is CollectiveKind.ALLREDUCE and not topology.multicast.any() and not topology.aggregation.any():
        # where gathering takes half of the time, its cut says in one what prices say in many links
        gather = Collective(CollectiveKind.ALLGATHER, collective.ranks)
        half = find_bound(Problem(topology, gather))
        if half.algbw == 2 * found.algbw:
            return _limit(topology, gather, half, busbw)
    return _limit(topology, collective, found, busbw)


def _limit(topology: Topology, collective: Collective, bound: Bound, busbw: Fraction) -> Limit:
    certificate = bound.certificate
    if isinstance(certificate, BottleneckCut):
        inside = mask_of(topology.n_nodes, list(certificate.nodes))
        if collective.kind.reduces:
            inside = ~inside
        cut = np.flatnonzero(inside[topology.tails] & ~inside[topology.heads])
        return Limit(busbw, tuple(cut.tolist()), int(topology.bandwidths[cut].sum()))
    if isinstance(certificate, DualCertificate):
        links = tuple(link for link, length in enumerate(certificate.lengths) if length > 0)
        return Limit(busbw, links, is_priced=True)
    return Limit(busbw)


def in_network_limit(topology: Topology, kind: CollectiveKind) -> Limit:
    """Return the optimum with in-network sums; where it takes over 2 s, the least cut's upper bound.

    Everything leaves each set of nodes once even where switches reduce and copy.
    """
    soon, deadline = monotonic() + _PATIENCE_S, context().deadline
    try:
        with under(replace(context(), deadline=soon if deadline is None else min(soon, deadline))):
            return optimum(topology, kind)
    except TimeLimitError:
        if context().is_late:
            raise
    found = least_cut(without_sums(topology))
    scaled = found.busbw * busbw_factor(kind, len(topology.compute_nodes))
    return replace(found, busbw=scaled, is_upper_bound=True)


def ring_limit(topology: Topology, boxes: Boxes) -> Limit:
    """Return the most that rings carry by NCCL's rule, as busbw.

    Parameters
    ----------
    topology : Topology
        Of at least two ranks.
    boxes : Boxes

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    limits = []
    if boxes.count > 1:
        limits.append(_between_boxes(topology, boxes))
    seen: set[bytes] = set()
    outward = egress_links(topology, boxes)
    for box in range(boxes.count):
        nodes = boxes.of_node == box
        if topology.is_compute[nodes].sum() < 2:
            continue
        part, _ = _part(topology, nodes)
        columns = (part.is_compute, part.tails, part.heads, part.bandwidths)
        key = b"|".join(column.tobytes() for column in columns)  # equal for boxes that differ in names only
        if key not in seen:
            seen.add(key)
            limits.append(_within_box(topology, nodes, outward))
    return min(limits, key=lambda one: one.busbw)


def _within_box(topology: Topology, nodes: BoolArray, outward: BoolArray) -> Limit:
    """Return the least cut between GPUs of a box; PCIe on the way to NICs joins them if nothing else does."""
    for chosen in (nodes & ~outward, nodes):
        part, links = _part(topology, chosen)
        try:
            found = least_cut(part)
        except InfeasibleError:
            continue
        return replace(found, links=tuple(links[list(found.links)].tolist()))
    return least_cut(topology)  # GPUs that meet outside the box only


def least_cut(topology: Topology) -> Limit:
    """Return the least cut between ranks: a broadcast's optimum, and a reduce's where in and out differ."""
    ranks = tuple(topology.compute_nodes.tolist())
    kinds = [CollectiveKind.BROADCAST]
    balance = sums_of(topology.n_nodes, topology.tails, topology.bandwidths)
    np.subtract.at(balance, topology.heads, topology.bandwidths)
    if balance.any():  # else as much enters each set as leaves it
        kinds.append(CollectiveKind.REDUCE)
    limits = []
    for kind in kinds:
        collective = Collective(kind, ranks, root=0)
        found = find_bound(Problem(topology, collective))
        limits.append(_limit(topology, collective, found, found.algbw))
    return min(limits, key=lambda one: one.busbw)


def _between_boxes(topology: Topology, boxes: Boxes) -> Limit:
    """Return the least cut that parts boxes: all ranks of a box are one node, switches stay."""
    switches = np.flatnonzero(~topology.is_compute)
    number = np.zeros(topology.n_nodes, dtype=np.int64)
    number[switches] = boxes.count + np.arange(len(switches))
    number[topology.compute_nodes] = boxes.of_node[topology.compute_nodes]
    links = np.flatnonzero(number[topology.tails] != number[topology.heads])
    tails, heads = number[topology.tails[links]], number[topology.heads[links]]
    n = boxes.count + len(switches)
    merged = Topology(
        name="boxes",
        node_names=tuple(str(node) for node in range(n)),
        is_compute=np.arange(n) < boxes.count,
        tails=tails.astype(np.int32),
        heads=heads.astype(np.int32),
        bandwidths=topology.bandwidths[links],
    )
    found = least_cut(merged)
    return replace(found, links=tuple(links[list(found.links)].tolist()))


def _part(topology: Topology, nodes: BoolArray) -> tuple[Topology, Int64Array]:
    """Return some nodes with the links among them, and the numbers of these; switches without links go."""
    keep = nodes[topology.tails] & nodes[topology.heads]
    uncapped = np.zeros(topology.n_nodes, dtype=np.int64)
    part = _restricted(replace(topology, name="box", injection_bytes_per_s=uncapped), keep, nodes)
    return part, np.flatnonzero(keep)


def with_nics(topology: Topology, boxes: Boxes, count: int) -> Topology:
    """Return the fabric with only the first `count` links from each box to the network and back."""
    keep = np.ones(topology.n_links, dtype=np.bool_)
    before = egress_links(topology, boxes)
    for links in boxes.leaving(topology):
        used = {(int(topology.tails[link]), int(topology.heads[link])) for link in links[:count].tolist()}
        for link in links[count:].tolist():
            ends = int(topology.tails[link]), int(topology.heads[link])
            keep[link] = False
            if ends not in used:
                keep &= ~((topology.tails == ends[1]) & (topology.heads == ends[0]))
    idle = before & ~egress_links(topology, boxes, keep)  # cards, and PCIe that leads to none
    n = topology.n_nodes
    while idle.any():
        keep &= ~idle[topology.tails] & ~idle[topology.heads]
        pairs = np.unique(topology.tails[keep].astype(np.int64) * n + topology.heads[keep])
        idle = before & (np.bincount(pairs // n, minlength=n) == 1)  # cards without a port beside others
    return _restricted(topology, keep)


def _restricted(topology: Topology, keep: BoolArray, among: BoolArray | None = None) -> Topology:
    """Return the fabric with some of its links only; ranks (`among` these nodes) stay, linked or not."""
    linked = mask_of(topology.n_nodes, topology.tails[keep]) | mask_of(topology.n_nodes, topology.heads[keep])
    nodes = linked | topology.is_compute
    if among is not None:
        nodes &= among
    index = np.cumsum(nodes) - 1
    return Topology(
        name=topology.name,
        node_names=tuple(compress(topology.node_names, nodes.tolist())),
        is_compute=topology.is_compute[nodes],
        tails=index[topology.tails[keep]].astype(np.int32),
        heads=index[topology.heads[keep]].astype(np.int32),
        bandwidths=topology.bandwidths[keep],
        multicast=topology.multicast[nodes],
        aggregation=topology.aggregation[nodes],
        turns_round=topology.turns_round[nodes],
        injection_bytes_per_s=topology.injection_bytes_per_s[nodes],
    )


def without_sums(topology: Topology) -> Topology:
    """Return the fabric without in-network multicast and aggregation."""
    none = np.zeros(topology.n_nodes, dtype=np.bool_)
    return replace(topology, multicast=none, aggregation=none, turns_round=none)


def with_sums(topology: Topology, boxes: Boxes, *, nvls: bool, sharp: bool) -> Topology | None:
    """Return the fabric with in-network multicast and aggregation; None if no switch is capable.

    Parameters
    ----------
    topology : Topology
    boxes : Boxes
    nvls : bool
        NVSwitches do so for the GPUs that ask.
    sharp : bool
        The network's switches do so by themselves.
    """
    switches = ~topology.is_compute
    able = nvswitches(topology) & nvls
    in_network = switches & (boxes.of_node == NETWORK) & ~able & sharp
    able = able | in_network
    if not able.any():
        return None
    return replace(topology, multicast=able, aggregation=able, turns_round=in_network)


def least_nics(topology: Topology, boxes: Boxes) -> int:
    """Return the fewest links that leave a box; 0 for a single box."""
    return min((len(links) for links in boxes.leaving(topology)), default=0) if boxes.count > 1 else 0


_FAST_BYTES_PER_S = 20 * 10**9
"""NVLinks and their like are faster than this, PCIe between GPUs of a box is hardly."""


def has_fast_links(topology: Topology, boxes: Boxes) -> bool:
    """Whether GPUs of a box are joined by fast links, directly or over a switch that joins GPUs alone."""
    among_gpus = ~mask_of(topology.n_nodes, topology.tails[~topology.is_compute[topology.heads]])
    ends = boxes.of_node[topology.tails], boxes.of_node[topology.heads]
    inside = (ends[0] == ends[1]) & (ends[0] != NETWORK) & topology.is_compute[topology.tails]
    heads = topology.heads
    direct = topology.is_compute[heads] | among_gpus[heads]
    return bool((inside & direct & (topology.bandwidths >= _FAST_BYTES_PER_S)).any())
