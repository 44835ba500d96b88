"""MCF-extP: paths from the link flows of every source, by peeling or by widest paths."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Float64Array, Int64Array, mask_of, sums_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.graphs import InArcs
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.cycles import DUST, cancel_cycles
from treadle.synthesis.alltoall.routes.path_sets import (
    WeightedPaths,
    check_paths,
    demanded_pairs,
    merge,
    shortest_path_set,
    turned,
    weighted_path_set,
)
from treadle.synthesis.alltoall.routes.restricted_master import weighted
from treadle.synthesis.parallel import map_blocks, spans
from treadle.synthesis.runs import positions_in_runs
from treadle.topologies.topology import Topology

_Part = tuple[Int64Array, Int64Array, Int64Array, Float64Array]
"""Source, target, links (rows padded by -1), and width of some paths."""

_UNDELIVERED = 0.05
"""Fraction of a pair's demand that flows may lack: small errors on much forwarded data add up."""

_DUST = 1e-9
"""Fraction of a pair's demand below which the rest counts as rounding."""

_LEAST_WALKS, _LEAST_SEARCHES = 256, 16
"""Least sources of a task: fewer cost hardly less time, since they run together."""


def extract_paths(
    topology: Topology, collective: Collective, flows: Float64Array, *, widest: bool = False
) -> WeightedPaths:
    """Decompose flows into weighted paths of every pair, at the flows' rate.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    flows : array of float64, shape (N, m)
        Row s: flow of source s over each link that brings every other rank d its demand w(s, d), per unit of
        rate. Small errors of conservation are repaired; links may be shared without limit.
    widest : bool
        Take the widest remaining path each time, as published: fewer and wider paths, but a search for each.
        Otherwise walk back from the destination along the fullest links.

    Returns
    -------
    WeightedPaths
        Weights of a pair add up to its demand; several per pair.

    Raises
    ------
    InfeasibleError
        If the flows leave more than 5% of some demand undelivered, or remove as much of a source's data at a
        rank without demand.
    ScheduleError
        If the flows have another shape, or negative or infinite values.
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    A flow of one source without cycles can be decomposed sink by sink in any order: after each path, the rest
    is a flow that delivers the rest (section 3.2.1 of the all-to-all paper needs a flow for each pair). All
    sources are decomposed together, in tasks where workers are processes (`synthesis.parallel`).
    """
    if flows.shape != (collective.n_ranks, topology.n_links):
        raise ScheduleError(
            f"extraction: flows of shape {flows.shape}, expected {(collective.n_ranks, topology.n_links)}"
        )
    if not np.all(np.isfinite(flows)) or flows.min(initial=0.0) < -1e-6:
        raise ScheduleError("extraction: flows must be finite and not negative")
    left = np.maximum(flows, 0.0)
    left[left <= DUST * left.max(initial=0.0)] = 0.0  # relative to all sources, however tasks divide them
    left[:, topology.tails == topology.heads] = 0.0
    _check_delivery(topology, collective, left)
    ranks = np.array(collective.ranks)
    demand = collective.pair_demands.between
    least = _LEAST_SEARCHES if widest else _LEAST_WALKS
    blocks = [
        (topology, ranks, own.start, demand[own], left[own], widest)
        # Threads would hold the interpreter's lock for two thirds of their time and more.
        for own in spans(len(ranks), least=least, native=False)
    ]
    parts = [part for found in map_blocks("peeling", _peeled, blocks) for part in found]
    return _collected(topology, collective, parts)


def _check_delivery(topology: Topology, collective: Collective, flows: Float64Array) -> None:
    """Raise InfeasibleError unless every rank gets about its demand from every source."""
    ranks = np.array(collective.ranks)
    net = sums_of((topology.n_nodes, len(ranks)), topology.heads, flows.T, dtype=float)
    np.subtract.at(net, topology.tails, flows.T)
    net = net.T
    demand = collective.pair_demands.between.astype(np.float64)
    # Without demand, rounding may leave slightly less than 0.
    slack = _UNDELIVERED * np.where(demand > 0, demand, demand.sum(axis=1, keepdims=True))
    short = np.argwhere(net[:, ranks] < demand - slack)
    for source, target in short[short[:, 0] != short[:, 1]][:1].tolist():
        raise InfeasibleError(
            f"extraction: rank {target} gets {net[source, ranks[target]]:.6g} from rank {source}, "
            f"expected {demand[source, target]:g}; give flows that deliver all demands"
        )


