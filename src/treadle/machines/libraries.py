"""The library that runs on a fabric: NCCL on NVIDIA's GPUs, RCCL on AMD's, whose model is here.

RCCL's model is NCCL's with tables of each machine in the place of caps.

ROCm/rccl, October 2024 (NCCL 2.21.5), src/graph/tuning.cc: tuning models 4 (MI250X) and 5 (MI300X).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import floor, log2
from types import MappingProxyType
from typing import Any

from treadle.machines.achievable import SIZE_RANGES, Achievable, achievable
from treadle.machines.nccl import PROTOCOLS, Cell, ChannelGraph, LibraryModel, nccl_model, post_us, steps_of
from treadle.machines.system import Generation, System, system_of
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

VERSION = "2.21.5"

_LAUNCH_US = {"LL": 12.0, "LL128": 12.0, "Simple": 17.0}
_MI250_BUSBW = 161.4
"""Stated for the machine (baseBw), in the place of channels and their speed."""
_XGMI_SHARE = 48 / 64
"""Share of a link that the search counts."""


@dataclass(frozen=True)
class _Tuning:
    """Constants of an algorithm on a machine, by protocol: microseconds, shares of bandwidth, corrections."""

    hop: tuple[float, float, float]
    network: tuple[float, float, float]
    shares: tuple[tuple[float, float, float], tuple[float, float, float]]
    """First for up to two boxes, then for more."""
    corrections: Mapping[str, tuple[float, ...]]
    """Shares at sizes from 64 B in powers of two."""


_TUNINGS = {
    (Generation.MI300, "ring"): _Tuning(
        *((0.8, 0.8, 2.1), (9.5, 9.5, 320), ((0.08, 0.08, 1), (0.08, 0.08, 1))),
        {
            "LL": (*(0.1,) * 11, 1, 0.2, 1, 0.4, 0.4, 0.1, 0.2, 0.2, *(0.1,) * 8),
            "Simple": (*(0.1,) * 22, 1, 0.8, 1, 1, 1),
        },
    ),
    (Generation.MI300, "tree"): _Tuning(
        *((0.9, 0.9, 2.3), (10.5, 10.5, 25), ((0.06, 0.06, 0.11), (0.06, 0.06, 0.59))),
        {
            "LL": (*(0.1,) * 6, 1, 1, 1, 1, 1, 0.6, 1, 0.9, 1, 1, *(0.1,) * 11),
            "Simple": (*(0.1,) * 15, 0.7, 1, 1, 1, 1, 1, 0.7, 0.7, 0.5, 0.6, 0.6, 0.6),
        },
    ),
    (Generation.MI200, "ring"): _Tuning(
        *((0.8, 2.2, 3.6), (35.4, 87.8, 209.2), ((0.15, 0.41, 1), (0.15, 0.41, 1))),
        {
            "LL": (*(0.1,) * 11, 0.2, 0.2, 0.1, 0.3, 0.1, 0.1, 0.1, 0.2, *(0.1,) * 8),
            "LL128": (
                *(0.4, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.1, 0.3, 1, 1, 0.7, 0.8, 0.5),
                *(1, 1, 1, 1, 1, 0.9, 0.8, 0.5, 0.4, 0.3, 0.3),
            ),
            "Simple": (*(0.1,) * 9, *(1, 1, 0.8, 0.5, 0.1, 0.7, 0.2, 0.4, 0.4, 0.6, 0.7, 0.9), *(1,) * 6),
        },
    ),
    (Generation.MI200, "tree"): _Tuning(
        *((0.8, 1.4, 2.5), (32.2, 34.4, 47.6), ((0.16, 1.09, 1.61), (0.16, 1.09, 1.08))),
        {
            "LL": (*(0.1,) * 8, 1, 0.1, 0.1, 0.2, 0.4, 0.6, 0.5, *(0.1,) * 12),
            "LL128": (*(0.1,) * 9, 0.2, 0.1, 0.1, 0.2, 1, 0.5, *(0.2,) * 12),
            "Simple": (
                *(1, 1, 1, 1, 1, 1, 1, 1, 0.8, 0.4, 0.3, 0.3, 0.1, 0.1, 1, 1, 0.7),
                *(0.5, 0.6, 0.5, 0.6, 0.6, 0.5, 0.6, 0.6, 0.6, 0.7),
            ),
        },
    ),
}


class RcclModel(LibraryModel):
    """RCCL's choice of algorithm on a system of AMD GPUs; see `LibraryModel`."""

    name = "rccl"

    @property
    def used_channels(self) -> int:
        """Channels that a communicator opens; 0: not known."""
        return 0 if self.system.generation is Generation.MI200 else super().used_channels

    @property
    def _is_one_mi300_box(self) -> bool:
        return self.system.generation is Generation.MI300 and self.system.boxes == 1

    def _cells(self, kind: CollectiveKind) -> list[Cell]:
        algorithms = ("tree", "ring") if kind is CollectiveKind.ALLREDUCE else ("ring",)
        return [
            (algorithm, protocol)
            for algorithm in algorithms
            if kind is not CollectiveKind.ALLTOALL
            for protocol in _TUNINGS[self.system.generation, algorithm].corrections
            if (algorithm, protocol) != ("tree", "Simple") or not self._is_one_mi300_box
        ]

    def _corrections(self, _: CollectiveKind, cell: Cell, size_bytes: int) -> tuple[float, float]:
        if cell[0] == "ring" and self.system.boxes == 1:
            return 1.0, 1.0
        factors = _TUNINGS[self.system.generation, cell[0]].corrections[cell[1]]
        return factors[max(0, min(size_bytes.bit_length() - 7, len(factors) - 1))], 1.0

    def _algbw(self, kind: CollectiveKind, algorithm: str, protocol: str) -> float:
        shares = _TUNINGS[self.system.generation, algorithm].shares[self.system.boxes > 2]
        share = shares[PROTOCOLS.index(protocol)]
        busbw = self.graph.channels * self.graph.intra
        return busbw * share * (0.5 if algorithm == "tree" else self.n_ranks / steps_of(kind, self.n_ranks))

    def _latency_us(self, kind: CollectiveKind, algorithm: str, protocol: str) -> float:
        at, system = PROTOCOLS.index(protocol), self.system
        tuning = _TUNINGS[system.generation, algorithm]
        hop, network = tuning.hop[at], tuning.network[at]
        if algorithm == "tree":
            doublings = floor(log2(system.boxes))
            return _LAUNCH_US[protocol] + 2 * ((system.gpus_per_box - 1) * hop + doublings * network)
        if kind.is_rooted:
            return _LAUNCH_US[protocol] + (hop if system.boxes == 1 else network)
        between = 0
        if system.boxes > 1:
            between = 2 * system.boxes if kind is CollectiveKind.ALLREDUCE else system.boxes - 1
            hop = max(hop, post_us(system, protocol))
        return _LAUNCH_US[protocol] + (steps_of(kind, self.n_ranks) - between) * hop + between * network


