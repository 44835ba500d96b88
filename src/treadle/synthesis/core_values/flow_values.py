"""Arguments and results of the compiled core for flows and paths: tuples of arrays with named fields.

The core takes each of these as the plain tuple that it is, turns it into a struct in one place
(`src/core/bindings/flows.cpp`, `climbing.cpp`), and returns plain tuples that fit these. Arrays are
contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

from treadle.arrays import Float64Array, Int32Array, Int64Array


class FlowProblem(NamedTuple):
    """A maximum concurrent flow, by source.

    Parameters
    ----------
    n_nodes : int
    tail, head : arrays of int32, shape (m,)
        Without loops.
    capacity : array of float64, shape (m,)
        Positive; near 1, for the tolerances.
    source : array of int32, shape (S,)
    demand : array of float64, shape (S, n_nodes)
        Not negative; 0 at the source.
    weight : array of float64, shape (S,)
        How many equivalent sources each one stands for.
    orbit : array of int32, shape (m,)
        From 0 on; links of one orbit share their load evenly.
    """

    n_nodes: int
    tail: Int32Array
    head: Int32Array
    capacity: Float64Array
    source: Int32Array
    demand: Float64Array
    weight: Float64Array
    orbit: Int32Array


class FlowStart(NamedTuple):
    """Start of the iteration.

    Parameters
    ----------
    flow : array of float64, shape (S, m) or (0, 0)
        Empty: the even split over shortest paths.
    length : array of float64, shape (m,) or (0,)
        Empty: all capacities equal.
    """

    flow: Float64Array
    length: Float64Array


class FlowOptions(NamedTuple):
    """Stopping rule and settings of the iteration.

    Parameters
    ----------
    gap : float
        Between both sides of the certificate, relative.
    time_limit_s : float
        0: none.
    max_iterations : int
    threads : int
        Results do not depend on it.
    is_double : bool
        Iterate in doubles; otherwise in single precision.
    """

    gap: float
    time_limit_s: float
    max_iterations: int
    threads: int
    is_double: bool


class FlowResult(NamedTuple):
    """A flow and lengths with their certificates.

    Parameters
    ----------
    flow : array of float64, shape (S * m,)
        Row-major (source, link); delivers every demand.
    length : array of float64, shape (m,)
    load, bound : float
        Largest load over capacity of the flow, and the least one that the lengths allow.
    iterations, certificates : int
    """

    flow: Float64Array
    length: Float64Array
    load: float
    bound: float
    iterations: int
    certificates: int


class ClimbProblem(NamedTuple):
    """Demands between nodes, and total orders of the links that paths are to climb.

    Parameters
    ----------
    n_nodes : int
    tail, head : arrays of int32, shape (m,)
    source : array of int32, shape (S,)
    demand : array of float64, shape (S, n_nodes)
    order : array of int32, shape (L, m)
        The links of each layer in their order.
    """

    n_nodes: int
    tail: Int32Array
    head: Int32Array
    source: Int32Array
    demand: Float64Array
    order: Int32Array


class ClimbTable(NamedTuple):
    """Shortest climbing paths from every source.

    Parameters
    ----------
    distance : array of float64, shape (L * n_nodes * S,)
        Row-major (layer, node, source); infinite where no path climbs.
    last : array of int32, likewise
        Last link of a shortest path; -1 for none.
    before : array of int32, shape (L * m * S,)
        Row-major (layer, link, source): the link before; -1 for none.
    """

    distance: Float64Array
    last: Int32Array
    before: Int32Array


class Annealing(NamedTuple):
    """Steps of simulated annealing.

    Parameters
    ----------
    steps : int
    hot, cold : float
        Temperatures at the first and the last step, in units of the cost.
    seed : int
    """

    steps: int
    hot: float
    cold: float
    seed: int


class PathProgram(NamedTuple):
    """The linear program of weighted paths: least T such that no link is loaded beyond T times its capacity.

    Parameters
    ----------
    capacity : array of float64, shape (m,)
    demand : array of float64, shape (pairs,)
        Positive.
    pair : array of int32, shape (columns,)
        Of each path.
    offset : array of int64, shape (columns + 1,)
    links : array of int32
        Of column i: links[offset[i]:offset[i + 1]], none twice.
    """

    capacity: Float64Array
    demand: Float64Array
    pair: Int32Array
    offset: Int64Array
    links: Int32Array


class PathBasis(NamedTuple):
    """A basis of it.

    Parameters
    ----------
    key : array of int32, shape (pairs,)
        The column that takes up what the others of its pair leave.
    column : array of int32
        Basic columns that are not keys.
    slack : array of int32
        Links whose spare capacity is basic. Both empty: from the keys alone.
    """

    key: Int32Array
    column: Int32Array
    slack: Int32Array
