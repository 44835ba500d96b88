"""LP (B.5) as the dissertation writes it, in floats: a flow for every rank, b' in place of switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import highspy
import numpy as np

from treadle.topologies.topology import Topology


class _Lp:
    def __init__(self) -> None:
        self.solver: Any = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.infinity = self.solver.getInfinity()
        self.columns = 0

    def variable(self, cost: float = 0.0) -> int:
        self.solver.addVar(0.0, self.infinity)
        self.solver.changeColCost(self.columns, -cost)
        self.columns += 1
        return self.columns - 1

    def at_most(self, row: Mapping[int, float], rhs: float) -> None:
        self.solver.addRow(-self.infinity, rhs, len(row), _ints(row), _floats(row))

    def zero(self, row: Mapping[int, float]) -> None:
        self.solver.addRow(0.0, 0.0, len(row), _ints(row), _floats(row))


def _ints(row: Mapping[int, float]) -> Any:
    return np.array(list(row), dtype=np.int32)


def _floats(row: Mapping[int, float]) -> Any:
    return np.array(list(row.values()), dtype=float)


def allreduce_rate(topology: Topology, ranks: tuple[int, ...]) -> float:
    """The optimum of (B.5), bytes/s, without in-network capabilities."""
    lp = _Lp()
    rates = {rank: lp.variable(1.0) for rank in ranks}
    links = [
        (int(tail), int(head), float(bandwidth))
        for tail, head, bandwidth in zip(topology.tails, topology.heads, topology.bandwidths, strict=True)
        if tail != head
    ]
    used: list[dict[int, float]] = [{} for _ in links]
    for turned in (False, True):
        logical = _logical_links(lp, topology, ranks, links, used)
        if turned:
            logical = {(head, tail): columns for (tail, head), columns in logical.items()}
        for sink in ranks:
            _add_flow(lp, ranks, logical, rates, sink)
    for (_, _, bandwidth), row in zip(links, used, strict=True):
        lp.at_most(row, bandwidth)
    lp.solver.run()
    values = lp.solver.getSolution().col_value
    return float(sum(values[column] for column in rates.values()))


def _logical_links(
    lp: _Lp,
    topology: Topology,
    ranks: tuple[int, ...],
    links: list[tuple[int, int, float]],
    used: list[dict[int, float]],
) -> dict[tuple[int, int], list[int]]:
    """b'(a, b) as lists of columns that sum to it: what enters b of the commodity of a, through switches."""
    logical: dict[tuple[int, int], list[int]] = {}
    for source in ranks:
        balance: dict[int, dict[int, float]] = {
            node: {} for node in range(topology.n_nodes) if node not in ranks
        }
        for number, (tail, head, _) in enumerate(links):
            if head == source or (tail in ranks and tail != source):
                continue
            column = lp.variable()
            used[number][column] = 1.0
            if tail in balance:
                balance[tail][column] = -1.0
            if head in balance:
                balance[head][column] = 1.0
            else:
                logical.setdefault((source, head), []).append(column)
        for row in balance.values():
            lp.zero(row)
    return logical


def _add_flow(
    lp: _Lp,
    ranks: tuple[int, ...],
    logical: Mapping[tuple[int, int], list[int]],
    rates: Mapping[int, int],
    sink: int,
) -> None:
    """A flow of the sum of all rates reaches `sink`: what starts elsewhere gets there over logical links."""
    rows: dict[int, dict[int, float]] = {rank: {} for rank in ranks}
    for (tail, head), columns in logical.items():
        flow = lp.variable()
        lp.at_most({flow: 1.0, **dict.fromkeys(columns, -1.0)}, 0.0)
        rows[tail][flow] = 1.0
        rows[head][flow] = -1.0
    for rank in ranks:
        if rank != sink:
            lp.zero({**rows[rank], rates[rank]: -1.0})
