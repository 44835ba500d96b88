"""Read-only numpy arrays: the storage of every value type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def frozen(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """Copy `values` into a new contiguous read-only array of `dtype`."""
    array = np.array(values, dtype=dtype, order="C", copy=True)
    array.setflags(write=False)
    return array
