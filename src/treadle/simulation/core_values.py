"""Arguments and results of the compiled core's simulations: tuples of arrays with named fields.

The core takes each of these as the plain tuple that it is, turns it into a struct in one place
(`src/core/bindings/simulation.cpp`), and returns plain tuples that fit these. Arrays are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array

FloatArray = NDArray[np.float64]


class TaskArrays(NamedTuple):
    """Tasks on resources that run one at a time.

    Parameters
    ----------
    n_resources : int
    resource : array of int32, shape (n,)
        Resource of each task; -1 for none.
    duration : array of int64, shape (n,)
        Ticks.
    edge_offset : array of int64, shape (n + 1,)
        Signals of task i are edge_offset[i] up to edge_offset[i + 1].
    edge_target : array of int32, shape (e,)
    edge_shift : array of int64, shape (e,)
        Ticks between the task's finish and the signal; at least minus its duration.
    """

    n_resources: int
    resource: Int32Array
    duration: Int64Array
    edge_offset: Int64Array
    edge_target: Int32Array
    edge_shift: Int64Array


class TaskTimes(NamedTuple):
    """Times of tasks.

    Parameters
    ----------
    finish : int
        End of the last task, ticks.
    done : int
        Tasks that ran, over all slices.
    last : int
        A task that finishes last: slice * n + task.
    start : array of int64, shape (slices * n,)
        Row-major (slice, task), ticks; -1: never ran.
    binding : array of int64, likewise
        The task that each start waited for last; -1 for none. Empty if it was not recorded.
    is_beyond : bool
        The simulation stopped because the last task cannot finish before the horizon.
    """

    finish: int
    done: int
    last: int
    start: Int64Array
    binding: Int64Array
    is_beyond: bool


class FluidArrays(NamedTuple):
    """Flows that share resources fairly.

    Parameters
    ----------
    resource_offset : array of int64, shape (n + 1,)
    resource : array of int32
        Flow i uses resource[resource_offset[i]:resource_offset[i + 1]], each once.
    capacity : array of float64, shape (r,)
        Work that each resource does per second.
    work : array of float64, shape (n,)
    before, after : arrays of float64, shape (n,)
        Seconds between the last signal and the start, and between the end and the signals it sends.
    edge_offset : array of int64, shape (n + 1,)
    edge_target : array of int32, shape (e,)
    edge_from_start : array of int32, shape (e,)
        1: the signal goes when the flow starts; 0: when it has ended.
    """

    resource_offset: Int64Array
    resource: Int32Array
    capacity: FloatArray
    work: FloatArray
    before: FloatArray
    after: FloatArray
    edge_offset: Int64Array
    edge_target: Int32Array
    edge_from_start: Int32Array


class FluidTimes(NamedTuple):
    """Times of flows.

    Parameters
    ----------
    done : int
        Flows that ended, over all slices.
    last : int
        A flow whose signal is the last: slice * n + flow.
    start, end : arrays of float64, shape (slices * n,)
        Row-major (slice, flow), seconds; negative: never.
    """

    done: int
    last: int
    start: FloatArray
    end: FloatArray
