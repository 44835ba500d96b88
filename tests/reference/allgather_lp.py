"""The allgather optimum as one linear program: a flow from all roots to every rank, solved in floats."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from treadle.topologies.topology import Topology


def lp_rate(topology: Topology, ranks: tuple[int, ...], weights: tuple[int, ...]) -> float:
    """The largest x such that every rank can receive x * w(u) from all u at once, bytes/s."""
    m = topology.n_links
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    infinity = solver.getInfinity()
    columns = 1 + m * len(ranks)
    upper = np.concatenate([[infinity], np.tile(topology.bandwidths.astype(float), len(ranks))])
    solver.addVars(columns, np.zeros(columns), upper)
    solver.changeColCost(0, -1.0)
    weight = dict(zip(ranks, weights, strict=True))
    for i, sink in enumerate(ranks):
        first = 1 + m * i
        for node in range(topology.n_nodes):
            if node == sink:
                continue
            out = np.flatnonzero(topology.tails == node) + first
            into = np.flatnonzero(topology.heads == node) + first
            # out - in - x w(node) = 0
            index = np.concatenate([[0], out, into]).astype(np.int32)
            value = np.concatenate([[-float(weight.get(node, 0))], np.ones(len(out)), -np.ones(len(into))])
            loops = np.isin(index, np.intersect1d(out, into))
            solver.addRow(0.0, 0.0, int((~loops).sum()), index[~loops], value[~loops])
    solver.run()
    return float(solver.getSolution().col_value[0])
