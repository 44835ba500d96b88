"""Programs of several groups of ranks that run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import lcm
from typing import Any

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.program.operation_lists import COLUMNS, OperationLists
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

_MOST_ADDRESSES = 2**62


@dataclass(frozen=True, eq=False)
class GroupLists(OperationLists):
    """What the ranks of all groups do at once, for what follows messages and looks into no buffer.

    Every group has buffers of its own, each cut into P = `n_chunks` equal chunks; chunk c of group g has the
    number g * P + c here.

    Parameters
    ----------
    kind, nodes, n_chunks, and all about operations
        As in `OperationLists`; ranks are those of all groups together.
    groups : tuple of tuples of int
        Ranks of each group, in the group's order.
    """

    groups: tuple[tuple[int, ...], ...]

    @property
    def n_addresses(self) -> int:
        """One more than the largest chunk number."""
        return len(self.groups) * self.n_chunks

    @cached_property
    def group_of(self) -> Int64Array:
        """Group of each rank, shape (N,)."""
        found = np.zeros(self.n_ranks, dtype=np.int64)
        for number, group in enumerate(self.groups):
            found[list(group)] = number
        return found


@dataclass(frozen=True)
class ProgramGroups:
    """A program for each group, all run at once.

    Parameters
    ----------
    programs : tuple of Program
        Of one kind, all of as many ranks.
    groups : tuple of tuples of int
        Which of all ranks, from 0, the ranks of each program are.

    Raises
    ------
    ScheduleError
        If these do not fit each other.
    """

    programs: tuple[Program, ...]
    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.programs or len(self.programs) != len(self.groups):
            raise ScheduleError(
                f"programs of groups: {len(self.programs)} programs for {len(self.groups)} groups; expected "
                f"one for each"
            )
        first = self.programs[0]
        for program, group in zip(self.programs, self.groups, strict=True):
            if program.kind is not first.kind or program.in_place is not first.in_place:
                raise ScheduleError("programs of groups: expected one kind, all in place or none")
            if not program.n_ranks == len(group) == first.n_ranks:
                raise ScheduleError(
                    f"programs of groups: a program of {program.n_ranks} ranks for a group of {len(group)}; "
                    f"expected {first.n_ranks}"
                )
        if sorted(chain.from_iterable(self.groups)) != list(range(self.n_ranks)):
            raise ScheduleError(
                f"programs of groups: expected each rank from 0 to {self.n_ranks - 1} in one group"
            )

    @property
    def kind(self) -> CollectiveKind:
        """What every group does."""
        return self.programs[0].kind

    @property
    def n_ranks(self) -> int:
        """Ranks of all groups together."""
        return len(self.groups) * len(self.groups[0])

    def position_of(self, rank: int) -> tuple[int, int]:
        """Group of a rank, and its place in the group."""
        for number, group in enumerate(self.groups):
            if rank in group:
                return number, group.index(rank)
        raise ScheduleError(f"rank {rank}: expected 0 to {self.n_ranks - 1}")

    @property
    def lists(self) -> OperationLists:
        """All programs as one, for the simulator; the program itself where there is one only.

        Raises
        ------
        ScheduleError
            If their numbers of chunks have no common multiple of a size that numbers can have.
        """
        return self.programs[0] if len(self.programs) == 1 else _merged(self.programs, self.groups)


def as_groups(program: Program | ProgramGroups) -> ProgramGroups:
    """A program as that of the only group."""
    if isinstance(program, ProgramGroups):
        return program
    return ProgramGroups((program,), (tuple(range(program.n_ranks)),))


def _merged(programs: Sequence[Program], groups: tuple[tuple[int, ...], ...]) -> GroupLists:
    n_chunks = lcm(*(program.n_chunks for program in programs))
    if len(programs) * n_chunks > _MOST_ADDRESSES:
        raise ScheduleError(
            f"the groups' programs have {len({program.n_chunks for program in programs})} different numbers "
            f"of chunks, whose common multiple is too large to simulate them at once"
        )
    rank = np.concatenate(
        [np.array(group)[program.operation_rank] for program, group in zip(programs, groups, strict=True)]
    )
    order = np.argsort(rank, kind="stable")
    number = positions_of(len(order), order)
    starts = offsets_of([program.n_operations for program in programs])
    n_paths = offsets_of([program.n_paths for program in programs])
    columns: dict[str, list[Int64Array | Int32Array]] = {key: [] for key in (*COLUMNS, "operation_kind")}
    waits, wait_counts = [], []
    for place, (program, group) in enumerate(zip(programs, groups, strict=True)):
        scale = n_chunks // program.n_chunks
        changed = {
            "peer": np.append(np.array(group), -1)[program.peer],
            "path": np.where(program.path < 0, -1, program.path + n_paths[place]),
            "first": program.first * scale + place * n_chunks,
            "count": program.count * scale,
        }
        for key, column in columns.items():
            column.append(changed[key] if key in changed else getattr(program, key))
        waits.append(number[program.waits + starts[place]])
        wait_counts.append(np.diff(program.wait_offset))
    counts = np.concatenate(wait_counts)
    waiting = np.repeat(number, counts)
    joined: dict[str, Any] = {key: np.concatenate(parts)[order] for key, parts in columns.items()}
    nodes = np.empty(len(groups) * len(groups[0]), dtype=np.int32)
    for program, group in zip(programs, groups, strict=True):
        nodes[list(group)] = program.nodes
    return GroupLists(
        kind=programs[0].kind,
        nodes=nodes,
        n_chunks=n_chunks,
        operation_offset=offsets_of(np.bincount(rank, minlength=len(nodes))),
        wait_offset=offsets_of(counts[order]),
        waits=np.concatenate(waits)[np.argsort(waiting, kind="stable")],
        path_offset=offsets_of(np.concatenate([np.diff(program.path_offset) for program in programs])),
        path_links=np.concatenate([program.path_links for program in programs]),
        groups=groups,
        **joined,
    )
