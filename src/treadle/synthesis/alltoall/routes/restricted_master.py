"""The path LP (21)-(24) as a linear program that grows by columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from treadle.engine import core, run_core
from treadle.math.lp import PRIMAL, Program
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.resolution import resolution
from treadle.synthesis.alltoall.routes.path_sets import PathSet, WeightedPaths, demanded_pairs
from treadle.synthesis.core_values.flow_values import PathBasis, PathProgram
from treadle.topologies.topology import Topology

_MOST_PIVOTS = 10**6


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """An optimal solution over the columns so far.

    Parameters
    ----------
    time : float
        Largest load over bandwidth, in units of the largest demand and of `PathRestrictedMaster.resolution`.
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


class PathRestrictedMaster:
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
        n, m = self.n_pairs, self.n_links
        self._lp = Program("path LP", tolerance=1e-9, presolve="off", simplex_strategy=PRIMAL)
        self._lp.empty_rows(np.repeat([1.0, -np.inf], [n, m]), np.repeat([1.0, 0.0], [n, m]))
        self._lp.column(1.0, np.arange(n, n + m), -self.bandwidth)
        self.pair: Int64Array = np.zeros(0, dtype=np.int64)
        self._offset: Int64Array = np.zeros(1, dtype=np.int64)
        self._links: Int32Array = np.zeros(0, dtype=np.int32)
        self._start: PathBasis | None = None

    @property
    def n_columns(self) -> int:
        """Number of paths."""
        return len(self.pair)

    def add(self, paths: PathSet, pair: Int64Array) -> None:
        """Append a column for each path; `pair` numbers the demanded pairs."""
        load = np.repeat(self.demand[pair], paths.hops)
        self._lp.columns(pair, paths.offset[:-1], self.n_pairs + paths.links, load)
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
        columns, rows = (np.zeros(n, dtype=np.bool_) for n in (self.n_columns + 1, self._lp.n_rows))
        columns[[0, *(key + 1), *(column + 1)]] = True
        rows[self.n_pairs + slack] = True
        self._lp.start_from(columns, rows, upper_from=self.n_pairs)

    def solve(self, *, method: str = "simplex", crossover: bool = True) -> MasterSolution:
        """Solve to an optimum; basic unless an interior one is requested.

        Raises
        ------
        TimeLimitError
            If the deadline passes.
        """
        if self._start is not None:
            self._advance()
        self._lp.set_options(solver=method, run_crossover="on" if crossover else "off")
        values, duals = self._lp.solve(least_s=0.0, bandwidths=self._bandwidths)
        lengths = np.maximum(-duals[self.n_pairs :], 0.0)
        return MasterSolution(float(values[0]), np.maximum(values[1:], 0), lengths, duals[: self.n_pairs])

    def basis(self) -> tuple[BoolArray, BoolArray]:
        """Basic columns (the first is T) and rows."""
        return self._lp.basis()


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
