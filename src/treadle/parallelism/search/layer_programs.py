"""Programs over columns of layers and endings: prices of bytes, and how many layers take which column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.math.lp import Program
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.search.layer_columns import ColumnPool


@dataclass(frozen=True)
class Counts:
    """How many layers take each column, and the ending."""

    counts: list[int]
    ending: int


def _program() -> Program:
    """Where what is told apart is small: columns' costs are scaled by the caller."""
    program = Program(mip_rel_gap=0.0, mip_abs_gap=0.0)
    program.set_options(primal_feasibility_tolerance=1e-9, mip_feasibility_tolerance=1e-9)
    return program


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
    program = _program()
    shares = [program.column(float(s) / scale) for s in columns.seconds]
    ends = [program.column(float(s) / scale) for s in endings.seconds]
    excess = program.column(1e3)
    for some in (shares, ends):
        program.row(1.0, 1.0, some, np.ones(len(some)))
    held = np.vstack([columns.held, endings.held]).T / memory_bytes
    for moment in held:
        program.row(-np.inf, 1.0, [*shares, *ends, excess], np.array([*moment, -1.0]))
    solution = program.optimum()
    assert solution is not None, "shares of columns that may exceed the limit"
    duals = np.maximum(-solution[1][2:], 0.0)
    return np.asarray(duals * scale / memory_bytes)


def best_counts(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, memory_bytes: float, *, below: float
) -> Counts | None:
    """The fastest counts; None if they are not faster than `below`, or do not keep to the limit."""
    for slack in (0.0, 1e-6):  # what the solver takes for the limit may lie a rounding above it
        found = _counted(columns, endings, n_layers, memory_bytes * (1 - slack), below)
        if found is None:
            return None
        counts = np.array(found.counts)
        stays = float(counts @ columns.persistent) / n_layers + float(endings.persistent[found.ending])
        passing = (columns.transient[counts > 0] + endings.transient[found.ending]).max()
        if stays + passing <= memory_bytes and sum(found.counts) == n_layers:
            return found
    return None


def _counted(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, limit: float, below: float
) -> Counts | None:
    scale = float(columns.seconds.max() + endings.seconds.max()) or 1.0
    program, is_limited = _program(), bool(np.isfinite(limit))
    layers = [program.column(float(s) / n_layers / scale, upper=n_layers) for s in columns.seconds]
    ends = [program.column(float(s) / scale, upper=1) for s in endings.seconds]
    program.row(n_layers, n_layers, layers, np.ones(len(layers)))
    program.row(1, 1, ends, np.ones(len(ends)))
    if np.isfinite(below):
        costs = np.concatenate([columns.seconds / n_layers, endings.seconds]) / scale
        program.row(-np.inf, below * (1 - 1e-9) / scale, [*layers, *ends], costs)
    if is_limited:
        stays = np.concatenate([columns.persistent / n_layers, endings.persistent]) / limit
        passing = (columns.transient[:, None, :] + endings.transient[None]).max(axis=2) / limit
        for i, layer in enumerate(layers):
            used = program.column(upper=1)
            program.row(-np.inf, 0.0, [layer, used], np.array([1.0, -n_layers]))
            most = float(passing[i].max())
            amounts = stays.copy()
            amounts[len(layers) :] += passing[i]
            program.row(-np.inf, 1.0 + most, [*layers, *ends, used], np.array([*amounts, most]))
    program.make_integer(0, program.n_columns)
    solution = program.optimum()
    if solution is None:
        return None
    values = solution[0]
    return Counts([round(value) for value in values[layers].tolist()], int(np.argmax(values[ends])))
