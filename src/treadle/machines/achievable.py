"""Times that NCCL achieves, by curves fitted on measured rows; each with its source, error and 90% band.

`measured.toml` has the fitted constants; ``benchmarks/measured.py`` makes it with ``tools/measured_fit.py``.
"""

from __future__ import annotations

import tomllib
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import e, exp, log, log2
from typing import Any, NamedTuple

from treadle.brief import brief
from treadle.machines.system import Generation, System, system_of
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.topologies.topology import Topology
from treadle.units import format_link_bandwidth
from treadle.unsupported import Unsupported

_WIDTH = 0.9
"""Doublings of the size over which channels are added."""
_GROWTH_FROM, GROWTH_TO = 27.0, 29.0
"""Sizes as powers of two: where rates are stated, and the largest that is measured."""
SIZE_RANGES = (2**16, 2**22)
"""Largest small and middle sizes in bytes; a band is stated for each range."""


class Segment(NamedTuple):
    """Constants of a curve up to a size: one protocol. Microseconds, doublings, GB/s of algbw."""

    name: str
    end_bytes: int
    latency_us: float
    more_us: float
    middle: float
    rate: float
    growth: float
    power: float


def latency_us(base: Any, more: Any, middle: Any, log_size: Any) -> Any:
    """Return the latency at a size: `more` comes in around `middle`, as channels are added."""
    return base + more / (1 + e ** ((middle - log_size) / _WIDTH))


def joined_us(launch: Any, latency: Any, transfer: Any, growth: Any, power: Any, log_size: Any) -> Any:
    """Return the time of latency and transfer, which partly overlap; numbers or arrays.

    Parameters
    ----------
    log_size : float or array
        Of the size up to which efficiency grows: at most `GROWTH_TO`.
    """
    transfer = transfer * 2.0 ** (growth * (_GROWTH_FROM - log_size))
    return launch + (latency**power + transfer**power) ** (1 / power)


@brief("time_s", "low_s", "high_s", "source")
@dataclass(frozen=True)
class Achievable:
    """Time of a collective that NCCL achieves, fitted on measurements.

    Parameters
    ----------
    collective : CollectiveKind
    size_bytes : int
        As nccl-tests counts: the larger buffer of a rank.
    n_ranks : int
    time_s : float
    low_s, high_s : float
        Band that holds 90% of measured rows.
    source : str
        Which rows, and what was concluded from them.
    error : float
        Median of abs(predicted / measured - 1) on rows left out of such fits.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = planning.achievable(treadle.parse("dgx_a100:1"), "allreduce", 2**29)
    >>> round(found.busbw / 1e9)
    230
    """

    collective: CollectiveKind
    size_bytes: int
    n_ranks: int
    time_s: float
    low_s: float
    high_s: float
    source: str
    error: float

    @property
    def algbw(self) -> float:
        """Bytes per second of the collective."""
        return self.size_bytes / self.time_s

    @property
    def busbw(self) -> float:
        """Bytes per second as nccl-tests counts them."""
        return self.algbw * float(busbw_factor(self.collective, self.n_ranks))


@cache
def measured_constants() -> Mapping[str, Any]:
    """Return `measured.toml`: curves, bands and errors of the last fit."""
    text = (files("treadle.machines") / "measured.toml").read_text(encoding="utf-8")
    constants: Mapping[str, Any] = tomllib.loads(text)
    return constants


def curve_us(launch: float, segments: Sequence[Sequence[Any]], size_bytes: int, share: float = 1.0) -> float:
    """Return microseconds of one curve.

    Parameters
    ----------
    segments : sequence of Segment
    share : float
        Of the rates of the measured system.
    """
    segment = next((one for one in segments if size_bytes <= one[1]), segments[-1])
    _, _, base, more, middle, rate, growth, power = segment
    size = log2(size_bytes)
    latency, transfer = latency_us(base, more, middle, size), size_bytes / (rate * share) / 1e3
    return float(joined_us(launch, latency, transfer, growth, power, min(size, GROWTH_TO)))


@dataclass(frozen=True)
class _Rows:
    """Measured systems that stand for one, the share of their rate, and the case of their errors."""

    names: tuple[str, ...]
    case: str
    note: str
    share: float = 1.0


