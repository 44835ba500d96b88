"""Algorithms for fully connected machines, run on the links that are there: messages hop and congest.

Every logical message takes one shortest path, stored and forwarded a hop per step; the next exchange starts
when the last message has come. A node keeps what passes through it and is not sent it again, so that every
shard reaches every node once and the reversed schedule adds nothing twice. Parallel links share a message.
On a hypercube in rank order recursive doubling needs single hops only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_transforms import combine
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.alltoall.baselines.first_paths import next_links
from treadle.synthesis.alltoall.baselines.store_forward import parallel_links
from treadle.synthesis.steps.baselines.bidirectional import (
    both_directions,
    check_connected,
    check_sends,
)
from treadle.topologies.topology import Topology

_Exchange = tuple[Int64Array, Int64Array, BoolArray]
"""Senders, their receivers, and per sender the shards that it sends, shape (senders, shards)."""


def recursive_doubling(topology: Topology, collective: Collective) -> StepSchedule:
    """Recursive doubling; as reduce-scatter recursive halving, as allreduce Rabenseifner's algorithm.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, any graph in which every node reaches every other.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes.

    Raises
    ------
    InfeasibleError
        If a node does not reach another.

    Notes
    -----
    In exchange i ranks r and r xor 2^i swap all that they hold. With p the largest power of two up to N, the
    first N - p pairs of neighbouring ranks take part as one rank each, the odd one: even ranks give it their
    shards first and get the result last. An allreduce cuts the buffer into p shards, so that even ranks hand
    in and get back the whole buffer once; an allgather has N. Sources: Thakur, Rabenseifner and Gropp,
    Optimization of collective communication operations in MPICH (IJHPCA 19, 2005); Rabenseifner, Optimization
    of collective reduction operations (ICCS 2004).

    Examples
    --------
    >>> from treadle.schedules.collective import on_all_ranks
    >>> from treadle.topologies import parse
    >>> cube, six = parse("hypercube(3)"), parse("complete(6)")
    >>> recursive_doubling(cube, on_all_ranks(cube, CollectiveKind.ALLREDUCE)).n_steps
    6
    >>> recursive_doubling(six, on_all_ranks(six, CollectiveKind.ALLREDUCE)).n_steps
    6
    """
    check_sends("recursive-doubling", topology)
    n = topology.n_nodes
    core, paired = _fold(n)
    if collective.kind is CollectiveKind.ALLREDUCE:
        homes, owned = core, np.eye(len(core), dtype=np.bool_)
    else:
        homes = np.arange(n)
        owned = homes == core[:, None]
        owned[np.arange(len(paired)), paired] = True
    return _exchanging(
        "recursive-doubling", topology, collective, homes, lambda: _doubling(core, paired, owned)
    )


def _fold(n: int) -> tuple[Int64Array, Int64Array]:
    """The power of two of ranks that take part, and the ranks that the first of them stand in for."""
    surplus = n - (1 << (n.bit_length() - 1))
    pairs = np.arange(surplus, dtype=np.int64)
    return np.concatenate([2 * pairs + 1, np.arange(2 * surplus, n)]), 2 * pairs


def _doubling(core: Int64Array, paired: Int64Array, owned: BoolArray) -> Iterator[_Exchange]:
    """Exchanges of ranks `core`; owned[i] are the shards of core[i] and of the rank that it stands in for."""
    stand_ins = core[: len(paired)]
    if len(paired):
        yield paired, stand_ins, owned[: len(paired)]
    held = owned
    index = np.arange(len(core))
    for bit in range(len(core).bit_length() - 1):
        yield core, core[index ^ 2**bit], held
        held = held | held[index ^ 2**bit]
    if len(paired):
        yield stand_ins, paired, held[: len(paired)]


def bruck(topology: Topology, collective: Collective) -> StepSchedule:
    """Bruck's allgather, for any number of nodes in ceil(log2 N) exchanges.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, any graph in which every node reaches every other.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes.

    Raises
    ------
    InfeasibleError
        If a node does not reach another.

    Notes
    -----
    In exchange i rank r sends the up to 2^i shards that it holds to rank r - 2^i. Source: Bruck, Ho, Kipnis,
    Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport message-passing
    systems (IEEE TPDS 8, 1997).
    """
    check_sends("bruck", topology)
    n = topology.n_nodes
    return _exchanging("bruck", topology, collective, np.arange(n), lambda: _rotating(n))


def _rotating(n: int) -> Iterator[_Exchange]:
    ranks = np.arange(n)
    ahead = (ranks - ranks[:, None]) % n  # [rank, shard]
    distance = 1
    while distance < n:
        yield ranks, (ranks - distance) % n, ahead < min(distance, n - distance)
        distance *= 2


def _exchanging(
    name: str,
    topology: Topology,
    collective: Collective,
    homes: Int64Array,
    exchanges: Callable[[], Iterable[_Exchange]],
) -> StepSchedule:
    """The collective by an allgather whose shards are at home at `homes`, and its reverse."""

    def spread(fabric: Topology) -> Steps:
        check_connected(topology)
        return _routed(fabric, homes, exchanges(), next_links(fabric, collective).T)

    return both_directions(name, topology, collective, spread)


def _routed(
    topology: Topology, homes: Int64Array, exchanges: Iterable[_Exchange], onward: Int64Array
) -> Steps:
    """Steps of the exchanges, one after another; a hop that brings nothing new takes no step."""
    heads = topology.heads.astype(np.int64)
    n_shards = len(homes)
    lacks = ~mask_of((topology.n_nodes, n_shards), (homes, np.arange(n_shards)))
    shards: list[Int64Array] = []
    links: list[Int64Array] = []
    for senders, receivers, carried in exchanges:
        place = senders
        # what a message has to bring is decided when it sets out
        carried = carried & lacks[receivers]
        while True:
            is_moving = (place != receivers) & carried.any(axis=1)
            if not is_moving.any():
                break
            if not is_moving.all():
                place, receivers, carried = place[is_moving], receivers[is_moving], carried[is_moving]
            link = onward[place, receivers]
            place = heads[link]
            # what comes to a node that lacks it, once per node; numpy is faster in one dimension
            message, shard = np.divmod(np.flatnonzero(carried & lacks[place]), n_shards)
            first = np.unique(place[message] * n_shards + shard, return_index=True)[1]
            shard, crossed = shard[first], link[message[first]]
            lacks[heads[crossed], shard] = False
            if shard.size:
                shards.append(shard)
                links.append(crossed)
    step = np.repeat(np.arange(len(shards)), [len(part) for part in shards])
    shard, link = np.concatenate(shards), np.concatenate(links)
    steps = steps_from_sends(
        Direction.BROADCAST,
        topology.n_nodes,
        1,
        [shard, link, step, np.zeros_like(shard), np.ones_like(shard)],
        homes=homes.tolist(),
    )
    # per part of a shard, the link to take for the first link of each pair of neighbours
    copies = parallel_links(topology).astype(np.int32)
    return combine([replace(steps, link=copy[steps.link]) for copy in copies])
