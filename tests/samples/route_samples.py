"""Small routes of all-to-alls, and a slow checker that judges them from scratch, path by path.

Nothing here uses the verifier or `treadle.schedules.alltoall.route_cost`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import pairwise

import networkx as nx

from samples import exchange_samples
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.plan import Plan, PlanEntry
from treadle.synthesis.alltoall.baselines import with_layers
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.topologies import parse
from treadle.topologies.topology import Topology

alltoall = exchange_samples.alltoall
random_demands = exchange_samples.random_demands


def over_shortest_paths(topology: Topology, collective: Collective, *, chunks: int = 4) -> RouteSchedule:
    """Every pair's data over its shortest paths, in layers without deadlock."""
    return with_layers(topology, split_over_shortest_paths(topology, collective, max_chunks=chunks))


@cache
def plan_of(name: str = "generalized_kautz:3,10", demands: Demands | None = None) -> Plan:
    """Rounds of two flows a host below 1 MB, and the same routes all at once above."""
    topology = parse(name)
    collective = alltoall(topology, demands)
    routes = over_shortest_paths(topology, collective)
    timed = timed_routes(topology, routes, max_flows=2)
    entries = (PlanEntry(0, 2**20 - 1, timed), PlanEntry(2**20, None, routes))
    return Plan(topology, collective, entries, "by hand", slow_algbw(topology, collective, routes))


def is_correct(topology: Topology, collective: Collective, schedule: RouteSchedule | TimedRoutes) -> bool:
    """Whether simple walks carry each pair's chunks, once, and no layer's links wait in a circle."""
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    if routes.n_ranks != collective.n_ranks:
        return False
    carried: Counter = Counter()
    waits: dict[int, nx.DiGraph] = {}
    for number in range(routes.n_paths):
        source, target = int(routes.source[number]), int(routes.target[number])
        links = routes.path(number).tolist()
        if source == target or any(link >= topology.n_links for link in links):
            return False
        node, seen = collective.ranks[source], {collective.ranks[source]}
        for link in links:
            if topology.tails[link] != node:
                return False
            node = int(topology.heads[link])
            if node in seen:
                return False
            seen.add(node)
        if node != collective.ranks[target]:
            return False
        carried[source, target] += int(routes.units[number])
        graph = waits.setdefault(int(routes.layer[number]), nx.DiGraph())
        graph.add_edges_from(pairwise(links))
    demands = collective.pair_demands.between.tolist()
    wanted = {
        (i, j): amount * routes.n_chunks
        for i, row in enumerate(demands)
        for j, amount in enumerate(row)
        if amount
    }
    if carried != wanted or not all(nx.is_directed_acyclic_graph(graph) for graph in waits.values()):
        return False
    if isinstance(schedule, TimedRoutes):
        return Counter(schedule.path.tolist()) == Counter(dict(enumerate(routes.units.tolist())))
    return True


def slow_algbw(topology: Topology, collective: Collective, schedule: RouteSchedule | TimedRoutes) -> Fraction:
    """By Fractions, chunk by chunk."""
    if isinstance(schedule, TimedRoutes):
        routes = schedule.routes
        rounds = [Counter(schedule.path[schedule.span(t)].tolist()) for t in range(schedule.n_rounds)]
    else:
        routes = schedule
        rounds = [Counter(dict(enumerate(routes.units.tolist())))]
    total = Fraction(0)
    for sent in rounds:
        busy: Counter = Counter()
        for path, chunks in sent.items():
            amount = Fraction(chunks, routes.n_chunks)
            for link in routes.path(path).tolist():
                busy["link", link] += amount / int(topology.bandwidths[link])
            for side, rank in (("out", routes.source[path]), ("in", routes.target[path])):
                cap = int(topology.injection_bytes_per_s[collective.ranks[rank]])
                if cap:
                    busy[side, int(rank)] += amount / cap
        total += max(busy.values())
    matrix = collective.pair_demands.matrix
    return int(max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())) / total
