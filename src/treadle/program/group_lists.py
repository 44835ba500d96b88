"""Programs of concurrent groups of ranks."""

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
    """The operations of all concurrent groups together, for users that follow messages and read no buffer.

    Every group has its own buffers, each cut into P = `n_chunks` equal chunks; chunk c of group g has the
    number g * P + c here.

    Parameters
    ----------
    kind, nodes, n_chunks, and the fields of operations
        As in `OperationLists`; ranks are those of all groups together.
    groups : tuple of tuples of int
        Ranks of each group, in the order of the group.
    """

    groups: tuple[tuple[int, ...], ...]

    @property
    def n_addresses(self) -> int:
        """One more than the largest chunk number."""
        return len(self.groups) * self.n_chunks

    @cached_property
    def group_of(self) -> Int64Array:
        """Group of each rank, shape (N,)."""
        groups = np.array(self.groups)
        found = np.zeros(self.n_ranks, dtype=np.int64)
        found[groups] = np.arange(len(groups))[:, None]
        return found


@dataclass(frozen=True)
class ProgramGroups:
    """A program for each group, run concurrently.

    Parameters
    ----------
    programs : tuple of Program
        All have the same kind and number of ranks.
    groups : tuple of tuples of int
        Number among all ranks, from 0, of each rank of each program.

    Raises
    ------
    ScheduleError
        If programs and groups do not fit each other.
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
                raise ScheduleError("programs of groups: expected one kind, and all in place or none")
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
        """Kind of the collective that every group performs."""
        return self.programs[0].kind

    @property
    def n_ranks(self) -> int:
        """Number of ranks of all groups."""
        return len(self.groups) * len(self.groups[0])

    def position_of(self, rank: int) -> tuple[int, int]:
        """Return the group of a rank, and its index in the group."""
        for number, group in enumerate(self.groups):
            if rank in group:
                return number, group.index(rank)
        raise ScheduleError(f"rank {rank}: expected 0 to {self.n_ranks - 1}")

    @property
    def lists(self) -> OperationLists:
        """All programs as one, for the simulator; the program itself if there is only one.

        Raises
        ------
        ScheduleError
            If the common multiple of their numbers of chunks is too large.
        """
        return self.programs[0] if len(self.programs) == 1 else _merged(self.programs, self.groups)


def as_groups(program: Program | ProgramGroups) -> ProgramGroups:
    """Return a program as the program of a single group."""
    if isinstance(program, ProgramGroups):
        return program
    return ProgramGroups((program,), (tuple(range(program.n_ranks)),))


def _merged(programs: Sequence[Program], groups: tuple[tuple[int, ...], ...]) -> GroupLists:
    n_chunks = lcm(*(program.n_chunks for program in programs))
    if len(programs) * n_chunks > _MOST_ADDRESSES:
        raise ScheduleError(
            f"the groups' programs have {len({program.n_chunks for program in programs})} different numbers "
            f"of chunks, whose common multiple is too large to simulate them concurrently"
        )
    rank = np.concatenate(
        [np.array(group)[program.operation_rank] for program, group in zip(programs, groups, strict=True)]
    )
    order = np.argsort(rank, kind="stable")
    number = positions_of(len(order), order)
    starts = offsets_of([program.n_operations for program in programs])
    n_paths = offsets_of([program.n_paths for program in programs])
    columns: dict[str, list[Int64Array | Int32Array]] = {key: [] for key in (*COLUMNS, "operation_kind")}
    nodes = np.empty(len(groups) * len(groups[0]), dtype=np.int32)
    for place, (program, group) in enumerate(zip(programs, groups, strict=True)):
        nodes[list(group)] = program.nodes
        scale = n_chunks // program.n_chunks
        changed = {
            "peer": np.append(np.array(group), -1)[program.peer],
            "path": np.where(program.path < 0, -1, program.path + n_paths[place]),
            "first": program.first * scale + place * n_chunks,
            "count": program.count * scale,
        }
        for key, column in columns.items():
            column.append(changed[key] if key in changed else getattr(program, key))
    waits = [number[program.waits + start] for program, start in zip(programs, starts.tolist(), strict=False)]
    counts = np.concatenate([np.diff(program.wait_offset) for program in programs])
    waiting = np.repeat(number, counts)
    joined: dict[str, Any] = {key: np.concatenate(parts)[order] for key, parts in columns.items()}
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
