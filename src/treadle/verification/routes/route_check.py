"""Independent check of a route schedule: paths, chunks per pair, loads, layers free of deadlock, claims.

Shares no code with the generators: everything is recomputed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, distinct
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.certificate import binds_forwarding_hosts
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_members
from treadle.verification.loads import slowest
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62
"""Sums below this fit 64 bits."""

_BLOCK = 1 << 17
"""Paths that are looked at at once."""


def verify_routes(
    topology: Topology,
    collective: Collective,
    schedule: RouteSchedule,
    *,
    max_routes: int | None = None,
    max_layers: int | None = None,
    max_hops: int | None = None,
    **claims: Unpack[Claims],
) -> Report:
    """Check that routes perform the all-to-all on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : RouteSchedule
    max_routes, max_layers : int, optional
        Most routes from a rank to another, and most layers, that the adapters hold.
    max_hops : int, optional
        Most links of a route.
    **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        With `n_layers`.

    Notes
    -----
    Paths. Each is a walk over links of the fabric, no self-loop, from its source's node to its target's that
    visits no node twice. Any node may be on the way: adapters forward without their hosts.

    Units. The paths of pair (i, j) carry P * w(i, j) chunks in all, none where w is 0.

    Layers. In each layer, link a waits for link b where some path takes b right after a; these waits must
    have no cycle (Dally and Seitz, 1987), so no set of packets can hold each other up. Where layers change on
    the way, the same holds of (layer, link).

    Cost. All chunks move at once at rates in proportion: algbw = W / max(load / P / bandwidth) over the links
    and, for hosts with an injection cap, over what they send and receive themselves; W is the largest buffer.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.routes import routes_from_paths
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> routes = routes_from_paths(2, 1, [(0, 1, 1, 0, [0])])
    >>> print(*verify_routes(pair, on_all_ranks(pair, CollectiveKind.ALLTOALL), routes).violations)
    units: rank 1 to rank 0: its paths carry 0 chunks, expected 1
    """

    def check(topology: Topology, collective: Collective, found: Findings) -> None:
        check_members(topology, collective, found)
        if collective.kind is not schedule.kind:
            found.add(ViolationKind.SHAPE, f"the routes are for {schedule.kind}, not {collective.kind}")

    binds = binds_forwarding_hosts(claims.get("witness"))
    judge = Verifier(topology, collective, check=check, refused=_OF_CARDS if binds else "", **claims)
    if not judge.is_sound:
        return judge.report()
    found = judge.found
    if schedule.n_ranks != collective.n_ranks:
        found.add(
            ViolationKind.SHAPE,
            f"the routes are for {schedule.n_ranks} ranks, the collective has {collective.n_ranks}",
        )
        return judge.report()
    _check_units(collective, schedule, found)
    _check_limits(schedule, max_routes, max_layers, found)
    if max_hops is not None:
        _check_hops(schedule, max_hops, found)
    if _check_paths(topology, collective, schedule, found):
        _check_layers(topology, schedule, found)
    if not judge.is_sound:
        return judge.report()
    algbw = collective.pair_demands.buffer_units / _time_per_unit(topology, collective, schedule)
    return judge.report(algbw, n_layers=schedule.n_layers)


_OF_CARDS = "the witness counts what passes through hosts with an injection cap, which routes leave to cards"


def _check_units(collective: Collective, schedule: RouteSchedule, found: Findings) -> None:
    n = schedule.n_ranks
    units = schedule.units
    if float(units.astype(np.float64).sum()) >= _SAFE:
        units = units.astype(object)  # sums of 64 bits could wrap, and then be what is expected
    carried = np.zeros(n * n, dtype=units.dtype)
    np.add.at(carried, schedule.source.astype(np.int64) * n + schedule.target, units)
    expected = collective.pair_demands.between.ravel() * schedule.n_chunks
    found.add_all(
        ViolationKind.UNITS,
        np.flatnonzero(carried != expected),
        lambda i: (
            f"rank {i // n} to rank {i % n}: its paths carry {carried[i]} chunks, expected {expected[i]}"
        ),
    )


def _check_limits(
    schedule: RouteSchedule, max_routes: int | None, max_layers: int | None, found: Findings
) -> None:
    n = schedule.n_ranks
    if max_routes is not None:
        routes = np.bincount(schedule.source.astype(np.int64) * n + schedule.target)
        found.add_all(
            ViolationKind.LIMIT,
            np.flatnonzero(routes > max_routes),
            lambda i: f"rank {i // n} to rank {i % n}: {routes[i]} routes, at most {max_routes} fit",
        )
    layer = schedule.hop_layer if schedule.hop_layer.size else schedule.layer
    if max_layers is not None and schedule.n_paths and int(layer.max()) >= max_layers:
        found.add(ViolationKind.LIMIT, f"{int(layer.max()) + 1} layers are used, at most {max_layers} fit")


def _check_hops(schedule: RouteSchedule, max_hops: int, found: Findings) -> None:
    hops = np.diff(schedule.path_offset)
    found.add_all(
        ViolationKind.LIMIT,
        np.flatnonzero(hops > max_hops),
        lambda i: (
            f"path {i}, rank {schedule.source[i]} to rank {schedule.target[i]}: "
            f"{hops[i]} hops, at most {max_hops} may be"
        ),
    )


def _check_paths(
    topology: Topology, collective: Collective, schedule: RouteSchedule, found: Findings
) -> bool:
    """Whether every path is a simple walk between its ranks; complaints name the first fault of a path."""
    before = found.total
    offset, links = schedule.path_offset, schedule.path_links

    def complain(kind: ViolationKind, paths: NDArray[np.integer], what: str) -> None:
        faulty = np.unique(paths)
        found.add_all(
            kind,
            faulty,
            lambda i: f"path {i}, rank {schedule.source[i]} to rank {schedule.target[i]}: {what}",
        )

    unknown = np.searchsorted(offset, np.flatnonzero(links >= topology.n_links), side="right") - 1
    complain(ViolationKind.ENDS, np.flatnonzero(schedule.source == schedule.target), "joins a rank to itself")
    complain(ViolationKind.PATH, np.flatnonzero(np.diff(offset) == 0), "has no link")
    complain(ViolationKind.LINK, unknown, "takes a link that the fabric lacks")
    if found.total > before:
        return False
    ranks = np.array(collective.ranks)
    walks = [_faults_of_walks(topology, ranks, schedule, part) for part in _blocks(schedule.n_paths)]
    loops, astray, broken, twice = (np.concatenate(paths) for paths in zip(*walks, strict=True))
    complain(ViolationKind.LINK, loops, "takes a self-loop")
    complain(ViolationKind.ENDS, astray, "does not begin and end at its ranks")
    complain(ViolationKind.PATH, broken, "is not contiguous")
    if found.total > before:
        return False
    complain(ViolationKind.PATH, twice, "visits a node twice")
    return found.total == before


def _blocks(count: int) -> Iterator[slice]:
    """Of paths: indices of their hops take 8 bytes each, the hops themselves 4."""
    for begin in range(0, max(1, count), _BLOCK):
        yield slice(begin, min(count, begin + _BLOCK))


def _faults_of_walks(
    topology: Topology, ranks: Int64Array, schedule: RouteSchedule, part: slice
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Of some paths: those with a self-loop, with wrong ends, with a gap, with a node that comes twice."""
    ends = schedule.path_offset[part.start : part.stop + 1]
    links = schedule.path_links[ends[0] : ends[-1]]
    ends = ends - ends[0]
    owner = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    tails, heads = topology.tails[links], topology.heads[links]
    source, target = ranks[schedule.source[part]], ranks[schedule.target[part]]
    astray = (tails[ends[:-1]] != source) | (heads[ends[1:] - 1] != target)
    gap = (owner[1:] == owner[:-1]) & (tails[1:] != heads[:-1])
    visits = np.concatenate([owner * topology.n_nodes + heads, np.arange(len(source)) * topology.n_nodes])
    visits[len(owner) :] += source
    visits.sort()
    twice = visits[1:][visits[1:] == visits[:-1]] // topology.n_nodes
    found = (owner[tails == heads], np.flatnonzero(astray), owner[1:][gap], twice)
    loops, strays, broken, again = (part.start + paths for paths in found)
    return loops, strays, broken, again


