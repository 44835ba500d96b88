"""Reads a whole log: tables of nccl-tests, by `result_tables`, and NCCL's own lines.

These are version, devices, connections, graphs, channels, environment, the system tree.

Formats as of NCCL 2.4 to 2.30 (its sources: init.cc, graph/, transport/); lines of other versions are passed
over. All that is kept is bounded, whatever the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from treadle.diagnosis.library_reports import ReportReader
from treadle.diagnosis.log import (
    ChannelCount,
    Log,
    LoggedNetwork,
    LoggedPattern,
    NetworkHop,
    RingEnds,
    SetVariable,
    SystemTree,
    UsedTransport,
)
from treadle.diagnosis.log_lines import LogLine, LogMessage, messages
from treadle.diagnosis.result_tables import TableReader
from treadle.errors import FormatError

_MOST = 256
"""Largest number of facts of a kind."""
_MOST_HOPS = 8192
_MOST_HOSTS = 8192
_MOST_RANKS = 2**17
_MOST_TREES = 64
_MOST_TREE_LINES = 4096
_MOST_WARNINGS = 20

_USING = re.compile(r"^NET/(\w{1,40}) ?: Using(.*)")
_DEVICE = re.compile(r"\[(\d{1,4})\]=?(\{[^}]{1,200}\}|[^\s;\[]{1,100})")
_OFI = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]{1,40}).{0,80}\(found (\d{1,4}) nics\)")
_NETWORK = re.compile(r"^Using network (\S.{0,60})")
_VIA = re.compile(
    r"(?:Channel|Ring|CollNet) (\d{1,4})(?:/\d{1,4})? : (\d{1,7})(?:\[\w{1,12}\])?"
    r"(?: -> (\d{1,7})(?:\[\w{1,12}\])?)?(?: \[(send|receive)\])? via (\S.{0,80})"
)
_VIA_NET = re.compile(r"((?:NET|COLLNET)/[^/]{1,40})/(\d{1,4})(?:\(\d{1,7}\))?((?:/\w{1,20})*)")
_PATTERN = re.compile(
    r"Pattern (\d{1,2}), crossNic \d{1,2}, nChannels (\d{1,4}), (?:bw|speed) \d{1,6}(?:\.\d{1,9})?"
    r"/\d{1,6}(?:\.\d{1,9})?, type (\w{3})/(\w{3})"
)
_RING = "4"
"""NCCL's number of the pattern of rings."""
_RING_ENDS = re.compile(r"\A\s*\d{1,4} : (NET/[\w-]{1,40}) .{0,4000}GPU/[\w-]{1,40} (NET/[\w-]{1,40})\Z")
_CHANNELS = re.compile(
    r"(\d{1,4}) coll channels(?:, (?:\d{1,4}) collnet channels)?(?:, (\d{1,4}) nvls channels)?"
)
_SET = re.compile(r"(NCCL_[A-Z0-9_]{1,60}) set (?:by environment )?to (.{0,300})")
_GIVEN = re.compile(r"\b(NCCL_[A-Z0-9_]{1,60})=(\"[^\"]{0,300}\"|'[^']{0,300}'|[^\s\"']{0,300})")
_VERSION = re.compile(r"NCCL version (\d{1,3}(?:\.\d{1,3}){1,3}\S{0,30})")
_MEMBER = re.compile(r"\brank (\d{1,7}) n[rR]anks (\d{1,7})\b")
_N_RANKS = re.compile(r"\bn[rR]anks (\d{1,7})\b")
_N_NODES = re.compile(r"\bnNodes (\d{1,6})\b")

_REMARKS: Mapping[str, re.Pattern[str]] = {
    "gdr-disabled": re.compile(r"GPU Direct RDMA Disabled for HCA"),
    "no-path": re.compile(r"Could not find a path for pattern"),
    "p2p-disabled": re.compile(r"P2P is disabled between NVLINK connected GPUs|P2P is disabled between"),
    "nvls": re.compile(r"Connected NVLS tree|NVLS comm 0x|NVLS Created Multicast group"),
    "collnet": re.compile(r"Connected Collnet Chains [^0]|Connected CollNet\b|via COLLNET/SHARP"),
    "port": re.compile(
        r"async (?:fatal )?event ?: ?port error|speed change detected|link (?:is )?down", re.I
    ),
    "no-ib": re.compile(r"NET/IB ?: No device found"),
    "plugin-failed": re.compile(r"NET/OFI Only EFA provider is supported|NET/OFI .*failed"),
}
"""Messages that say something by themselves."""

_Fact = TypeVar("_Fact")


def _keep(facts: list[_Fact], fact: _Fact, most: int = _MOST) -> None:
    if len(facts) < most:
        facts.append(fact)


