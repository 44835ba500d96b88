"""What message passing in the compiled core takes."""

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
