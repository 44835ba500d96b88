"""The maximum concurrent flow to a certified gap by a first-order method, without an LP solver.

Flows by source against link lengths and potentials, as a saddle point: an iteration is one pass over the
links of each source. It stops on the certificates alone, so single precision and heuristics of step sizes
cost time, not truth. Source: Lu and Yang, Restarted Halpern PDHG for linear programming (2024);
docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from treadle.arrays import Float64Array, Int32Array, frozen
from treadle.engine import core, run_core
from treadle.errors import ScheduleError
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified_orbits
from treadle.synthesis.alltoall.rate.flow import delivered_fraction
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, symmetry_of
from treadle.synthesis.alltoall.rate.spreading import even_loads, spread_flow
from treadle.synthesis.alltoall.resolution import Resolution, resolution
from treadle.synthesis.alltoall.routes.path_sets import ShortestPaths
from treadle.synthesis.core_values.flow_values import FlowOptions, FlowProblem, FlowResult, FlowStart
from treadle.synthesis.parallel import core_threads

_VIOLATED, _STUCK = 1, 3

SMALLEST_GAP = 1e-9
"""Smallest gap that double precision can certify."""

_WIDE = 1e3
"""Ratio of bandwidths beyond which the sides meet late, if links that are never full count as they are."""

_SINGLE = 5e-6
_MOST_ITERATIONS = 1_000_000
_MOST_THREADS = 16
MOST_CELLS = 2**25
"""Sources times links whose flows take a second or so per iteration and a gigabyte."""


def pdhg_rate(
    instance: FlowInstance,
    symmetry: FlowSymmetry | None = None,
    *,
    gap: float = 1e-3,
    time_limit_s: float | None = None,
    start: RateResult | None = None,
) -> RateResult:
    """Close the gap between a flow and link lengths by a primal-dual method.

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry, optional
        Then one source per orbit is iterated on, and loads are spread over orbits of links.
    gap : float
        1 - rate / upper at which to stop; at least 1e-9.
    time_limit_s : float, optional
        Wall-clock seconds after which to stop with what there is.
    start : RateResult, optional
        Where to begin: the result on this fabric or a similar one, matched by the names of nodes.

    Returns
    -------
    RateResult
        Both sides recomputed in double precision; the upper one exactly, from lengths rounded to integers.

    Raises
    ------
    InfeasibleError
        If a demand has no path.
    ScheduleError
        If there are too many sources and links.

    Notes
    -----
    Restarted reflected Halpern iteration of PDHG (Lu and Yang, Restarted Halpern PDHG for linear
    programming, 2024) on the source-aggregated program (6)-(9) of the all-to-all paper. Time per iteration
    and space are O(S m). Begins with the even split over shortest paths, which is optimal already on tori and
    hypercubes. Results do not depend on the number of threads.
    """
    topology, collective = instance.topology, instance.collective
    if symmetry is None:
        symmetry = symmetry_of(instance)
    links, rows = instance.links, symmetry.representatives
    if len(rows) * len(links) > MOST_CELLS:
        raise ScheduleError(
            f"{topology.name}: flows of {len(rows)} sources over {len(links)} links do not fit; "
            f"expected at most {MOST_CELLS} cells; fewer ranks, or a fabric with more symmetry"
        )
    demands = instance.demand_rows(rows)
    # near 1 on average, as the method's step sizes suppose
    unit = float(demands[demands > 0].mean())
    resolved = resolution(topology, collective, wide=_WIDE)
    bandwidths = resolved.of(instance.bandwidths)
    flow, lengths = (np.zeros((0, 0)), np.zeros(0)) if start is None else _transferred(instance, start)
    problem = FlowProblem(
        n_nodes=topology.n_nodes,
        tail=instance.tails,
        head=instance.heads,
        capacity=bandwidths / float(bandwidths.mean()),
        source=instance.sources[rows],
        demand=demands / unit,
        weight=symmetry.multiplicities.astype(np.float64),
        orbit=symmetry.link_orbit,
    )
    options = FlowOptions(
        gap=max(gap, SMALLEST_GAP),
        time_limit_s=0.0 if time_limit_s is None else max(time_limit_s, 1e-6),
        max_iterations=_MOST_ITERATIONS,
        threads=core_threads(_MOST_THREADS),
        is_double=gap < _SINGLE,
    )
    begin = FlowStart(flow[rows] / unit if len(flow) else flow, lengths)
    status, result, failed = run_core(
        "concurrent flow", lambda control: core.concurrent_flow(problem, begin, options, control)
    )
    if status == _VIOLATED:
        raise instance.unreachable(int(rows[failed[0]]), failed[1])
    found = FlowResult(*result)
    flows = np.zeros((len(rows), topology.n_links))
    flows[:, links] = unit * found.flow.reshape(len(rows), len(links))
    lengths = _useful(instance, found.length, resolved) if resolved.is_wide else found.length
    # Recompute both sides: loads and deliveries in double precision, distances in integers.
    delivered = delivered_fraction(topology, collective, instance.senders[rows], flows)
    loads = even_loads(instance, symmetry, flows)
    stored_flow = partial(spread_flow, instance, symmetry, flows)
    return certified_orbits(
        instance, symmetry, loads, delivered, lengths, stored_flow, "pdhg", is_late=status == _STUCK
    )


def _useful(instance: FlowInstance, length: Float64Array, resolved: Resolution) -> Float64Array:
    """Lengths that prove as much, and round well: none on links never full, none beyond all distances."""
    free = np.where(instance.bandwidths > resolved.most * resolved.unit, 0.0, length)
    by_link = np.zeros(instance.topology.n_links)
    by_link[instance.links] = free
    distance = ShortestPaths(instance.topology, instance.collective).distances(by_link)[instance.senders]
    # a link as long as the farthest target is away shortens no way
    farthest = distance[instance.demands > 0].max()
    return np.minimum(free, farthest) if 0 < farthest < np.inf else length


def _transferred(instance: FlowInstance, start: RateResult) -> tuple[Float64Array, Float64Array]:
    """Flow and lengths of `start` on the links and ranks that this fabric has as well.

    Links are the same if their ends have the same names; the k-th parallel link is the k-th.
    """
    here, there = instance.topology, start.topology
    known = {key: link for link, key in enumerate(_link_keys(there.node_names, there.tails, there.heads))}
    keys = _link_keys(here.node_names, here.tails, here.heads)
    match = np.array([known.get(keys[link], -1) for link in instance.links])
    ranks = {there.node_names[node]: rank for rank, node in enumerate(start.collective.ranks)}
    rows = np.array([ranks.get(here.node_names[node], -1) for node in instance.sources])
    flow = np.zeros((instance.n_sources, len(instance.links)))
    old, new = np.flatnonzero(rows >= 0), np.flatnonzero(match >= 0)
    flow[np.ix_(old, new)] = start.flow.by_source[np.ix_(rows[old], match[new])]
    lengths = np.full(len(instance.links), np.nan)
    lengths[new] = start.certificate.lengths[match[new]]
    if not np.nansum(lengths):
        return flow, np.zeros(0)
    # links that were not there before: as dear as the others on average, neither shunned nor sought
    lengths[np.isnan(lengths)] = np.nanmean(lengths)
    return frozen(flow, np.float64), frozen(lengths, np.float64)


def _link_keys(names: tuple[str, ...], tails: Int32Array, heads: Int32Array) -> list[tuple[str, str, int]]:
    seen: dict[tuple[str, str], int] = {}
    keys = []
    for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
        ends = names[tail], names[head]
        seen[ends] = seen.get(ends, -1) + 1
        keys.append((*ends, seen[ends]))
    return keys
