"""Whole capacities that every switch passes on evenly, where floors of bandwidths are not such."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.engine import Progress
from treadle.synthesis.forestcoll.instance import Instance, cut_weight, find_violated_cut
from treadle.synthesis.forestcoll.switch_removal import unbalanced_relay
from treadle.synthesis.integer_program import IntegerProgram

MOST_LINKS = 2**13
"""Larger fabrics have no integer program of their own."""

_MOST_CUTS = 2**9
_SAFE = 2**31


def capacities_within(
    problem: Instance, limits: Int64Array, trees: int, progress: Progress | None = None
) -> Int64Array | None:
    """Whole capacities up to `limits`, balanced at every relay, that hold `trees` trees per unit of weight.

    Parameters
    ----------
    problem : Instance
    limits : array of int64, shape (m,)
    trees : int
        k.
    progress : callable, optional

    Returns
    -------
    array of int64, shape (m,), or None
        None if there are none; or if the integer program is too large to tell.

    Notes
    -----
    Any k trees at every root pass every relay with as many units in as out, so they use such capacities; and
    by the theorems behind switch removal and packing, such capacities hold k trees. An integer program over
    the cuts decides; it grows by those that its solutions violate.
    """
    if len(limits) > MOST_LINKS or int(limits.max()) >= _SAFE:
        return None
    program = IntegerProgram()
    for limit in limits.tolist():
        program.add_column(1, limit)
    for relay in problem.relays.tolist():
        into = np.flatnonzero((problem.heads == relay) & (problem.tails != relay)).tolist()
        out = np.flatnonzero((problem.tails == relay) & (problem.heads != relay)).tolist()
        program.add_row({**dict.fromkeys(into, 1), **dict.fromkeys(out, -1)}, 0, 0)

    def add_cut(nodes: Int32Array) -> None:
        inside = np.zeros(problem.n_nodes, dtype=bool)
        inside[nodes] = True
        crossing = np.flatnonzero(inside[problem.tails] & ~inside[problem.heads])
        program.add_row(dict.fromkeys(crossing.tolist(), 1), trees * cut_weight(problem, nodes))

    everything = np.arange(problem.n_nodes, dtype=np.int32)
    for terminal in problem.terminals.tolist():
        add_cut(everything[everything != terminal])
    for _ in range(_MOST_CUTS):
        values = program.solve()
        if values is None:
            return None
        found = np.array(values, dtype=np.int64)
        if np.any(found > limits) or unbalanced_relay(problem, found) is not None:
            return None  # rounding errors of the solver
        violated = find_violated_cut(problem, found, multiplicity=trees, progress=progress)
        if violated is None:
            return found
        add_cut(violated[1])
    return None
