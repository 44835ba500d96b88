"""Typed view of the compiled core (src/core/bindings.cpp).

Status codes: 0 ok, 2 cancelled, 3 stuck. `control` is [cancel flag, work done, work expected].
"""

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

def find_violated_cut(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    link_factor: int,
    root_high: int,
    root_low: int,
    first: int,
) -> tuple[int, Int32]: ...
def split_switches(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    mend_limit: int,
    control: Int64,
) -> tuple[int, Int32, Int32, Int64, Int64, Int32, Int64, Int64, Int32, Int64]: ...
def split_amount(
    n_nodes: int,
    compute: Int32,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    u: int,
    w: int,
    t: int,
) -> int: ...
def pack(
    n_nodes: int,
    root: Int64,
    tail: Int32,
    head: Int32,
    capacity: Int64,
    speculate: bool,
    control: Int64,
) -> tuple[int, Int32, Int64, Int32, Int64]: ...
def assign_paths(
    arc: Int32, multiplicity: Int64, segment_offset: Int64, segment_path: Int32, segment_units: Int64
) -> tuple[int, Int64, Int32, Int64]: ...