class FactReader:
    """Takes a log's lines one by one and gathers what NCCL says of itself."""

    def __init__(self) -> None:
        self.version = ""
        self.n_ranks: int | None = None
        self.n_nodes: int | None = None
        self.hosts: dict[str, None] = {}
        self.rank_hosts: dict[int, str] = {}
        self.networks: list[LoggedNetwork] = []
        self.hops: list[NetworkHop] = []
        self.patterns: list[LoggedPattern] = []
        self.ring_ends: list[RingEnds] = []
        self._after_ring: set[str] = set()
        self.channels: list[ChannelCount] = []
        self.settings: dict[tuple[str, str], SetVariable] = {}
        self.remarks: dict[str, LogLine] = {}
        self.warnings: list[LogLine] = []
        self.n_warnings = 0
        self.n_messages = 0
        self._transports: dict[tuple[str, bool], tuple[LogLine, int]] = {}
        self._trees: dict[str, list[tuple[LogLine, str]]] = {}
        self._done: list[SystemTree] = []
        self._tree_hosts: set[str] = set()
        self._readers: tuple[
            tuple[str, re.Pattern[str], Callable[[LogMessage, re.Match[str]], None]], ...
        ] = (
            (" via ", _VIA, self._via),
            ("Using", _USING, self._using),
            ("Using", _NETWORK, self._network),
            ("NET/OFI Selected", _OFI, self._ofi),
            ("Pattern ", _PATTERN, self._pattern),
            (" : NET/", _RING_ENDS, self._ends),
            ("coll channels", _CHANNELS, self._channels),
            ("NCCL_", _SET, self._set),
            ("anks ", _N_RANKS, self._size),
        )

    @property
    def transports(self) -> tuple[UsedTransport, ...]:
        """Kinds of connections, in the order in which they appear."""
        return tuple(UsedTransport(line, *key, count) for key, (line, count) in self._transports.items())

    @property
    def trees(self) -> tuple[SystemTree, ...]:
        """System trees: of each host the first that is whole, else what there is of one."""
        cut = [
            SystemTree(process.partition(":")[0], tuple(lines), False)
            for process, lines in self._trees.items()
            if process.partition(":")[0] not in self._tree_hosts
        ]
        return (*self._done, *cut[: _MOST_TREES - len(self._done)])

    def take(self, message: LogMessage) -> None:
        """Read a line."""
        text = message.text
        if not message.level:
            self._plain(message)
            return
        self.n_messages += 1
        if len(self.hosts) < _MOST_HOSTS:
            self.hosts.setdefault(message.host)
        if message.level == "WARN":
            self.n_warnings += 1
            _keep(self.warnings, message.line, _MOST_WARNINGS)
        if self._tree(message):
            return
        self._find_version(text)
        for word, pattern, read in self._readers:
            if word in text and (match := pattern.search(text)) is not None:
                read(message, match)
        for name, pattern in _REMARKS.items():
            if name not in self.remarks and pattern.search(text) is not None:
                self.remarks[name] = message.line

    def _find_version(self, text: str) -> bool:
        """Whether the line is the first with the version of NCCL."""
        match = None if self.version else _VERSION.search(text)
        if match is not None:
            self.version = match[1]
        return match is not None

    def _plain(self, message: LogMessage) -> None:
        """Read a line of another program: a version, a command, the output of lspci."""
        text = message.text
        if "NCCL" in text:
            if not self._find_version(text):
                for match in _GIVEN.finditer(text):
                    self._set(message, match)
        elif "ACSCtl" in text and "SrcValid+" in text and "acs" not in self.remarks:
            self.remarks["acs"] = message.line

    def _tree(self, message: LogMessage) -> bool:
        """Whether the line is part of a system tree; it is gathered by the process that wrote it."""
        text, process = message.text, message.process
        if text.startswith("=== System"):
            if message.host not in self._tree_hosts and len(self._trees) + len(self._done) < _MOST_TREES:
                self._trees[process] = [(message.line, text)]
            return True
        lines = self._trees.get(process)
        if lines is None:
            return text.startswith("======")
        if text.startswith("======"):
            del self._trees[process]
            if message.host not in self._tree_hosts:
                self._tree_hosts.add(message.host)
                self._done.append(SystemTree(message.host, tuple(lines), True))
            return True
        if len(lines) < _MOST_TREE_LINES and (text.startswith("CPU/") or text.lstrip().startswith("+ ")):
            lines.append((message.line, text))
            return True
        return False

    def _via(self, message: LogMessage, match: re.Match[str]) -> None:
        channel, rank, peer, end, way = match.groups()
        net = _VIA_NET.match(way)
        if net is None:
            self._count(message, way.partition("/")[0], False)
            return
        self._count(message, net[1], "/GDRDMA" in net[3])
        if end is not None and peer is not None:
            ranks = int(rank), int(peer)
            hop = NetworkHop(message.line, int(channel), ranks, end == "send", int(net[2]))
            _keep(self.hops, hop, _MOST_HOPS)

    def _count(self, message: LogMessage, kind: str, is_direct: bool) -> None:
        key = (kind, is_direct)
        if key in self._transports:
            line, count = self._transports[key]
            self._transports[key] = (line, count + 1)
        elif len(self._transports) < _MOST:
            self._transports[key] = (message.line, 1)

    def _using(self, message: LogMessage, match: re.Match[str]) -> None:
        devices = tuple(name for _, name in _DEVICE.findall(match[2].partition("; OOB")[0]))
        if devices and not any((one.host, one.kind) == (message.host, match[1]) for one in self.networks):
            _keep(self.networks, LoggedNetwork(message.line, message.host, match[1], devices))

    def _network(self, message: LogMessage, match: re.Match[str]) -> None:
        if "network" not in self.remarks:
            self.remarks["network"] = message.line
            if match[1].strip() == "Socket":
                self.remarks["network-socket"] = message.line

    def _ofi(self, message: LogMessage, match: re.Match[str]) -> None:
        if not any(one.host == message.host for one in self.networks):
            devices = tuple(f"{match[1]} {number}" for number in range(int(match[2])))
            _keep(self.networks, LoggedNetwork(message.line, message.host, "OFI", devices))

    def _pattern(self, message: LogMessage, match: re.Match[str]) -> None:
        if match[1] == _RING and len(self._after_ring) < _MOST_RANKS:
            self._after_ring.add(message.process)
        else:
            self._after_ring.discard(message.process)
        _keep(self.patterns, LoggedPattern(message.line, int(match[2]), match[3], match[4]))

    def _ends(self, message: LogMessage, match: re.Match[str]) -> None:
        if message.process in self._after_ring:
            _keep(self.ring_ends, RingEnds(message.line, match[1], match[2]))

    def _channels(self, message: LogMessage, match: re.Match[str]) -> None:
        _keep(self.channels, ChannelCount(message.line, int(match[1]), int(match[2] or -1)))

    def _set(self, message: LogMessage, match: re.Match[str]) -> None:
        name, value = match.groups()
        if match.re is _SET:  # a sentence
            value = value.strip().removesuffix(".")
        value = value.strip("\"'")
        if len(self.settings) < _MOST:
            self.settings.setdefault((name, value), SetVariable(message.line, name, value))

    def _size(self, message: LogMessage, match: re.Match[str]) -> None:
        if int(match[1]) > (self.n_ranks or 0):
            self.n_ranks = int(match[1])
            self.rank_hosts = {}
        member, nodes = _MEMBER.search(message.text), _N_NODES.search(message.text)
        if member and int(member[2]) == self.n_ranks and len(self.rank_hosts) < _MOST_RANKS:
            self.rank_hosts.setdefault(int(member[1]), message.host)
        if nodes:
            self.n_nodes = max(int(nodes[1]), self.n_nodes or 0) or None


