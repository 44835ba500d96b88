"""Ranks as threads of this process, whose collectives are done here, without torch.distributed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from treadle.parallelism.execution.rank_exchanges import RankExchange
from treadle.parallelism.execution.tensor_blocks import BlockPosition
from treadle.schedules.mesh import Mesh


@dataclass(frozen=True)
class ThreadGroup:
    """What stands for a process group: its name tells its ranks."""

    ranks: tuple[int, ...]

    @property
    def group_name(self) -> str:
        return ",".join(map(str, self.ranks))


class ThreadedRanks:
    """Threads that meet in collectives."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._own = threading.local()
        self._given: dict[str, dict[int, tuple[Any, ...]]] = {}
        self._barriers: dict[str, threading.Barrier] = {}
        self._lock = threading.Lock()
        self.called: list[tuple[str, str, int]] = []
        """Of rank 0: what, in which group, elements given."""

    def groups(self, _mesh: Mesh, rank: int) -> Callable[[tuple[str, ...]], ThreadGroup]:
        def group(axes: tuple[str, ...]) -> ThreadGroup:
            return next(
                ThreadGroup(tuple(sorted(ranks))) for ranks in self.mesh.groups(axes) if rank in ranks
            )

        return group

    def exchange(self, rank: int) -> RankExchange:
        return RankExchange(BlockPosition(self.mesh, rank), self.groups(self.mesh, rank))

    def done(self, name: str, *arguments: Any) -> Any:
        """In place of a functional collective."""
        group, rank = arguments[-1], self._own.rank
        if not rank:
            self.called.append((name, group, arguments[0].numel()))
        ranks = tuple(map(int, group.split(",")))
        with self._lock:
            barrier = self._barriers.setdefault(group, threading.Barrier(len(ranks)))
            self._given.setdefault(group, {})[rank] = arguments
        barrier.wait(60)
        given = [self._given[group][one] for one in ranks]
        made = _made(name, given, ranks.index(rank))
        barrier.wait(60)
        return made

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """What each rank returns; the first error is raised."""
        found: list[Any] = [None] * self.mesh.n_ranks
        errors: list[BaseException] = []

        def one(rank: int) -> None:
            self._own.rank = rank
            try:
                with torch.no_grad():
                    found[rank] = work(rank)
            except BaseException as error:  # raised again below
                errors.append(error)
                for barrier in self._barriers.values():
                    barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.mesh.n_ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in sorted(errors, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
            raise error
        return found


def _made(name: str, given: Sequence[tuple[Any, ...]], me: int) -> Any:
    values = [one[0] for one in given]
    n = len(given)
    if name == "all_reduce":
        assert {one[1] for one in given} == {"sum"}
        return sum(values[1:], values[0].clone())
    if name == "all_gather_into_tensor":
        assert {one[1] for one in given} == {n}
        return torch.cat(values)
    if name == "reduce_scatter_tensor":
        assert {one[1:3] for one in given} == {("sum", n)}
        return sum(values[1:], values[0].clone()).reshape(n, -1)[me].clone()
    assert name == "all_to_all_single"
    parts = [value.split(one[2])[me] for value, one in zip(values, given, strict=True)]
    assert [len(part) for part in parts] == given[me][1]
    return torch.cat(parts)
