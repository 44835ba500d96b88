"""Contents of a log as values; every fact has its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.brief import brief
from treadle.diagnosis.log_lines import LogLine
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class TableRow:
    """A line of nccl-tests' table.

    Parameters
    ----------
    line : LogLine
    size : int
        Bytes, as nccl-tests counts them.
    algbw, busbw : float
        GB/s (10**9 bytes/s), the better of out of place and in place.
    time_us : float
        Of the better one.
    wrong : int
        Elements that were wrong, of both; 0 also where nothing was checked.
    """

    line: LogLine
    size: int
    algbw: float
    busbw: float
    time_us: float
    wrong: int


@dataclass(frozen=True)
class ListedRank:
    """A rank as nccl-tests lists it: its host, the GPU's number there and the GPU's model."""

    line: LogLine
    host: str
    device: int
    model: str


@brief("test", "rows", "root", "ranks")
@dataclass(frozen=True)
class ResultTable:
    """A table of nccl-tests.

    Parameters
    ----------
    rows : tuple of TableRow
        In the log's order, without those of size 0.
    test : str
        Name of the test, such as ``all_reduce``; "" if the log does not say.
    reduces : bool, optional
        Whether a reduction is named; None if the table has no such column.
    root : int, optional
        As printed; -1 where the collective has none.
    ranks : mapping of rank to ListedRank
        Listed before the table.
    out_of_bounds : LogLine, optional
        The line that counts wrong values, if there are any.
    average : float, optional
        GB/s of busbw over all sizes, as nccl-tests prints it.
    """

    rows: tuple[TableRow, ...]
    test: str = ""
    reduces: bool | None = None
    root: int | None = None
    ranks: Mapping[int, ListedRank] = field(default_factory=dict)
    out_of_bounds: LogLine | None = None
    average: float | None = None

    @property
    def peak(self) -> TableRow:
        """The row of the highest busbw, the first of equals."""
        return max(self.rows, key=lambda row: row.busbw)


@dataclass(frozen=True)
class LoggedNetwork:
    """The devices that NCCL found on a host: ``NET/IB : Using [0]mlx5_0:1/IB ...``."""

    line: LogLine
    host: str
    kind: str
    devices: tuple[str, ...]


@dataclass(frozen=True)
class UsedTransport:
    """A way that connections take, such as ``NET/IB/GDRDMA``, ``P2P`` or ``SHM``, and how many take it.

    `detail` is what follows, `is_direct` whether data goes past the CPU's memory (GPUDirect RDMA).
    """

    line: LogLine
    kind: str
    is_direct: bool
    count: int


@dataclass(frozen=True)
class NetworkHop:
    """A connection between boxes: from rank to rank, by which NIC of the host that says so."""

    line: LogLine
    channel: int
    ranks: tuple[int, int]
    sends: bool
    nic: int


@dataclass(frozen=True)
class LoggedPattern:
    """A graph that NCCL's search found.

    `inner` and `outer` are path types within a box and to its NICs (LOC, NVL, PIX, PXB, PHB, SYS ...).
    """

    line: LogLine
    channels: int
    inner: str
    outer: str


@dataclass(frozen=True)
class RingEnds:
    """A ring that NCCL's search found in a box: by which NIC data comes, and by which it goes."""

    line: LogLine
    enters: str
    leaves: str


@dataclass(frozen=True)
class ChannelCount:
    """Number of channels that NCCL uses for collectives and for NVLink SHARP (-1: unknown)."""

    line: LogLine
    collective: int
    nvls: int


@dataclass(frozen=True)
class SetVariable:
    """A variable of the environment, as NCCL or the command line names it."""

    line: LogLine
    name: str
    value: str

    @property
    def summary(self) -> str:
        """The variable and its value, cut off where it is long."""
        return f"{self.name}={self.value[:40]}"


@dataclass(frozen=True)
class Pick:
    """NCCL's choice at a size: ``AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}``.

    `size` is as NCCL states it: one rank's part of an allgather and a reduce-scatter. `channels` is 0 if the
    line does not say.
    """

    line: LogLine
    kind: CollectiveKind
    size: int
    algorithm: str
    protocol: str
    channels: int


