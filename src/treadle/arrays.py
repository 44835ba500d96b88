"""Read-only numpy arrays: the storage of every value type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def frozen(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """Copy `values` into a new contiguous read-only array of `dtype`.

    Raises
    ------
    OverflowError
        If integers are asked for and a value is none, or out of range: numpy would wrap or cut it silently.
    """
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # of a cast from nan; refused below
        array = np.array(given, dtype=dtype, order="C", copy=True)
    if array.dtype.kind in "iu" and not np.can_cast(given.dtype, array.dtype) and np.any(array != given):
        place = np.flatnonzero(array != given)[0]
        raise OverflowError(f"found {given.ravel()[place]}")
    array.setflags(write=False)
    return array