def read_log(path: Path | str) -> Log:
    """Read a log, line by line, in bounded memory.

    Parameters
    ----------
    path : Path or str
        Output of nccl-tests with or without ``NCCL_DEBUG=INFO``, as it came: of one or many processes, with
        the prefixes of mpirun or srun, coloured or cut off. At most 256 MiB.

    Raises
    ------
    FormatError
        If it cannot be read, is larger, or has no line of nccl-tests or NCCL.
    """
    tables, facts, reports = TableReader(), FactReader(), ReportReader()
    number = 0
    for message in messages(path):
        number = message.number
        facts.take(message)
        reports.take(message)
        if not message.level:
            tables.take(message)
    found = (*tables.tables(), *reports.tables())
    if not found and not facts.n_messages and not tables.ranks and not reports.ras:
        raise FormatError(
            "has no line of nccl-tests or of NCCL; expected what nccl-tests prints, with NCCL_DEBUG=INFO for "
            "more to go by",
            source=str(path),
        )
    return Log(
        source=str(path),
        n_lines=number,
        tables=found,
        version=facts.version,
        n_ranks=facts.n_ranks,
        n_nodes=facts.n_nodes,
        hosts=tuple(facts.hosts),
        ranks=tables.ranks or reports.inspected,
        rank_hosts=dict(facts.rank_hosts),
        networks=tuple(facts.networks),
        transports=facts.transports,
        hops=tuple(facts.hops),
        patterns=tuple(facts.patterns),
        ring_ends=tuple(facts.ring_ends),
        channels=tuple(facts.channels),
        settings=tuple(facts.settings.values()),
        trees=facts.trees,
        remarks=dict(facts.remarks),
        warnings=tuple(facts.warnings),
        n_warnings=facts.n_warnings,
        tuner=reports.tuner,
        picks=tuple(reports.picks.values()),
        ras=tuple(reports.ras),
    )
