"""The busbw that a healthy system reaches, by measured rows of its kind or by NCCL's own model.

NCCL's model meets public peaks to 10%, but leaves out that pipelines fill: with few bytes per rank measured
values are far lower, so the band widens as a rank's part shrinks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from treadle.brief import brief
from treadle.diagnosis.library_reports import PER_RANK
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_reader import read_log
from treadle.diagnosis.log_values import nvls_line
from treadle.errors import FormatError
from treadle.machines.achievable import achievable
from treadle.machines.libraries import STATED, rccl_model
from treadle.machines.nccl import LibraryModel, nccl_model
from treadle.machines.system import Generation, System
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.unsupported import Unsupported

_LEAST_SHARES = (
    *((2**10, 0.2), (2**16, 0.3), (2**20, 0.45), (2**22, 0.55)),
    *((2**24, 0.7), (2**26, 0.82), (2**28, 0.85)),
)
"""Bytes per rank, and least share of NCCL's model that healthy systems of public threads reach there."""
_MOST_OF_A_HOST = 16
_LEAST_OF_BAND = 0.92
"""Factor on the slow end of the band of measured rows, which holds 90% of them."""
_LEAST_OF_RACKS = 0.92
"""Factor where NVLink joins hosts: NCCL's model is 8 to 19% above what such racks reach."""
_LEAST_OVER_PCIE = 0.4
"""Share over PCIe: where GPUs sit and what CPUs carry is not known."""
_LEAST_WITHOUT_P2P = 0.3
_SLOTS = {
    Generation.VOLTA: 12.5,
    Generation.AMPERE: 25,
    Generation.MI200: 25,
    Generation.HOPPER: 50,
    Generation.BLACKWELL: 50,
    Generation.MI300: 50,
}
"""GB/s that 16 lanes of PCIe carry between a GPU and its NICs."""
_LEAST_OF_MI200, _LEAST_OF_FEW, _LEAST_OF_ALLTOALL = 0.6, 0.25, 0.75
"""Factors for models that are not checked: MI200, some GPUs of a board with direct links, all-to-all."""
_PROTOCOL_SHARE = 0.97
"""Share of a NIC's rate that is left for data: 48.5 of 50 GB/s."""


@brief("value", "low", "high", "source")
@dataclass(frozen=True)
class Expected:
    """A busbw that a system should reach at a size, GB/s.

    Parameters
    ----------
    low, value, high : float
        The band of healthy systems and its middle.
    source : str
        Whose model, or which measured rows, and what is run.
    kind : str
        ``predicted`` or ``achievable``.
    algorithm : str
        What the library runs; "" if that is not known.
    graph : str
        Channels that the model assumes.
    model : Expected, optional
        What the library's model predicts, where measured rows are known.
    """

    low: float
    value: float
    high: float
    source: str
    kind: str = "predicted"
    algorithm: str = ""
    graph: str = ""
    model: Expected | None = None


@dataclass(frozen=True)
class Conditions:
    """Version, settings and choices of the library that a log states.

    `algorithms` are those allowed (all if empty); `table` and `picks` come from the library itself;
    `ruled_out` are explanations that lines contradict. Fewer GPUs than `full_board` may be joined by some of
    their NVLinks only.
    """

    nvls: bool = True
    has_p2p: bool = True
    algorithms: tuple[str, ...] = ()
    table: Mapping[tuple[CollectiveKind, str, str], tuple[float, float]] | None = None
    picks: Mapping[tuple[CollectiveKind, int], tuple[str, str, int]] | None = None
    ruled_out: tuple[str, ...] = ()
    full_board: int = 0


def conditions(log: Log, n_ranks: int, *, has_p2p: bool = True) -> Conditions:
    """Return what a log says of version, settings, tuner table and picks."""
    version = re.match(r"\d+\.\d+", log.version)
    nvls, algorithms = log.setting("NCCL_NVLS_ENABLE"), log.setting("NCCL_ALGO")
    names = () if algorithms is None else tuple(algorithms.value.casefold().replace("_", "").split(","))
    picks = {}
    for one in log.picks:
        size = one.size * (n_ranks if one.kind in PER_RANK else 1)
        picks[one.kind, size] = one.algorithm, one.protocol, one.channels
    is_direct = log.rdma(direct=True) is not None
    contradicted = {
        "no-gdr": is_direct and log.rdma(direct=False) is None,
        "tcp": is_direct or log.rdma(direct=False) is not None,
        "no-p2p": log.transport("P2P") is not None and log.transport("SHM") is None,
        "no-nvls": nvls_line(log) is not None,
    }
    return Conditions(
        nvls=(nvls is None or nvls.value != "0")
        and (not version or tuple(map(int, version[0].split("."))) >= (2, 17)),
        has_p2p=has_p2p,
        algorithms=() if any(name.startswith("^") for name in names) else names,
        table=log.tuner,
        picks=picks,
        ruled_out=tuple(name for name, is_so in contradicted.items() if is_so),
    )


def library(system: System, given: Conditions) -> LibraryModel:
    """Return the model of the library under conditions."""
    # one version for all: 2.28 mended the bandwidth of NVLink SHARP, which older models overstate
    model = rccl_model(system) if system.generation.is_amd else nccl_model(system)
    nvls = model.nvls if given.nvls else None
    return replace(model, nvls=nvls, table=given.table or {}, picks=given.picks or {})