@cache
def _rows(system: System, n_ranks: int) -> _Rows | Unsupported:
    """Return the measured rows nearest to a system."""
    generation = system.generation
    if system.boxes > 1:
        return Unsupported("measured rows are of one box")
    if not 2 <= n_ranks <= 8:
        return Unsupported("measured rows are of 2 to 8 GPUs")
    if generation.is_amd or generation is Generation.VOLTA:
        return Unsupported(f"no measured rows of {generation.value}")
    names: tuple[str, ...]
    if not system.has_fast_links:
        names, nominal = ("rtx_pro_6000_server",), 63
    elif generation is Generation.AMPERE:
        names, nominal = ("a100_sxm",), 300
    elif generation is Generation.HOPPER:
        names, nominal = ("h200_sxm", "h200_sxm NCCL 2.23"), 450
    else:
        is_tray = n_ranks <= 4 and system.cpu == "arm"
        names, nominal = ("gb300" if is_tray else "b300_sxm",), 900
    share = system.link_bytes_per_s / nominal / 1e9
    if not 0.95 < share < 1.05:
        rate = format_link_bandwidth(system.link_bytes_per_s)
        return _Rows(names, "alone", f", scaled to links of {rate} by data sheet", share)
    if measured_constants()["systems"][names[0]]["sibling"]:
        return _Rows(names, "sibling", " (band: errors on another machine of this NVLink generation)")
    return _Rows(names, "sizes", "")


def achievable(
    system: System | Topology, kind: CollectiveKind | str, size_bytes: int, n_ranks: int | None = None
) -> Achievable | Unsupported:
    """Return the time that NCCL achieves on a system, or why there are no measured rows.

    Parameters
    ----------
    system : System or Topology
    kind : CollectiveKind or str
    size_bytes : int
        As nccl-tests counts: the larger buffer of a rank; all-to-all: one rank's buffer.
    n_ranks : int, optional
        GPUs that take part; default all.

    Notes
    -----
    A topology does not name its GPU, so systems of one NVLink generation share their rows and the band of a
    sibling. Within a protocol the time grows with the size; where NCCL changes its protocol it may jump.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> found = planning.achievable(treadle.parse("dgx_a100:1"), "allgather", 2**20)
    >>> f"{found.time_s * 1e6:.0f} us, {found.error:.1%}, {found.source}"
    '26 us, 3.1%, A100 SXM, NCCL 2.27.3'
    >>> print(planning.achievable(treadle.parse("mi300x:1"), "allgather", 2**20))
    no measured rows of mi300
    """
    found = system_of(system) if isinstance(system, Topology) else system
    if isinstance(found, Unsupported):
        return found
    kind = CollectiveKind(kind)
    n_ranks = found.gpus_per_box * found.boxes if n_ranks is None else n_ranks
    rows = _rows(found, n_ranks)
    if isinstance(rows, Unsupported):
        return rows
    if kind.is_rooted:
        return Unsupported(f"no measured rows of {kind.value}")
    constants = measured_constants()
    systems = [constants["systems"][name] for name in rows.names]
    curves = [(one["launch_us"], one[kind.value]) for one in systems if kind.value in one]
    counts = [int(count) for count in curves[0][1]]
    low = max(count for count in counts if count <= n_ranks)
    high = min(count for count in counts if count >= n_ranks)
    weight = 0.0 if low == high else log(n_ranks / low) / log(high / low)
    size = max(size_bytes, 1)
    logs = [
        (1 - weight) * log(curve_us(launch, of[str(low)], size, rows.share))
        + (weight and weight * log(curve_us(launch, of[str(high)], size, rows.share)))
        for launch, of in curves
    ]
    time_s = exp(sum(logs) / len(logs)) / 1e6
    cases = (rows.case,) if low == high else (rows.case, "gpus")
    bands = [constants["bands"][rows.names[0] if case == "sizes" else case] for case in cases]
    form = "alltoall" if kind is CollectiveKind.ALLTOALL else "rings"
    half = max(band[form][bisect(SIZE_RANGES, size - 1)] for band in bands)
    errors = constants["errors"][cases[-1]]
    error = errors.get(rows.names[0], errors["all"])[0]
    source = " and ".join(one["source"] for one in systems) + rows.note
    source += "" if size <= 2**GROWTH_TO else "; extrapolated from 512MB"
    low_s, high_s = time_s * exp(-half), time_s * exp(half)
    return Achievable(kind, size_bytes, n_ranks, time_s, low_s, high_s, source, error)
