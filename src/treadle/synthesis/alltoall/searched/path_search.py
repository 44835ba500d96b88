"""One path for every subflow of an all-to-all, by local search: no linear program, nothing to extract.

Subflows move one by one to paths that are short by lengths growing exponentially with the loads. Source:
Shahrokhi and Matula (JACM 37, 1990) for the lengths; docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array
from treadle.engine import core, run_until
from treadle.synthesis.alltoall.searched.subflows import Subflows
from treadle.synthesis.core_values.column_values import ColumnPaths, SearchPace

_SWEEPS, _FEW_SWEEPS, _UNEQUAL_SWEEPS = 60, 30, 240
"""Over all sources, the exponents growing 8% or 17% from one to the next: few for many subflows.

Unequal subflows settle slowly: on Pi(8,72) demands of 1 to 100,000 units lose 1.2% after 60, .3% after 240.
"""

_MANY = 500_000
"""Subflows. On 1000 nodes, one per pair, half the sweeps cost jellyfish nothing, Pi(4,1000) 0.08%."""

_FLAT, _STEEP = 15.0, 1500.0
"""Exponent of a link's length in its relative load, first and last: at the end a thousandth is a factor 4."""

_SHARE = 0.3
"""Number of a source's subflows that one visit examines, with the same shortest paths."""

_NONE = ColumnPaths(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))
_FREE = np.zeros((0, 0), dtype=np.int32)

_STUCK = 3


def search_paths(
    subflows: Subflows,
    *,
    lanes: Int32Array | None = None,
    start: ColumnPaths | None = None,
    sweeps: int | None = None,
    seed: int = 0,
) -> tuple[ColumnPaths, bool]:
    """Find a path for each subflow, at a low largest load over bandwidth.

    Parameters
    ----------
    subflows : Subflows
    lanes : array of int32, shape (sequences, length), optional
        Sequences of links whose order paths have to follow. Default: paths are free, and their places links.
    start : ColumnPaths, optional
        Initial paths in these columns, some of them empty.
    sweeps : int, optional
        0: only the subflows without a path get one. Default: as many as gain anything.
    seed : int
        The same seed gives the same paths.

    Returns
    -------
    paths : ColumnPaths
        Simple paths of at most `subflows.most_hops` links; empty where no sequence has one.
    is_whole : bool
        No path is empty.
    """
    if sweeps is None:
        few = _SWEEPS if np.ptp(subflows.table.amount) == 0 else _UNEQUAL_SWEEPS
        sweeps = few if subflows.n_subflows < _MANY else _FEW_SWEEPS
    pace = SearchPace(subflows.most_hops, sweeps, _FLAT, _STEEP, _SHARE, seed)
    status, found = run_until(
        "searching routes",
        lambda control: core.search_lane_paths(
            subflows.table, _FREE if lanes is None else lanes, start or _NONE, pace, control
        ),
    )
    core.release_memory()  # of its paths source by source
    return ColumnPaths(*found), status != _STUCK
