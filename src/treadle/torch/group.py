"""The process group ``treadle``: torch's collectives by plans, and everything else by gloo."""

from __future__ import annotations

import atexit
import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed
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
    _DistributedBackendOptions,
)
from torch.distributed import ReduceOp

from treadle.errors import ScheduleError
from treadle.torch import collectives
from treadle.torch.agreement import CallAgreement, CallSignature, signature
from treadle.torch.collectives import (
    Fallback,
    are_equal_sizes,
    are_plain,
    as_list,
    call_options,
    joined,
    one_by_one,
    own_timeout,
    reductions_of,
)
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_calls import GpuCalls, GpuWork, nccl_group
from treadle.torch.group_engine import Engine, NoPlanError
from treadle.torch.plans import Membership
from treadle.torch.settings import Options, Settings, fabric_of, settings_of
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
        """Name of the backend, for torch."""
        return "treadle"

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> Work:
        """Combine the tensors of all ranks, in place."""
        tensors, options = as_list(tensors), call_options(AllreduceOptions(), "reduceOp", opts, timeout)
        return self._reduce_all(tensors, options, lambda other: other.allreduce(tensors, options))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Combine several tensors, each on its own."""
        options = call_options(AllreduceCoalescedOptions(), "reduceOp", opts)
        return self._reduce_all(tensors, options, lambda other: other.allreduce_coalesced(tensors, options))

    def _reduce_all(self, tensors: Sequence[Tensor], options: Any, fallback: Fallback) -> Work:
        asked = signature("allreduce", tensors, options.reduceOp)
        reductions = reductions_of(options.reduceOp, tensors)
        calls = list(zip(tensors, reductions, strict=True)) if reductions else []
        return self._run(asked, tensors, options, fallback, collectives.allreduce, calls)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        """Put the tensors of all ranks into one, one after another."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = call_options(AllgatherOptions(), "", opts)
        pairs = list(zip(outputs, inputs, strict=True))
        has_plan = self._are_parts(inputs, outputs) and are_plain(*outputs, *inputs)
        return self._run(
            signature("allgather", outputs),
            outputs,
            options,
            lambda other: one_by_one(lambda *pair: other._allgather_base(*pair, options), pairs),
            collectives.allgather,
            [(*pair, self._rank) for pair in pairs] if has_plan else [],
        )

    def _are_parts(self, parts: Sequence[Tensor], wholes: Sequence[Tensor]) -> bool:
        """Whether each whole has the elements of one part from every rank, of the same type."""
        return all(
            whole.numel() == part.numel() * self._size and whole.dtype == part.dtype
            for part, whole in zip(parts, wholes, strict=True)
        )

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Put the tensor of each rank into one of a list."""
        outputs = output_tensors if isinstance(output_tensors[0], list) else [output_tensors]
        inputs = as_list(input_tensors)
        options = call_options(AllgatherOptions(), "", opts, timeout)
        pairs = list(zip(outputs, inputs, strict=True))
        tensors = [tensor for listed in outputs for tensor in listed]
        return self._run(
            signature("allgather", tensors, note=_LISTS),
            tensors,
            options,
            lambda other: other.allgather(outputs, inputs, options),
            collectives.allgather_list,
            [(*pair, self._rank) for pair in pairs] if self._fit(pairs) else [],
        )

    def _fit(self, pairs: Iterable[tuple[Sequence[Tensor], Tensor]]) -> bool:
        """Whether each list has a dense tensor for every rank, all like the tensor next to the list."""
        return all(
            len(listed) == self._size and are_equal_sizes(own, *listed) and are_plain(own, *listed)
            for listed, own in pairs
        )

    def reduce_scatter_single(self, outputTensor: Any, inputTensor: Any, opts: Any = None) -> Work:
        """Combine the tensors of all ranks, and leave a part at each."""
        return self.reduce_scatter_single_coalesced([outputTensor], [inputTensor], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """The same for several tensors, each on its own."""
        options = call_options(ReduceScatterOptions(), "reduceOp", opts)
        pairs = list(zip(outputs, inputs, strict=True))
        return self._scatter_reduced(
            pairs,
            options,
            lambda other: one_by_one(lambda *pair: other._reduce_scatter_base(*pair, options), pairs),
        )

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Combine lists of tensors, and leave one of the list at each rank."""
        outputs = as_list(output_tensors)
        lists = input_tensors if isinstance(input_tensors[0], list) else [input_tensors]
        options = call_options(ReduceScatterOptions(), "reduceOp", opts, timeout)

        def fallback(other: Any) -> Work:
            return other.reduce_scatter(outputs, lists, options)

        if self._fit(zip(lists, outputs, strict=True)):
            pairs = [(output, joined(listed)) for output, listed in zip(outputs, lists, strict=True)]
            return self._scatter_reduced(pairs, options, fallback)
        asked = signature("reduce-scatter", [tensor for listed in lists for tensor in listed], note=_LISTS)
        return self._run(asked, outputs, options, fallback)

    def _scatter_reduced(
        self, pairs: Sequence[tuple[Tensor, Tensor]], options: Any, fallback: Fallback
    ) -> Work:
        outputs, wholes = [output for output, _ in pairs], [whole for _, whole in pairs]
        reductions = reductions_of(options.reduceOp, outputs)
        has_plan = reductions and self._are_parts(outputs, wholes) and are_plain(*wholes)
        return self._run(
            signature("reduce-scatter", wholes, options.reduceOp),
            outputs,
            options,
            fallback,
            collectives.reduce_scatter,
            list(zip(outputs, wholes, reductions, strict=True)) if has_plan else [],
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
        has_sizes, is_equal = any(splits), len({size for sizes in splits for size in sizes}) <= 1
        fits = is_equal and are_equal_sizes(output, input) and output.numel() % self._size == 0

        def exchange(*call: Any) -> None:
            # sizes that are given may be equal at this rank alone, so that all ranks must agree first
            if has_sizes:
                self._agree(fits)
            collectives.alltoall(*call)

        return self._run(
            signature("alltoall", [] if has_sizes else [output], note="of given sizes" if has_sizes else ""),
            [output],
            options,
            lambda other: other.alltoall_base(output, input, *splits, options),
            exchange,
            [(output, input)] if are_plain(output, input) and (fits or has_sizes) else [],
        )

    def alltoall(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Exchange lists of tensors: tensor v goes to rank v."""
        options = call_options(AllToAllOptions(), "", opts, timeout)

        def exchange(*call: Any) -> None:
            self._agree(are_equal_sizes(*output_tensors, *input_tensors))
            collectives.alltoall_list(*call)

        return self._run(
            signature("alltoall", [], note=_LISTS),
            list(output_tensors),
            options,
            lambda other: other.alltoall(output_tensors, input_tensors, options),
            exchange,
            [(output_tensors, input_tensors)] if are_plain(*output_tensors, *input_tensors) else [],
        )

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, **keywords: Any
    ) -> Work:
        """Put the root's tensor into those of all ranks."""
        tensors = as_list(tensors)
        options = call_options(BroadcastOptions(), "rootRank", keywords.get("root", opts), timeout)
        root = options.rootRank
        return self._run(
            signature("broadcast", tensors, root=root),
            tensors,
            options,
            lambda other: other.broadcast(tensors, options),
            collectives.broadcast,
            [(tensor, root) for tensor in tensors] if are_plain(*tensors) else [],
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
        reductions, root = reductions_of(options.reduceOp, tensors), options.rootRank
        pairs = zip(tensors, reductions, strict=True) if reductions else ()
        return self._run(
            signature("reduce", tensors, options.reduceOp, root),
            tensors,
            options,
            lambda other: other.reduce(tensors, options),
            collectives.reduce,
            [(tensor, root, self._rank, how) for tensor, how in pairs],
        )

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Gloo's gather."""
        options = call_options(GatherOptions(), "rootRank", opts, timeout)
        return self._left_to_gloo("gather", as_list(input_tensors), _lists(output_tensors), options)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        """Gloo's scatter."""
        options = call_options(ScatterOptions(), "rootRank", opts, timeout)
        return self._left_to_gloo("scatter", as_list(output_tensors), _lists(input_tensors), options)

    def _left_to_gloo(self, name: str, own: list[Tensor], lists: list[list[Tensor]], options: Any) -> Work:
        given = (lists, own) if name == "gather" else (own, lists)
        asked = signature(name, own, root=options.rootRank)
        return self._run(asked, own, options, lambda other: getattr(other, name)(*given, options))

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
        """Gloo's receive from any sender."""
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
        tensors: Sequence[Tensor],
        options: Any,
        fallback: Fallback,
        function: Callable[..., None] | None = None,
        calls: Sequence[tuple[Any, ...]] = (),
    ) -> Work:
        """Call a function of `collectives` in its turn with each of `calls`, for results in `tensors`.

        Without calls or a plan, Gloo's or NCCL's collective runs instead.
        """
        self._engine.check()
        is_on_gpu, other = streams.any_on_gpu(tensors), self._other(tensors)
        if self._size == 1:
            return fallback(other)

        def unsupported() -> str | None:
            """Run the calls; return why they are not supported, or None."""
            if function is None or not calls:
                server = "no kernel" if is_on_gpu else "gloo alone"
                return f"{server} serves such tensors, sizes or operations"
            engine = self._gpu if is_on_gpu else self._engine
            try:
                for call in calls:
                    function(engine, *call, own_timeout(options))
            except NoPlanError as error:
                return str(error)
            return None

        if is_on_gpu:  # on the caller's stream, in the caller's thread
            with self._gpu.calls.call(asked):
                reason = unsupported()
                if reason is None:
                    return GpuWork(self._gpu, list(tensors))
                self._warn(asked.name, reason, "gloo" if self._nccl is None else "NCCL")
                return fallback(other)

        def turn() -> list[Tensor]:
            with self._calls.call(asked):
                reason = unsupported()
                if reason is None:
                    return list(tensors)
                self._warn(asked.name, reason)
                self._calls.compare(asked)  # each time: gloo ends the process where sizes differ
                work = fallback(other)
                work.wait()
                return list(work.result())

        return self._queue.run(turn, asked.name, is_awaited=not options.asyncOp)

    def _stop_calls(self, words: str) -> None:
        """Make the call under way fail, from another thread."""
        self._engine.abort(words)
        end_waits(self._gloo)

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


@atexit.register
def _leave() -> None:
    """Destroy groups that a program has left behind: gloo's may hang in the interpreter's last collection."""
    if distributed.is_initialized() and isinstance(distributed.group.WORLD, TreadleGroup):
        distributed.destroy_process_group()
        gc.collect()


def create_group(backend: _DistributedBackendOptions, options: Any) -> TreadleGroup:
    """Create a process group of this backend, for torch.

    Parameters
    ----------
    backend : _DistributedBackendOptions
        Store, rank, size, timeout, name and ranks in the job (none: all of them).
    options : Options, optional
        What was given as ``pg_options``; by default those of the whole job's group, if it is of this
        backend.

    Raises
    ------
    TreadleError
        If an option or environment variable is malformed, or the fabric has not one compute node per rank.
    """
    part, whole = tuple(backend.global_ranks_in_group), distributed.group.WORLD
    if options is not None and not isinstance(options, Options):
        raise ScheduleError(
            f"pg_options: the backend treadle expects treadle.torch.Options, found {type(options).__name__}"
        )
    if options is None and part and isinstance(whole, TreadleGroup):
        settings = whole.settings
    else:
        settings = settings_of(options or Options())
    n_ranks = distributed.get_world_size() if part else backend.group_size
    membership = Membership(
        name=str(backend.group_id),
        rank=backend.group_rank,
        places=part or tuple(range(n_ranks)),
        fabric=fabric_of(settings, n_ranks),
        timeout=backend.timeout,
    )
    return TreadleGroup(backend.store, membership, settings)
