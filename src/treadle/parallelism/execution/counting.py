"""Counters of a rank: its collectives (kind, ranks, bytes; any backend), and the bytes that it holds.

Functional collectives and, on PyTorch's own groups, those of torch.distributed reach the dispatcher. A
group that is written in Python, as that of the backend ``treadle``, is called by torch.distributed directly
(FSDP2's all-gathers): its methods are counted as well. A collective that is seen in both places counts once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.schedules.collective import CollectiveKind

if TYPE_CHECKING:
    from torch import Tensor


_GATHER, _SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
_REDUCE, _EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
_WORDS = {
    "all_gather_into_tensor": _GATHER, "_allgather_base_": _GATHER, "allgather_": _GATHER,
    "allgather_into_tensor_coalesced_": _GATHER, "all_gather_into_tensor_coalesced": _GATHER,
    "reduce_scatter_tensor": _SCATTER, "reduce_scatter_tensor_coalesced": _SCATTER,
    "_reduce_scatter_base_": _SCATTER, "reduce_scatter_": _SCATTER,
    "all_reduce": _REDUCE, "all_reduce_": _REDUCE, "all_reduce_coalesced": _REDUCE, "allreduce_": _REDUCE,
    "all_to_all_single": _EXCHANGE, "alltoall_base_": _EXCHANGE, "alltoall_": _EXCHANGE,
    "broadcast_": CollectiveKind.BROADCAST, "broadcast": CollectiveKind.BROADCAST,
}  # fmt: skip
"""Operators of the dispatcher."""
_METHODS = {
    "_allgather_base": _GATHER, "all_gather_single": _GATHER, "allgather_into_tensor_coalesced": _GATHER,
    "all_gather_single_coalesced": _GATHER, "allgather": _GATHER,
    "_reduce_scatter_base": _SCATTER, "reduce_scatter_single": _SCATTER,
    "reduce_scatter_tensor_coalesced": _SCATTER, "reduce_scatter_single_coalesced": _SCATTER,
    "reduce_scatter": _SCATTER, "allreduce": _REDUCE, "allreduce_coalesced": _REDUCE,
    "alltoall_base": _EXCHANGE, "all_to_all_single": _EXCHANGE, "alltoall": _EXCHANGE,
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
    """Return the ranks of a group, given as such or by name."""
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

    seen: Counter[CountedCollective] = Counter()
    inside = threading.local()

    @contextmanager
    def deeper() -> Iterator[int]:
        """Count how many collectives are around this one: those within one are not counted."""
        outer = getattr(inside, "depth", 0)
        inside.depth = outer + 1
        try:
            yield outer
        finally:
            inside.depth = outer

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kind = None
            if function.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
                kind = _WORDS.get(function._schema.name.partition("::")[2])
            if kind is None:
                return function(*args, **(kwargs or {}))
            with deeper():
                made = function(*args, **(kwargs or {}))
            given = [*args, *(kwargs or {}).values()]
            size = max(_sizes((given, made)), default=0)
            seen[CountedCollective(kind, ranks_of(_group_of(given)), size)] += 1
            return made

    def counted(method: Callable[..., Any], kind: CollectiveKind) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with deeper() as outer:
                made = method(self, *args, **kwargs)
            if not outer:
                size = max(_sizes([list(args), list(kwargs.values())]), default=0)
                seen[CountedCollective(kind, ranks_of(self), size)] += 1
            return made

        return call

    with ExitStack() as stack:
        for python_group in {type(group) for group in _world.pg_map} - {ProcessGroup}:
            for name, kind in _METHODS.items():
                if (method := vars(python_group).get(name)) is not None:
                    stack.callback(setattr, python_group, name, method)
                    setattr(python_group, name, counted(method, kind))
        with Counting():
            yield seen


def _group_of(arguments: list[Any]) -> Any:
    """Return the group among the arguments of a call: its name comes last, or it is an object."""
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
    """Yield the bytes of tensors; those of a list are one buffer."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value.numel() * value.element_size()
    elif isinstance(value, list | tuple):
        if value and all(isinstance(one, torch.Tensor) for one in value):
            yield sum(one.numel() * one.element_size() for one in value)
        else:
            for one in value:
                yield from _sizes(one)


class RankHoldings:
    """Owners of tensors, and the fullest moment so far.

    Attributes
    ----------
    peak_bytes : int
        Of all tensors that owners hold and an operator reads and makes; a storage counts once.
    peak_at : str
        The operator.
    """

    def __init__(self) -> None:
        self._owners: dict[object, Callable[[], Iterable[Tensor]]] = {}
        self.peak_bytes, self.peak_at = 0, ""

    def add(self, owner: object, held: Callable[[], Iterable[Tensor]]) -> None:
        """Count what ``held`` returns from now on."""
        self._owners[owner] = held

    def measure(self, moment: str, beside: Sequence[Tensor]) -> None:
        """Count what is held now, and these."""
        storages = {}
        for tensor in (*beside, *(one for held in self._owners.values() for one in held())):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        total = sum(storages.values())
        if total > self.peak_bytes:
            self.peak_bytes, self.peak_at = total, moment
