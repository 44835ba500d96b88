"""One rank's part of a factored schedule, without writing out its trees."""

from __future__ import annotations

import numpy as np

from treadle.arrays import offsets_of
from treadle.errors import ScheduleError
from treadle.program.program import Program
from treadle.program.trees.rank_program import RankPhase, TreeEdges, lower_rank
from treadle.schedules.collective import Collective, check_membership
from treadle.schedules.factored import CirculantTrees, FactoredForest, FactoredSchedule, TableTrees
from treadle.schedules.factored.roles import roles
from treadle.schedules.factored.slots import with_slots
from treadle.schedules.factored.trees import ragged
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology


def lower_factored_rank(
    topology: Topology,
    collective: Collective,
    schedule: FactoredSchedule,
    rank: int,
    *,
    channels: int = 1,
    in_place: bool = False,
) -> Program:
    """The program of one rank of a factored schedule; all other ranks' lists are empty.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`; of the schedule's kind and number of ranks.
    schedule : FactoredSchedule
        Verified by the caller.
    rank : int
    channels, in_place
        See `lower_rank`.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, or there is no such rank.

    Notes
    -----
    The programs of all ranks, made apart, fit together: see `lower_rank`. Depth is counted in the slots of
    `treadle.schedules.factored.slots`. Time and memory are linear in the unit trees.
    """
    check_membership(topology, collective)
    if schedule.kind is not collective.kind or schedule.n_ranks != collective.n_ranks:
        raise ScheduleError(
            f"the schedule is for {schedule.kind} of {schedule.n_ranks} ranks, the collective is "
            f"{collective.kind} of {collective.n_ranks}"
        )
    if not 0 <= rank < schedule.n_ranks:
        raise ScheduleError(f"rank {rank}: expected 0 to {schedule.n_ranks - 1}")
    return lower_rank(
        topology,
        collective,
        schedule.root_multiplicity,
        tuple(_phase(forest, rank) for forest in schedule.forests),
        rank,
        grain=_grain(schedule),
        channels=channels,
        in_place=in_place,
    )


def _phase(forest: FactoredForest, rank: int) -> RankPhase:
    sides = []
    for edges, slots in with_slots(forest, roles(forest, rank)):
        used, number = np.unique(edges.path, return_inverse=True)
        offset, links = forest.paths(used)
        lengths = np.diff(offset)[number]
        sides.append(
            TreeEdges(
                root=edges.root,
                first=edges.unit,
                units=edges.units,
                peer=edges.peer,
                depth=slots,
                path_offset=offsets_of(lengths),
                path_links=links[ragged(offset[number], lengths)],
            )
        )
    return RankPhase(forest.direction is Direction.REDUCE, *sides)


def _grain(schedule: FactoredSchedule) -> int:
    """Unit trees that no piece tells apart: a divisor of all that is counted in units."""
    units = [schedule.root_multiplicity]
    for piece in (kind for forest in schedule.forests for layer in forest.layers for kind in layer.pieces):
        trees = piece.trees
        units.append(piece.native)
        for side in (piece.entrances, piece.exits):
            units += [side.offset, side.units, side.inner, side.root_unit]
        if isinstance(trees, TableTrees):
            units += [trees.units, trees.first[trees.first >= 0], trees.last[trees.last >= 0]]
        elif isinstance(trees, CirculantTrees):
            units += [np.array([trees.native_units, trees.block])]
            units += [trees.out_first, trees.in_first, trees.out_offset, trees.in_offset]
        else:
            return 1
    return int(np.gcd.reduce(np.concatenate([column.ravel() for column in units])))
