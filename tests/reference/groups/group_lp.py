"""The optimum of groups at once as one linear program without any reduction, and the prices of its links."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology


class _Program:
    """Rows are collected as columns to coefficients; equal columns of a row add up."""

    def __init__(self) -> None:
        self.upper: list[float] = []
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def columns(self, upper: list[float]) -> int:
        first = len(self.upper)
        self.upper += upper
        return first

    def row(self, low: float, high: float, terms: list[tuple[int, float]]) -> None:
        row: dict[int, float] = {}
        for column, value in terms:
            row[column] = row.get(column, 0.0) + value
        self.rows.append(({column: value for column, value in row.items() if value}, low, high))


def group_lp(topology: Topology, collective: Collective) -> tuple[float, np.ndarray]:
    """The largest algbw of all groups at once, and the price of each link, shape (m,).

    Rate x of each group is rooted at its ranks in proportion to their shards, of an allreduce anyhow. Shares
    of links are balanced at all nodes but the group's ranks and carry x to each of these as a sink, in- and
    out-trees apart.
    """
    m, infinity = topology.n_links, highspy.kHighsInf
    program = _Program()
    program.columns([infinity])
    used: list[list[int]] = [[] for _ in range(m)]
    for group in range(collective.n_groups or 1):
        member = collective.member(group)
        shares = None if len(_ways(collective)) == 2 else member.shard_weights
        roots = program.columns([infinity] * member.n_ranks)
        program.row(0, 0, [(0, -1.0), *((roots + v, 1.0) for v in range(member.n_ranks))])
        if shares is not None:
            for v, share in enumerate(shares):
                program.row(0, 0, [(roots + v, float(sum(shares))), (0, -float(share))])
        for inwards in _ways(collective):
            first = _trees(program, topology, member, roots, inwards=inwards)
            for e in range(m):
                used[e].append(first + e)
    start = len(program.rows)
    for e in range(m):
        program.row(-infinity, float(topology.bandwidths[e]), [(column, 1.0) for column in used[e]])
    return _solved(program, start)


def _ways(collective: Collective) -> list[bool]:
    kind = collective.kind
    return [inwards for inwards, needed in ((False, kind.broadcasts), (True, kind.reduces)) if needed]


def _trees(program: _Program, topology: Topology, member: Collective, roots: int, *, inwards: bool) -> int:
    """Shares of the links and the flows within them; the first column of the shares."""
    m, infinity = topology.n_links, highspy.kHighsInf
    tails, heads = (topology.heads, topology.tails) if inwards else (topology.tails, topology.heads)
    own = {*member.ranks, *member.forwarders, *topology.switches.tolist()}
    upper = [infinity if {int(tails[e]), int(heads[e])} <= own else 0.0 for e in range(m)]
    shares = program.columns(upper)
    place = {node: v for v, node in enumerate(member.ranks)}
    out = [np.flatnonzero(tails == node).tolist() for node in range(topology.n_nodes)]
    into = [np.flatnonzero(heads == node).tolist() for node in range(topology.n_nodes)]
    for node in sorted(own - set(place)):
        program.row(
            0, 0, [*((shares + e, 1.0) for e in out[node]), *((shares + e, -1.0) for e in into[node])]
        )
    for sink in member.ranks:
        flow = program.columns(upper)
        for e in range(m):
            program.row(-infinity, 0, [(flow + e, 1.0), (shares + e, -1.0)])
        for node in sorted(own - {sink}):
            terms = [*((flow + e, 1.0) for e in out[node]), *((flow + e, -1.0) for e in into[node])]
            program.row(0, 0, [*terms, *([(roots + place[node], -1.0)] if node in place else [])])
    return shares


def _solved(program: _Program, start: int) -> tuple[float, np.ndarray]:
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    n = len(program.upper)
    solver.addVars(n, np.zeros(n), np.array(program.upper))
    solver.changeColCost(0, -1.0)
    for row, low, high in program.rows:
        index = np.array(list(row), dtype=np.int32)
        solver.addRow(low, high, len(row), index, np.array(list(row.values())))
    solver.run()
    solution = solver.getSolution()
    return float(solution.col_value[0]), -np.array(solution.row_dual[start:])
