"""NCCL's choice of algorithm and protocol, and the time that it predicts, by its tuning model.

NCCL searches each box for channels, gives every algorithm and protocol a latency and a bandwidth, and chooses
the least latency + bytes / bandwidth. Formulas and constants: NCCL 2.30, src/graph/tuning.cc
(ncclTopoTuneModel, ncclTopoGetAlgoTime), search.cc (listed speeds) and enqueue.cc (channels used). The search
is replaced by its result on boxes of equal GPUs: the fastest listed speed, and all channels that fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, log2

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.machines.system import Generation, System
from treadle.schedules.collective import CollectiveKind
from treadle.spelling import counted
from treadle.units import format_link_bandwidth

VERSION = "2.30"

_ALLREDUCE = CollectiveKind.ALLREDUCE
_GATHERS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
PROTOCOLS = ("LL", "LL128", "Simple")

# microseconds, by protocol: launch, then a hop over NVLink, PCIe and the network
_RING = ((6.6, 14, 8.4), (0.6, 1.9, 3.4), (1, 2.5, 5.7), (2.7, 4, 14))
_TREE = ((6.8, 14, 8.4), (0.6, 1.25, 4), (1, 1.9, 4), (5, 8.5, 14))
_NVLS_HOP_US, _NVLS_TREE_NETWORK_US = 25, 20.9
_PAT_LAUNCH_US, _PAT_NETWORK_US, _PAT_RANK_US = 8, 14 / 3.5, 2.8

_LL_BOXES = {"amd": (22.5, 19), "intel": (39, 20.4), "arm": (39, 20.4)}
"""Limit of LL across two boxes and more, all channels together, GB/s."""


@dataclass(frozen=True)
class _Caps:
    """Limits in GB/s: of LL in one box; of a channel on one, two and more boxes; speeds in the search."""

    ll_one_box: float
    ring_ll128: float
    tree: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    nvls_efficiency: float
    nvlink_share: float
    intra: tuple[float, ...]
    inter: tuple[float, ...]


_SLOW = (20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
_HOPPER_INTER = (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)
_AMPERE_CAPS = _Caps(
    *(87.7, 20, (24, 23.6, 17.8), (20, 20, 20), (0, 0, 0), 0, 0.8),
    *((40, 30, *_SLOW[:-4]), (48, 30, 28, 24, *_SLOW)),
)
_CAPS = {
    Generation.VOLTA: replace(_AMPERE_CAPS, ll_one_box=39, tree=(26.5, 18.5, 10)),
    Generation.AMPERE: _AMPERE_CAPS,
    Generation.HOPPER: _Caps(
        *(141, 36.7, (38.7, 41.4, 36), (36.7, 36.7, 29), (0, 57.7, 45.5), 0.85, 0.824),
        *((60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3), _HOPPER_INTER),
    ),
    Generation.BLACKWELL: _Caps(
        *(282, 40, (70, 42.8, 24), (55.6, 31.67, 20), (0, 96, 80), 0.74, 0.802),
        *((90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18), (96, 86, 80, 48, 45.1, *_HOPPER_INTER[2:])),
    ),
}

RING_SHARES = {"LL": 0.5, "LL128": 0.92, "Simple": 1.0}
"""Shares of a ring's bandwidth that are left to data."""

_TREE_FACTORS = {
    "LL": "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1",
    "LL128": "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1 1",
    "Simple": ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9",
}
"""Shares of a tree's bandwidth at sizes from 64 B in powers of two."""
TREE_FACTORS = {name: tuple(map(float, text.split())) for name, text in _TREE_FACTORS.items()}

_THREADS = {"LL": (512, 8), "LL128": (640, 8), "Simple": (512, 64)}
"""Threads of a channel, and bytes per thread before another channel is used."""


@brief("algorithm", "protocol", "channels", "time_s")
@dataclass(frozen=True)
class LibraryPick:
    """The algorithm, protocol and channels that a library runs at a size, and its predicted time.

    Parameters
    ----------
    algorithm : str
        ``ring``, ``tree``, ``nvls``, ``nvlstree`` or ``pat``.
    protocol : str
        ``LL``, ``LL128`` or ``Simple``.
    channels : int
        0: unknown.
    time_s : float
        Seconds by the library's model.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> model = planning.library_model(treadle.parse("dgx_h100:1"))
    >>> print(model.pick("allreduce", 2**20))
    ring/LL, 24 channels
    """

    algorithm: str
    protocol: str
    channels: int
    time_s: float

    def __str__(self) -> str:
        if not self.channels:
            return f"{self.algorithm}/{self.protocol}"
        return f"{self.algorithm}/{self.protocol}, {counted(self.channels, 'channel')}"


