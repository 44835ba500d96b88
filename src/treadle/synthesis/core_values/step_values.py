"""Arguments and results of the compiled core for breadth-first broadcast: tuples of named arrays.

The core takes each of these as the plain tuple that it is, turns it into a struct in one place
(`src/core/bindings/steps.cpp`), and returns plain tuples that fit these. Arrays are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

from treadle.arrays import Int32Array, Int64Array


class InLinks(NamedTuple):
    """Links by head, without loops.

    Parameters
    ----------
    offset : array of int64, shape (n + 1,)
        Those into node u are offset[u] up to offset[u + 1].
    tail : array of int32, shape (m,)
    """

    offset: Int64Array
    tail: Int32Array


class StepRatios(NamedTuple):
    """The largest load of each step, in shards per unit of weight.

    Parameters
    ----------
    numerator, denominator : arrays of int64, shape (steps,)
    worst : array of int32, shape (steps,)
        A node that attains it.
    """

    numerator: Int64Array
    denominator: Int64Array
    worst: Int32Array


class Sends(NamedTuple):
    """Chunks low up to high of shards over links, by step, then by receiver and source.

    Parameters
    ----------
    step_offset : array of int64, shape (steps + 1,)
    shard, link, low, high : arrays of int32
    """

    step_offset: Int64Array
    shard: Int32Array
    link: Int32Array
    low: Int32Array
    high: Int32Array


class CutJobs(NamedTuple):
    """Receivers whose jobs in a step exceed the capacities of the links that these may use.

    Parameters
    ----------
    node : array of int32, shape (c,)
    jobs : array of int64, shape (c,)
    offset : array of int64, shape (c + 1,)
    links : array of int32
        Places among all in-links; of cut i: links[offset[i]:offset[i + 1]].
    """

    node: Int32Array
    jobs: Int64Array
    offset: Int64Array
    links: Int32Array
