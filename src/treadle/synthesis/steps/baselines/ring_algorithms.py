"""Ring algorithms: every shard goes round Hamiltonian rings that together use all links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.steps.step_transforms import combine
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import unsupported_reason
from treadle.synthesis.steps.baselines.bidirectional import both_directions, check_sends
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


@dataclass(frozen=True)
class _Ring:
    """Links from every node x, in order, to x + offset modulo N; a part of each shard is meant for them."""

    offset: int
    links: Int64Array
    bandwidth: int


def links_of_hamiltonian_rings(topology: Topology, _: Collective) -> Unsupported | None:
    """Rings x -> x + a that together are all links."""
    return unsupported_reason(_rings, "rings", topology)


def ring_steps(topology: Topology, collective: Collective) -> StepSchedule:
    """Ring allgather on every Hamiltonian ring of a graph made of shifts, each for its part of the shards.

    Parameters
    ----------
    topology : Topology
        Links run from node x to x + a modulo N for some offsets a, all coprime to N: rings of one or two
        directions, with parallel links, ShiftedRing, many circulants. Rings get parts of the shards as large
        as their slowest links allow.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes.

    Raises
    ------
    ScheduleError
        For other graphs and collectives.

    Notes
    -----
    T_L = N - 1 and bandwidth-optimal (section A.6.1); on ShiftedRing this is TopoOpt's algorithm (3.8.2).

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> fabric = parse("shifted_ring(7)")
    >>> ring_steps(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE)).n_steps
    12
    """
    return both_directions("ring-steps", topology, collective, _ring_allgather)


def _ring_allgather(topology: Topology) -> Steps:
    rings = _rings("ring-steps", topology)
    check_sends("ring-steps", topology, len(rings))
    return _side_by_side(rings, lambda ring: _around(topology.n_nodes, ring))


def _around(n: int, ring: _Ring) -> Steps:
    """In step t every node x passes on the shard of x - t * offset."""
    step = np.repeat(np.arange(n - 1), n)
    node = np.tile(np.arange(n), n - 1)
    return steps_from_sends(
        Direction.BROADCAST,
        n,
        1,
        [(node - step * ring.offset) % n, ring.links[node], step, np.zeros_like(step), np.ones_like(step)],
    )


def _side_by_side(rings: Sequence[_Ring], serve: Callable[[_Ring], Steps]) -> Steps:
    """Every ring's schedule for a part of the shards that is in proportion to its bandwidth."""
    common = gcd(*(ring.bandwidth for ring in rings))
    return combine(
        [serve(ring) for ring in rings],
        shares=[ring.bandwidth // common for ring in rings],
    )


def _rings(name: str, topology: Topology) -> list[_Ring]:
    """Hamiltonian rings, so that each link is in one: by offset, then by number of parallel links.

    Of parallel links the fastest make one ring, and so on.
    """
    n = topology.n_nodes
    offsets = (topology.heads.astype(np.int64) - topology.tails) % n
    found = []
    for offset in np.unique(offsets).tolist():
        links = np.flatnonzero(offsets == offset)
        order = links[np.lexsort((-topology.bandwidths[links], topology.tails[links]))]
        copies, rest = divmod(len(order), n)
        tails = topology.tails[order]
        if rest or gcd(offset, n) != 1 or not np.array_equal(tails, np.repeat(np.arange(n), copies)):
            raise ScheduleError(
                f"{name}: {topology.name} is not made of Hamiltonian rings x -> x + a with a coprime to {n}; "
                f"use bfb"
            )
        rings = order.reshape(n, copies).T
        found += [_Ring(offset, ring, int(topology.bandwidths[ring].min())) for ring in rings]
    if not found:
        raise ScheduleError(f"{name}: {topology.name} has no links; expected rings")
    return found


def shifted_bfb_ring(topology: Topology, collective: Collective) -> StepSchedule:
    """Breadth-first broadcast on each bidirectional ring by itself, each for its part of the shards.

    Parameters
    ----------
    topology : Topology
        As for `ring_steps`, with a ring of offset -a for every ring of offset a.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes.

    Raises
    ------
    ScheduleError
        If the graph is not made of bidirectional Hamiltonian rings.

    Notes
    -----
    T_L = floor(N / 2) and bandwidth-optimal (sections 3.8.3 and A.6.1): half the steps of the ring algorithm
    on the same cables. Breadth-first broadcast on the whole graph ("bfb") takes fewer steps still, as it
    does not keep the rings apart.
    """
    return both_directions("shifted-bfb-ring", topology, collective, _bfb_ring_allgather)


def _bfb_ring_allgather(topology: Topology) -> Steps:
    n = topology.n_nodes
    pairs: list[_Ring] = []
    waiting: dict[int, list[_Ring]] = {}
    for ring in _rings("shifted-bfb-ring", topology):
        partners = waiting.get(-ring.offset % n)
        if partners:
            other = partners.pop(0)
            slower = min(ring.bandwidth, other.bandwidth)
            pairs.append(_Ring(other.offset, np.concatenate([other.links, ring.links]), slower))
        else:
            waiting.setdefault(ring.offset, []).append(ring)
    if any(waiting.values()):
        raise ScheduleError(
            f"shifted-bfb-ring: some ring of {topology.name} has no ring the other way; use bfb"
        )
    check_sends("shifted-bfb-ring", topology, len(pairs))

    def breadth_first(pair: _Ring) -> Steps:
        """Over the links of two opposite rings, taken as equally fast."""
        steps = bfb_allgather(from_arcs("ring", topology.tails[pair.links], topology.heads[pair.links], n=n))
        return replace(steps, link=pair.links.astype(np.int32)[steps.link])

    return _side_by_side(pairs, breadth_first)
