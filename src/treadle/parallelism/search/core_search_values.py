"""Arguments of message passing and plan moves in the compiled core."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array

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
    """Costs of states in several quantities.

    Parameters
    ----------
    n_states : int32 array
        By node.
    unary : array of shape (states of all nodes, quantities)
    tail, head : int32 array
        By edge; ``tail < head``.
    edge : int32 array
        By table, rising.
    start : int32 array
        By table, where its quantities begin; and the end of the last.
    quantity : int32 array
        Those that have the table's amounts.
    amount : uint64 array
        By table the address of its amounts, contiguous, a row for each state of the tail: thousands of arrays
        would take longer to copy than to read. The creator keeps them alive.
    banned : uint64 array
        Address of each edge's flags of forbidden pairs, in the same layout; 0 without any.
    """

    n_states: Int32Array
    unary: Float64Array
    tail: Int32Array
    head: Int32Array
    edge: Int32Array
    start: Int32Array
    quantity: Int32Array
    amount: NDArray[np.uint64]
    banned: NDArray[np.uint64]


class CoreDomains(NamedTuple):
    """States that are left.

    Parameters
    ----------
    state : int64 array
        Node after node, ascending.
    start : int64 array
        By node, and the end.
    """

    state: Int64Array
    start: Int64Array


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
