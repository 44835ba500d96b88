"""What message passing and moves of plans in the compiled core take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array

Float64Array = NDArray[np.float64]


class PairEnergies(NamedTuple):
    """Energies of choices that cost by themselves and in pairs; fields as the core reads them.

    Parameters
    ----------
    n_states : int32 array
        By node.
    tail, head : int32 array
        By edge; ``tail < head``.
    unary : float array
        Node after node.
    pair : float array
        Edge after edge, a row for each state of the tail; infinity forbids.
    """

    n_states: Int32Array
    tail: Int32Array
    head: Int32Array
    unary: Float64Array
    pair: Float64Array


class PairTables(NamedTuple):
    """What states cost in several quantities.

    Parameters
    ----------
    n_states : int32 array
        By node.
    unary : array of shape (states of all nodes, quantities)
    tail, head, quantity : int32 array
        By table; quantity -1: no amounts, what is not 0 is forbidden.
    amount : float array
        Table after table, a row for each state of the tail.
    """

    n_states: Int32Array
    unary: Float64Array
    tail: Int32Array
    head: Int32Array
    quantity: Int32Array
    amount: Float64Array


class MinimaxForms(NamedTuple):
    """A sum over groups of weight * the largest linear form, some forms below a limit.

    Parameters
    ----------
    start : int32 array
        By form, where its terms begin; and the end of the last.
    quantity, coefficient : int32 and float array
        By term.
    group : int32 array
        By form, -1 for none.
    weight : float array
        By group.
    limited : int32 array
        By form, whether it is.
    limit : float
    """

    start: Int32Array
    quantity: Int32Array
    coefficient: Float64Array
    group: Int32Array
    weight: Float64Array
    limited: Int32Array
    limit: float