def _check_layers(topology: Topology, schedule: RouteSchedule, found: Findings) -> None:
    """No circle of channels that wait for each other; a channel is a link in a layer."""
    m = topology.n_links
    held, wanted = _waits(schedule, m)
    if schedule.hop_layer.size:
        _complain_of_cycle(topology, "", held, wanted, found)
        return
    layer = held // m  # no wait leads from one to another
    for number in range(schedule.n_layers):
        among = layer == number
        _complain_of_cycle(topology, f"layer {number}: ", held[among] % m, wanted[among], found)


def _waits(schedule: RouteSchedule, n_links: int) -> tuple[Int64Array, Int64Array]:
    """Different waits: a channel, and the channel after it; only its link, where layers never change."""
    changes = schedule.hop_layer.size > 0
    count = n_links * schedule.n_layers if changes else n_links
    waits = []
    for part in _blocks(schedule.n_paths):
        ends = schedule.path_offset[part.start : part.stop + 1]
        hops = slice(ends[0], ends[-1])
        layer = schedule.hop_layer[hops] if changes else np.repeat(schedule.layer[part], np.diff(ends))
        link = schedule.path_links[hops]
        channel = layer.astype(np.int64) * n_links + link
        wait = channel[:-1] * count + (channel if changes else link)[1:]
        begins = (ends[1:-1] - ends[0]).astype(np.intp)
        waits.append(distinct(np.delete(wait, begins - 1)))
    held, wanted = np.divmod(distinct(np.concatenate(waits)), count)
    return held, wanted


