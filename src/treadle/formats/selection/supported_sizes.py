"""Which calls a runtime's selector gives to a text of so many chunks.

Told from the sources named in docs/reference/formats.md: what is compared is a number of elements or of
bytes, of all ranks together or of one, and differs from runtime to runtime.
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
"""Of float32 and int32, for which sizes are told."""
ALIGNMENT = 16
"""Bytes that MSCCL++ cuts buffers by, and that nccl-tests rounds a rank's part down to."""
_FEWEST_SIZES = 3
"""By which a range is judged."""
_BY_SHARD = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLTOALL)


class Selector(StrEnum):
    """Who decides whether a call is given to a text."""

    AZURE = "msccl-executor-nccl"
    SCHEDULER = "msccl-scheduler"
    """The library that takes over in msccl-executor-nccl where it is found."""
    LEGACY = "msccl"
    RCCL = "RCCL"
    MSCCLPP = "MSCCL++"


@dataclass(frozen=True)
class FileFacts:
    """What selectors look at.

    Parameters
    ----------
    kind : CollectiveKind
    n_ranks : int
    n_chunks : int
        Equal parts of the larger per-rank buffer.
    min_bytes, max_bytes : int
        First and last size that the text is meant for; max_bytes 0 means no limit.
    """

    kind: CollectiveKind
    n_ranks: int
    n_chunks: int
    min_bytes: int = 0
    max_bytes: int = 0

    @property
    def is_by_shard(self) -> bool:
        """Whether a call counts the elements of one shard, and the buffer has one for each rank."""
        return self.kind in _BY_SHARD


def call_elements(facts: FileFacts, size: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """Elements of the larger per-rank buffer in the call that nccl-tests makes for a size.

    Parameters
    ----------
    size : int
        Bytes; each rank's part is rounded down to whole 16 bytes where the collective has such parts.

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
    """Whether the call of a size is given to the text.

    Notes
    -----
    msccl-executor-nccl and RCCL compare the elements of the larger buffer with the chunks; msccl-scheduler
    the elements that the call counts, of one rank in a collective with shards. The older msccl compares bytes
    in allgather and broadcast, which it turns into bytes before it selects. MSCCL++ asks for chunks of whole
    16 bytes, and fails where they are not.
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
    """The sizes by which a text for a range is judged.

    Parameters
    ----------
    min_bytes, max_bytes : int
        First and last size; max_bytes 0 means no limit.

    Returns
    -------
    tuple of int
        By size: of `SIZES` those in the range; where these are fewer than three, the roundest numbers beside.

    Examples
    --------
    >>> round_sizes() == SIZES
    True
    >>> round_sizes(2**20, 2**22)
    (1048576, 2097152, 4194304)
    >>> round_sizes(1449, 2047)
    (1536, 1792, 1920)
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
    facts: FileFacts,
    selector: Selector,
    sizes: Sequence[int] | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> tuple[int, ...]:
    """Those of some sizes that are served; default: of the text's `round_sizes`.

    Examples
    --------
    >>> facts = FileFacts(CollectiveKind.ALLGATHER, 16, 128)
    >>> [len(served_sizes(facts, selector)) for selector in Selector]
    [21, 18, 21, 21, 20]
    >>> served_sizes(FileFacts(CollectiveKind.ALLGATHER, 16, 208), Selector.AZURE)
    ()
    """
    if sizes is None:
        sizes = round_sizes(facts.min_bytes, facts.max_bytes)
    return tuple(size for size in sizes if supports_call(facts, selector, size, element_bytes))


@brief("selector", "sizes", "rule")
@dataclass(frozen=True)
class SupportedSizes:
    """The sizes that a text serves, and the rule behind them.

    Parameters
    ----------
    selector : Selector
    sizes : tuple of int
        Of `asked`, with elements of `ELEMENT_BYTES`.
    rule : str
        What a call must fulfil.
    asked : tuple of int
        The text's `round_sizes`.
    """

    selector: Selector
    sizes: tuple[int, ...]
    rule: str
    asked: tuple[int, ...] = SIZES

    @property
    def summary(self) -> str:
        """How many of the powers of two, and which.

        Examples
        --------
        >>> served(FileFacts(CollectiveKind.ALLGATHER, 16, 128), Selector.MSCCLPP).summary
        '20 of the 21 powers of two from 1KB to 1GB of float32: all from 2KB'
        """
        if not self.asked:
            return "no size of float32"
        first, last = format_size(self.asked[0]), format_size(self.asked[-1])
        noun = "powers of two" if set(self.asked) <= set(SIZES) else "round sizes"
        whole = f"{len(self.sizes)} of the {len(self.asked)} {noun} from {first} to {last} of float32"
        if not self.sizes:
            return f"none {whole.partition(' ')[2]}"
        if self.sizes == self.asked[self.asked.index(self.sizes[0]) :]:
            return f"{whole}: all from {format_size(self.sizes[0])}"
        return f"{whole}: {', '.join(map(format_size, self.sizes))}"


def supported_sizes(facts: FileFacts, selector: Selector) -> SupportedSizes:
    """What a selector gives to a text."""
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
