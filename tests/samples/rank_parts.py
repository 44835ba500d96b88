"""What a rank does in trees written out, and programs of single ranks put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treadle.program.program import Program
from treadle.program.trees.rank_program import RankPhase, TreeEdges
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, Tree


def phases_of(schedule: ForestSchedule, rank: int) -> tuple[RankPhase, ...]:
    """A rank's edges, tree by tree and path entry by path entry."""
    return tuple(
        RankPhase(
            forest.direction is Direction.REDUCE, *(_edges(forest, rank, above) for above in (True, False))
        )
        for forest in schedule.forests
    )


def _edges(forest: Forest, rank: int, is_above: bool) -> TreeEdges:
    rows, links = [], []
    for root in range(forest.n_ranks):
        start = 0
        for tree in forest.trees(root):
            children = [rank] if is_above else np.flatnonzero(tree.parent == rank).tolist()
            for child in children:
                peer = int(tree.parent[child]) if is_above else child
                unit = start
                for entry in range(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1])):
                    units = int(tree.entry_units[entry])
                    rows.append((root, unit, units, peer, _depth(tree, child)))
                    links.append(forest.path(int(tree.entry_path[entry])))
                    unit += units
            start += tree.multiplicity
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return TreeEdges(
        *columns,
        path_offset=np.cumsum([0, *(len(path) for path in links)]),
        path_links=np.concatenate([np.zeros(0, dtype=np.int32), *links]),
    )


def _depth(tree: Tree, rank: int) -> int:
    return 0 if tree.parent[rank] < 0 else 1 + _depth(tree, int(tree.parent[rank]))


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
