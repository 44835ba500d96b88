"""Independent check of a route schedule: paths, chunks per pair, loads, virtual channels, claims.

Shares no code with the generators: everything is recomputed here. Long tables of paths are checked part by
part to limit the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, distinct, mask_of, sums_of
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.certificate import binds_forwarding_hosts
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_members, check_shape
from treadle.verification.loads import slowest
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64
_BLOCK = 1 << 17  # paths checked together


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
        Maximum number of routes from a rank to another, and of layers, that the adapters support.
    max_hops : int, optional
        Maximum number of links of a route.
    **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        With `n_layers`.

    Notes
    -----
    Paths. Each is a walk over links of the fabric without self-loops, from the node of its source to that of
    its target, that visits no node twice. It may pass any node: adapters forward without their hosts.

    Units. The paths of pair (i, j) carry P * w(i, j) chunks in all, and none if w is 0.

    Layers. In each layer, link a depends on link b if some path takes b right after a; these dependencies
    must have no cycle (Dally and Seitz, 1987), so packets cannot deadlock. If layers change along paths, the
    same holds for pairs (layer, link).

    Cost. All chunks move concurrently at proportional rates: algbw = W / max(load / P / bandwidth) over the
    links and, for hosts with an injection cap, over their own data sent and received; W is the largest
    buffer.

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
        check_shape(collective, schedule, found)

    binds = binds_forwarding_hosts(claims.get("certificate"))
    unsupported = (
        "the certificate counts data that pass through hosts with an injection cap, but routes leave these "
        "to adapters"
    )
    judge = Verifier(topology, collective, check=check, unsupported=unsupported if binds else "", **claims)
    if not judge.is_sound:
        return judge.report()
    _check_units(collective, schedule, judge.found)
    _check_limits(schedule, max_routes, max_layers, max_hops, judge.found)
    if _check_paths(topology, collective, schedule, judge.found):
        _check_layers(topology, schedule, judge.found)
    if not judge.is_sound:
        return judge.report()
    algbw = collective.pair_demands.buffer_units / _time_per_unit(topology, collective, schedule)
    return judge.report(algbw, n_layers=schedule.n_layers)


def _check_units(collective: Collective, schedule: RouteSchedule, found: Findings) -> None:
    n = schedule.n_ranks
    units = schedule.units
    if float(units.astype(np.float64).sum()) >= _SAFE:
        units = units.astype(object)  # sums of 64 bits could wrap to the expected value
    carried = sums_of(n * n, schedule.pair, units, dtype=units.dtype)
    expected = collective.pair_demands.between.ravel() * schedule.n_chunks
    found.add_all(
        ViolationKind.UNITS,
        np.flatnonzero(carried != expected),
        lambda i: (
            f"rank {i // n} to rank {i % n}: its paths carry {carried[i]} chunks, expected {expected[i]}"
        ),
    )


def _check_limits(
    schedule: RouteSchedule,
    max_routes: int | None,
    max_layers: int | None,
    max_hops: int | None,
    found: Findings,
) -> None:
    n = schedule.n_ranks
    if max_routes is not None:
        routes = np.bincount(schedule.pair)
        found.add_all(
            ViolationKind.LIMIT,
            np.flatnonzero(routes > max_routes),
            lambda i: f"rank {i // n} to rank {i % n}: {routes[i]} routes, at most {max_routes} fit",
        )
    layer = schedule.hop_layer if schedule.hop_layer.size else schedule.layer
    if max_layers is not None and int(layer.max(initial=-1)) >= max_layers:
        found.add(ViolationKind.LIMIT, f"{int(layer.max()) + 1} layers are used, at most {max_layers} fit")
    if max_hops is not None:
        hops = np.diff(schedule.path_offset)
        found.add_all(
            ViolationKind.LIMIT,
            np.flatnonzero(hops > max_hops),
            lambda i: f"{_path_name(schedule, i)}: {hops[i]} hops, at most {max_hops} are allowed",
        )


def _path_name(schedule: RouteSchedule, path: int) -> str:
    return f"path {path}, rank {schedule.source[path]} to rank {schedule.target[path]}"


def _check_paths(
    topology: Topology, collective: Collective, schedule: RouteSchedule, found: Findings
) -> bool:
    """Whether every path is a simple walk between its ranks; violations name the first fault of a path."""
    before = found.total
    offset, links = schedule.path_offset, schedule.path_links

    def add_faults(kind: ViolationKind, paths: NDArray[np.integer], fault: str) -> None:
        found.add_all(kind, np.unique(paths), lambda i: f"{_path_name(schedule, i)}: {fault}")

    unknown = np.searchsorted(offset, np.flatnonzero(links >= topology.n_links), side="right") - 1
    add_faults(
        ViolationKind.ENDS, np.flatnonzero(schedule.source == schedule.target), "joins a rank to itself"
    )
    add_faults(ViolationKind.PATH, np.flatnonzero(np.diff(offset) == 0), "has no link")
    add_faults(ViolationKind.LINK, unknown, "takes a link that the fabric lacks")
    if found.total > before:
        return False
    ranks = np.array(collective.ranks)
    walks = [_walk_faults(topology, ranks, schedule, *block) for block in _blocks(schedule)]
    loops, astray, broken, repeated = (np.concatenate(paths) for paths in zip(*walks, strict=True))
    add_faults(ViolationKind.LINK, loops, "takes a self-loop")
    add_faults(ViolationKind.ENDS, astray, "does not begin and end at its ranks")
    add_faults(ViolationKind.PATH, broken, "is not contiguous")
    if found.total > before:
        return False
    add_faults(ViolationKind.PATH, repeated, "visits a node twice")
    return found.total == before


def _blocks(schedule: RouteSchedule) -> Iterator[tuple[slice, slice, Int64Array]]:
    """Yield some paths at a time: their positions, the positions of their hops, and offsets within these.

    Indices of hops take 8 bytes each, the hops themselves only 4.
    """
    for begin in range(0, max(1, schedule.n_paths), _BLOCK):
        part = slice(begin, min(schedule.n_paths, begin + _BLOCK))
        ends = schedule.path_offset[part.start : part.stop + 1]
        yield part, slice(ends[0], ends[-1]), ends - ends[0]


def _walk_faults(
    topology: Topology, ranks: Int64Array, schedule: RouteSchedule, part: slice, hops: slice, ends: Int64Array
) -> list[Int64Array]:
    """Return the paths with a self-loop, with wrong ends, with a gap, and with a repeated node."""
    links = schedule.path_links[hops]
    owner = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    tails, heads = topology.tails[links], topology.heads[links]
    source, target = ranks[schedule.source[part]], ranks[schedule.target[part]]
    is_astray = (tails[ends[:-1]] != source) | (heads[ends[1:] - 1] != target)
    is_gap = (owner[1:] == owner[:-1]) & (tails[1:] != heads[:-1])
    visits = np.concatenate([owner * topology.n_nodes + heads, np.arange(len(source)) * topology.n_nodes])
    visits[len(owner) :] += source
    visits.sort()
    repeated = visits[1:][visits[1:] == visits[:-1]] // topology.n_nodes
    faults = (owner[tails == heads], np.flatnonzero(is_astray), owner[1:][is_gap], repeated)
    return [part.start + paths for paths in faults]


def _check_layers(topology: Topology, schedule: RouteSchedule, found: Findings) -> None:
    """Check that channels, which are links in a layer, have no dependency cycle."""
    m = topology.n_links
    held, wanted = _dependencies(schedule, m)
    if schedule.hop_layer.size:
        _add_cycle(topology, "", held, wanted, found)
        return
    layer = held // m  # no dependency leads from one layer to another
    for number in range(schedule.n_layers):
        inside = layer == number
        _add_cycle(topology, f"layer {number}: ", held[inside] % m, wanted[inside], found)


def _dependencies(schedule: RouteSchedule, n_links: int) -> tuple[Int64Array, Int64Array]:
    """Return the distinct pairs of a channel and the next one; only its link if layers never change."""
    changes = schedule.hop_layer.size > 0
    count = n_links * schedule.n_layers if changes else n_links
    pairs = []
    for part, hops, ends in _blocks(schedule):
        layer = schedule.hop_layer[hops] if changes else np.repeat(schedule.layer[part], np.diff(ends))
        link = schedule.path_links[hops]
        channel = layer.astype(np.int64) * n_links + link
        pair = channel[:-1] * count + (channel if changes else link)[1:]
        pairs.append(distinct(np.delete(pair, ends[1:-1] - 1)))
    held, wanted = np.divmod(distinct(np.concatenate(pairs)), count)
    return held, wanted


def _add_cycle(topology: Topology, place: str, held: Int64Array, wanted: Int64Array, found: Findings) -> None:
    """Add a violation if the dependencies held -> wanted have a cycle."""
    used, ends = np.unique(np.concatenate([held, wanted]), return_inverse=True)
    cycle = [int(used[position]) for position in _cycle(ends[: len(held)], ends[len(held) :], len(used))]
    if not cycle:
        return

    def name(channel: int) -> str:
        number, link = divmod(channel, topology.n_links)
        return topology.link_name(link) + ("" if place else f" in layer {number}")

    names = ", ".join(name(channel) for channel in cycle[:8]) + (", ..." if len(cycle) > 8 else "")
    found.add(ViolationKind.DEADLOCK, f"{place}{len(cycle)} links wait for each other: {names}")


def _cycle(held: Int64Array, wanted: Int64Array, n_links: int) -> list[int]:
    """Return the links of some cycle of the digraph held -> wanted, or none.

    Links without a predecessor are removed until every link left has one; then going back from any of these
    must reach a link again.
    """
    order = np.argsort(held, kind="stable")
    starts = np.searchsorted(held[order], np.arange(n_links + 1)).tolist()
    following = wanted[order].tolist()
    n_before = np.bincount(wanted, minlength=n_links).tolist()
    free = [link for link in range(n_links) if not n_before[link]]
    for link in free:  # grows on the way
        for after in following[starts[link] : starts[link + 1]]:
            n_before[after] -= 1
            if not n_before[after]:
                free.append(after)
    left = ~mask_of(n_links, free)
    if not left.any():
        return []
    inside = left[held] & left[wanted]
    before = dict(zip(wanted[inside].tolist(), held[inside].tolist(), strict=True))
    link, seen = int(np.argmax(left)), dict[int, int]()
    while link not in seen:
        seen[link] = len(seen)
        link = before[link]
    return list(seen)[seen[link] :][::-1]


def _time_per_unit(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Fraction:
    """Return the seconds of the exchange if a unit of demand were a byte."""
    is_exact = float(schedule.units.astype(np.float64) @ np.diff(schedule.path_offset)) < _SAFE
    load = np.zeros(topology.n_links, dtype=np.int64 if is_exact else object)
    for part, hops, ends in _blocks(schedule):
        units = np.repeat(schedule.units[part].astype(load.dtype), np.diff(ends))
        np.add.at(load, schedule.path_links[hops], units)
    seconds = slowest(topology, load, with_hosts=False)
    received, sent = collective.pair_demands.totals
    for rank, node in enumerate(collective.ranks):
        cap = int(topology.injection_bytes_per_s[node])
        if cap:
            own = max(int(sent[rank]), int(received[rank]))
            seconds = max(seconds, Fraction(own * schedule.n_chunks, cap))
    return seconds / schedule.n_chunks
