"""Messages between the ranks of a group, and a rank's actions carried out with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store, Work

from treadle.torch.actions import ActionKind, Script, Span

Combine = Callable[[Tensor, Tensor, Tensor], object]
"""combine(own, arrived, target): store both combined in target, which may be either."""


class TransportError(Exception):
    """A message could not be sent or received.

    Parameters
    ----------
    peer : int
        Rank at the other end.
    reason : str
        One line.
    """

    def __init__(self, peer: int, reason: str) -> None:
        super().__init__(f"rank {peer}: {reason}")
        self.peer = peer


class Transport:
    """Messages through a process group of gloo that nothing else uses.

    Dropping the last reference closes its connections, which is how the other ranks learn that this one has
    given up: an operation that waits for a message of this rank then fails at once.

    Parameters
    ----------
    store : Store
        Where the ranks find each other.
    rank, size : int
    timeout : timedelta
        For the connections; each run of a script has a deadline of its own.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        self._group = ProcessGroupGloo(PrefixStore("treadle-messages/", store), rank, size, timeout)

    def run(self, script: Script, areas: Sequence[Tensor], combine: Combine | None, deadline: float) -> None:
        """Carry out a rank's actions.

        Parameters
        ----------
        script : Script
        areas : sequence of Tensor of one dimension
            INPUT, OUTPUT, SCRATCH, SPARE and PACKED.
        combine : callable, optional
            See `Combine`; needed where something is reduced.
        deadline : float
            Of the clock `time.monotonic`, seconds.

        Raises
        ------
        TransportError
            If a peer is gone or silent beyond the deadline. Data are then undefined, and so is the transport.
        """
        messages: list[Work | None] = [None] * script.n_handles
        kept: list[Tensor] = []
        for kind, handle, peer, tag, source, arrived, target in script.actions:
            if kind == ActionKind.WAIT:
                message = messages[handle]
                messages[handle] = None
                assert message is not None
                _wait(message, peer, deadline)
            elif kind == ActionKind.RECEIVE:
                messages[handle] = self._start(self._group.recv, _view(areas, target), peer, tag)
            elif kind == ActionKind.SEND:
                messages[handle] = self._start(self._group.send, _view(areas, source), peer, tag)
            elif kind == ActionKind.SEND_COPY:
                kept.append(_view(areas, source).clone())
                messages[handle] = self._start(self._group.send, kept[-1], peer, tag)
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
        self._group.abort()


def _view(areas: Sequence[Tensor], span: Span) -> Tensor:
    area, start, end = span
    return areas[area][start:end]


def _wait(message: Work, peer: int, deadline: float) -> None:
    left = max(deadline - monotonic(), 0.001)
    try:
        message.wait(timedelta(seconds=left))
    except RuntimeError as error:
        raise TransportError(peer, _one_line(error)) from None


def _one_line(error: RuntimeError) -> str:
    """Gloo's message without the place in its source, and in words where a user will see it often."""
    text = " ".join(str(error).split())
    if "Connection closed by peer" in text or "Connection reset" in text or "Broken pipe" in text:
        return "its process has ended or has given up (connection closed)"
    if "Timed out waiting" in text:
        return "no message within the group's timeout"
    return text.split("] ", 1)[-1][:200]
