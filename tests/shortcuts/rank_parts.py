"""Programs of single ranks put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treadle.program.program import Program


def union(programs: Sequence[Program]) -> Program:
    """The program of all ranks: part v gives the list of rank v."""
    counts = [len(program.operations(rank)) for rank, program in enumerate(programs)]
    assert counts == [program.n_operations for program in programs]
    starts = np.cumsum([0, *counts])
    n_paths = np.cumsum([0, *(program.n_paths for program in programs)])
    paths = [np.where(one.path >= 0, one.path + n_paths[i], -1) for i, one in enumerate(programs)]

    def joined(key: str) -> np.ndarray:
        return np.concatenate([getattr(program, key) for program in programs])

    def offsets(key: str) -> np.ndarray:
        return np.cumsum([0, *np.concatenate([np.diff(getattr(program, key)) for program in programs])])

    keys = ("operation_kind", "peer", "channel", "step", "source", "target", "first", "count", "path_links")
    return replace(
        programs[0],
        **{key: joined(key) for key in keys},
        path=np.concatenate(paths),
        operation_offset=starts,
        wait_offset=offsets("wait_offset"),
        waits=np.concatenate([program.waits + starts[i] for i, program in enumerate(programs)]),
        path_offset=offsets("path_offset"),
    )
