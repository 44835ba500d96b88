"""Steps of routes by torch.distributed: what each rank sends is what its block has in common with others'.

Nothing here knows how a route was found. Blocks before and after a step are cut from the whole tensor by
their shardings alone, and what goes from one rank to another is their overlap; a route that loses or doubles
a part gives wrong numbers, or sizes that the collective rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from treadle.errors import ScheduleError
from treadle.parallelism.execution.tensor_blocks import BlockPosition, block, overlap, within
from treadle.parallelism.state.moves import Mixed
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Step
from treadle.schedules.collective import CollectiveKind

if TYPE_CHECKING:
    from torch import Tensor

Groups = Callable[[tuple[str, ...]], Any]
"""The process group of this rank over these axes."""


class RankExchange:
    """Moves one rank's part of tensors.

    Parameters
    ----------
    place : Place
    groups : Groups
    """

    def __init__(self, place: BlockPosition, groups: Groups) -> None:
        self.place, self._groups = place, groups

    def follow(self, local: Tensor, shape: Sequence[int], steps: Sequence[Step]) -> Tensor:
        """Return the rank's part after all steps.

        Parameters
        ----------
        local : Tensor
            The rank's block, a dimension for each factor.
        shape : sequence of int
            Of the whole tensor.
        steps : sequence of Step
        """
        left = iter(steps)
        for step in left:
            # after a step halfway comes one that ends there
            is_halfway = isinstance(step.after, Mixed)
            before, after = step.before, next(left).after if is_halfway else step.after
            assert isinstance(before, Sharding)
            assert isinstance(after, Sharding)
            if is_halfway:
                local = self._rearrange(local, shape, step.axes, before, after)
            else:
                local = self._do(local, shape, step, before, after)
        return local

    def _block(self, sharding: Sharding, shape: Sequence[int], at: dict[str, int]) -> tuple[slice, ...]:
        return block(sharding, shape, self.place.sizes, at)

    def _do(
        self, local: Tensor, shape: Sequence[int], step: Step, before: Sharding, after: Sharding
    ) -> Tensor:
        import torch

        mine = self._block(before, shape, self.place.at)
        target = self._block(after, shape, self.place.at)
        if step.kind is None:
            added = after.partial - before.partial
            if not added:
                return local[within(target, mine)].contiguous()
            # where axes become partial, a rank has its own part and zeros
            result = local.new_zeros(_shape(target))
            if all(self.place.at[axis] == 0 for axis in added if axis not in before.axes):
                result[within(mine, target)] = local
            return result
        members, group = self.place.members(step.axes), self._groups(step.axes)
        if step.kind is CollectiveKind.ALLREDUCE:
            return _done("all_reduce", local.contiguous(), "sum", group.group_name)
        if step.kind is CollectiveKind.ALLGATHER:
            gathered = _done("all_gather_into_tensor", local.reshape(-1), len(members), group.group_name)
            result = local.new_empty(_shape(target))
            for part, at in zip(gathered.view(len(members), *local.shape), members, strict=True):
                result[within(self._block(before, shape, at), target)] = part
            return result
        if step.kind is CollectiveKind.REDUCE_SCATTER:
            parts = [local[within(self._block(after, shape, at), mine)] for at in members]
            given = torch.stack(parts).reshape(-1)
            kept = _done("reduce_scatter_tensor", given, "sum", len(members), group.group_name)
            return kept.view(_shape(target))
        if step.kind is CollectiveKind.ALLTOALL:
            sent = [overlap(mine, self._block(after, shape, at)) for at in members]
            got = [overlap(self._block(before, shape, at), target) for at in members]
            parts = [_part(local, cut, mine) for cut in sent]
            received = _alltoall(parts, [_count(cut) for cut in got], group)
            result = local.new_empty(_shape(target))
            for values, cut in zip(received, got, strict=True):
                if cut is not None:
                    result[within(cut, target)] = values.view(_shape(cut))
            return result
        raise ScheduleError(f"execution: no {step.kind.value} between shardings")

    def _rearrange(
        self, local: Tensor, shape: Sequence[int], axes: tuple[str, ...], before: Sharding, after: Sharding
    ) -> Tensor:
        """Do two all-to-alls: every message goes in equal parts over all members of the group."""
        import torch

        members, group = self.place.members(axes), self._groups(axes)
        n, me = len(members), members.index(self.place.at)
        mine = self._block(before, shape, self.place.at)
        target = self._block(after, shape, self.place.at)
        sources = [self._block(before, shape, at) for at in members]
        sinks = [self._block(after, shape, at) for at in members]
        counts = [[_count(overlap(source, sink)) for sink in sinks] for source in sources]

        def part(i: int, j: int, k: int) -> int:
            return len(range(k, counts[i][j], n))

        messages = [_part(local, overlap(mine, sink), mine) for sink in sinks]
        first = [torch.cat([message[k::n] for message in messages]) for k in range(n)]
        passing = _alltoall(first, [sum(part(i, j, me) for j in range(n)) for i in range(n)], group)
        split = [passing[i].split([part(i, j, me) for j in range(n)]) for i in range(n)]
        second = [torch.cat([split[i][j] for i in range(n)]) for j in range(n)]
        received = _alltoall(second, [sum(part(i, me, k) for i in range(n)) for k in range(n)], group)
        pieces = [received[k].split([part(i, me, k) for i in range(n)]) for k in range(n)]
        result = local.new_empty(_shape(target))
        for i, source in enumerate(sources):
            cut = overlap(source, target)
            if cut is not None:
                values = local.new_empty(counts[i][me])
                for k in range(n):
                    values[k::n] = pieces[k][i]
                result[within(cut, target)] = values.view(_shape(cut))
        return result


def _alltoall(parts: Sequence[Tensor], counts: Sequence[int], group: Any) -> list[Tensor]:
    import torch

    given = [len(part) for part in parts]
    received = _done("all_to_all_single", torch.cat(list(parts)), list(counts), given, group.group_name)
    return list(received.split(list(counts)))


def _done(name: str, *arguments: Any) -> Tensor:
    """Return the result of a functional collective, when it has come."""
    import torch

    functional = torch.ops._c10d_functional
    found: Tensor = functional.wait_tensor(getattr(functional, name)(*arguments))
    return found


def _part(local: Tensor, cut: tuple[slice, ...] | None, mine: tuple[slice, ...]) -> Tensor:
    return local.new_empty(0) if cut is None else local[within(cut, mine)].reshape(-1)


def _count(cut: tuple[slice, ...] | None) -> int:
    return 0 if cut is None else prod(_shape(cut))


def _shape(cut: Sequence[slice]) -> tuple[int, ...]:
    return tuple(one.stop - one.start for one in cut)
