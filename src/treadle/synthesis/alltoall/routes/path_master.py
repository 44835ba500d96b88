"""The path LP (21)-(24) as a linear program that grows by columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.context import TimeLimitError, context
from treadle.engine import core, run_core
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.resolution import no_optimum, resolution
from treadle.synthesis.alltoall.routes.path_sets import Float64Array, PathSet, WeightedPaths, demanded_pairs
from treadle.synthesis.core_values.flow_values import PathBasis, PathProgram
from treadle.topologies.topology import Topology

_MOST_PIVOTS = 10**6


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """An optimal solution over the columns so far.

    Parameters
    ----------
    time : float
        Largest load over bandwidth, in units of the largest demand and of `PathMaster.resolution`.
    weights : array of float64, shape (columns,)
        Share of the pair's demand per column; a column is basic or 0.
    lengths : array of float64, shape (m,)
        Duals of the links, not negative; bandwidths times lengths add up to 1.
    values : array of float64, shape (pairs,)
        Duals of the pairs: the least length of a path among the columns, times the demand.
    """

    time: float
    weights: Float64Array
    lengths: Float64Array
    values: Float64Array


class PathMaster:
    """Minimise T: every pair's shares add up to 1, every link's load is at most T times its bandwidth.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Notes
    -----
    F = 1 / T turns (21)-(24) inside out, so that every choice of paths is feasible. Columns are paths; rows
    are the demanded pairs and then the links. Once one path a pair is given to start from, the core's simplex
    method, whose basis has a row per link only, comes near the optimum; HiGHS goes on from its basis, and its
    tolerances hold.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        _, _, demand = demanded_pairs(collective)
        self.n_pairs, self.n_links = len(demand), topology.n_links
        self.demand = demand / demand.max()
        self.resolution = resolution(topology, collective)
        self.bandwidth = self.resolution.of(topology.bandwidths)
        self._bandwidths = topology.bandwidths
        make_solver: Any = highspy.Highs  # its constructor has no type annotations
        self._solver = make_solver()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("simplex_strategy", 4),  # primal: more columns leave the basis feasible
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self._solver.setOptionValue(option, value)
        self._build()
        self.pair: Int64Array = np.zeros(0, dtype=np.int64)
        self._offset: Int64Array = np.zeros(1, dtype=np.int64)
        self._links: Int32Array = np.zeros(0, dtype=np.int32)
        self._start: PathBasis | None = None

    def _build(self) -> None:
        """Rows, and the column of T."""
        n, m = self.n_pairs, self.n_links
        empty_index, empty_value = np.zeros(0, dtype=np.int32), np.zeros(0)
        lower = np.concatenate([np.ones(n), np.full(m, -highspy.kHighsInf)])
        upper = np.concatenate([np.ones(n), np.zeros(m)])
        self._solver.addRows(
            n + m, lower, upper, 0, np.zeros(n + m, dtype=np.int32), empty_index, empty_value
        )
        rows = np.arange(n, n + m, dtype=np.int32)
        self._solver.addCol(1.0, 0.0, highspy.kHighsInf, m, rows, -self.bandwidth)

    @property
    def n_columns(self) -> int:
        """Number of paths."""
        return len(self.pair)

    def add(self, paths: PathSet, pair: Int64Array) -> None:
        """Append a column for each path; `pair` numbers the demanded pairs."""
        count, hops = paths.n_paths, paths.hops
        starts = paths.offset[:-1] + np.arange(count)
        index = np.empty(len(paths.links) + count, dtype=np.int32)
        value = np.empty(len(index))
        index[starts], value[starts] = pair, 1.0
        inner = np.ones(len(index), dtype=np.bool_)
        inner[starts] = False
        index[inner] = self.n_pairs + paths.links
        value[inner] = np.repeat(self.demand[pair], hops)
        self._solver.addCols(
            count,
            np.zeros(count),
            np.zeros(count),
            np.full(count, highspy.kHighsInf),
            len(index),
            starts.astype(np.int32),
            index,
            value,
        )
        self.pair = np.concatenate([self.pair, pair])
        self._offset = np.concatenate([self._offset, self._offset[-1] + paths.offset[1:]])
        self._links = np.concatenate([self._links, paths.links])

    def start_from(self, chosen: Int64Array) -> None:
        """Begin the simplex method from one path a pair.

        Parameters
        ----------
        chosen : array of int, shape (pairs,)
            Column of each pair.
        """
        none = np.zeros(0, dtype=np.int32)
        self._start = PathBasis(chosen.astype(np.int32), none, none)

    def _advance(self) -> None:
        """Near the optimum by the core's simplex method, from the start or from where it was; see there."""
        assert self._start is not None
        start = self._start
        program = PathProgram(
            self.bandwidth, self.demand, self.pair.astype(np.int32), self._offset, self._links
        )
        _, reached, _ = run_core(
            "path LP", lambda control: core.path_simplex(program, start, _MOST_PIVOTS, control)
        )
        self._start = PathBasis(*reached)
        key, column, slack = self._start
        status = highspy.HighsBasisStatus
        columns = [status.kLower] * (self.n_columns + 1)
        for basic in (0, *(key + 1).tolist(), *(column + 1).tolist()):
            columns[basic] = status.kBasic
        rows = [status.kLower] * self.n_pairs + [status.kUpper] * self.n_links
        for link in slack.tolist():
            rows[self.n_pairs + link] = status.kBasic
        basis = highspy.HighsBasis()
        basis.col_status, basis.row_status, basis.valid = columns, rows, True
        self._solver.setBasis(basis)

    def solve(self, *, method: str = "simplex", crossover: bool = True) -> MasterSolution:
        """An optimum; basic unless an interior one is asked for.

        Raises
        ------
        TimeLimitError
            If the deadline passes.
        """
        if self._start is not None:
            self._advance()
        self._solver.setOptionValue("solver", method)
        self._solver.setOptionValue("run_crossover", "on" if crossover else "off")
        left = context().seconds_left
        if left is not None:  # the solver's clock goes on from run to run
            if left <= 0:  # some versions solve small programs before they look at the clock
                raise TimeLimitError("path LP")
            self._solver.setOptionValue("time_limit", self._solver.getRunTime() + left)
        self._solver.run()
        status = self._solver.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            raise TimeLimitError("path LP")
        if status != highspy.HighsModelStatus.kOptimal:
            raise no_optimum("path LP", status.name, self._bandwidths)
        solution = self._solver.getSolution()
        values = np.array(solution.col_value)
        duals = np.array(solution.row_dual)
        lengths = np.maximum(-duals[self.n_pairs :], 0.0)
        return MasterSolution(float(values[0]), np.maximum(values[1:], 0), lengths, duals[: self.n_pairs])

    def basis(self) -> tuple[BoolArray, BoolArray]:
        """Which columns (the first is T) and which rows are basic."""
        basis = self._solver.getBasis()
        basic = highspy.HighsBasisStatus.kBasic
        return (
            np.array([status == basic for status in basis.col_status]),
            np.array([status == basic for status in basis.row_status]),
        )


def weighted(paths: PathSet, pair: Int64Array, weights: Float64Array, demand: Int64Array) -> WeightedPaths:
    """The paths that carry something, every pair's weights scaled to add up to its demand exactly.

    Parameters
    ----------
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair.
    weights : array of float64, shape (k,)
        Shares that add up to about 1 a pair; below 1e-9 counts as none.
    demand : array of int64, shape (pairs,)
    """
    keep = weights > 1e-9
    pair, weights = pair[keep], weights[keep]
    total = np.bincount(pair, weights=weights, minlength=len(demand))
    return WeightedPaths(paths.take(keep), weights * (demand / total)[pair])