def _complain_of_cycle(
    topology: Topology, place: str, held: Int64Array, wanted: Int64Array, found: Findings
) -> None:
    used, ends = np.unique(np.concatenate([held, wanted]), return_inverse=True)
    cycle = [int(used[at]) for at in _cycle(ends[: len(held)], ends[len(held) :], len(used))]
    if not cycle:
        return

    def name(channel: int) -> str:
        number, link = divmod(channel, topology.n_links)
        return topology.link_name(link) + ("" if place else f" in layer {number}")

    names = ", ".join(name(channel) for channel in cycle[:8]) + (", ..." if len(cycle) > 8 else "")
    found.add(ViolationKind.DEADLOCK, f"{place}{len(cycle)} links wait for each other: {names}")


def _cycle(held: Int64Array, wanted: Int64Array, n_links: int) -> list[int]:
    """Links of some cycle of the digraph held -> wanted, or none.

    Links that nothing in the rest waits for are removed until each one left has one that waits for it;
    going back from any of these must come round.
    """
    order = np.argsort(held, kind="stable")
    starts = np.searchsorted(held[order], np.arange(n_links + 1)).tolist()
    following = wanted[order].tolist()
    waiting = np.bincount(wanted, minlength=n_links).tolist()
    free = [link for link in range(n_links) if not waiting[link]]
    left: BoolArray = np.ones(n_links, dtype=np.bool_)
    while free:
        link = free.pop()
        left[link] = False
        for after in following[starts[link] : starts[link + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                free.append(after)
    if not left.any():
        return []
    inside = left[held] & left[wanted]
    before = dict(zip(wanted[inside].tolist(), held[inside].tolist(), strict=True))
    link, seen = int(np.flatnonzero(left)[0]), dict[int, int]()
    while link not in seen:
        seen[link] = len(seen)
        link = before[link]
    return list(seen)[seen[link] :][::-1]


def _time_per_unit(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Fraction:
    """Seconds of the exchange if a unit of demand were a byte."""
    exact = float(schedule.units.astype(np.float64) @ np.diff(schedule.path_offset)) < _SAFE
    load = np.zeros(topology.n_links, dtype=np.int64 if exact else object)
    for part in _blocks(schedule.n_paths):
        ends = schedule.path_offset[part.start : part.stop + 1]
        units = np.repeat(schedule.units[part].astype(load.dtype), np.diff(ends))
        np.add.at(load, schedule.path_links[ends[0] : ends[-1]], units)
    seconds = slowest(topology, load, with_hosts=False)
    received, sent = collective.pair_demands.totals
    for rank, node in enumerate(collective.ranks):
        cap = int(topology.injection_bytes_per_s[node])
        if cap:
            own = max(int(sent[rank]), int(received[rank]))
            seconds = max(seconds, Fraction(own * schedule.n_chunks, cap))
    return seconds / schedule.n_chunks
