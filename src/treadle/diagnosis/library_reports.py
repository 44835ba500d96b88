"""Reads what NCCL reports of its choices and of its health: tuner table, picks, RAS, Inspector.

Formats of NCCL 2.12 to 2.30: graph/tuning.cc and enqueue.cc (``NCCL_DEBUG_SUBSYS=TUNING``),
ras/client_support.cc (``ncclras``), plugins/profiler/inspector (one JSON object a line).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from statistics import median
from typing import Any

from treadle.diagnosis.log import TESTS, ListedRank, Pick, ResultTable, TableRow
from treadle.diagnosis.log_lines import LogLine, LogMessage
from treadle.machines.nccl import PROTOCOLS
from treadle.schedules.collective import CollectiveKind, busbw_factor

FUNCTIONS = {
    "AllReduce": CollectiveKind.ALLREDUCE,
    "AllGather": CollectiveKind.ALLGATHER,
    "ReduceScatter": CollectiveKind.REDUCE_SCATTER,
    "Broadcast": CollectiveKind.BROADCAST,
    "Reduce": CollectiveKind.REDUCE,
}
PER_RANK = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
"""Collectives of which NCCL states one rank's part, nccl-tests the whole."""

_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PICK = re.compile(
    r"(\w{1,20}): (\d{1,15}) Bytes -> Algo (\w{1,20}) proto (\w{1,10})"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})?"
)
_RAS = re.compile(
    r"#\d+-\d+ \([0-9a-f]+\) (?:INCOMPLETE|ERROR|MISMATCH)|Missing communicator data|considered dead"
    r"|(?:Initialization|Asynchronous) errors? on|ranks have (?:different|status|launched|not launched)"
    r"|Rank \d+ (?:-- (?:GPU|\[process)|has (?:status|launched|not launched))"
    r"|Process \d+ on node \S+ managing GPU|\d+ communication timeout"
)
_MOST_CELLS, _MOST_PICKS, _MOST_RAS, _MOST_RECORDS = 1000, 4096, 64, 2**20


def _algorithm(text: str) -> str:
    if text.isdigit():
        return _ALGORITHMS[min(int(text), len(_ALGORITHMS) - 1)]
    return text.casefold().replace("_", "")


def _protocol(text: str) -> str:
    names = {**dict(zip("012", PROTOCOLS, strict=True)), **{one.casefold(): one for one in PROTOCOLS}}
    return names.get(text.casefold(), text)


class ReportReader:
    """Takes a log's lines one by one and gathers NCCL's reports."""

    def __init__(self) -> None:
        self.tuner: dict[tuple[CollectiveKind, str, str], tuple[float, float]] = {}
        self.picks: dict[tuple[CollectiveKind, int], Pick] = {}
        self.ras: list[LogLine] = []
        self.inspected: dict[int, ListedRank] = {}
        self._columns: list[tuple[str, str]] = []
        self._records: dict[tuple[str, int, int], dict[tuple[str, int], tuple[float, LogLine]]] = defaultdict(
            dict
        )
        self._n_records = 0

    def take(self, message: LogMessage) -> None:
        """Read a line."""
        text = message.text
        if message.level:
            if "|" in text:
                self._tuner_row(text)
            elif "Bytes -> Algo" in text and (match := _PICK.search(text)) is not None:
                name, size, algorithm, protocol, low, high = match.groups()
                kind, channels = FUNCTIONS.get(name), int(high) - int(low) + 1 if high else 0
                if kind is not None and len(self.picks) < _MOST_PICKS:
                    cell = _algorithm(algorithm), _protocol(protocol)
                    pick = Pick(message.line, kind, int(size), *cell, channels)
                    self.picks.setdefault((kind, pick.size), pick)
        elif text.startswith("{") and '"coll_perf"' in text:
            self._inspector(message)
        elif len(self.ras) < _MOST_RAS and _RAS.search(text) is not None:
            self.ras.append(message.line)

    def _tuner_row(self, text: str) -> None:
        name, *cells = (part.strip() for part in text.split("|"))
        if name == "Algorithm":
            self._columns = [(_algorithm(cell), one) for cell in cells if cell for one in PROTOCOLS]
        elif name == "Latency/AlgBw":  # before 2.18
            pairs = (cell.split("/") for cell in cells if "/" in cell)
            self._columns = [(_algorithm(one.strip()), _protocol(other.strip())) for one, other in pairs]
        elif name in FUNCTIONS and len(self.tuner) < _MOST_CELLS:
            for column, cell in zip(self._columns, cells, strict=False):
                if (match := re.fullmatch(r"(\d{1,9}\.\d) */ *(\d{1,9}\.\d)", cell)) is not None:
                    self.tuner[FUNCTIONS[name], *column] = float(match[1]), float(match[2])

    def _inspector(self, message: LogMessage) -> None:
        """Keep the time of a collective on its slowest rank."""
        try:
            record: Any = json.loads(message.text)
            header, performance = record["header"], record["coll_perf"]
            kind, ranks = FUNCTIONS[performance["coll"]], int(header["n_ranks"])
            size = int(performance["coll_msg_size_bytes"]) * (ranks if kind in PER_RANK else 1)
            time_us, number = float(performance["coll_exec_time_us"]), int(performance["coll_sn"])
            key, call = (performance["coll"], ranks, size), (str(header["id"]), number)
            rank, host = int(header["rank"]), str(record.get("metadata", {}).get("hostname", ""))
        except (KeyError, TypeError, ValueError, RecursionError):
            return
        if time_us <= 0 or not 0 < ranks <= 2**17 or self._n_records >= _MOST_RECORDS:
            return
        self._n_records += 1
        self._records[key][call] = max(
            (time_us, message.line), self._records[key].get(call, (0.0, message.line)), key=lambda one: one[0]
        )
        self.inspected.setdefault(rank, ListedRank(message.line, host, -1, ""))

    def tables(self) -> tuple[ResultTable, ...]:
        """Return Inspector's records as tables: of each size the median over calls of the slowest rank."""
        found: dict[tuple[str, int], list[TableRow]] = defaultdict(list)
        for (name, ranks, size), calls in sorted(self._records.items()):
            time_us = median(time for time, _ in calls.values())
            line = min(calls.values(), key=lambda one: abs(one[0] - time_us))[1]
            algbw = size / time_us / 1e3
            factor = float(busbw_factor(FUNCTIONS[name], ranks))
            found[name, ranks].append(TableRow(line, size, algbw, algbw * factor, time_us, 0))
        return tuple(
            ResultTable(
                tuple(rows),
                next(test for test, kind in TESTS.items() if kind is FUNCTIONS[name]),
                ranks={rank: one for rank, one in self.inspected.items() if rank < ranks},
            )
            for (name, ranks), rows in found.items()
        )
