"""Operations of switches in the moves of steps: one move of each takes the whole way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.program.steps.step_pieces import Moves
from treadle.schedules.steps.steps import Steps, WayKind


def in_operations(steps: Steps, moves: Moves, n_ranks: int) -> tuple[Moves, list[tuple[int, ...]]]:
    """Moves whose path is a number of the list that comes with them: the steps' ways, and parts of these.

    Parameters
    ----------
    steps : Steps
        With ways.
    moves : Moves
        By way, those that have no effect left out.
    n_ranks : int
        N.

    Notes
    -----
    Of the moves that are one operation for a piece that of the next rank after the asker goes all of the way,
    so that every rank has about as many such. The path of the others begins at the switch that copies, or
    ends at the one that adds up.
    """
    paths = [tuple(steps.way(number).tolist()) for number in range(steps.n_ways)]
    if not steps.has_operations:
        return moves, paths
    kinds = steps.way_kinds[moves.path]
    rows = np.flatnonzero(kinds)
    way = moves.path[rows]
    copies = kinds[rows] == WayKind.COPY
    shared = steps.way_links[steps.way_offset[way] + ~copies].astype(np.int64)
    ahead = moves.receiver[rows] - moves.sender[rows]
    turn = np.where(copies, ahead, -ahead) % n_ranks
    order = np.lexsort((turn, moves.piece[rows], shared, moves.step[rows]))
    keys = np.stack([moves.piece[rows], shared, moves.step[rows], kinds[rows]])[:, order]
    again = order[1:][(keys[:, 1:] == keys[:, :-1]).all(axis=0)]
    path = moves.path.copy()
    path[rows[again]] += steps.n_ways
    parts = [
        links[1:] if kind == WayKind.COPY else links[:1]
        for links, kind in zip(paths, steps.way_kinds.tolist(), strict=True)
    ]
    return replace(moves, path=path), paths + parts