def rccl_model(system: System, *, version: str = VERSION) -> LibraryModel:
    """Return RCCL's model on a system of AMD GPUs, with the channels that its search should find."""
    if system.generation is Generation.MI200:
        # boxes of four GPUs with three links each carry less than the machine of the table
        most = min(_MI250_BUSBW, system.link_bytes_per_s / 1e9 or _MI250_BUSBW)
        return RcclModel(system, version, ChannelGraph(1, most, most))
    # four rings over each of a GPU's links to the others: 28 on a box of eight
    channels = 4 * max(1, system.gpus_per_box - 1)
    total = system.link_bytes_per_s / 1e9 * _XGMI_SHARE
    if system.boxes > 1:
        total = min(total or float("inf"), system.nics * system.nic_bytes_per_s / 1e9)
    return RcclModel(system, version, ChannelGraph(channels, total / channels, total / channels))


def library_model(topology: Topology) -> LibraryModel | Unsupported:
    """Return the model by which the fabric's library chooses algorithms.

    Parameters
    ----------
    topology : Topology

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> print(planning.library_model(treadle.parse("mi300x:1")))
    RCCL 2.21.5, 28 channels x 12 GB/s
    """
    system = system_of(topology)
    if isinstance(system, Unsupported):
        return system
    return library_of(system)


STATED: ContextVar[Mapping[str, Any]] = ContextVar("STATED", default=MappingProxyType({}))
"""Fields of `LibraryModel` that a log states, in the place of those that are computed."""


def library_of(system: System) -> LibraryModel:
    """Return the model of the library that runs on a system, with what a log states of it."""
    model = rccl_model(system) if system.generation.is_amd else nccl_model(system)
    return replace(model, **STATED.get())


_MODEL_ERROR = 0.145
_MODEL_RATIOS = ((10, 1.25), (15, 1.38), (20, 1.2), (23, 1.45), (26, 1.21), (29, 1.15))
"""Medians of measured over predicted time at sizes as powers of two; between them by proportion."""
_MODEL_BANDS = ((0.827, 1.669), (0.884, 1.736), (1.018, 1.742))
"""Measured over predicted time on 807 rows of four NVLink machines (A100, H200, B300, GB300), half precision:
5th and 95th percentiles by `SIZE_RANGES`; `_MODEL_ERROR` is the median error."""


def achievable_time(system: System, kind: CollectiveKind, size_bytes: int) -> Achievable | Unsupported:
    """Return the time that a library achieves: by measured rows, else by its model and their median ratio.

    Parameters
    ----------
    system : System
    kind : CollectiveKind
    size_bytes : int
        As nccl-tests counts.
    """
    found = achievable(system, kind, size_bytes)
    if isinstance(found, Achievable) or kind is CollectiveKind.ALLTOALL:
        return found
    model = library_of(system)
    return scaled_time(model, kind, size_bytes, model.pick(kind, size_bytes).time_s)


def scaled_time(model: LibraryModel, kind: CollectiveKind, size_bytes: int, model_s: float) -> Achievable:
    """Return the time that a library achieves where its model predicts this one."""
    low, high = _MODEL_BANDS[sum(size_bytes > end for end in SIZE_RANGES)]
    system = model.system
    rows = "no measured rows of such a box"
    if system.generation.is_amd or system.boxes > 1:  # unlike the machines of the rows: the widest band
        low, high = min(one for one, _ in _MODEL_BANDS), max(one for _, one in _MODEL_BANDS)
        rows = f"no measured rows of {'AMD' if system.generation.is_amd else 'several boxes'}"
    powers, ratios = zip(*_MODEL_RATIOS, strict=True)
    at = min(max(log2(max(size_bytes, 1)), powers[0]), powers[-1])
    place = max(1, next(number for number, power in enumerate(powers) if at <= power))
    share = (at - powers[place - 1]) / (powers[place] - powers[place - 1])
    ratio = ratios[place - 1] + share * (ratios[place] - ratios[place - 1])
    source = f"estimated: {model.name.upper()}'s model x {round(ratio, 2)}, a median ratio in one box; {rows}"
    time_s, band = model_s * ratio, (model_s * low, model_s * high)
    return Achievable(kind, size_bytes, model.n_ranks, time_s, *band, source, _MODEL_ERROR)
