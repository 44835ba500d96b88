"""TE-CCL's schedules as its public code writes them: JSON whose flows and paths are sentences.

An allgather lists its flows, a chunk over a hop in an epoch; an all-to-all lists for each demand paths with
volumes. Keys carry numbers that differ between versions ("7-Flows", "6-Flows"): their words are looked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.input_files import parse_json

MAX_TEXT = 256 * 2**20
"""Largest text read, characters."""
MAX_HOPS = 10**6
"""Most hops of all flows and paths."""
MAX_UNITS = 1000
"""Most equal parts of a chunk; solvers' volumes that are no such parts are rounded to them."""
_MOST_VOLUME = 10**4
_SIMPLE = 64
_NEAR = Fraction(1, 10**4)
"""A volume so near to a fraction of a small denominator is meant to be it."""
_HOP = (
    r"(\d{1,7})->(\d{1,7})(?: with volume ([0-9.eE+-]{1,30}))? in epoch (\d{1,10})"
    r"(?: via switches (\d{1,7}(?: ?-> ?\d{1,7}){0,20}))?"
)
_FLOW = re.compile(rf"Chunk (\d{{1,7}}) from (\d{{1,7}}) traveled over {_HOP}")
_STEP = re.compile(_HOP)
_DEMAND = re.compile(r"Demand at (\d{1,7}) for chunk (\d{1,7}) from (\d{1,7}) met by epoch -?\d{1,10}")


@dataclass(frozen=True)
class TecclHop:
    """From GPU to GPU, over switches; `volume` in chunks."""

    tail: int
    head: int
    epoch: int
    via: tuple[str, ...]
    volume: Fraction


@dataclass(frozen=True)
class TecclFlow:
    """A chunk of a GPU over a hop."""

    chunk: int
    source: int
    hop: TecclHop


@dataclass(frozen=True)
class TecclDemand:
    """What a GPU is to get, and the paths by which it does; of an allgather the paths are left out."""

    chunk: int
    source: int
    target: int
    paths: tuple[tuple[TecclHop, ...], ...]


@dataclass(frozen=True)
class TecclFile:
    """A schedule as written; GPUs keep the numbers that the file gives them."""

    is_alltoall: bool
    gpus: tuple[int, ...]
    flows: tuple[TecclFlow, ...]
    demands: tuple[TecclDemand, ...]

    @cached_property
    def units(self) -> int:
        """Equal parts of a chunk that all volumes are whole numbers of; `MAX_UNITS` where that is more."""
        if not self.is_alltoall:
            return 1
        parts = 1
        for volume in {path[0].volume for demand in self.demands for path in demand.paths}:
            simple = volume.limit_denominator(_SIMPLE)
            parts = lcm(parts, simple.denominator)
            if abs(simple - volume) > _NEAR or parts > MAX_UNITS:
                return MAX_UNITS
        return parts


def read(data: bytes, terms: Terms) -> TecclFile:
    """Read a schedule."""
    return parse_teccl_json(*decoded(data, terms, "TE-CCL schedule"))


def parse_teccl_json(text: str, source: str) -> TecclFile:
    """Read a schedule; FormatError if it is malformed, hostile, or serves neither of the two collectives."""
    if len(text) > MAX_TEXT:
        raise FormatError(f"{len(text)} characters, expected at most {MAX_TEXT}", source=source)
    top = parse_json(text, source=source)
    if not isinstance(top, dict):
        raise FormatError("expected an object", source=source)
    flows = _member(top, "flows", list, source)
    paths = _member(top, "chunk paths", dict, source)
    if flows is None:
        raise FormatError("lacks its flows (a key such as 7-Flows)", source=source)
    if len(flows) > MAX_HOPS or len(paths or ()) > MAX_HOPS:
        raise FormatError(f"more than {MAX_HOPS} flows or paths", source=source)
    has_volumes = any(isinstance(entry, str) and " with volume " in entry for entry in flows)
    found = tuple(_flow(entry, source) for entry in flows)
    demands = _demands(paths or {}, has_volumes, source)
    if has_volumes and not demands:
        raise FormatError("an all-to-all lacks its paths (a key such as 8-Chunk paths)", source=source)
    numbers = {number for flow in found for number in (flow.source, flow.hop.tail, flow.hop.head)}
    numbers |= {number for demand in demands for number in (demand.source, demand.target)}
    file = TecclFile(has_volumes, tuple(sorted(numbers)), () if has_volumes else found, demands)
    _check(file, source)
    return file


