"""Rates of jobs at once by a linear program over flows: none of the package's code but its values.

Slow: every job has a flow for each root and sink (of an all-to-all, for each source), on all links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.jobs import Job
from treadle.topologies.topology import Topology


@dataclass
class _Program:
    n: int = 0
    equal: list[tuple[dict[int, float], float]] = field(default_factory=list)
    most: list[tuple[dict[int, float], float]] = field(default_factory=list)

    def new(self, count: int) -> list[int]:
        self.n += count
        return list(range(self.n - count, self.n))

    def matrix(self, rows: Sequence[tuple[dict[int, float], float]]) -> tuple[Any, Any]:
        matrix = np.zeros((len(rows), self.n))
        for i, (row, _) in enumerate(rows):
            for j, value in row.items():
                matrix[i, j] += value
        return matrix, np.array([value for _, value in rows])


def max_min(topology: Topology, jobs: Sequence[Job]) -> list[float]:
    """Max-min algbws in proportion to the weights, bytes/s, as floats."""
    fixed: dict[int, float] = {}
    while len(fixed) < len(jobs):
        level = _common(topology, jobs, fixed, [])
        for number in [n for n in range(len(jobs)) if n not in fixed]:
            # a job is at its limit if it alone cannot have more while the others keep the level
            if _common(topology, jobs, fixed, [number], level) < level * (1 + 1e-6):
                fixed[number] = level * float(jobs[number].weight)
    return [fixed[number] for number in range(len(jobs))]


def _common(
    topology: Topology, jobs: Sequence[Job], fixed: dict[int, float], raised: list[int], level: float = 0.0
) -> float:
    """Largest rate per weight of those raised (or all that are not fixed, the others at the level)."""
    program = _Program()
    (rate,) = program.new(1)
    scale = float(topology.bandwidths.max())
    used: list[dict[int, float]] = [{} for _ in range(topology.n_links)]
    for number, job in enumerate(jobs):
        weight = float(job.weight)
        if number in fixed:
            amount: tuple[dict[int, float], float] = ({}, fixed[number] / scale)
        elif raised and number not in raised:
            amount = ({}, level * weight / scale)
        else:
            amount = ({rate: weight}, 0.0)
        _add_job(program, topology, job, amount, used)
    for link, row in enumerate(used):
        program.most.append((row, float(topology.bandwidths[link]) / scale))
    cost = np.zeros(program.n)
    cost[rate] = -1
    a_eq, b_eq = program.matrix(program.equal)
    a_ub, b_ub = program.matrix(program.most)
    found = linprog(cost, a_ub, b_ub, a_eq, b_eq, method="highs")
    assert found.status == 0, found.message
    return float(-found.fun * scale)


def _add_job(
    program: _Program,
    topology: Topology,
    job: Job,
    amount: tuple[dict[int, float], float],
    used: list[dict[int, float]],
) -> None:
    kind, ranks = job.collective.kind, list(job.collective.ranks)
    there = {*topology.switches.tolist(), *ranks, *job.collective.forwarders}
    links = [
        e
        for e in range(topology.n_links)
        if {int(topology.tails[e]), int(topology.heads[e])} <= there
        and topology.tails[e] != topology.heads[e]
    ]
    if kind is CollectiveKind.ALLTOALL:
        demand, units = job.collective.pair_demands.between, job.collective.pair_demands.buffer_units
        for place, source in enumerate(ranks):
            flow = dict(zip(links, program.new(len(links)), strict=True))
            for e, column in flow.items():
                used[e][column] = used[e].get(column, 0.0) + 1
            wants = {node: int(demand[place, other]) / units for other, node in enumerate(ranks)}
            for node in there - {source}:
                _balance(program, topology, flow, node, amount, wants.get(node, 0.0))
        return
    shares = program.new(len(ranks))  # of each root; free for an allreduce
    if kind is CollectiveKind.ALLREDUCE:
        program.equal.append(_sum_is(dict.fromkeys(shares, 1.0), amount, 1.0))
    else:
        weights = job.collective.shard_weights
        for share, weight in zip(shares, weights, strict=True):
            program.equal.append(_sum_is({share: 1.0}, amount, weight / sum(weights)))
    for outward, needed in ((True, kind.broadcasts), (False, kind.reduces)):
        if needed:
            _add_family(program, topology, ranks, links, shares, outward, used, there)


def _sum_is(
    row: dict[int, float], amount: tuple[dict[int, float], float], part: float
) -> tuple[dict[int, float], float]:
    variable, constant = amount
    return {**row, **{column: -weight * part for column, weight in variable.items()}}, constant * part


def _balance(
    program: _Program,
    topology: Topology,
    flow: dict[int, int],
    node: int,
    amount: tuple[dict[int, float], float],
    part: float,
) -> None:
    row: dict[int, float] = {}
    for e, column in flow.items():
        if topology.heads[e] == node:
            row[column] = row.get(column, 0.0) + 1
        if topology.tails[e] == node:
            row[column] = row.get(column, 0.0) - 1
    program.equal.append(_sum_is(row, amount, part))


def _add_family(
    program: _Program,
    topology: Topology,
    ranks: list[int],
    links: list[int],
    shares: list[int],
    outward: bool,
    used: list[dict[int, float]],
    there: set[int],
) -> None:
    """Capacities that are balanced off the ranks and carry what all roots feed to each rank (Edmonds)."""
    capacity = dict(zip(links, program.new(len(links)), strict=True))
    for e, column in capacity.items():
        used[e][column] = used[e].get(column, 0.0) + 1
    heads, tails = (topology.heads, topology.tails) if outward else (topology.tails, topology.heads)
    for node in there - set(ranks):
        row: dict[int, float] = {}
        for e, column in capacity.items():
            if heads[e] == node:
                row[column] = row.get(column, 0.0) + 1
            if tails[e] == node:
                row[column] = row.get(column, 0.0) - 1
        program.equal.append((row, 0.0))
    for sink in ranks:
        flow = dict(zip(links, program.new(len(links)), strict=True))
        for e in links:
            program.most.append(({flow[e]: 1.0, capacity[e]: -1.0}, 0.0))
        for node in there - {sink}:
            row = {}
            for e in links:
                if heads[e] == node:
                    row[flow[e]] = row.get(flow[e], 0.0) + 1
                if tails[e] == node:
                    row[flow[e]] = row.get(flow[e], 0.0) - 1
            if node in ranks:
                row[shares[ranks.index(node)]] = 1.0  # what it feeds in leaves it
            program.equal.append((row, 0.0))