def _peeled(
    topology: Topology,
    ranks: Int64Array,
    first: int,
    demand: Int64Array,
    flows: Float64Array,
    widest: bool,
) -> list[_Part]:
    """Decompose the flows of some sources, those of the ranks from `first` on."""
    left = cancel_cycles(topology, flows)
    left = np.column_stack([left, np.full(len(left), -1.0)])  # a link for padding
    starts = ranks[first : first + len(demand)]
    width = int(np.bincount(topology.heads, minlength=topology.n_nodes).max())
    links_into: Int64Array = np.full((topology.n_nodes, width), topology.n_links, dtype=np.int64)
    order = np.argsort(topology.heads, kind="stable")
    links_into[topology.heads[order], positions_in_runs(topology.heads[order])] = order
    remaining = demand.astype(np.float64)
    found: list[_Part] = []
    todo = [np.flatnonzero(row).tolist()[::-1] for row in demand]
    active = [s for s, targets in enumerate(todo) if targets]
    while active:
        source, target = np.array(active), np.array([todo[s][-1] for s in active])
        into = _widest(topology, left[source], starts[source]) if widest else None
        rows, carried = _walk(topology, left, source, (starts[source], ranks[target]), links_into, into)
        carried = np.minimum(carried, remaining[source, target])
        wanted = demand[source, target]
        some = carried > _DUST * wanted
        owner, column = np.nonzero((rows >= 0) & some[:, None])
        left[source[owner], rows[owner, column]] -= carried[owner]  # a path has no link twice
        remaining[source, target] -= carried
        found.append((first + source[some], target[some], rows[some], carried[some]))
        for s in source[~some | (remaining[source, target] <= _DUST * wanted)].tolist():
            todo[s].pop()
        active = [s for s in active if todo[s]]
    return found


def _walk(
    topology: Topology,
    left: Float64Array,
    source: Int64Array,
    ends: tuple[Int64Array, Int64Array],
    links_into: Int64Array,
    into: Int64Array | None,
) -> tuple[Int64Array, Float64Array]:
    """Return paths back from the last to the first nodes, and their width; 0 where a walk ends early."""
    start, at = ends
    tails, rows = topology.tails.astype(np.int64), np.arange(len(at))
    width = np.full(len(source), np.inf)
    columns: list[Int64Array] = []
    going = at != start
    while going.any():
        if into is None:
            near = links_into[at]
            link = near[rows, left[source[:, None], near].argmax(axis=1)]
        else:
            link = into[rows, at]
        link = np.where(going, link, -1)
        carried = np.where(going, left[source, link], np.inf)
        width = np.maximum(np.minimum(width, carried), 0.0)
        columns.append(link)
        at = np.where(going, tails[link], at)
        going = (at != start) & (width > 0)
    return turned(np.column_stack(columns)), width


def _widest(topology: Topology, left: Float64Array, starts: Int64Array) -> Int64Array:
    """Return the last link of a widest path to every node from each start, by rounds over all links."""
    arcs = InArcs.of(topology.tails, topology.heads)
    capacity = np.maximum(left[:, arcs.order], 0)
    width = np.zeros((len(left), topology.n_nodes))
    width[np.arange(len(left)), starts] = np.inf
    into: Int64Array = np.full(width.shape, -1, dtype=np.int64)
    while True:
        through = np.minimum(width[:, arcs.tails], capacity)
        best = np.maximum.reduceat(through, arcs.starts, axis=1)
        better = best > width[:, arcs.heads]
        if not better.any():
            return into
        link = arcs.order[arcs.first(through == np.repeat(best, arcs.widths, axis=1))]
        into[:, arcs.heads] = np.where(better, link, into[:, arcs.heads])
        width[:, arcs.heads] = np.where(better, best, width[:, arcs.heads])


def _collected(topology: Topology, collective: Collective, found: list[_Part]) -> WeightedPaths:
    """Join the paths found, and add a shortest one for each pair that has none."""
    source, target = (np.concatenate([part[i] for part in found]) for i in (0, 1))
    width = np.concatenate([part[3] for part in found])
    longest = max(part[2].shape[1] for part in found)
    rows = np.concatenate(
        [np.pad(part[2], ((0, 0), (0, longest - part[2].shape[1])), constant_values=-1) for part in found]
    )
    found_paths = weighted_path_set(source, target, rows, width)
    paths, weights, n = found_paths.paths, found_paths.weights, collective.n_ranks
    routed = mask_of((n, n), (paths.source, paths.target))
    one, other, demand = demanded_pairs(collective)
    missing = ~routed[one, other]
    if missing.any():
        spare = shortest_path_set(topology, collective).take(missing)
        both = merge(paths, spare)
        pair = both.source.astype(np.int64) * n + both.target
        fresh = np.isin(pair, (one.astype(np.int64) * n + other)[missing])
        filled = np.empty(both.n_paths)
        filled[~fresh], filled[fresh] = weights, demand[missing]
        paths, weights = both, filled
    pair = check_paths(collective, paths)
    return weighted(paths, pair, weights / demand[pair], demand)
