"""Reads measured times: output of nccl-tests (text, or JSON of ``-J``) and of ``run`` and ``testbed``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.input_files import parse_json, read_input_string
from treadle.schedules.collective import CollectiveKind, busbw_factor

MAX_FILE_BYTES = 16 * 2**20
MAX_ROWS = 100_000
MAX_RANKS = 2**20
_MAX_SIZE = 2**60
_MAX_TIME_S = 1e6
_TAG = re.compile(r"\[\d+,\d+\]<stdout>:\s?")
_RANK = re.compile(r"#\s+Rank\s+(\d{1,7})\s")
_COLLECTIVES = {
    "all_gather": CollectiveKind.ALLGATHER,
    "reduce_scatter": CollectiveKind.REDUCE_SCATTER,
    "all_reduce": CollectiveKind.ALLREDUCE,
    "broadcast": CollectiveKind.BROADCAST,
    "reduce": CollectiveKind.REDUCE,
    "alltoall": CollectiveKind.ALLTOALL,
}


@dataclass(frozen=True)
class Measurement:
    """One measured time.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer, positive.
    time_s : float
        Positive.
    bytes_factor : float, optional
        Bytes that the node bandwidth B moves, over size: busbw / algbw, or T_B in M/B. None: not known.
    steps : int, optional
        Communication steps, where known.
    """

    size_bytes: int
    time_s: float
    bytes_factor: float | None = None
    steps: int | None = None


def read_measurements(
    path: str | Path, *, collective: CollectiveKind | None = None, n_ranks: int | None = None
) -> list[Measurement]:
    """Read a file of measured times.

    Parameters
    ----------
    path : str or Path
        UTF-8, at most 16 MiB: the text that nccl-tests prints, its JSON (``-J``), or the JSON object of
        ``treadle run --json`` or ``treadle testbed --json``.
    collective, n_ranks
        Override what the file says; both are found in current files.

    Returns
    -------
    list of Measurement
        Rows with a size of 0 or without a time are left out.

    Raises
    ------
    FormatError
        If it is none of these, too large, or has no row.
    """
    source = str(path)
    text = read_input_string(path, MAX_FILE_BYTES)
    if text.lstrip().startswith("{"):
        value = parse_json(text, source=source)
        if not isinstance(value, dict):
            raise FormatError("expected a JSON object", source=source)
        found = _json_rows(value, collective, n_ranks, source)
    else:
        found = _text_rows(text, source, collective, n_ranks)
    if not found:
        raise FormatError("has no measured row; expected nccl-tests output or JSON of treadle", source=source)
    return found


def _factor(kind: CollectiveKind | None, n_ranks: int | None) -> float | None:
    return None if kind is None or n_ranks is None else float(busbw_factor(kind, n_ranks))


def _kind(name: str) -> CollectiveKind | None:
    base = re.split(r"[\\/]", name.strip())[-1]
    return _COLLECTIVES.get(re.sub(r"(_perf)?(_mpi)?$", "", base))


def _measurement(
    size: float, time_s: float, factor: float | None, steps: int | None = None
) -> Measurement | None:
    """None for what says nothing: an empty buffer, or no time."""
    if not (0 < size <= _MAX_SIZE and 0 < time_s <= _MAX_TIME_S):
        return None
    return Measurement(int(size), time_s, factor, steps)


def _text_rows(text: str, source: str, kind: CollectiveKind | None, n_ranks: int | None) -> list[Measurement]:
    """Rows below the heading that names the columns: out-of-place times, else in-place ones."""
    ranks: set[int] = set()
    heading: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _TAG.sub("", raw).strip()
        if line.startswith("#"):
            words = line[1:].split()
            if words[:2] == ["size", "count"] and "algbw" in words:
                heading = words
            match = _RANK.match(line)
            if match and len(ranks) < MAX_RANKS:
                ranks.add(int(match[1]))
            if line.startswith("# Collective test starting:"):
                kind = kind or _kind(line.rpartition(":")[2])
        elif line[:1].isdigit() and heading:
            rows.append((number, line.split()))
            if len(rows) > MAX_ROWS:
                raise FormatError(f"has more than {MAX_ROWS} rows", source=source)
    factor = _factor(kind, n_ranks or len(ranks) or None)
    if factor is None:
        factor = _ratio(heading, rows)
    found = (_text_row(heading, words, factor, source, number) for number, words in rows)
    return [row for row in found if row is not None]


def _text_row(
    heading: Sequence[str], words: Sequence[str], factor: float | None, source: str, line: int
) -> Measurement | None:
    time_place = heading.index("algbw") - 1
    if len(words) <= time_place + 2:
        raise FormatError(
            f"a row has {len(words)} columns; its heading has {len(heading)}", source=source, line=line
        )
    # aggregated sizes may overlap a column; a time that is no number has not been measured
    return _measurement(_number(words[0]), _number(words[time_place]) * 1e-6, factor)


def _ratio(heading: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]]) -> float | None:
    """busbw / algbw of the fastest row: the printed decimals say most there."""
    best = (0.0, 0.0)
    for _, words in rows:
        place = heading.index("algbw")
        if len(words) > place + 1:
            best = max(best, (_number(words[place]), _number(words[place + 1])))
    return best[1] / best[0] if best[0] >= 1 and best[1] > 0 else None


def _number(word: object) -> float:
    """A finite number, or 0 for anything else."""
    if isinstance(word, bool) or not isinstance(word, (int, float, str)):
        return 0.0
    try:
        value = float(word)
    except (ValueError, OverflowError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _json_rows(
    value: Mapping[str, Any], kind: CollectiveKind | None, n_ranks: int | None, source: str
) -> list[Measurement]:
    """Rows of a JSON object by what it looks like."""
    if "results" in value:
        return _nccl_tests(value, kind, n_ranks, source)
    if "rows" in value:
        return _own(value, kind, n_ranks, source)
    raise FormatError(
        'has neither "results" (nccl-tests -J) nor "rows" (treadle run or testbed --json)', source=source
    )


def _list(value: object, what: str, source: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise FormatError(f'"{what}": expected a list of objects', source=source)
    if len(value) > MAX_ROWS:
        raise FormatError(f'"{what}" has more than {MAX_ROWS} rows', source=source)
    return value


def _nccl_tests(
    value: Mapping[str, Any], kind: CollectiveKind | None, n_ranks: int | None, source: str
) -> list[Measurement]:
    arguments = value.get("args")
    if kind is None and isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
        kind = _kind(arguments[0])
    devices = value.get("devices")
    if n_ranks is None and isinstance(devices, list):
        n_ranks = len(devices) or None
    factor, found = _factor(kind, n_ranks), []
    for row in _list(value["results"], "results", source):
        body = row.get("out_of_place") or row.get("in_place")
        body = body if isinstance(body, dict) else {}
        time_us = _number(body.get("time", body.get("cpu_time")))
        algbw, busbw = _number(body.get("alg_bw")), _number(body.get("bus_bw"))
        ratio = busbw / algbw if algbw >= 1 and busbw > 0 else None
        found.append(_measurement(_number(row.get("size")), time_us * 1e-6, factor or ratio))
    return [row for row in found if row is not None]


def _own(
    value: Mapping[str, Any], kind: CollectiveKind | None, n_ranks: int | None, source: str
) -> list[Measurement]:
    if kind is None and value.get("collective") in tuple(CollectiveKind):
        kind = CollectiveKind(value["collective"])
    ranks = value.get("ranks")
    if n_ranks is None and isinstance(ranks, int) and 2 <= ranks <= MAX_RANKS:
        n_ranks = ranks
    factor, found = _factor(kind, n_ranks), []
    for row in _list(value["rows"], "rows", source):
        own, steps = row.get("bytes_factor"), row.get("steps")
        steps = steps if isinstance(steps, int) and 0 < steps < 2**31 else None
        size, time_s = _number(row.get("size_bytes")), _number(row.get("time_s"))
        found.append(_measurement(size, time_s, factor if own is None else max(0.0, _number(own)), steps))
    return [row for row in found if row is not None]