@dataclass(frozen=True)
class SystemTree:
    """The lines of NCCL's system tree from one process, in order, each without NCCL's prefix."""

    host: str
    lines: tuple[tuple[LogLine, str], ...]
    is_whole: bool


@brief("source", "n_lines", "n_ranks", "tables", "warnings")
@dataclass(frozen=True)
class Log:
    """All that a log says.

    Parameters
    ----------
    source : str
        File name.
    n_lines : int
    tables : tuple of ResultTable
    version : str
        Of NCCL; "" if the log does not say.
    n_ranks, n_nodes : int, optional
        As NCCL says them.
    hosts : tuple of str
        That wrote lines, in order.
    ranks : mapping of rank to ListedRank
        As nccl-tests listed them last.
    rank_hosts : mapping of rank to str
        Hosts of the members of the largest communicator, as NCCL says them.
    remarks : mapping of name to LogLine
        Single lines that say something by themselves, such as ``nvls``, ``gdr-disabled`` or ``acs``.
    warnings : tuple of LogLine
        The first of NCCL's warnings.
    n_warnings : int
    tuner : mapping of (CollectiveKind, algorithm, protocol) to (float, float)
        NCCL's tuner table: latency in microseconds, algbw in GB/s; 0 of what is not allowed.
    picks : tuple of Pick
        What NCCL ran, once for each collective and size.
    ras : tuple of LogLine
        Errors and warnings of ``ncclras``.
    """

    source: str
    n_lines: int
    tables: tuple[ResultTable, ...] = ()
    version: str = ""
    n_ranks: int | None = None
    n_nodes: int | None = None
    hosts: tuple[str, ...] = ()
    ranks: Mapping[int, ListedRank] = field(default_factory=dict)
    rank_hosts: Mapping[int, str] = field(default_factory=dict)
    networks: tuple[LoggedNetwork, ...] = ()
    transports: tuple[UsedTransport, ...] = ()
    hops: tuple[NetworkHop, ...] = ()
    patterns: tuple[LoggedPattern, ...] = ()
    ring_ends: tuple[RingEnds, ...] = ()
    channels: tuple[ChannelCount, ...] = ()
    settings: tuple[SetVariable, ...] = ()
    trees: tuple[SystemTree, ...] = ()
    remarks: Mapping[str, LogLine] = field(default_factory=dict)
    warnings: tuple[LogLine, ...] = ()
    n_warnings: int = 0
    tuner: Mapping[tuple[CollectiveKind, str, str], tuple[float, float]] = field(default_factory=dict)
    picks: tuple[Pick, ...] = ()
    ras: tuple[LogLine, ...] = ()

    def setting(self, *names: str) -> SetVariable | None:
        """Return the first of these variables that is set."""
        return next((one for name in names for one in self.settings if one.name == name), None)

    def transport(self, kind: str) -> UsedTransport | None:
        """Return the first connections whose kind begins so, such as ``NET/Socket`` or ``SHM``."""
        return next((one for one in self.transports if one.kind.startswith(kind)), None)

    @property
    def has_staged_transfers(self) -> bool:
        """Whether GPUs of a box exchange data through the host's memory only: all by SHM, none by P2P."""
        return self.transport("SHM") is not None and self.transport("P2P") is None

    @property
    def rdma_network(self) -> LoggedNetwork | None:
        """The first devices other than those of TCP."""
        return next((one for one in self.networks if one.kind != "Socket"), None)

    def rdma(self, *, direct: bool) -> UsedTransport | None:
        """Return the connections over the network but by TCP: with GPUDirect RDMA, or without."""
        found = (one for one in self.transports if one.kind.startswith("NET/") and one.kind != "NET/Socket")
        return next((one for one in found if one.is_direct is direct), None)


TESTS = {
    "all_reduce": CollectiveKind.ALLREDUCE,
    "all_gather": CollectiveKind.ALLGATHER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "broadcast": CollectiveKind.BROADCAST,
    "reduce": CollectiveKind.REDUCE,
    "alltoall": CollectiveKind.ALLTOALL,
}
"""Collectives that have a bound, by the names of nccl-tests."""

OTHER_TESTS = ("alltoallv", "gather", "scatter", "sendrecv", "hypercube")
"""Tests of nccl-tests that have none here."""
