"""The local polytope with a maximum per section and memory at all moments, as one program for HiGHS.

Marginals of states and of pairs of states, consistent on both sides. The relaxation is what the dual of
`treadle.parallelism.search` bounds; with integer marginals of the nodes it is the problem itself.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from treadle.parallelism.search.factor_graph import FactorGraph


def least_seconds(graph: FactorGraph, memory_bytes: float, *, is_integer: bool) -> float:
    """Of the step with overlap per section; infinity where nothing fits."""
    names = graph.quantities
    n_sections = names.n_sections
    starts: dict[tuple[int, ...], int] = {}
    at = n_sections  # the first variables are the sections' times
    for node, size in enumerate(graph.sizes):
        starts[(node,)] = at
        at += size
    for part in graph.factors:
        if len(part.scope) == 2:
            starts[part.scope] = at
            at += graph.sizes[part.scope[0]] * graph.sizes[part.scope[1]]
    rows: list[tuple[dict[int, float], float, float]] = []
    for node, size in enumerate(graph.sizes):
        rows.append(({starts[(node,)] + i: 1.0 for i in range(size)}, 1.0, 1.0))
    for scope, start in starts.items():
        if len(scope) == 2:
            (u, v), shape = scope, (graph.sizes[scope[0]], graph.sizes[scope[1]])
            for i in range(shape[0]):
                row = {start + i * shape[1] + j: 1.0 for j in range(shape[1])} | {starts[(u,)] + i: -1.0}
                rows.append((row, 0.0, 0.0))
            for j in range(shape[1]):
                row = {start + i * shape[1] + j: 1.0 for i in range(shape[0])} | {starts[(v,)] + j: -1.0}
                rows.append((row, 0.0, 0.0))
    forms = _forms(graph, starts)
    for s in range(n_sections):
        pair = (names.serial(s), names.overlapped(s))
        rows += [(forms[quantity] | {s: -1.0}, -np.inf, 0.0) for quantity in pair]
    for quantity in [names.transient(t) for t in range(names.n_moments)] or [names.persistent]:
        total = dict(forms[names.persistent])
        if quantity != names.persistent:
            for column, amount in forms[quantity].items():
                total[column] = total.get(column, 0.0) + amount
        rows.append((total, -np.inf, memory_bytes))
    upper = np.ones(at)
    upper[:n_sections] = np.inf
    for part in graph.factors:
        if part.forbidden is not None:
            upper[starts[part.scope] + np.flatnonzero(part.forbidden)] = 0.0
    places = [(r, column, amount) for r, (row, _, _) in enumerate(rows) for column, amount in row.items()]
    r, c, values = (list(part) for part in zip(*places, strict=True))
    integrality = np.zeros(at)
    integrality[n_sections : n_sections + sum(graph.sizes)] = is_integer
    found = milp(
        np.concatenate([np.array(graph.repeats, dtype=float), np.zeros(at - n_sections)]),
        constraints=LinearConstraint(
            coo_array((values, (r, c)), shape=(len(rows), at)).tocsc(),
            [low for _, low, _ in rows],
            [high for _, _, high in rows],
        ),
        integrality=integrality,
        bounds=Bounds(np.zeros(at), upper),
    )
    if found.status == 2:
        return float(np.inf)
    assert found.status == 0, found.message
    return float(found.fun)


def _forms(graph: FactorGraph, starts: dict[tuple[int, ...], int]) -> list[dict[int, float]]:
    forms: list[dict[int, float]] = [{} for _ in range(graph.quantities.count)]
    for part in graph.factors:
        for quantity, table in part.tables.items():
            for place, amount in enumerate(table.ravel().tolist()):
                forms[quantity][starts[part.scope] + place] = amount
    return forms
