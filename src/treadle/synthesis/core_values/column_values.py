"""What the compiled core takes and returns of searched routes and their layers: tuples of arrays.

The core takes each of these as the plain tuple that it is (`src/core/bindings/routes.cpp`), and returns plain
tuples that fit these. Arrays are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array


class SubproblemTable(NamedTuple):
    """Pieces of demand, by source.

    Parameters
    ----------
    n_nodes : int
    tail, head : arrays of int32, shape (m,)
    width : array of float64, shape (m,)
        What each link carries in some time; positive.
    node : array of int32, shape (S,)
        Of each source.
    first : array of int64, shape (S + 1,)
        Source s has pieces first[s] to first[s + 1] - 1.
    target : array of int32, shape (k,)
        Node.
    amount : array of int64, shape (k,)
        In units of `width` times that time.
    """

    n_nodes: int
    tail: Int32Array
    head: Int32Array
    width: NDArray[np.float64]
    node: Int32Array
    first: Int64Array
    target: Int32Array
    amount: Int64Array


class ColumnPaths(NamedTuple):
    """Paths as places in lanes, or as links where they are free.

    Parameters
    ----------
    lane : array of int32, shape (k,)
    offset : array of int64, shape (k + 1,)
        Path i is place[offset[i]:offset[i + 1]]; an empty one has yet to be found. Of shape (0,): none is
        there yet.
    place : array of int32
    """

    lane: Int32Array
    offset: Int64Array
    place: Int32Array


class SearchPace(NamedTuple):
    """How a search goes about it.

    Parameters
    ----------
    most_hops : int
    sweeps : int
        Over all sources.
    flat, steep : float
        Exponent of a link's length in its relative load, in the first and the last sweep.
    share : float
        Of a source's pieces that are looked at in one visit.
    seed : int
    """

    most_hops: int
    sweeps: int
    flat: float
    steep: float
    share: float
    seed: int


class DependencyPaths(NamedTuple):
    """Paths to be put into layers.

    Parameters
    ----------
    n_nodes : int
    tail, head : arrays of int32, shape (m,)
    offset : array of int64, shape (k + 1,)
    link : array of int32
        Of path i: link[offset[i]:offset[i + 1]].
    sequence : array of int64, shape (k,)
        In which the paths are taken.
    most_layers : int
        0: as many as it takes.
    may_rise : bool
        A path may go to a higher layer on its way.
    """

    n_nodes: int
    tail: Int32Array
    head: Int32Array
    offset: Int64Array
    link: Int32Array
    sequence: Int64Array
    most_layers: int
    may_rise: bool


class OrderPace(NamedTuple):
    """How layers' orders are made better.

    Parameters
    ----------
    most_hops : int
        Of a path.
    passes : int
        Over all layers, at most.
    seed : int
    """

    most_hops: int
    passes: int
    seed: int


class HopPaths(NamedTuple):
    """Paths whose hops are to get steps.

    Parameters
    ----------
    offset : array of int64, shape (k + 1,)
    link : array of int32
    amount : array of int64, shape (k,)
    width : array of float64, shape (m,)
        At least 1; a link may carry as many times a step's cap.
    """

    offset: Int64Array
    link: Int32Array
    amount: Int64Array
    width: NDArray[np.float64]


class StepPace(NamedTuple):
    """How the search for steps goes about it.

    Parameters
    ----------
    tries : int
        Passes that lower no excess before a cap rises.
    passes : int
        At most.
    rise : int
        By which a cap rises.
    seed : int
    sweeps : int
        Over all paths at prices that rise exponentially with the loads, before that.
    """

    tries: int
    passes: int
    rise: int
    seed: int
    sweeps: int