def _member(top: dict[str, Any], word: str, kind: type, source: str) -> Any:
    for key, value in top.items():
        if key.lower().endswith(word):
            if not isinstance(value, kind):
                raise FormatError(f"{key[:40]!r}: expected a {kind.__name__}", source=source)
            return value
    return None


def _flow(entry: object, source: str) -> TecclFlow:
    match = _FLOW.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        raise FormatError(
            f"flow {str(entry)[:60]!r}: expected 'Chunk C from S traveled over A->B in epoch K'",
            source=source,
        )
    return TecclFlow(int(match[1]), int(match[2]), _hop(match.groups()[2:], source))


def _hop(groups: tuple[str | None, ...], source: str) -> TecclHop:
    tail, head, volume, epoch, via = groups
    try:
        # the solver's volumes are floats; they are simple fractions of a chunk where it is done
        share = Fraction(1) if volume is None else Fraction(volume).limit_denominator(10**6)
    except (ValueError, ZeroDivisionError):
        raise FormatError(f"volume {volume!r}: expected a number", source=source) from None
    if not 0 <= share <= _MOST_VOLUME:
        raise FormatError(f"volume {volume}: expected 0 to {_MOST_VOLUME}", source=source)
    names = tuple(name.strip() for name in via.split("->")) if via else ()
    return TecclHop(int(tail or 0), int(head or 0), int(epoch or 0), names, share)


def _demands(paths: dict[str, Any], has_volumes: bool, source: str) -> tuple[TecclDemand, ...]:
    found, hops = [], 0
    for key, value in paths.items():
        match = _DEMAND.fullmatch(key)
        if match is None or not isinstance(value, list):
            raise FormatError(
                f"path {key[:60]!r}: expected 'Demand at D for chunk C from S met by epoch K' and a list",
                source=source,
            )
        target, chunk, origin = map(int, match.groups())
        routes = tuple(_path(one, source) for one in value) if has_volumes else ()
        hops += sum(map(len, routes))
        if hops > MAX_HOPS:
            raise FormatError(f"more than {MAX_HOPS} hops", source=source)
        found.append(TecclDemand(chunk, origin, target, routes))
    return tuple(found)


def _path(value: object, source: str) -> tuple[TecclHop, ...]:
    """A path's hops, each a sentence, or an epoch and a sentence."""
    steps = value if isinstance(value, list) else [value]
    hops = []
    for step in steps:
        text = step[1] if isinstance(step, list) and len(step) == 2 else step
        match = _STEP.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise FormatError(f"hop {str(step)[:60]!r}: expected 'A->B in epoch K'", source=source)
        hops.append(_hop(match.groups(), source))
    if not hops:
        raise FormatError("a path without hops", source=source)
    return tuple(hops)


def _check(file: TecclFile, source: str) -> None:
    """Refuse what is neither an allgather nor an all-to-all, or has its hops one by one over switches."""
    n = len(file.gpus)
    if not 2 <= n <= 4096:
        raise FormatError(f"{n} GPUs, expected 2 to 4096", source=source)
    senders = {flow.source for flow in file.flows} | {demand.source for demand in file.demands}
    strangers = set(file.gpus) - senders
    if strangers:
        raise FormatError(
            f"node {min(strangers)} is passed and has no chunk of its own: hops over switches one at a time, "
            "as rounds of A* have them, are not read; expected '... via switches ...'",
            source=source,
        )
    if not file.is_alltoall and file.demands:
        asked = {(demand.source, demand.chunk) for demand in file.demands}
        if len(file.demands) != len(asked) * (n - 1):
            raise FormatError("its demands are those of no allgather", source=source)