def choice(
    system: System, kind: CollectiveKind, size: int, given: Conditions
) -> tuple[tuple[str, str], float, LibraryModel] | Unsupported:
    """Return algorithm and protocol that the library runs, the seconds that it predicts, its model."""
    if kind is CollectiveKind.ALLTOALL:
        return Unsupported("libraries have no model of an all-to-all")
    if system.boxes > 1 and (not system.nics or system.gpus_per_box > _MOST_OF_A_HOST):
        return Unsupported(
            "racks joined by NICs have no model that was checked" if system.nics else "no NICs"
        )
    model = library(system, given)
    allowed = given.algorithms
    times = {cell: time for cell, time in model.times(kind, size) if not allowed or cell[0] in allowed}
    if not times:
        return Unsupported(f"NCCL_ALGO={','.join(allowed)} leaves nothing to run")
    stated = model.picks.get((kind, size), ("", "", 0))[:2]
    cell = stated if stated in times else min(times, key=lambda one: times[one])
    return cell, times[cell], model


def expected(system: System, kind: CollectiveKind, size: int, given: Conditions) -> Expected | Unsupported:
    """Return the busbw that a system should reach at a size: achievable by measured rows, else predicted.

    Parameters
    ----------
    system : System
    kind : CollectiveKind
    size : int
        As nccl-tests counts, bytes.
    given : Conditions
        Measured rows are of the library's own choices, so restricted ones are predicted.
    """
    model = predicted(system, kind, size, given)
    is_free = given.nvls and not (given.algorithms or given.table or given.picks)
    found = achievable(system, kind, size) if is_free else Unsupported("the library's choice is restricted")
    if isinstance(found, Unsupported):
        return model
    value = found.busbw / 1e9
    least, most = value * found.time_s / found.high_s * _LEAST_OF_BAND, value * found.time_s / found.low_s
    source = f"measured rows: {found.source}"
    if isinstance(model, Unsupported):
        return Expected(least, value, most, source, "achievable")
    least = min(least, value * model.low / model.value)
    return Expected(least, value, most, source, "achievable", model.algorithm, model=model)


def predicted(system: System, kind: CollectiveKind, size: int, given: Conditions) -> Expected | Unsupported:
    """Return the busbw that the library's model predicts; parameters as of `expected`."""
    n, boxes = system.boxes * system.gpus_per_box, system.boxes
    nics = min(system.nics * system.nic_bytes_per_s / 1e9, system.gpus_per_box * _SLOTS[system.generation])
    chosen = choice(system, kind, size, given)
    if kind is CollectiveKind.ALLTOALL and boxes > 1:
        value = nics / system.gpus_per_box * boxes / (boxes - 1) * _PROTOCOL_SHARE
        algorithm, graph, source = "", "", "each GPU's share of the NICs"
    elif isinstance(chosen, Unsupported):
        return chosen
    else:
        cell, time_s, model = chosen
        algorithm, factor = cell[0], float(busbw_factor(kind, n))
        value = size / time_s / 1e9 * factor
        if boxes > 1:  # trees across two boxes pass each NIC once in and once out
            is_halved = kind is CollectiveKind.ALLREDUCE and boxes == 2 and algorithm != "ring"
            value = min(value, nics * _PROTOCOL_SHARE * (factor if is_halved else 1))
        graph = str(model.nvls if algorithm.startswith("nvls") else model.graph)
        source = f"{model.name.upper()} {model.version}'s model: {'/'.join(cell)}"
    per_rank, shares = zip(*_LEAST_SHARES, strict=True)
    share = float(np.interp(math.log(size / n), np.log(per_rank), shares))
    share *= _LEAST_OF_RACKS if system.gpus_per_box > _MOST_OF_A_HOST else 1
    share *= _LEAST_OF_MI200 if system.generation is Generation.MI200 else 1
    share *= _LEAST_OF_ALLTOALL if kind is CollectiveKind.ALLTOALL else 1
    if system.has_fast_links and 1 < system.gpus_per_box < given.full_board:
        share *= _LEAST_OF_FEW
    if not system.has_fast_links and system.gpus_per_box > 1:
        share = min(share, _LEAST_OVER_PCIE if given.has_p2p else _LEAST_WITHOUT_P2P)
    low = value * share
    if boxes == 2 and algorithm in ("tree", "nvlstree"):  # rings that fill the NICs are healthy, too
        ring = predicted(system, kind, size, replace(given, algorithms=("ring",), table=None, picks=None))
        low = low if isinstance(ring, Unsupported) else min(low, ring.low)
    return Expected(low, value, value * 1.15, source, algorithm=algorithm, graph=graph)


@contextmanager
def library_log(log: str | Path | Log) -> Iterator[None]:
    """Let library models have the version, tuner table and choices that a log of NCCL states.

    Parameters
    ----------
    log : str, Path or Log
        Written with ``NCCL_DEBUG=INFO`` and ``NCCL_DEBUG_SUBSYS=INIT,TUNING``.

    Raises
    ------
    FormatError
        If the log states neither.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> from treadle import planning
    >>> text = "h:1:1 [0] NCCL INFO AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE time 400.0"
    >>> _ = Path("nccl.log").write_text(text)
    >>> with planning.library_log("nccl.log"):
    ...     print(planning.library_model(treadle.parse("dgx_h100:1")).pick("allreduce", 2**26))
    ring/Simple
    """
    read = log if isinstance(log, Log) else read_log(log)
    given = conditions(read, read.n_ranks or 1)
    if not (given.table or given.picks):
        raise FormatError(
            "no tuner table and no choice of an algorithm; run with NCCL_DEBUG_SUBSYS=INIT,TUNING",
            source=str(log) if not isinstance(log, Log) else "log",
        )
    stated = {"table": given.table or {}, "picks": given.picks or {}}
    version = re.match(r"\d+\.\d+(\.\d+)?", read.version)
    token = STATED.set(stated | ({"version": version[0]} if version else {}))
    try:
        yield
    finally:
        STATED.reset(token)
