"""Calls for which a runtime's selector chooses a runtime file, given the file's number of chunks.

The rules come from the sources that docs/reference/formats.md names. Runtimes compare a number of elements or
of bytes, of all ranks together or of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from treadle.brief import brief
from treadle.schedules.collective import CollectiveKind
from treadle.units import format_size

SIZES = tuple(2**exponent for exponent in range(10, 31))
"""Bytes of the larger per-rank buffer: the powers of two from 1 KB to 1 GB."""
ELEMENT_BYTES = 4
"""Size of float32 and int32, for which supported sizes are reported."""
ALIGNMENT = 16
"""Bytes: MSCCL++ divides buffers into multiples, and nccl-tests rounds a rank's part down to one."""
_FEWEST_SIZES = 3
"""Fewest sizes that represent a range."""
SHARDED_KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLTOALL)


class Selector(StrEnum):
    """The code that decides whether a call uses a runtime file."""

    AZURE = "msccl-executor-nccl"
    SCHEDULER = "msccl-scheduler"
    """The library that msccl-executor-nccl uses instead if it finds it."""
    LEGACY = "msccl"
    RCCL = "RCCL"
    MSCCLPP = "MSCCL++"


@dataclass(frozen=True)
class FileFacts:
    """Properties of a runtime file that selectors compare."""

    kind: CollectiveKind
    n_ranks: int
    n_chunks: int
    """Equal parts of the larger per-rank buffer."""
    min_bytes: int = 0
    max_bytes: int = 0
    """Last size that the file is intended for; 0 means no limit."""

    @property
    def is_by_shard(self) -> bool:
        """Whether a call counts the elements of one shard, and the buffer has one for each rank."""
        return self.kind in SHARDED_KINDS


def call_elements(facts: FileFacts, size: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """Return the elements of the larger per-rank buffer in the call that nccl-tests makes for `size` bytes.

    Each rank's part is rounded down to a multiple of 16 bytes if the collective has such parts.

    Examples
    --------
    >>> call_elements(FileFacts(CollectiveKind.ALLGATHER, 24, 24), 1024)
    192
    """
    if not facts.is_by_shard:
        return size // element_bytes
    unit = max(1, ALIGNMENT // element_bytes)
    return size // element_bytes // facts.n_ranks // unit * unit * facts.n_ranks


def supports_call(
    facts: FileFacts, selector: Selector, size: int, element_bytes: int = ELEMENT_BYTES
) -> bool:
    """Whether the runtime uses the file for the call of a size.

    msccl-executor-nccl and RCCL compare the elements of the larger buffer with the chunks; msccl-scheduler
    compares the elements that the call counts, which are those of one rank in a collective with shards. The
    older msccl compares bytes in allgather and broadcast, because it converts those calls to bytes before it
    selects. MSCCL++ needs chunks of a multiple of 16 bytes, and fails otherwise.
    """
    elements = call_elements(facts, size, element_bytes)
    n_bytes = elements * element_bytes
    if not elements or n_bytes < facts.min_bytes or 0 < facts.max_bytes < n_bytes:
        return False
    compared, divisor = elements, facts.n_chunks
    if selector is Selector.SCHEDULER and facts.is_by_shard:
        compared = elements // facts.n_ranks
    elif selector is Selector.LEGACY and facts.kind in (CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST):
        compared = n_bytes
    elif selector is Selector.MSCCLPP:
        compared, divisor = n_bytes, ALIGNMENT * facts.n_chunks
    return compared % divisor == 0


def round_sizes(min_bytes: int = 0, max_bytes: int = 0) -> tuple[int, ...]:
    """Return sizes that represent a range (max_bytes 0 means no limit), in rising order.

    They are the `SIZES` in the range; if there are fewer than three, the roundest other numbers are added.

    Examples
    --------
    >>> round_sizes() == SIZES
    True
    >>> round_sizes(2**20, 2**22)
    (1048576, 2097152, 4194304)
    >>> round_sizes(1449, 2047)
    (1536, 1664, 1792)
    """
    first = max(min_bytes, SIZES[0] if not max_bytes or max_bytes >= SIZES[0] else 1)
    last = max_bytes or max(SIZES[-1], 4 * first)
    found = {size for size in SIZES if first <= size <= last}
    for odd in range(1, 16, 2):
        if len(found) >= _FEWEST_SIZES:
            break
        found.update(size for size in (odd << shift for shift in range(41)) if first <= size <= last)
    return tuple(sorted(found))


def supported_call_sizes(
    facts: FileFacts, selector: Selector, sizes: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return the supported ones among some sizes, by default among the file's `round_sizes`.

    Examples
    --------
    >>> facts = FileFacts(CollectiveKind.ALLGATHER, 16, 128)
    >>> [len(supported_call_sizes(facts, selector)) for selector in Selector]
    [21, 18, 21, 21, 20]
    >>> supported_call_sizes(FileFacts(CollectiveKind.ALLGATHER, 16, 208), Selector.AZURE)
    ()
    """
    if sizes is None:
        sizes = round_sizes(facts.min_bytes, facts.max_bytes)
    return tuple(size for size in sizes if supports_call(facts, selector, size))


@brief("selector", "sizes", "rule")
@dataclass(frozen=True)
class SupportedSizes:
    """The sizes that a runtime file supports, and the rule behind them."""

    selector: Selector
    sizes: tuple[int, ...]
    """Supported ones of `asked`, with elements of `ELEMENT_BYTES`."""
    rule: str
    """Condition on a call."""
    asked: tuple[int, ...] = SIZES
    """The file's `round_sizes`."""

    @property
    def summary(self) -> str:
        """The supported powers of two, and their number.

        Examples
        --------
        >>> supported_sizes(FileFacts(CollectiveKind.ALLGATHER, 16, 128), Selector.MSCCLPP).summary
        '20 of the 21 powers of two from 1KB to 1GB of float32: all from 2KB'
        """
        if not self.asked:
            return "no size of float32"
        first, last = format_size(self.asked[0]), format_size(self.asked[-1])
        noun = "powers of two" if set(self.asked) <= set(SIZES) else "round sizes"
        count = f"of the {len(self.asked)} {noun} from {first} to {last} of float32"
        if not self.sizes:
            return f"none {count}"
        listed = ", ".join(map(format_size, self.sizes))
        if self.sizes == self.asked[-len(self.sizes) :]:
            listed = f"all from {format_size(self.sizes[0])}"
        return f"{len(self.sizes)} {count}: {listed}"


def supported_sizes(facts: FileFacts, selector: Selector) -> SupportedSizes:
    """Return the sizes for which a selector chooses a file."""
    chunks = facts.n_chunks
    if selector is Selector.MSCCLPP:
        rule = f"buffers of a multiple of {ALIGNMENT * chunks} bytes"
    elif selector is Selector.SCHEDULER and facts.is_by_shard:
        rule = f"counts of a rank that {chunks} divides"
    elif selector is Selector.LEGACY and facts.kind in (CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST):
        rule = f"buffers of a number of bytes that {chunks} divides"
    else:
        rule = f"buffers of a number of elements that {chunks} divides"
    asked = round_sizes(facts.min_bytes, facts.max_bytes)
    return SupportedSizes(selector, supported_call_sizes(facts, selector, asked), rule, asked)
