"""Method of a call with GPU tensors: thread blocks, steps over NCCL, or NCCL's own collective."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store, Work
from torch.distributed import DistBackendError
from torch.futures import Future

from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind
from treadle.torch.agreement import CallAgreement
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_engine import GpuEngine
from treadle.torch.gpu.gpu_settings import GpuMethod
from treadle.torch.gpu.grouped_steps import RankSteps, run_steps, steps_of
from treadle.torch.group_engine import Engine, NoPlanError, TensorCall
from treadle.torch.plans import Membership, PlanSource
from treadle.torch.settings import Settings

LOGGER = logging.getLogger("treadle.torch")


def nccl_group(store: Store, group: Membership) -> Any:
    """NCCL's process group of the same ranks; None if PyTorch has no NCCL or no GPU is present."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return None
    from torch._C._distributed_c10d import ProcessGroupNCCL  # not in builds without CUDA

    options = ProcessGroupNCCL.Options()
    options._timeout = group.timeout
    return ProcessGroupNCCL(PrefixStore("nccl/", store), group.rank, len(group.places), options)


class GpuCalls:
    """Has the parts of `Engine` that collectives need, for tensors of GPUs.

    Parameters
    ----------
    store : Store
        Of the group alone.
    nccl : ProcessGroup, optional
        Can send and receive tensors of GPUs.
    """

    def __init__(self, store: Store, group: Membership, settings: Settings, nccl: Any) -> None:
        self._group, self._gpu = group, settings.gpu
        self._lanes = GpuEngine(PrefixStore("lanes/", store), group, settings, settings.gpu)
        self._source = PlanSource(PrefixStore("steps/", store), group, settings)
        self._run_steps = None if nccl is None else partial(run_steps, nccl)
        # signatures are exchanged through the host's memory
        self._engine = Engine(PrefixStore("signatures/", store), group, settings)
        self.calls = CallAgreement(
            PrefixStore("calls/", store), group, self._engine.gather, self._engine.abort
        )
        self._steps: dict[int, RankSteps] = {}
        self._told: set[CollectiveKind] = set()

    def check(self) -> None:
        """See `GpuEngine.check`."""
        self._lanes.check()

    def run(self, call: TensorCall) -> None:
        """Put a collective on the caller's stream.

        Raises
        ------
        NoPlanError
            If NCCL's own collective must do it; at all ranks.
        DistBackendError
            If a launch failed, or thread blocks were requested and are not possible.
        """
        try:
            self._lanes.run(call)
        except NoPlanError as error:
            reason = str(error)
        else:
            return
        if self._gpu.way is GpuMethod.LANES:
            raise DistBackendError(
                f"treadle: {call.kind} in group {self._group.name} cannot run as a thread-block program, "
                f"which TREADLE_GPU requires: {reason}"
            )
        is_between_hosts = self._gpu.way is GpuMethod.AUTO and self._lanes.is_between_hosts
        if self._run_steps is None or not (is_between_hosts or self._gpu.way is GpuMethod.STEPS):
            raise NoPlanError(reason)
        try:
            found = self._source.program(call.kind, call.root, call.size_bytes, in_place=call.in_place)
            program = found.program  # which is kept
            if id(program) not in self._steps:
                self._steps[id(program)] = steps_of(program, self._group.rank)
        except TreadleError as error:
            raise NoPlanError(str(error)) from None
        if call.kind not in self._told and self._group.rank == 0:
            LOGGER.info(
                "group %s: %s on GPUs by sends and receives in groups, a launch and more for each step: %s",
                *(self._group.name, call.kind, reason),
            )
        self._told.add(call.kind)
        self._run_steps(self._steps[id(program)], call)

    def empty(self, size: int, device: int) -> Tensor:
        """See `GpuEngine.empty`."""
        return self._lanes.empty(size, device)

    def close(self) -> None:
        """Give memory of peers back."""
        self.calls.close()
        self._engine.close()
        self._lanes.close()


class GpuWork(Work):
    """A collective on a stream, as torch sees it; waiting for it waits for nothing, as the stream does that.

    Parameters
    ----------
    tensors : list of Tensor
        That will hold the result.
    """

    def __init__(self, calls: GpuCalls, tensors: list[Tensor]) -> None:
        super().__init__()
        self._calls, self._tensors = calls, tensors

    def wait(self, timeout: object = None) -> bool:  # noqa: ARG002 - torch's; the kernel has a limit of its own
        """Say whether a launch is known to have failed.

        Raises
        ------
        DistBackendError
            If one is, with collective, rank and peer.
        """
        self._calls.check()
        return True

    def is_completed(self) -> bool:
        """Whether it is on the stream: always."""
        return True

    def is_success(self) -> bool:
        """The same."""
        return True

    def result(self) -> list[Tensor]:
        """The tensors that will hold the result."""
        return self._tensors

    def synchronize(self) -> None:
        """Same as `wait`."""
        self.wait()

    def get_future(self) -> Future[list[Tensor]]:
        """A future whose callbacks run on streams that follow the caller's."""
        devices = streams.devices_of(self._tensors)
        future: Future[list[Tensor]] = Future(devices=devices) if devices else Future()
        future.set_result(self._tensors)
        return future
