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
    GatherOptions,
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
    Work,
)
from torch.distributed import ReduceOp

from treadle.torch import collectives
from treadle.torch.agreement import CallAgreement, CallSignature, signature
from treadle.torch.call_options import Fallback, as_list, call_options, one_by_one, own_timeout, reductions_of
from treadle.torch.collectives import are_alike, are_plain, joined
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_calls import GpuCalls, GpuWork, nccl_group
from treadle.torch.group_engine import Engine, NoPlanError
from treadle.torch.plans import Membership
from treadle.torch.settings import Settings
from treadle.torch.transport import end_waits
from treadle.torch.work import JobQueue

LOGGER = logging.getLogger("treadle.torch")

_LISTS = "in lists"


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
        self._nccl = nccl_group(store, membership)
        if self._nccl is not None:
            self._register_backend(torch.device("cuda"), ProcessGroup.BackendType.NCCL, self._nccl)
        self._gpu = GpuCalls(PrefixStore("gpu/", store), membership, settings, self._nccl)
        self._calls = CallAgreement(
            PrefixStore("calls/", store), membership, self._engine.gather, self._stop_calls
        )
        self._queue = JobQueue()
        self._warned: set[tuple[str, str]] = set()

    def getBackendName(self) -> str:
        """The name of the backend, as torch asks for it."""
        return "treadle"

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> Work:
        """Combine the tensors of all ranks, in place."""
        tensors, options = as_list(tensors), call_options(AllreduceOptions(), "reduceOp", opts, timeout)
        return self._reduce_all(tensors, options, lambda: self._other(tensors).allreduce(tensors, options))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Combine several tensors, each on its own."""
        options = call_options(AllreduceCoalescedOptions(), "reduceOp", opts)
        return self._reduce_all(
            tensors, options, lambda: self._other(tensors).allreduce_coalesced(tensors, options)
        )

    def _reduce_all(self, tensors: Sequence[Tensor], options: Any, fallback: Fallback) -> Work:
        reductions = reductions_of(options.reduceOp, tensors)

        def job() -> list[Tensor]:
            for tensor, how in zip(tensors, reductions, strict=True):
                collectives.allreduce(self._engine_of(tensor), tensor, how, own_timeout(options))
            return list(tensors)

        asked = signature("allreduce", tensors, options.reduceOp)
        return self._run(asked, job, fallback, options, bool(reductions), tensors[0])

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        """Put the tensors of all ranks into one, one after another."""
        options = call_options(AllgatherOptions(), "", opts)
        return self._gather_all(
            [output], [input], options, lambda: self._other(output)._allgather_base(output, input, options)
        )

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = call_options(AllgatherOptions(), "", opts)
        fallback = one_by_one(
            lambda output, own: self._other(output)._allgather_base(output, own, options), outputs, inputs
        )
        return self._gather_all(outputs, inputs, options, fallback)

    def _gather_all(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], options: Any, fallback: Fallback
    ) -> Work:
        def job() -> list[Tensor]:
            for output, own in zip(outputs, inputs, strict=True):
                collectives.allgather(self._engine_of(own), output, own, self._rank, own_timeout(options))
            return list(outputs)

        fits = all(
            output.numel() == own.numel() * self._size and output.dtype == own.dtype
            for output, own in zip(outputs, inputs, strict=True)
        )
        asked = signature("allgather", outputs)
        return self._run(asked, job, fallback, options, fits and are_plain(*outputs, *inputs), inputs[0])

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Put the tensor of each rank into one of a list."""
        outputs = output_tensors if isinstance(output_tensors[0], list) else [output_tensors]
        inputs = as_list(input_tensors)
        options = call_options(AllgatherOptions(), "", opts, timeout)

        def job() -> list[Tensor]:
            for listed, own in zip(outputs, inputs, strict=True):
                collectives.allgather_list(
                    self._engine_of(own), listed, own, self._rank, own_timeout(options)
                )
            return [tensor for listed in outputs for tensor in listed]

        fits = all(
            len(listed) == self._size and are_alike(own, *listed) and are_plain(own, *listed)
            for listed, own in zip(outputs, inputs, strict=True)
        )
        return self._run(
            signature("allgather", [tensor for listed in outputs for tensor in listed], note=_LISTS),
            job,
            lambda: self._other(inputs).allgather(outputs, inputs, options),
            options,
            fits,
            inputs[0],
        )

    def reduce_scatter_single(self, outputTensor: Any, inputTensor: Any, opts: Any = None) -> Work:
        """Combine the tensors of all ranks, and leave a part at each."""
        options = call_options(ReduceScatterOptions(), "reduceOp", opts)
        return self._scatter_reduced(
            [outputTensor],
            [inputTensor],
            options,
            lambda: self._other(outputTensor)._reduce_scatter_base(outputTensor, inputTensor, options),
        )

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = call_options(ReduceScatterOptions(), "reduceOp", opts)
        fallback = one_by_one(
            lambda output, whole: self._other(output)._reduce_scatter_base(output, whole, options),
            outputs,
            inputs,
        )
        return self._scatter_reduced(outputs, inputs, options, fallback)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Combine lists of tensors, and leave one of the list at each rank."""
        outputs = as_list(output_tensors)
        lists = input_tensors if isinstance(input_tensors[0], list) else [input_tensors]
        options = call_options(ReduceScatterOptions(), "reduceOp", opts, timeout)

        def fallback() -> Work:
            return self._other(outputs).reduce_scatter(outputs, lists, options)

        fits = all(
            len(listed) == self._size and are_alike(output, *listed) and are_plain(output, *listed)
            for output, listed in zip(outputs, lists, strict=True)
        )
        if not fits:
            asked = signature("reduce-scatter", [one for listed in lists for one in listed], note=_LISTS)
            return self._run(asked, list, fallback, options, False, outputs[0])
        wholes = [joined(listed) for listed in lists]
        return self._scatter_reduced(outputs, wholes, options, fallback)

    def _scatter_reduced(
        self, outputs: Sequence[Tensor], wholes: Sequence[Tensor], options: Any, fallback: Fallback
    ) -> Work:
        reductions = reductions_of(options.reduceOp, outputs)

        def job() -> list[Tensor]:
            for output, whole, how in zip(outputs, wholes, reductions, strict=True):
                collectives.reduce_scatter(self._engine_of(output), output, whole, how, own_timeout(options))
            return list(outputs)

        fits = all(
            whole.numel() == output.numel() * self._size and whole.dtype == output.dtype
            for output, whole in zip(outputs, wholes, strict=True)
        )
        return self._run(
            signature("reduce-scatter", wholes, options.reduceOp),
            job,
            fallback,
            options,
            bool(reductions) and fits and are_plain(*wholes),
            outputs[0],
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
        options = call_options(AllToAllOptions(), "", opts, timeout)
        splits = [list(output_split_sizes), list(input_split_sizes)]
        is_equal = len({size for sizes in splits for size in sizes}) <= 1
        fits = is_equal and are_alike(output, input) and output.numel() % self._size == 0

        def job() -> list[Tensor]:
            if any(splits):
                self._agree(fits)
            collectives.alltoall(self._engine_of(output), output, input, own_timeout(options))
            return [output]

        def fallback() -> Work:
            return self._other(output).alltoall_base(output, input, *splits, options)

        # sizes that are given may be equal at this rank alone, so that all ranks must agree first
        is_servable = are_plain(output, input) and (fits or any(splits))
        asked = (
            signature("alltoall", [], note="of given sizes")
            if any(splits)
            else signature("alltoall", [output])
        )
        return self._run(asked, job, fallback, options, is_servable, output)

    def alltoall(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Exchange lists of tensors: tensor v goes to rank v."""
        options = call_options(AllToAllOptions(), "", opts, timeout)
        fits = are_alike(*output_tensors, *input_tensors)

        def job() -> list[Tensor]:
            self._agree(fits)
            collectives.alltoall_list(
                self._engine_of(output_tensors[0]), output_tensors, input_tensors, own_timeout(options)
            )
            return list(output_tensors)

        def fallback() -> Work:
            return self._other(output_tensors).alltoall(output_tensors, input_tensors, options)

        is_servable = are_plain(*output_tensors, *input_tensors)
        asked = signature("alltoall", [], note=_LISTS)
        return self._run(asked, job, fallback, options, is_servable, output_tensors[0])

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, **keywords: Any
    ) -> Work:
        """Put the root's tensor into those of all ranks."""
        tensors = as_list(tensors)
        options = call_options(BroadcastOptions(), "rootRank", keywords.get("root", opts), timeout)

        def job() -> list[Tensor]:
            for tensor in tensors:
                collectives.broadcast(self._engine_of(tensor), tensor, options.rootRank, own_timeout(options))
            return list(tensors)

        return self._run(
            signature("broadcast", tensors, root=options.rootRank),
            job,
            lambda: self._other(tensors).broadcast(tensors, options),
            options,
            are_plain(*tensors),
            tensors[0],
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
        tensors = as_list(tensors)
        options = call_options(ReduceOptions(), "rootRank", keywords.get("root", opts), timeout)
        if op is not None:
            options.reduceOp = op
        reductions = reductions_of(options.reduceOp, tensors)

        def job() -> list[Tensor]:
            root = options.rootRank
            for tensor, how in zip(tensors, reductions, strict=True):
                collectives.reduce(
                    self._engine_of(tensor),
                    tensor,
                    root,
                    how,
                    own_timeout(options),
                    is_root=root == self._rank,
                )
            return list(tensors)

        return self._run(
            signature("reduce", tensors, options.reduceOp, options.rootRank),
            job,
            lambda: self._other(tensors).reduce(tensors, options),
            options,
            bool(reductions),
            tensors[0],
        )

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Gloo's gather."""
        inputs, outputs = as_list(input_tensors), _lists(output_tensors)
        options = call_options(GatherOptions(), "rootRank", opts, timeout)
        return self._run(
            signature("gather", inputs, root=options.rootRank),
            list,
            lambda: self._other(inputs).gather(outputs, inputs, options),
            options,
            False,
            inputs[0],
        )

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Gloo's scatter."""
        outputs, inputs = as_list(output_tensors), _lists(input_tensors)
        options = call_options(ScatterOptions(), "rootRank", opts, timeout)
        return self._run(
            signature("scatter", outputs, root=options.rootRank),
            list,
            lambda: self._other(outputs).scatter(outputs, inputs, options),
            options,
            False,
            outputs[0],
        )

    # Left to torch, these reach gloo with the interpreter's lock held; if gloo's thread then drops a tensor
    # under the mutex that they wait for, both wait for ever. Calls from here release the lock.

    def barrier(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's barrier."""
        return self._gloo.barrier(*arguments, **keywords)

    def send(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's send."""
        return self._other(*arguments).send(*arguments, **keywords)

    def recv(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's receive."""
        return self._other(*arguments).recv(*arguments, **keywords)

    def recv_anysource(self, *arguments: Any, **keywords: Any) -> Work:
        """Gloo's receive from whoever sends."""
        return self._other(*arguments).recv_anysource(*arguments, **keywords)

    # older names of the same
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def shutdown(self) -> None:
        """Finish what is under way, then drop all connections."""
        self._queue.close()
        self._calls.close()
        self._engine.close()
        self._gpu.close()
        super().shutdown()

    def abort(self) -> None:
        """Make this rank's collectives fail now."""
        self._engine.abort()
        super().abort()

    def _run(
        self,
        asked: CallSignature,
        job: Callable[[], list[Tensor]],
        fallback: Fallback,
        options: Any,
        is_servable: bool,
        tensor: Tensor,
    ) -> Work:
        """Run a job on such tensors in its turn; gloo's collective in its place where there is no plan."""
        self._engine.check()
        if self._size == 1:
            return fallback()
        if streams.is_on_gpu(tensor):
            return self._run_on_gpu(asked, job, fallback, is_servable)

        def turn() -> list[Tensor]:
            with self._calls.call(asked):
                reason = "gloo alone serves such tensors, sizes or operations"
                if is_servable:
                    try:
                        return job()
                    except NoPlanError as error:
                        reason = str(error)
                self._warn(asked.name, reason)
                self._calls.compare(asked)  # each time: gloo ends the process where sizes differ
                work = fallback()
                work.wait()
                return list(work.result())

        return self._queue.run(turn, asked.name, is_awaited=not options.asyncOp)

    def _run_on_gpu(
        self, asked: CallSignature, job: Callable[[], list[Tensor]], fallback: Fallback, is_servable: bool
    ) -> Work:
        """Put a job on the caller's stream, in the caller's thread, or leave it to NCCL."""
        reason = "no kernel serves such tensors, sizes or operations"
        with self._gpu.calls.call(asked):
            if is_servable:
                try:
                    return GpuWork(self._gpu, job())
                except NoPlanError as error:
                    reason = str(error)
            self._warn(asked.name, reason, "gloo" if self._nccl is None else "NCCL")
            return fallback()

    def _stop_calls(self, words: str) -> None:
        """Make the call under way fail, from another thread."""
        self._engine.abort(words)
        end_waits(self._gloo)

    def _engine_of(self, tensor: Tensor) -> collectives.RunsCalls:
        return self._gpu if streams.is_on_gpu(tensor) else self._engine

    def _other(self, *given: Any) -> Any:
        """NCCL's group where tensors are on a GPU and there is one, else gloo's."""
        return self._nccl if self._nccl is not None and streams.any_on_gpu(given) else self._gloo

    def _warn(self, name: str, reason: str, other: str = "gloo") -> None:
        if (name, other) not in self._warned:
            self._warned.add((name, other))
            if self._rank == 0:
                LOGGER.warning(
                    "group %s: %s is left to %s, here and from now on where this holds: %s",
                    self.membership.name,
                    name,
                    other,
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


def _lists(tensors: Any) -> list[list[Tensor]]:
    """Lists of tensors, of which one may be given alone; none at ranks that are not the root."""
    return [list(tensors)] if tensors and isinstance(tensors[0], Tensor) else list(tensors)
