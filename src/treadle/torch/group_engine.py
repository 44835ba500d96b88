"""Runs the collectives of one process group by plans, on flat tensors."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from time import monotonic
from typing import NoReturn

import torch
from torch import Tensor
from torch._C._distributed_c10d import Store
from torch.distributed import DistBackendError

from treadle.errors import TreadleError
from treadle.runtime.rank_script import PreparedRank, Script
from treadle.schedules.collective import CollectiveKind
from treadle.torch.plans import Membership, PlanSource
from treadle.torch.reductions import TensorReduction
from treadle.torch.settings import Settings
from treadle.torch.transport import Transport, TransportError
from treadle.units import format_size

LOGGER = logging.getLogger("treadle.torch")

SPARE_BYTES = 2**24
"""Receives that will be reduced are posted before their turn into so much spare memory."""

_MAX_SCRIPTS = 256
_MAX_KEPT_BYTES = 2**28
_ALIGNMENT = 64


UNUSABLE = (
    "the group cannot be used any more: end this process, or destroy the process group and make it again"
)


class NoPlanError(Exception):
    """No plan supports a collective; raised at all ranks."""


@dataclass(frozen=True)
class TensorCall:
    """A collective on flat tensors.

    Parameters
    ----------
    count : int
        Elements of the larger per-rank buffer.
    source, target : Tensor of one dimension, contiguous
        INPUT and OUTPUT as `treadle.program.program.Program` has them. What does not exist at this rank
        may be anything.
    root : int
        Rank in the group, -1 where there is none.
    reduction : TensorReduction, optional
        Where the kind reduces.
    timeout : timedelta, optional
        Default the group's.
    """

    kind: CollectiveKind
    count: int
    source: Tensor
    target: Tensor
    in_place: bool
    root: int = -1
    reduction: TensorReduction | None = None
    timeout: timedelta | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the larger per-rank buffer."""
        return self.count * int(self.target.element_size())

    @property
    def first_tag(self) -> int:
        """A number that calls of other sizes, types and operations do not have, but for one in 2^31."""
        operation = "" if self.reduction is None else self.reduction.name
        asked = (self.kind.value, self.root, self.count, self.target.dtype, operation)
        return int.from_bytes(blake2b(repr(asked).encode(), digest_size=4).digest()) % 2**31

    def scaled(self, n_ranks: int) -> TensorCall:
        """The call with its source as it is combined: see `TensorReduction.begin`."""
        if self.reduction is None or not self.reduction.is_scaled:
            return self
        return replace(self, source=self.reduction.begin(self.source, n_ranks, in_place=self.in_place))


class Engine:
    """One rank's side of a group's collectives; calls come one at a time, in the same order at all ranks.

    Parameters
    ----------
    store : Store
        Of the group alone.

    Notes
    -----
    A failed call leaves messages that no rank will receive, so nothing can follow it: this rank drops
    its connections, the others then fail as well, and every later call fails with the same message.
    """

    def __init__(self, store: Store, group: Membership, settings: Settings) -> None:
        self._store, self._group = store, group
        self._slice_bytes = settings.slice_bytes
        self._source = PlanSource(store, group, settings)
        self._scripts: OrderedDict[tuple[int, int, int], Script] = OrderedDict()
        self._transport: Transport | None = None
        self._workspace = torch.empty(0, dtype=torch.uint8)
        self._failure = ""

    def check(self) -> None:
        """Raise DistBackendError if an earlier call has failed."""
        if self._failure:
            raise DistBackendError(self._failure)

    def run(self, call: TensorCall) -> None:
        """Run a collective.

        Raises
        ------
        NoPlanError
            If no plan supports it; nothing has been sent then.
        DistBackendError
            If a rank is gone or silent for longer than the timeout; contents of the target are undefined.
        """
        self.check()
        problem = ""
        # what is caught here may hold connections, and must be gone when the failure is raised
        try:
            self._carry_out(call)
        except NoPlanError:
            raise
        except TransportError as error:
            problem = str(error)
        except Exception as error:  # whatever it is, the other ranks must not wait for this one
            problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if problem:
            self._fail(f"{call.kind} of {format_size(call.size_bytes)}", problem)

    def _carry_out(self, call: TensorCall) -> None:
        try:
            part = self._source.part(call.kind, call.root, call.size_bytes, in_place=call.in_place)
        except TreadleError as error:
            raise NoPlanError(str(error)) from None
        timeout = call.timeout or self._group.timeout
        deadline = monotonic() + timeout.total_seconds()
        transport = self._connect(timeout)
        script = self._script(part, call.count, call.target.element_size())
        own = self._room(script, call.target.dtype)
        n_ranks, reduction = len(self._group.places), call.reduction
        combine = None if reduction is None else reduction.combine
        areas = (call.scaled(n_ranks).source, call.target, *own)
        transport.run(script, areas, combine, deadline, call.first_tag)
        if reduction is not None and call.root in (-1, self._group.rank):
            reduction.finish(call.target, n_ranks)

    def _connect(self, timeout: timedelta) -> Transport:
        if self._transport is None:
            self._transport = Transport(self._store, self._group.rank, len(self._group.places), timeout)
        return self._transport

    def gather(self, what: str, data: bytes) -> list[bytes]:
        """Exchange as many bytes of every rank, for the call `what`.

        Raises
        ------
        DistBackendError
            As of `run`.
        """
        self.check()
        try:
            return self._connect(self._group.timeout).gather(data)
        except TransportError as error:
            problem = str(error)
        return self._fail(what, problem)

    def _script(self, part: PreparedRank, count: int, element_bytes: int) -> Script:
        key = (id(part), count, element_bytes)  # the source keeps every part
        if key not in self._scripts:
            self._scripts[key] = part.script(
                count, element_bytes=element_bytes, slice_bytes=self._slice_bytes, spare_bytes=SPARE_BYTES
            )
            if len(self._scripts) > _MAX_SCRIPTS:
                self._scripts.popitem(last=False)
        self._scripts.move_to_end(key)
        return self._scripts[key]

    def _room(self, script: Script, dtype: torch.dtype) -> list[Tensor]:
        """Memory for SCRATCH, SPARE and PACKED, used again by later calls while it is not large."""
        spans, end = [], 0
        for elements in (script.scratch_elements, script.spare_elements, script.packed_elements):
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = start + elements * dtype.itemsize
            spans.append((start, end))
        memory = self._workspace
        if len(memory) < end:
            memory = torch.empty(end, dtype=torch.uint8)
            if end <= _MAX_KEPT_BYTES:
                self._workspace = memory
        return [memory[low:high].view(dtype) for low, high in spans]

    def close(self) -> None:
        """Drop the connections and the memory."""
        self._transport = None
        self._workspace = torch.empty(0, dtype=torch.uint8)
        self._scripts.clear()

    def abort(self, words: str = "") -> None:
        """Make this rank's waits fail, from another thread, and later calls with these words."""
        self._failure = words or self._failure or f"treadle: group {self._group.name} was aborted"
        if (transport := self._transport) is not None:
            transport.abort()

    def _fail(self, what: str, problem: str) -> NoReturn:
        self._failure = (
            f"treadle: {what} in group {self._group.name} failed at rank {self._group.rank} of "
            f"{len(self._group.places)}: {problem}; {UNUSABLE}"
        )
        LOGGER.error("%s", self._failure)
        self.close()
        raise DistBackendError(self._failure)
