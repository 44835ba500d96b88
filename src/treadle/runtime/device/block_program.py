"""Thread-block programs: one-sided operations of all ranks' thread blocks, and the flags between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from treadle.program.program import Buffer, Program


class DeviceProtocol(StrEnum):
    """Protocol by which a message signals its arrival, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.DeviceProtocol]
    ['Simple', 'LL']
    """

    SIMPLE = "Simple"
    """Data first, then a flag that is released after them: large messages, in slices."""
    LL = "LL"
    """Each 4 bytes of data with a flag of 4 bytes next to them: small messages, one slice, no fence."""


class BlockAction(IntEnum):
    """Action of a thread block on one part of the buffers, besides the puts that are fused with it."""

    PUT = 0
    """Reads `source` for its puts, writes nothing here."""
    TAKE = 1
    """Stores a staged message in `target`."""
    REDUCE = 2
    """Stores `source` + a staged message in `target`."""
    COPY = 3
    """Stores `source` in `target`."""
    AWAIT = 4
    """Waits until a message lies in `target`, where its sender has put it."""
    FINISH = 5
    """Divides `target` by the number of ranks: the end of an average."""
    SUM = 6
    """Stores the sum of `source` at all ranks of group `sums` in `target`: a switch adds them up."""
    EXPOSE = 7
    """Signals that another rank may read this one's part, which it will sum."""
    RECLAIM = 8
    """Waits until the other rank has read it."""


class FlagPurpose(IntEnum):
    """Event that raises a flag."""

    ARRIVAL = 0
    """The sender of message `subject`, when a slice of it has been put; lies at the receiver."""
    CREDIT = 1
    """The receiver of message `subject`, when a slice has left its slot; lies at the sender."""
    ENTERED = 2
    """Rank `subject`, when it enters a launch: nothing of its launches before is under way any more."""
    EXPOSED = 3
    """The rank of exposure `subject`, when a slice may be read; lies at the rank that sums."""
    READ = 4
    """The rank that sums exposure `subject`, when a slice has been read; lies at the exposing rank."""


@dataclass(frozen=True, slots=True)
class BlockFlag:
    """A counter of 64 bits in a rank's memory that only grows: launch * 2**20 + slices done.

    Parameters
    ----------
    rank : int
        In whose memory it lies; only this rank waits for it.
    subject : int
        A message, the rank that enters, or an exposure: they are numbered.
    """

    rank: int
    purpose: FlagPurpose
    subject: int


@dataclass(frozen=True, slots=True)
class FlagWait:
    """Wait, for slice s of a launch, until a flag says that slice s - `slices` of it is done.

    Parameters
    ----------
    slices : int
        0 for what this slice needs; the number of slots for a credit, which the first slices do not need.
    launches : int
        0 for this launch; 1: the launch before is enough.
    """

    flag: int
    slices: int = 0
    launches: int = 0


@dataclass(frozen=True, slots=True)
class BlockMessage:
    """A part that one rank puts into another's memory.

    Parameters
    ----------
    sender, receiver : int
        Ranks.
    target : Buffer, optional
        Where it is put at the receiver; None: into staging.
    slots : int
        Slices that fit into staging; for LL messages, launches. 0 where it is not staged.
    """

    sender: int
    receiver: int
    part: int
    target: Buffer | None
    slots: int

    @property
    def is_staged(self) -> bool:
        """Whether the receiver moves it from staging to its place."""
        return self.target is None


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """One step of a thread block, for each slice of a part: wait, move, raise.

    Parameters
    ----------
    stage : int
        Slice s is done in wave `stage` + s of the block; within a wave in the order of the block's list.
    source, target : Buffer, optional
        None where the action has none.
    message : int
        What TAKE, REDUCE and AWAIT take; else -1.
    puts : tuple of int
        Messages that what was read, or made, is put as in the same pass.
    sums, multicast : int
        Groups: whose `source` is read and added up; at all of whose ranks, this one included, what was read
        or made is stored in `copied_to`, in one store that a switch copies. -1: none.
    copies : tuple of int
        Messages that this store is: one for each other rank of the group.
    waits : tuple of FlagWait
        Before anything is read or written.
    raises : tuple of int
        Flags that say so after everything is read and written.
    """

    action: BlockAction
    part: int
    stage: int
    source: Buffer | None = None
    target: Buffer | None = None
    message: int = -1
    puts: tuple[int, ...] = ()
    sums: int = -1
    multicast: int = -1
    copied_to: Buffer | None = None
    copies: tuple[int, ...] = ()
    waits: tuple[FlagWait, ...] = ()
    raises: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RankBlock:
    """A thread block of a rank.

    Parameters
    ----------
    operations : tuple of BlockOperation
        In order.
    enters : tuple of int
        Flags that it raises when it starts.
    """

    rank: int
    operations: tuple[BlockOperation, ...]
    enters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """A collective as thread blocks.

    All blocks of all ranks run concurrently. A block's slice s of its operation o is one event; the block
    does its events by (stage of o + s, place of o). A launch begins at a rank when all blocks of the launch
    before have ended there; other ranks may be launches behind or ahead.

    Parameters
    ----------
    program : Program
        Whose collective it is: what the buffers hold and must hold.
    averages : bool
        Whether sums are divided by the number of ranks at the end.
    bounds : tuple of int
        Part i is chunks bounds[i] to bounds[i + 1] - 1 of the program.
    lanes : tuple of RankBlock
        Those of a rank stand together, in the order of ranks.
    groups : tuple of tuple of int
        Ranks around a switch with GPU-initiated operations.
    """

    program: Program
    protocol: DeviceProtocol
    averages: bool
    bounds: tuple[int, ...]
    lanes: tuple[RankBlock, ...]
    messages: tuple[BlockMessage, ...]
    flags: tuple[BlockFlag, ...]
    groups: tuple[tuple[int, ...], ...] = ()


def entering(lanes: BlockProgram) -> tuple[RankBlock, ...]:
    """Return the program in which each rank's first block raises all flags of entering."""
    enters: dict[int, list[int]] = defaultdict(list)
    for number, flag in enumerate(lanes.flags):
        if flag.purpose is FlagPurpose.ENTERED:
            enters[flag.subject].append(number)
    return tuple(replace(lane, enters=tuple(enters.pop(lane.rank, ()))) for lane in lanes.lanes)
