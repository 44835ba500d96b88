"""Programs over columns of layers and endings: prices of bytes, and how many layers take which column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.search.layer_columns import ColumnPool


@dataclass(frozen=True)
class Counts:
    """How many layers take each column, and the ending."""

    counts: list[int]
    ending: int


class _Program:
    """Columns with bounds and costs, then rows; scaled by the caller."""

    def __init__(self) -> None:
        make_solver: Any = highspy.Highs  # its constructor has no type annotations
        self.solver = make_solver()
        for key, value in (
            ("output_flag", False),
            ("threads", 1),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 0.0),
        ):
            self.solver.setOptionValue(key, value)
        for key in ("primal_feasibility_tolerance", "mip_feasibility_tolerance"):
            self.solver.setOptionValue(key, 1e-9)
        self.n_columns = 0

    def column(self, cost: float, upper: float, *, is_integer: bool = False) -> int:
        self.solver.addCol(cost, 0.0, upper, 0, np.array([], dtype=np.int32), np.array([]))
        if is_integer:
            self.solver.changeColIntegrality(self.n_columns, highspy.HighsVarType.kInteger)
        self.n_columns += 1
        return self.n_columns - 1

    def row(self, low: float, high: float, places: list[int], amounts: FloatArray) -> None:
        self.solver.addRow(low, high, len(places), np.array(places, dtype=np.int32), amounts)

    def solved(self) -> Any:
        """The solution, or None where there is none."""
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return self.solver.getSolution()


def best_prices(columns: ColumnPool, endings: ColumnPool, memory_bytes: float) -> FloatArray:
    """Seconds a byte at each moment, by the linear program that mixes columns in any shares.

    Notes
    -----
    Where the shares cannot keep to the limit, exceeding it costs a thousand times the slowest plan's seconds
    for each limit's worth.
    """
    n_moments = columns.held.shape[1]
    if np.isinf(memory_bytes):
        return np.zeros(n_moments)
    scale = float(columns.seconds.max() + endings.seconds.max()) or 1.0
    program = _Program()
    shares = [program.column(float(s) / scale, np.inf) for s in columns.seconds]
    ends = [program.column(float(s) / scale, np.inf) for s in endings.seconds]
    excess = program.column(1e3, np.inf)
    for some in (shares, ends):
        program.row(1.0, 1.0, some, np.ones(len(some)))
    held = np.vstack([columns.held, endings.held]).T / memory_bytes
    for moment in held:
        program.row(-highspy.kHighsInf, 1.0, [*shares, *ends, excess], np.array([*moment, -1.0]))
    solution = program.solved()
    assert solution is not None, "shares of columns that may exceed the limit"
    duals = np.maximum(-np.array(solution.row_dual[2:]), 0.0)
    return np.asarray(duals * scale / memory_bytes)


def best_counts(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, memory_bytes: float, *, below: float
) -> Counts | None:
    """The fastest counts; None if they are not faster than `below`, or do not keep to the limit."""
    for slack in (0.0, 1e-6):  # what the solver takes for the limit may lie a rounding above it
        found = _counted(columns, endings, n_layers, memory_bytes * (1 - slack), below)
        if found is None or _fits(columns, endings, n_layers, memory_bytes, found):
            return found
    return None


def _counted(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, limit: float, below: float
) -> Counts | None:
    scale = float(columns.seconds.max() + endings.seconds.max()) or 1.0
    program, is_limited = _Program(), bool(np.isfinite(limit))
    layers = [program.column(float(s) / n_layers / scale, n_layers, is_integer=True) for s in columns.seconds]
    ends = [program.column(float(s) / scale, 1, is_integer=True) for s in endings.seconds]
    program.row(n_layers, n_layers, layers, np.ones(len(layers)))
    program.row(1, 1, ends, np.ones(len(ends)))
    if np.isfinite(below):
        costs = np.concatenate([columns.seconds / n_layers, endings.seconds]) / scale
        program.row(-highspy.kHighsInf, below * (1 - 1e-9) / scale, [*layers, *ends], costs)
    if is_limited:
        stays = np.concatenate([columns.persistent / n_layers, endings.persistent]) / limit
        passing = (columns.transient[:, None, :] + endings.transient[None]).max(axis=2) / limit
        for i, layer in enumerate(layers):
            used = program.column(0.0, 1, is_integer=True)
            program.row(-highspy.kHighsInf, 0.0, [layer, used], np.array([1.0, -n_layers]))
            most = float(passing[i].max())
            amounts = stays.copy()
            amounts[len(layers) :] += passing[i]
            program.row(-highspy.kHighsInf, 1.0 + most, [*layers, *ends, used], np.array([*amounts, most]))
    solution = program.solved()
    if solution is None:
        return None
    counts = [round(solution.col_value[i]) for i in layers]
    return Counts(counts, int(np.argmax([solution.col_value[i] for i in ends])))


def _fits(columns: ColumnPool, endings: ColumnPool, n_layers: int, limit: float, found: Counts) -> bool:
    counts = np.array(found.counts)
    stays = float(counts @ columns.persistent) / n_layers + float(endings.persistent[found.ending])
    passing = (columns.transient[counts > 0] + endings.transient[found.ending]).max()
    return bool(stays + passing <= limit) and sum(found.counts) == n_layers
