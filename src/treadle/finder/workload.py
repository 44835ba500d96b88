"""Communication of a cluster: collectives with sizes, counts and groups; read from TOML."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from treadle.errors import FormatError, ScheduleError
from treadle.input_files import read_input_string
from treadle.typed_files import Table, read_toml
from treadle.units import parse_bandwidth, parse_size, parse_time_ns

MAX_FILE_BYTES = 2**20
MAX_CALLS = 10_000
_MOST = 2**31 - 1


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
        Ranks of a group; None: all nodes. All groups run concurrently.
    stride : int
        Distance between neighbours in a group: group members are r, r + stride, r + 2 stride, ...
    """

    kind: Exchange
    size_bytes: int
    count: Fraction = Fraction(1)
    group_size: int | None = None
    stride: int = 1

    def groups(self, n: int) -> tuple[tuple[int, ...], ...]:
        """Return the ranks of each group among `n` nodes.

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
    """Communication of one iteration of a job.

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
    """Return the workload of a single allreduce."""
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
    text = read_input_string(path, MAX_FILE_BYTES, expected="a workload as TOML")
    try:
        return parse_workload(text, default_name=Path(path).stem)
    except (FormatError, ScheduleError) as error:
        if str(error).startswith(source):
            raise
        raise FormatError(str(error), source=source) from None


_Quantity = Annotated[str, Meta(description='a quantity with its unit in quotes, as in "10us" or "64MB"')]
_POSITIVE = Meta(gt=0, lt=10**12, description="a positive number less than 10**12")


class _Call(Table, frozen=True):
    kind: Exchange
    size: _Quantity
    count: Annotated[int, _POSITIVE] | Annotated[float, _POSITIVE] = 1
    group_size: Annotated[int, Meta(ge=2, le=_MOST)] | None = None
    stride: Annotated[int, Meta(ge=1, le=_MOST)] = 1

    def __post_init__(self) -> None:
        if parse_size(self.size) < 1:
            raise FormatError("size: expected at least 1 byte")

    def value(self) -> Call:
        return Call(self.kind, parse_size(self.size), Fraction(self.count), self.group_size, self.stride)


class _Network(Table, frozen=True):
    alpha: _Quantity | None = None
    bandwidth: _Quantity | None = None


class _File(Table, frozen=True):
    collectives: Annotated[list[_Call], Meta(min_length=1)]
    name: str | None = None
    network: _Network = _Network()


def parse_workload(text: str, *, default_name: str = "workload") -> Workload:
    """Parse a workload from TOML; see `load_workload`."""
    file = read_toml(text, _File)
    name = default_name if file.name is None else file.name
    alpha, bandwidth = file.network.alpha, file.network.bandwidth
    if not name.isprintable():
        raise FormatError("name: expected a string of one line")
    return Workload(
        name,
        tuple(call.value() for call in file.collectives),
        None if alpha is None else parse_time_ns(alpha) / 10**9,
        None if bandwidth is None else parse_bandwidth(bandwidth),
    )
