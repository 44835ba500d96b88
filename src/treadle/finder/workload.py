"""What a cluster will communicate: collectives with sizes, counts and groups; read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from treadle.errors import FormatError, ScheduleError
from treadle.input_files import read_input_text
from treadle.units import parse_bandwidth, parse_size, parse_time_ns

MAX_FILE_BYTES = 2**20
MAX_CALLS = 10_000
_MAX_LINE = 1000
"""Characters; a dotted key costs memory by the square of its parts."""


class Exchange(StrEnum):
    """Collectives that a workload may name."""

    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"


@dataclass(frozen=True)
class Network:
    """The alpha-beta model of a regular fabric (dissertation, section 3.3.2).

    Parameters
    ----------
    alpha_s : float
        Latency of one hop, seconds.
    bandwidth_bytes_per_s : int
        B: of all links of a node together, one way.
    gamma_s_per_byte : float
        Time to add up one byte (section A.3.4).
    """

    alpha_s: float
    bandwidth_bytes_per_s: int
    gamma_s_per_byte: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha_s < 1e6 or self.bandwidth_bytes_per_s < 1 or self.gamma_s_per_byte < 0:
            raise ScheduleError(
                f"network: latency must be from 0 to less than 10**6 s, found {self.alpha_s:g} s, and "
                f"bandwidth must be at least 1 byte/s, found {self.bandwidth_bytes_per_s}"
            )


@dataclass(frozen=True)
class Call:
    """Equal collectives of a workload.

    Parameters
    ----------
    kind : Exchange
    size_bytes : int
        As nccl-tests defines it: the larger per-rank buffer.
    count : Fraction
        How often per iteration; only proportions matter.
    group_size : int, optional
        Ranks of a group; None: all nodes. All groups run at once.
    stride : int
        Distance between neighbours in a group: group members are r, r + stride, r + 2 stride, ...
    """

    kind: Exchange
    size_bytes: int
    count: Fraction = Fraction(1)
    group_size: int | None = None
    stride: int = 1

    def groups(self, n: int) -> tuple[tuple[int, ...], ...]:
        """Ranks of each group among `n` nodes.

        Raises
        ------
        ScheduleError
            If groups of this size and stride do not tile the nodes.
        """
        size = n if self.group_size is None else self.group_size
        block = size * self.stride
        if not 2 <= size <= n or n % block:
            raise ScheduleError(
                f"workload: groups of {size} with stride {self.stride} do not divide {n} nodes evenly"
            )
        return tuple(
            tuple(range(first + lane, first + lane + block, self.stride))
            for first in range(0, n, block)
            for lane in range(self.stride)
        )


@dataclass(frozen=True)
class Workload:
    """What one iteration of a job communicates.

    Parameters
    ----------
    name : str
    calls : tuple of Call
        At least one.
    alpha_s, bandwidth_bytes_per_s : optional
        The network, if the file says so.
    """

    name: str
    calls: tuple[Call, ...]
    alpha_s: float | None = None
    bandwidth_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.calls) <= MAX_CALLS:
            raise ScheduleError(f"workload: {len(self.calls)} collectives, expected 1 to {MAX_CALLS}")


def allreduce_of(size_bytes: int) -> Workload:
    """The workload of a single allreduce."""
    return Workload("one allreduce", (Call(Exchange.ALLREDUCE, size_bytes),))


def load_workload(path: str | Path) -> Workload:
    """Read a workload file.

    The file is TOML: an optional ``name``, an optional table ``[network]`` with ``alpha`` and ``bandwidth``
    (of a node), and a table ``[[collectives]]`` for each call with ``kind``, ``size``, and optionally
    ``count``, ``group_size`` and ``stride``. Quantities carry a unit, as in ``size = "64MB"``.

    Raises
    ------
    FormatError
        If the file cannot be read or says something else.
    """
    source = str(path)
    text = read_input_text(path, MAX_FILE_BYTES, expected="a workload as TOML")
    try:
        return parse_workload(text, default_name=Path(path).stem)
    except (FormatError, ScheduleError) as error:
        if str(error).startswith(source):
            raise
        raise FormatError(str(error), source=source) from None


def parse_workload(text: str, *, default_name: str = "workload") -> Workload:
    """A workload from TOML text; see `load_workload`."""
    if any(len(line) > _MAX_LINE for line in text.splitlines()):
        raise FormatError(f"a line is longer than {_MAX_LINE} characters")
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise FormatError("not TOML that can be read: nested too deep") from None
    except ValueError as error:  # TOMLDecodeError is one; integers of very many digits are another
        raise FormatError(f"not TOML: {error}") from None
    _check_keys(values, "the file", {"collectives"}, {"name", "network"})
    network = _table(values.get("network", {}), "network")
    _check_keys(network, "network", set(), {"alpha", "bandwidth"})
    calls = values["collectives"]
    if not isinstance(calls, list) or not calls:
        raise FormatError("collectives: expected at least one table [[collectives]]")
    name = values.get("name", default_name)
    if not isinstance(name, str) or not name.isprintable():
        raise FormatError("name: expected one line of text")
    alpha = network.get("alpha")
    bandwidth = network.get("bandwidth")
    return Workload(
        name,
        tuple(_call(call, f"collectives[{place}]") for place, call in enumerate(calls)),
        None if alpha is None else parse_time_ns(_text(alpha, "network.alpha")) / 10**9,
        None if bandwidth is None else parse_bandwidth(_text(bandwidth, "network.bandwidth")),
    )


def _call(value: Any, place: str) -> Call:
    fields = _table(value, place)
    _check_keys(fields, place, {"kind", "size"}, {"count", "group_size", "stride"})
    kind = fields["kind"]
    if not isinstance(kind, str) or kind not in set(Exchange):
        raise FormatError(f"{place}.kind: {str(kind)[:100]!r}, expected one of {', '.join(Exchange)}")
    size = parse_size(_text(fields["size"], f"{place}.size"))
    if size < 1:
        raise FormatError(f"{place}.size: expected at least 1 byte")
    count = fields.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count < 1e12:
        raise FormatError(f"{place}.count: expected a positive number")
    return Call(
        Exchange(kind),
        size,
        Fraction(count),
        _whole(fields["group_size"], f"{place}.group_size", 2) if "group_size" in fields else None,
        _whole(fields.get("stride", 1), f"{place}.stride", 1),
    )


def _table(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected a table")
    return value


def _check_keys(values: Mapping[str, Any], place: str, needed: set[str], optional: set[str]) -> None:
    for key in sorted(needed - set(values)):
        raise FormatError(f"{place}: {key!r} is missing")
    for key in sorted(set(values) - needed - optional):
        expected = ", ".join(sorted(needed | optional))
        raise FormatError(f"{place}: key {key[:100]!r} is unknown; expected {expected}")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f'{place}: expected a quantity with its unit in quotes, as in "10us" or "64MB"')
    return value


def _whole(value: Any, place: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise FormatError(f"{place}: expected an integer of at least {least}")
    return value
