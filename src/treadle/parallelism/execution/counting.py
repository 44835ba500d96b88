"""Collectives as they are called: kind, ranks and bytes, whatever the backend.

Functional collectives and, on PyTorch's own groups, those of torch.distributed reach the dispatcher. A
group that is written in Python, as that of the backend ``treadle``, is called by torch.distributed directly
(FSDP2's all-gathers): its methods are watched as well. A collective that is seen in both places counts once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from treadle.schedules.collective import CollectiveKind

_WORDS = {
    "all_gather_into_tensor": CollectiveKind.ALLGATHER, "_allgather_base_": CollectiveKind.ALLGATHER,
    "allgather_": CollectiveKind.ALLGATHER, "allgather_into_tensor_coalesced_": CollectiveKind.ALLGATHER,
    "all_gather_into_tensor_coalesced": CollectiveKind.ALLGATHER,
    "reduce_scatter_tensor": CollectiveKind.REDUCE_SCATTER,
    "reduce_scatter_tensor_coalesced": CollectiveKind.REDUCE_SCATTER,
    "_reduce_scatter_base_": CollectiveKind.REDUCE_SCATTER, "reduce_scatter_": CollectiveKind.REDUCE_SCATTER,
    "all_reduce": CollectiveKind.ALLREDUCE, "all_reduce_": CollectiveKind.ALLREDUCE,
    "all_reduce_coalesced": CollectiveKind.ALLREDUCE, "allreduce_": CollectiveKind.ALLREDUCE,
    "all_to_all_single": CollectiveKind.ALLTOALL, "alltoall_base_": CollectiveKind.ALLTOALL,
    "alltoall_": CollectiveKind.ALLTOALL, "broadcast_": CollectiveKind.BROADCAST,
    "broadcast": CollectiveKind.BROADCAST,
}  # fmt: skip
"""Operators of the dispatcher."""
_METHODS = {
    "_allgather_base": CollectiveKind.ALLGATHER, "all_gather_single": CollectiveKind.ALLGATHER,
    "allgather_into_tensor_coalesced": CollectiveKind.ALLGATHER,
    "all_gather_single_coalesced": CollectiveKind.ALLGATHER, "allgather": CollectiveKind.ALLGATHER,
    "_reduce_scatter_base": CollectiveKind.REDUCE_SCATTER,
    "reduce_scatter_single": CollectiveKind.REDUCE_SCATTER,
    "reduce_scatter_tensor_coalesced": CollectiveKind.REDUCE_SCATTER,
    "reduce_scatter_single_coalesced": CollectiveKind.REDUCE_SCATTER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER, "allreduce": CollectiveKind.ALLREDUCE,
    "allreduce_coalesced": CollectiveKind.ALLREDUCE, "alltoall_base": CollectiveKind.ALLTOALL,
    "all_to_all_single": CollectiveKind.ALLTOALL, "alltoall": CollectiveKind.ALLTOALL,
    "broadcast": CollectiveKind.BROADCAST,
}  # fmt: skip
"""Methods of process groups."""


class CountedCollective(NamedTuple):
    """One kind of call.

    Parameters
    ----------
    kind : CollectiveKind
    ranks : tuple of int
        Of the group, ascending.
    size_bytes : int
        The larger of what a rank gives and what it gets.
    """

    kind: CollectiveKind
    ranks: tuple[int, ...]
    size_bytes: int


def ranks_of(group: Any) -> tuple[int, ...]:
    """Ranks of a group, given as such or by name."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group

    found = _resolve_process_group(group) if isinstance(group, str) else group
    return tuple(sorted(dist.get_process_group_ranks(found)))


@contextmanager
def counted() -> Iterator[Counter[CountedCollective]]:
    """Count the collectives that this process calls within the block, on the groups that are there."""
    from torch.distributed import ProcessGroup
    from torch.distributed.distributed_c10d import _world
    from torch.utils._python_dispatch import TorchDispatchMode

    python_groups = tuple({type(group) for group in _world.pg_map} - {ProcessGroup})
    seen: Counter[CountedCollective] = Counter()
    inside = threading.local()

    class Watching(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kind = None
            if function.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
                kind = _WORDS.get(function._schema.name.partition("::")[2])
            inside.depth = getattr(inside, "depth", 0) + (kind is not None)
            try:
                made = function(*args, **(kwargs or {}))
            finally:
                inside.depth -= kind is not None
            if kind is not None:
                given = [*args, *(kwargs or {}).values()]
                seen[
                    CountedCollective(kind, ranks_of(_group_of(given)), max(_sizes((given, made)), default=0))
                ] += 1
            return made

    with _methods_watched(python_groups, seen, inside), Watching():
        yield seen


def _group_of(arguments: list[Any]) -> Any:
    """The group among a call's arguments: its name comes last, or it is an object of the dispatcher."""
    import torch
    from torch.distributed import ProcessGroup

    for value in reversed(arguments):
        if isinstance(value, str) and value not in ("sum", "avg", "min", "max", "product"):
            return value
        if isinstance(value, torch.ScriptObject):
            with suppress(RuntimeError):  # a reduction's operation is such an object, too
                return ProcessGroup.unbox(value)
    raise AssertionError("a collective without a group")


def _sizes(value: Any) -> Iterator[int]:
    """Bytes of tensors; those of a list are one buffer."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value.numel() * value.element_size()
    elif isinstance(value, list | tuple):
        if value and all(isinstance(one, torch.Tensor) for one in value):
            yield sum(one.numel() * one.element_size() for one in value)
        else:
            for one in value:
                yield from _sizes(one)


@contextmanager
def _methods_watched(
    classes: tuple[type, ...], seen: Counter[CountedCollective], inside: threading.local
) -> Iterator[None]:
    def watched(method: Callable[..., Any], kind: CollectiveKind) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            outer = getattr(inside, "depth", 0)
            inside.depth = outer + 1
            try:
                made = method(self, *args, **kwargs)
            finally:
                inside.depth = outer
            if not outer:
                sizes = list(_sizes([list(args), list(kwargs.values())]))
                seen[CountedCollective(kind, ranks_of(self), max(sizes, default=0))] += 1
            return made

        return call

    originals = [
        (one, name, vars(one)[name], kind)
        for one in classes
        for name, kind in _METHODS.items()
        if name in vars(one)
    ]
    for one, name, method, kind in originals:
        setattr(one, name, watched(method, kind))
    try:
        yield
    finally:
        for one, name, method, _ in originals:
            setattr(one, name, method)
