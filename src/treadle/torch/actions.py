"""Actions of a rank that run a program: a list on areas of memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from treadle.program.program import Buffer

SPARE = len(Buffer)
"""Area of what has arrived and waits to be reduced; the areas before it are the buffers of `Program`."""

PACKED = SPARE + 1
"""Area of messages that are packed of several."""


class ActionKind(IntEnum):
    """One action of a rank."""

    RECEIVE = 0
    """Start to receive into `target`."""
    SEND = 1
    """Start to send `source`."""
    SEND_COPY = 2
    """Start to send a copy of `source`, which may change before the peer takes the message."""
    WAIT = 3
    """Wait until the message of `handle` has been sent or received."""
    REDUCE = 4
    """Store `source` combined with `arrived` in `target`."""
    COPY = 5
    """Copy `source` to `target`."""


class Span(NamedTuple):
    """Elements `start` to `end` - 1 of an area."""

    area: int
    start: int
    end: int


_NOTHING = Span(0, 0, 0)


class Action(NamedTuple):
    """One action; a handle names a message from its start to its wait."""

    kind: ActionKind
    handle: int = -1
    peer: int = -1
    tag: int = -1
    source: Span = _NOTHING
    arrived: Span = _NOTHING
    target: Span = _NOTHING


@dataclass(frozen=True)
class Script:
    """Actions of a rank, in order, for one number of elements.

    Parameters
    ----------
    actions : tuple of Action
    n_handles : int
    scratch_elements, spare_elements, packed_elements : int
        Length of the areas SCRATCH, SPARE and PACKED.
    """

    actions: tuple[Action, ...]
    n_handles: int
    scratch_elements: int
    spare_elements: int
    packed_elements: int
