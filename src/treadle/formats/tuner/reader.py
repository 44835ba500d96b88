"""Reads tables of NCCL's example tuner plugin.

The plugin takes unknown words for allreduce, ring and Simple, leaves short lines out without a word, and
goes on in the middle of a line that is too long: all of these are errors here. Source: ``loadConfig`` of
plugins/tuner/example/plugin.c of NVIDIA/nccl.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded

COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
_HEADING = "collective_type,min_bytes,max_bytes,"
_MOST_LINE = 254
"""Characters: ``MAX_LINE_LENGTH`` without the end of line and of text."""
_MOST_ROWS = 10**5
_SIZES = 2**64 - 1
_WHOLE = 2**31 - 1


@dataclass(frozen=True)
class TunerRow:
    """One row.

    Parameters
    ----------
    collective, algorithm, protocol : str
    min_bytes, max_bytes : int
        First and last size.
    channels, nodes, ranks, pipe_ops, registered : int
        -1 for any, of channels for those of NCCL.
    """

    collective: str
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str
    channels: int
    nodes: int
    ranks: int
    pipe_ops: int = -1
    registered: int = -1

    def supports(self, size_bytes: int, *, nodes: int, ranks: int) -> bool:
        """Whether the plugin takes the row for a call of its collective, all else being equal."""
        return (
            self.min_bytes <= size_bytes <= self.max_bytes
            and self.nodes in (-1, nodes)
            and self.ranks in (-1, ranks)
            and (self.pipe_ops, self.registered) == (-1, -1)
        )


def read(data: bytes, terms: Terms) -> tuple[TunerRow, ...]:
    """Read the rows of a table."""
    return parse_tuner_rows(*decoded(data, terms, "NCCL tuner table"))


def parse_tuner_rows(text: str, source: str) -> tuple[TunerRow, ...]:
    """The rows of a table.

    Raises
    ------
    FormatError
        With the line of what the plugin would refuse, leave out or misunderstand.
    """
    if _HEADING not in "".join(line for line in text.splitlines() if line.startswith("#")):
        raise FormatError(f"expected a comment that names the columns, '# {_HEADING}...'", source=source)
    rows = [*_rows(text, source)]
    if not rows:
        raise FormatError("holds no row", source=source)
    if len(rows) > _MOST_ROWS:
        raise FormatError(f"{len(rows)} rows, expected at most {_MOST_ROWS}", source=source)
    return tuple(rows)


def _rows(text: str, source: str) -> Iterator[TunerRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if len(line.encode()) > _MOST_LINE:
            raise FormatError(f"longer than the plugin reads, {_MOST_LINE} bytes", source=source, line=number)
        if not line or line.startswith("#"):
            continue
        fields = [field.strip(" \t") for field in line.split(",")]
        if not 8 <= len(fields) <= 10:
            raise FormatError(f"{len(fields)} fields, expected 8 to 10", source=source, line=number)
        try:
            first, last = (_whole(fields[i], 0, _SIZES) for i in (1, 2))
            row = TunerRow(
                _word(fields[0], COLLECTIVES),
                first,
                last,
                _word(fields[3], ALGORITHMS),
                _word(fields[4], PROTOCOLS),
                *(_whole(field, -1, _WHOLE) for field in fields[5:]),
            )
        except ValueError as error:
            raise FormatError(str(error), source=source, line=number) from None
        if last < first or 0 in (row.channels, row.nodes, row.ranks):
            raise FormatError("serves no call", source=source, line=number)
        yield row


def _word(field: str, known: tuple[str, ...]) -> str:
    if field not in known:
        raise ValueError(f"{field[:40]!r}: expected {', '.join(known)}")
    return field


def _whole(field: str, least: int, most: int) -> int:
    digits = field.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(field) <= 20) or not least <= int(field) <= most:
        raise ValueError(f"{field[:40]!r}: expected {least} to {most}")
    return int(field)
