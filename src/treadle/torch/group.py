"""The process group ``treadle``: torch's collectives by plans, and everything else by gloo."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    ReduceOptions,
    ReduceScatterOptions,
    Store,
    Work,
)
from torch.distributed import ReduceOp

from treadle.torch import collectives
from treadle.torch.collectives import are_alike, are_plain, joined
from treadle.torch.group_engine import Engine, NoPlanError
from treadle.torch.plans import Membership
from treadle.torch.reductions import TensorReduction, reduction_of
from treadle.torch.settings import Settings
from treadle.torch.work import JobQueue

LOGGER = logging.getLogger("treadle.torch")

Fallback = Callable[[], Work]
"""Starts gloo's own collective."""


class TreadleGroup(ProcessGroup):
    """A process group whose collectives follow Treadle's plans.

    Allreduce, allgather, reduce-scatter, all-to-all of equal parts, broadcast and reduce of dense tensors in
    host memory follow plans, in the order of the calls. Point-to-point messages and barriers are gloo's, and
    so is every collective without a plan, with one warning for each.

    Parameters
    ----------
    store : Store
        Of the group alone.
    membership : Membership
    settings : Settings

    Notes
    -----
    Torch calls a method with tensors and an options object, or, from older code, with single values in its
    place; some methods have an older and a newer name.
    """

    def __init__(self, store: Store, membership: Membership, settings: Settings) -> None:
        rank, size = membership.rank, len(membership.places)
        super().__init__(rank, size)
        self.membership, self.settings = membership, settings
        self._gloo = ProcessGroupGloo(PrefixStore("gloo/", store), rank, size, membership.timeout)
        # what is not overridden here goes to this backend
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(ProcessGroup.BackendType.GLOO)
        self._rank, self._size = rank, size
        self._engine = Engine(PrefixStore("plans/", store), membership, settings)
        self._queue = JobQueue()
        self._warned: set[str] = set()

    def getBackendName(self) -> str:
        """The name of the backend, as torch asks for it."""
        return "treadle"

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> Work:
        """Combine the tensors of all ranks, in place."""
        tensors, options = _listed(tensors), _options(AllreduceOptions(), "reduceOp", opts, timeout)
        return self._reduce_all(tensors, options, lambda: self._gloo.allreduce(tensors, options))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Combine several tensors, each on its own."""
        options = _options(AllreduceCoalescedOptions(), "reduceOp", opts)
        return self._reduce_all(tensors, options, lambda: self._gloo.allreduce_coalesced(tensors, options))

    def _reduce_all(self, tensors: Sequence[Tensor], options: Any, fallback: Fallback) -> Work:
        reductions = _reductions(options.reduceOp, tensors)

        def job() -> list[Tensor]:
            for tensor, how in zip(tensors, reductions, strict=True):
                collectives.allreduce(self._engine, tensor, how, _timeout(options))
            return list(tensors)

        return self._run("allreduce", job, fallback, options, bool(reductions))

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        """Put the tensors of all ranks into one, one after another."""
        options = _options(AllgatherOptions(), "", opts)
        return self._gather_all(
            [output], [input], options, lambda: self._gloo._allgather_base(output, input, options)
        )

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = _options(AllgatherOptions(), "", opts)
        fallback = self._one_by_one(
            lambda output, own: self._gloo._allgather_base(output, own, options), outputs, inputs
        )
        return self._gather_all(outputs, inputs, options, fallback)

    def _gather_all(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], options: Any, fallback: Fallback
    ) -> Work:
        def job() -> list[Tensor]:
            for output, own in zip(outputs, inputs, strict=True):
                collectives.allgather(self._engine, output, own, self._rank, _timeout(options))
            return list(outputs)

        fits = all(
            output.numel() == own.numel() * self._size and output.dtype == own.dtype
            for output, own in zip(outputs, inputs, strict=True)
        )
        return self._run("allgather", job, fallback, options, fits and are_plain(*outputs, *inputs))

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Put the tensor of each rank into one of a list."""
        outputs = output_tensors if isinstance(output_tensors[0], list) else [output_tensors]
        inputs = _listed(input_tensors)
        options = _options(AllgatherOptions(), "", opts, timeout)

        def job() -> list[Tensor]:
            for listed, own in zip(outputs, inputs, strict=True):
                collectives.allgather_list(self._engine, listed, own, self._rank, _timeout(options))
            return [tensor for listed in outputs for tensor in listed]

        fits = all(
            len(listed) == self._size and are_alike(own, *listed) and are_plain(own, *listed)
            for listed, own in zip(outputs, inputs, strict=True)
        )
        return self._run(
            "allgather", job, lambda: self._gloo.allgather(outputs, inputs, options), options, fits
        )

    def reduce_scatter_single(self, outputTensor: Any, inputTensor: Any, opts: Any = None) -> Work:
        """Combine the tensors of all ranks, and leave a part at each."""
        options = _options(ReduceScatterOptions(), "reduceOp", opts)
        return self._scatter_reduced(
            [outputTensor],
            [inputTensor],
            options,
            lambda: self._gloo._reduce_scatter_base(outputTensor, inputTensor, options),
        )

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = _options(ReduceScatterOptions(), "reduceOp", opts)
        fallback = self._one_by_one(
            lambda output, whole: self._gloo._reduce_scatter_base(output, whole, options), outputs, inputs
        )
        return self._scatter_reduced(outputs, inputs, options, fallback)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Combine lists of tensors, and leave one of the list at each rank."""
        outputs = _listed(output_tensors)
        lists = input_tensors if isinstance(input_tensors[0], list) else [input_tensors]
        options = _options(ReduceScatterOptions(), "reduceOp", opts, timeout)

        def fallback() -> Work:
            return self._gloo.reduce_scatter(outputs, lists, options)

        fits = all(
            len(listed) == self._size and are_alike(output, *listed) and are_plain(output, *listed)
            for output, listed in zip(outputs, lists, strict=True)
        )
        if not fits:
            return self._run("reduce-scatter", list, fallback, options, False)
        wholes = [joined(listed) for listed in lists]
        return self._scatter_reduced(outputs, wholes, options, fallback)

    def _scatter_reduced(
        self, outputs: Sequence[Tensor], wholes: Sequence[Tensor], options: Any, fallback: Fallback
    ) -> Work:
        reductions = _reductions(options.reduceOp, outputs)

        def job() -> list[Tensor]:
            for output, whole, how in zip(outputs, wholes, reductions, strict=True):
                collectives.reduce_scatter(self._engine, output, whole, how, _timeout(options))
            return list(outputs)

        fits = all(
            whole.numel() == output.numel() * self._size and whole.dtype == output.dtype
            for output, whole in zip(outputs, wholes, strict=True)
        )
        return self._run(
            "reduce-scatter", job, fallback, options, bool(reductions) and fits and are_plain(*wholes)
        )

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_split_sizes: Any = (),
        input_split_sizes: Any = (),
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> Work:
        """Exchange parts of a tensor: part v goes to rank v."""
        options = _options(AllToAllOptions(), "", opts, timeout)
        splits = [list(output_split_sizes), list(input_split_sizes)]
        is_equal = len({size for sizes in splits for size in sizes}) <= 1
        fits = is_equal and are_alike(output, input) and output.numel() % self._size == 0

        def job() -> list[Tensor]:
            if any(splits):
                self._agree(fits)
            collectives.alltoall(self._engine, output, input, _timeout(options))
            return [output]

        def fallback() -> Work:
            return self._gloo.alltoall_base(output, input, *splits, options)

        # sizes that are given may be equal at this rank alone, so that all ranks must agree first
        is_servable = are_plain(output, input) and (fits or any(splits))
        return self._run("alltoall", job, fallback, options, is_servable)

    def alltoall(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Exchange lists of tensors: tensor v goes to rank v."""
        options = _options(AllToAllOptions(), "", opts, timeout)
        fits = are_alike(*output_tensors, *input_tensors)

        def job() -> list[Tensor]:
            self._agree(fits)
            collectives.alltoall_list(self._engine, output_tensors, input_tensors, _timeout(options))
            return list(output_tensors)

        def fallback() -> Work:
            return self._gloo.alltoall(output_tensors, input_tensors, options)

        is_servable = are_plain(*output_tensors, *input_tensors)
        return self._run("alltoall", job, fallback, options, is_servable)

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, **keywords: Any
    ) -> Work:
        """Put the root's tensor into those of all ranks."""
        tensors = _listed(tensors)
        options = _options(BroadcastOptions(), "rootRank", keywords.get("root", opts), timeout)

        def job() -> list[Tensor]:
            for tensor in tensors:
                collectives.broadcast(self._engine, tensor, options.rootRank, _timeout(options))
            return list(tensors)

        return self._run(
            "broadcast", job, lambda: self._gloo.broadcast(tensors, options), options, are_plain(*tensors)
        )

    def reduce(
        self,
        tensors: Any,
        opts: Any = None,
        op: Any = None,
        timeout: timedelta | None = None,
        **keywords: Any,
    ) -> Work:
        """Combine the tensors of all ranks in the root's."""
        tensors = _listed(tensors)
        options = _options(ReduceOptions(), "rootRank", keywords.get("root", opts), timeout)
        if op is not None:
            options.reduceOp = op
        reductions = _reductions(options.reduceOp, tensors)

        def job() -> list[Tensor]:
            root = options.rootRank
            for tensor, how in zip(tensors, reductions, strict=True):
                collectives.reduce(
                    self._engine, tensor, root, how, _timeout(options), is_root=root == self._rank
                )
            return list(tensors)

        return self._run(
            "reduce", job, lambda: self._gloo.reduce(tensors, options), options, bool(reductions)
        )

    def gather(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's gather."""
        self._warn("gather", "Treadle has no plans for it")
        return self._gloo.gather(*arguments, **keywords)

    def scatter(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's scatter."""
        self._warn("scatter", "Treadle has no plans for it")
        return self._gloo.scatter(*arguments, **keywords)

    # Left to torch, these reach gloo with the interpreter's lock held; if gloo's thread then drops a tensor
    # under the mutex that they wait for, both wait for ever. Calls from here release the lock.

    def barrier(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's barrier."""
        return self._gloo.barrier(*arguments, **keywords)

    def send(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's send."""
        return self._gloo.send(*arguments, **keywords)

    def recv(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's receive."""
        return self._gloo.recv(*arguments, **keywords)

    def recv_anysource(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's receive from whoever sends."""
        return self._gloo.recv_anysource(*arguments, **keywords)

    # older names of the same
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def shutdown(self) -> None:
        """Finish what is under way, then drop all connections."""
        self._queue.close()
        self._engine.close()
        super().shutdown()

    def abort(self) -> None:
        """Make this rank's collectives fail now."""
        self._engine.abort()
        super().abort()

    def _run(
        self, name: str, job: Callable[[], list[Tensor]], fallback: Fallback, options: Any, is_servable: bool
    ) -> Work:
        """Run a job in its turn; gloo's collective in its place where there is no plan."""
        self._engine.check()
        if self._size == 1:
            return fallback()

        def turn() -> list[Tensor]:
            reason = "gloo alone serves such tensors, sizes or operations"
            if is_servable:
                try:
                    return job()
                except NoPlanError as error:
                    reason = str(error)
            self._warn(name, reason)
            work = fallback()
            work.wait()
            return list(work.result())

        return self._queue.run(turn, name, is_awaited=not options.asyncOp)

    def _warn(self, name: str, reason: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            if self._rank == 0:
                LOGGER.warning(
                    "group %s: %s is left to gloo, here and from now on where this holds: %s",
                    self.membership.name,
                    name,
                    reason,
                )

    def _agree(self, is_possible: bool) -> None:
        """Raise NoPlanError at all ranks if one says no."""
        vote = torch.tensor([int(is_possible)], dtype=torch.int64)
        options = AllreduceOptions()
        options.reduceOp = ReduceOp.MIN
        self._gloo.allreduce([vote], options).wait()
        if not vote.item():
            raise NoPlanError("the parts are not equal at all ranks")

    def _one_by_one(
        self, start: Callable[[Tensor, Tensor], Work], outputs: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> Fallback:
        def fallback() -> Work:
            works = [start(output, own) for output, own in zip(outputs, inputs, strict=True)]
            for work in works[:-1]:
                work.wait()
            return works[-1]

        return fallback


def _reductions(operation: ReduceOp, tensors: Sequence[Tensor]) -> list[TensorReduction]:
    """How to combine each tensor; nothing if one cannot be served."""
    found = [reduction_of(operation, tensor.dtype) for tensor in tensors]
    return [how for how in found if how is not None] if are_plain(*tensors) and None not in found else []


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _options(default: Any, key: str, given: Any, timeout: timedelta | None = None) -> Any:
    """Torch's options: those that were given, or the default with the value of `key` in their place."""
    if isinstance(given, type(default)):
        return given
    if given is not None and key:
        setattr(default, key, given)
    if timeout is not None:
        default.timeout = timeout
    return default


def _timeout(options: Any) -> timedelta | None:
    """The timeout of one call, where there is one of its own."""
    value: timedelta = options.timeout
    return value if value > timedelta(0) else None