@brief("channels", "intra", "inter")
@dataclass(frozen=True)
class ChannelGraph:
    """Channels that a library's search finds in a box, and their speed.

    Parameters
    ----------
    channels : int
    intra, inter : float
        GB/s of a channel within a box and between boxes.

    Examples
    --------
    >>> from treadle import planning
    >>> print(planning.ChannelGraph(12, 30, 30))
    12 channels x 30 GB/s
    """

    channels: int
    intra: float
    inter: float

    def __str__(self) -> str:
        speeds = [
            format_link_bandwidth(round(one * 10**9)) for one in dict.fromkeys((self.intra, self.inter))
        ]
        return f"{counted(self.channels, 'channel')} x {' and '.join(speeds)}"


Cell = tuple[str, str]
"""Algorithm and protocol."""


@brief("name", "version", "graph")
@dataclass(frozen=True)
class LibraryModel:
    """A library's choice of algorithm on a system, by NCCL's rules.

    Parameters
    ----------
    system : System
    version : str
    graph : ChannelGraph
        Channels of rings and trees.
    nvls : ChannelGraph, optional
        Channels of NVLink SHARP.
    table : mapping of (CollectiveKind, algorithm, protocol) to (float, float), optional
        Latency in microseconds and algbw in GB/s from a log, which replace the formulas.
    picks : mapping of (CollectiveKind, int) to (algorithm, protocol, channels), optional
        Choices in a log, by size in bytes.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> model = planning.library_model(treadle.parse("dgx_h100:1"))
    >>> print(model)
    NCCL 2.30, 12 channels x 30 GB/s
    >>> round(model.pick("allreduce", 2**30).time_s * 1e6)
    3973
    """

    system: System
    version: str
    graph: ChannelGraph
    nvls: ChannelGraph | None = None
    table: Mapping[tuple[CollectiveKind, str, str], tuple[float, float]] = field(
        default_factory=dict, hash=False
    )
    picks: Mapping[tuple[CollectiveKind, int], tuple[str, str, int]] = field(default_factory=dict, hash=False)

    name = "nccl"

    def __str__(self) -> str:
        return f"{self.name.upper()} {self.version}, {self.graph}"

    @property
    def n_ranks(self) -> int:
        """Ranks of the system."""
        return self.system.boxes * self.system.gpus_per_box

    @property
    def _index(self) -> int:
        return min(self.system.boxes, 3) - 1

    @property
    def _caps(self) -> _Caps:
        return _CAPS[self.system.generation]

    def pick(self, kind: CollectiveKind | str, size_bytes: int) -> LibraryPick:
        """Return the library's choice at a size of nccl-tests.

        Raises
        ------
        ScheduleError
            For an all-to-all, which libraries send point to point, without a model.
        """
        kind = CollectiveKind(kind)
        times = dict(self.times(kind, size_bytes))
        if not times:
            raise ScheduleError(f"{kind}: {self.name.upper()} sends it point to point and has no model of it")
        stated = self.picks.get((kind, size_bytes))
        if stated is not None and stated[:2] in times:
            return LibraryPick(*stated, times[stated[:2]])
        # the first of equal times wins: trees are listed before rings, PAT last
        cell = min(times, key=lambda one: times[one])
        return LibraryPick(*cell, self._channels(cell, size_bytes), times[cell])

    def times(self, kind: CollectiveKind, size_bytes: int) -> Iterator[tuple[Cell, float]]:
        """Yield the predicted time in seconds of every algorithm and protocol that is allowed."""
        for algorithm, protocol in self._cells(kind):
            latency_us, algbw = self.table.get((kind, algorithm, protocol)) or (
                self._latency_us(kind, algorithm, protocol),
                self._algbw(kind, algorithm, protocol),
            )
            if algbw <= 0:
                continue
            factor, stretch = self._corrections(kind, (algorithm, protocol), size_bytes)
            yield (algorithm, protocol), (latency_us * stretch + size_bytes / (1000 * algbw * factor)) * 1e-6

    def tabulated(self, kind: CollectiveKind) -> LibraryModel:
        """Return this model with the formulas of a kind evaluated once, which makes picks quick."""
        cells = [(kind, *cell) for cell in self._cells(kind)]
        table = {cell: (self._latency_us(*cell), self._algbw(*cell)) for cell in cells}
        return replace(self, table={**table, **self.table})

    def _corrections(self, kind: CollectiveKind, cell: Cell, size_bytes: int) -> tuple[float, float]:
        """Return the factors of bandwidth and of latency at a size."""
        algorithm, protocol = cell
        log_size = size_bytes.bit_length() - 7
        corrected = algorithm == "tree" or (
            algorithm == "nvlstree"
            and self.system.generation is Generation.BLACKWELL
            and self.system.cpu != "arm"
        )
        factors = TREE_FACTORS[protocol]
        factor = factors[log_size] if corrected and 0 <= log_size < len(factors) else 1.0
        is_plateau = (
            (algorithm, protocol, kind) == ("ring", "Simple", _ALLREDUCE)
            and self.system.boxes > 1
            and size_bytes >= 64 * self.used_channels * self.n_ranks
        )
        return factor, 1.4 if is_plateau else 1.0

    def _cells(self, kind: CollectiveKind) -> list[Cell]:
        """List algorithms and protocols that the library allows."""
        if kind is CollectiveKind.ALLTOALL:
            return []
        system = self.system
        protocols = [one for one in PROTOCOLS if one != "LL128" or system.has_fast_links]
        cells = [("tree", one) for one in protocols] if kind is _ALLREDUCE else []
        cells += [("ring", one) for one in protocols]
        if self.nvls is not None and not kind.is_rooted:
            if system.boxes == 1 and (kind is _ALLREDUCE or self.n_ranks <= 32):
                cells.append(("nvls", "Simple"))
            elif system.boxes > 1 and kind is _ALLREDUCE:
                cells.append(("nvlstree", "Simple"))
        if kind in _GATHERS and system.gpus_per_box == 1:
            cells.append(("pat", "Simple"))
        return cells

    def _algbw(self, kind: CollectiveKind, algorithm: str, protocol: str) -> float:
        """Return the bandwidth of the formulas as algbw, GB/s."""
        system, caps, index, n = self.system, self._caps, self._index, self.n_ranks
        steps = steps_of(kind, n)
        graph = self.nvls if self.nvls is not None and algorithm.startswith("nvls") else self.graph
        c = graph.channels
        busbw = c * (graph.intra if system.boxes <= 2 else graph.inter)
        if algorithm.startswith("nvls"):
            return self._nvls_busbw(kind, graph) * (n / steps if kind is _ALLREDUCE else 1)
        if algorithm == "pat":
            return busbw * 0.75
        if algorithm == "ring":
            channels, rate = self.ring_cap(protocol)
            busbw *= RING_SHARES[protocol]
            return (min(busbw, channels * rate) if channels else busbw) * n / steps
        busbw = min(busbw * 0.92, c * caps.tree[index])
        if protocol == "LL":
            busbw = min(busbw / 3.8, self.ring_cap(protocol)[1])
        elif protocol == "LL128":
            busbw = min(busbw * (7 / 9 if system.boxes == 1 else 15 / 16), c * caps.tree_ll128[index])
        # from Hopper on, the search across boxes ends with plain trees, as public logs show
        return busbw * (0.85 if system.generation.has_nvls and system.boxes > 1 else 1) / 2

    def ring_cap(self, protocol: str) -> tuple[int, float]:
        """Return how many channels are limited together, and the most GB/s of each; zeros for no limit."""
        if protocol == "LL":
            boxes = self.system.boxes
            return 1, self._caps.ll_one_box if boxes == 1 else _LL_BOXES[self.system.cpu][self._index - 1]
        return (self.graph.channels, self._caps.ring_ll128) if protocol == "LL128" else (0, 0.0)

    def _nvls_busbw(self, kind: CollectiveKind, graph: ChannelGraph) -> float:
        system, c = self.system, graph.channels
        if tuple(int(part) for part in self.version.split(".")[:2]) < (2, 28):
            inter = graph.inter / (2 if system.boxes > 2 else 1)
            # 5/6 already gives the algbw, so the caller's ratio is undone
            ratio = steps_of(kind, self.n_ranks) / self.n_ranks if kind is _ALLREDUCE else 1
            return c * min(graph.intra, inter) * 5 / 6 * ratio
        gpus = system.gpus_per_box
        intra = graph.intra * self._caps.nvls_efficiency * (c - 1) / c
        intra *= 2 if kind is _ALLREDUCE else (gpus - 1) / gpus
        if system.boxes == 1:
            # the search limits the speed between boxes, although there are none
            return c * min(intra, self._caps.intra[0])
        inter = graph.inter * (2 if system.boxes == 2 else 1)
        return c * min(intra, inter, self._caps.nvls_tree[self._index])

    def _latency_us(self, kind: CollectiveKind, algorithm: str, protocol: str) -> float:
        system, at, n = self.system, PROTOCOLS.index(protocol), self.n_ranks
        doublings = floor(log2(system.boxes))
        if algorithm.startswith("nvls"):
            return _NVLS_HOP_US + 2 * doublings * _NVLS_TREE_NETWORK_US
        if algorithm == "pat":
            return _PAT_LAUNCH_US + doublings * _PAT_NETWORK_US + _PAT_RANK_US * n
        launch, nvlink, pcie, network = (row[at] for row in (_RING if algorithm == "ring" else _TREE))
        hop = nvlink if system.has_fast_links else pcie
        if algorithm == "tree":
            return launch + 2 * ((system.gpus_per_box - 1) * hop + doublings * network)
        if kind.is_rooted:
            return launch + (hop if system.boxes == 1 else network)
        between = (
            0 if system.boxes == 1 else 2 * (system.boxes - 1) if kind is _ALLREDUCE else system.boxes - 1
        )
        if between:
            hop = max(hop, post_us(system, protocol))
        # with one GPU per box nothing hides the network's latency, so a tree's latency applies
        network = _TREE[3][at] if system.gpus_per_box == 1 else network
        return launch + (steps_of(kind, n) - between) * hop + between * network

    @property
    def used_channels(self) -> int:
        """Channels of a communicator: twice those of the search, at most 64 (MAXCHANNELS)."""
        return min(64, 2 * self.graph.channels)

    def _channels(self, cell: Cell, size_bytes: int) -> int:
        algorithm, protocol = cell
        if algorithm.startswith("nvls"):
            return 24 if self.system.generation is Generation.BLACKWELL or self.system.boxes > 1 else 16
        threads, least = _THREADS[protocol]
        if (algorithm, protocol) == ("ring", "LL"):
            least *= self.n_ranks
        return min(self.used_channels, max(1, size_bytes // (threads * least)))


def steps_of(kind: CollectiveKind, n_ranks: int) -> int:
    """Return the steps of a ring."""
    return 2 * (n_ranks - 1) if kind is _ALLREDUCE else n_ranks - 1 if kind in _GATHERS else n_ranks


def ring_us(protocol: str) -> tuple[float, ...]:
    """Return a ring's launch, and its hop over NVLink, PCIe and the network, microseconds."""
    return tuple(row[PROTOCOLS.index(protocol)] for row in _RING)


def post_us(system: System, protocol: str) -> int:
    """Return the CPU time to post a message to the network, microseconds (getNetOverhead)."""
    return (2 if system.cpu == "amd" else 1) * (3 if protocol == "Simple" else 1)


def nccl_model(system: System, *, version: str = VERSION) -> LibraryModel:
    """Return NCCL's model on a system of NVIDIA GPUs, with the channels that its search should find."""
    caps, gpus = _CAPS[system.generation], system.gpus_per_box
    nvlink = system.link_bytes_per_s * caps.nvlink_share / 1e9
    # NCCL counts three quarters of the raw rate of PCIe lanes
    within = nvlink if system.has_fast_links else system.link_bytes_per_s * 0.75 / 1e9
    if system.boxes == 1:
        speed = _fastest(caps.intra, within)
        graph = ChannelGraph(int(within // speed) if system.has_fast_links else 1, speed, speed)
    else:
        # all channels of a box pass each GPU, as far as its links carry them
        most = min(system.nic_bytes_per_s / 1e9, within / system.nics if gpus > 1 else float("inf"))
        speed = _fastest(caps.inter, most)
        graph = ChannelGraph(system.nics, speed, speed)
    # NCCL doubles the channels if each is fast (ncclTopoDupChannels)
    is_full = system.generation.has_nvls and speed < 50 and graph.channels > 4
    if speed >= 25 and not is_full:
        graph = ChannelGraph(2 * graph.channels, speed / 2, speed / 2)
    nvls = None
    if system.generation.has_nvls and system.has_switch and gpus > 1:
        heads = min(gpus, 32)
        speed = _fastest(caps.intra, nvlink / (heads + 1))
        inter = speed if system.boxes == 1 else _fastest(caps.inter, system.nic_bytes_per_s / 1e9)
        nvls = ChannelGraph(heads, speed, inter)
    return LibraryModel(system, version, graph, nvls)


def _fastest(listed: Sequence[float], most: float) -> float:
    return next((speed for speed in listed if speed <= most), listed[-1])
