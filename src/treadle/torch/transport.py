"""Messages between the ranks of a group, and a rank's actions carried out with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store, Work

from treadle.runtime.rank_script import ActionKind, Script, Span

_TAGS = 2**31
"""Gloo's tags are 32-bit integers with a sign."""

_CLOSED = (
    "Connection closed by peer",
    "Connection reset",
    "Broken pipe",
    "Application timeout caused pair closure",
)

Combine = Callable[[Tensor, Tensor, Tensor], object]
"""combine(own, arrived, target): store both combined in target, which may be either."""


class TransportError(Exception):
    """A message could not be sent or received.

    Parameters
    ----------
    peer : int
        Rank at the other end; -1 where it is not known.
    reason : str
        One line.
    """

    def __init__(self, peer: int, reason: str) -> None:
        super().__init__(f"rank {peer}: {reason}" if peer >= 0 else reason)
        self.peer = peer


class Transport:
    """Messages through a process group of gloo that nothing else uses.

    Dropping the last reference closes its connections, which is how the other ranks learn that this one has
    given up: an operation that waits for a message of this rank then fails immediately.

    Parameters
    ----------
    store : Store
        Where the ranks find each other.
    timeout : timedelta
        For the connections; each run of a script has a deadline of its own.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        self._group = ProcessGroupGloo(PrefixStore("treadle-messages/", store), rank, size, timeout)

    def gather(self, data: bytes) -> list[bytes]:
        """Exchange as many bytes of every rank.

        Raises
        ------
        TransportError
            If a rank is gone or silent beyond the group's timeout.
        """
        own = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        found = [torch.empty_like(own) for _ in range(self._group.size())]
        try:
            self._group.allgather([found], [own]).wait()
        except RuntimeError as error:
            raise TransportError(-1, _one_line(error)) from None
        return [bytes(one.tolist()) for one in found]

    def run(
        self,
        script: Script,
        areas: Sequence[Tensor],
        combine: Combine | None,
        deadline: float,
        first_tag: int = 0,
    ) -> None:
        """Carry out a rank's actions.

        Parameters
        ----------
        areas : sequence of Tensor of one dimension
            INPUT, OUTPUT, SCRATCH, SPARE and PACKED.
        combine : callable, optional
            See `Combine`; needed where something is reduced.
        deadline : float
            Of the clock `time.monotonic`, seconds.
        first_tag : int
            Added to the script's tags: gloo ends the process where a message is longer than what it is
            received into, so that messages of unlike calls must not meet.

        Raises
        ------
        TransportError
            If a peer is gone or silent beyond the deadline. Data are then undefined, and so is the transport.
        """
        messages: list[Work | None] = [None] * script.n_handles
        kept: list[Tensor] = []
        for kind, handle, peer, number, source, arrived, target in script.actions:
            tag = (first_tag + number) % (_TAGS - 1)  # the last is never sent
            if kind == ActionKind.WAIT:
                message, messages[handle] = messages[handle], None
                assert message is not None
                left = max(deadline - monotonic(), 0.001)
                try:
                    message.wait(timedelta(seconds=left))
                except RuntimeError as error:
                    raise TransportError(peer, _one_line(error)) from None
            elif kind == ActionKind.RECEIVE:
                messages[handle] = self._start(self._group.recv, _view(areas, target), peer, tag)
            elif kind in (ActionKind.SEND, ActionKind.SEND_COPY):
                data = _view(areas, source)
                if kind == ActionKind.SEND_COPY:
                    data = data.clone()
                    kept.append(data)
                messages[handle] = self._start(self._group.send, data, peer, tag)
            elif kind == ActionKind.REDUCE:
                assert combine is not None
                combine(_view(areas, source), _view(areas, arrived), _view(areas, target))
            else:
                _view(areas, target).copy_(_view(areas, source))

    @staticmethod
    def _start(begin: Callable[[list[Tensor], int, int], Work], data: Tensor, peer: int, tag: int) -> Work:
        try:
            return begin([data], peer, tag)
        except RuntimeError as error:
            raise TransportError(peer, _one_line(error)) from None

    def abort(self) -> None:
        """End the waits of this rank."""
        end_waits(self._group)


def end_waits(group: ProcessGroupGloo) -> None:
    """Make what waits for messages of a gloo group fail, from another thread, here and at its peers.

    Gloo's own `abort` ends no wait. A wait that exceeds its timeout closes all connections of the group.
    """
    peer = (group.rank() + 1) % group.size()
    with suppress(RuntimeError):  # always: no such message comes
        group.recv([torch.empty(1)], peer, _TAGS - 1).wait(timedelta(milliseconds=1))


def _view(areas: Sequence[Tensor], span: Span) -> Tensor:
    area, start, end = span
    return areas[area][start:end]


def _one_line(error: RuntimeError) -> str:
    """Gloo's message without the place in its source, and in words where a user will see it often."""
    text = " ".join(str(error).split())
    if any(words in text for words in _CLOSED):
        return "its process has ended or has given up (connection closed)"
    if "Timed out waiting" in text:
        return "no message within the group's timeout"
    return text.split("] ", 1)[-1][:200]
