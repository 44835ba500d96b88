"""One box as its own tools describe it: GPUs, what joins them, NICs, and the PCIe tree of both.

The value has what a file says, whole; `networks` decides what of it becomes part of a fabric. Bandwidths are
bytes/s in each direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from treadle.errors import TopologyError
from treadle.math.graphs import components
from treadle.topologies.naming import is_one_line
from treadle.topologies.readers.imported import Finding

MAX_DEVICES = 1024
"""Most GPUs, and most NICs, of a box."""
MAX_LINKS = 1024
"""Most parallel links that one line of a file may claim."""


class BridgeKind(StrEnum):
    """Type of an inner node of a PCIe tree."""

    HOST = "host"
    """A CPU's own ports: the root of a tree."""
    SWITCH = "switch"
    """A bridge or a switch."""
    CARD = "card"
    """A device with several ports of its own."""


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """An inner place of the PCIe tree.

    Parameters
    ----------
    kind : BridgeKind
    name : str
        Bus id, or as the file calls it.
    above : int, optional
        The bridge that it is attached to, of a smaller number; None for a root.
    bandwidth : int, optional
        Of its link upwards; None where that is not known to limit anything.
    """

    kind: BridgeKind
    name: str
    above: int | None = None
    bandwidth: int | None = None


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Position of a device in the PCIe tree.

    Parameters
    ----------
    above : int, optional
        Number of the bridge; None where the file does not say.
    bandwidth : int, optional
        Of the device's own PCIe link; None where that is not known.
    lanes : int, optional
        Of that link; None where the file does not say.
    """

    above: int | None = None
    bandwidth: int | None = None
    lanes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU of a box.

    Parameters
    ----------
    name : str
        As the file calls it, for messages: ``GPU 3``, a bus id.
    model : str
        A key of `gpu_models.GPU_MODELS`; "" where neither the file nor its user says.
    generation : str
        Architecture as the library names it: ``sm 90``, ``gfx942``; "" if unknown.
    bus_id : str
        "" where the file has none.
    host : int
        Number of the machine, where a file fuses several that NVLinks join into one box.
    rank : int, optional
        As the file has it.
    numa : int, optional
        Its CPU's NUMA node.
    slot : Slot
    """

    name: str
    model: str = ""
    generation: str = ""
    bus_id: str = ""
    host: int = 0
    rank: int | None = None
    numa: int | None = None
    slot: Slot = Slot()


@dataclass(frozen=True, kw_only=True)
class Nic:
    """A port to the network.

    Parameters
    ----------
    name : str
        As the file calls it: ``mlx5_0``, a bus id.
    bandwidth : int, optional
        Of the port; None where the file does not say.
    guid : str
        Of the card; "" where the file has none.
    port : int, optional
        Of the card.
    numa : int, optional
        Its CPU's NUMA node.
    slot : Slot
    """

    name: str
    bandwidth: int | None = None
    guid: str = ""
    port: int | None = None
    numa: int | None = None
    slot: Slot = Slot()


@dataclass(frozen=True, kw_only=True)
class GpuLink:
    """Parallel links (NVLink, xGMI) between two GPUs, or of a GPU to the box's switch.

    Parameters
    ----------
    gpu : int
        Number of the GPU.
    other : int, optional
        Number of the other GPU, larger; None for the switch: all NVSwitches of a box are one.
    count : int
        Parallel links.
    bandwidth : int
        Of all of them together.
    """

    gpu: int
    other: int | None
    count: int
    bandwidth: int


class HostSpeed(StrEnum):
    """Source of the speed between CPUs."""

    FILE = "file"
    LIBRARY = "library"
    """The libraries' tables, by the model of the CPUs."""
    UNKNOWN = "unknown"
    TYPED = "typed"
    """The user, by ``--cpu-link``."""


@dataclass(frozen=True, kw_only=True)
class HostLink:
    """The connection of two CPUs: bridges of kind HOST, its bandwidth if known, and the origin of that."""

    one: int
    other: int
    bandwidth: int | None
    origin: HostSpeed = HostSpeed.FILE

    @classmethod
    def by_library(cls, one: int, other: int, *gb_per_s: int | None) -> HostLink:
        """Return a connection with the least of the libraries' speeds; unknown if one of them is None."""
        known = [speed for speed in gb_per_s if speed is not None]
        if len(known) < len(gb_per_s):
            return cls(one=one, other=other, bandwidth=None, origin=HostSpeed.UNKNOWN)
        return cls(one=one, other=other, bandwidth=min(known) * 10**9, origin=HostSpeed.LIBRARY)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A machine with GPUs, as a file describes it.

    Parameters
    ----------
    gpus : tuple of Gpu
        In rank order.
    links : tuple of GpuLink
        At most one for each pair and for each GPU and the switch.
    nics : tuple of Nic
    bridges : tuple of Bridge
        The PCIe tree, roots before what is attached to them.
    host_links : tuple of HostLink
    n_switches : int
        NVSwitches that were counted as one; 0 where the file does not say.
    link_word : str
        What `links` are: ``NVLink``, ``xGMI``.
    has_p2p : bool
        False where it is known that GPUs do not reach each other's memory over PCIe.
    defaulted, warnings : tuple of Finding
        About the box: values from elsewhere, and warnings.

    Raises
    ------
    TopologyError
        If a number names nothing, a bandwidth is below 1, or a bus id, rank or pair is there twice.
    """

    gpus: tuple[Gpu, ...]
    links: tuple[GpuLink, ...] = ()
    nics: tuple[Nic, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    host_links: tuple[HostLink, ...] = ()
    n_switches: int = 0
    link_word: str = "NVLink"
    has_p2p: bool = True
    defaulted: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.gpus) <= MAX_DEVICES or len(self.nics) > MAX_DEVICES:
            found = f"{len(self.gpus)} GPUs and {len(self.nics)} NICs"
            raise TopologyError(f"box: {found}; expected 1 to {MAX_DEVICES}, and at most {MAX_DEVICES}")
        _check_unique("bus id", (f"{gpu.host} {gpu.bus_id}" for gpu in self.gpus if gpu.bus_id))
        _check_unique("rank", (str(gpu.rank) for gpu in self.gpus if gpu.rank is not None))
        _check_unique("NIC", (nic.name for nic in self.nics))
        named: tuple[Gpu | Nic | Bridge, ...] = (*self.gpus, *self.nics, *self.bridges)
        for one in named:
            if not one.name or not is_one_line(one.name):
                raise TopologyError(f"box: name {one.name!r}, expected one line without control characters")
        self._check_tree()
        self._check_links()

    def _check_tree(self) -> None:
        for number, bridge in enumerate(self.bridges):
            if bridge.above is not None and not 0 <= bridge.above < number:
                wrong = f"bridge {bridge.above}, which is not before it"
                raise TopologyError(f"{bridge.name}: is attached to {wrong}")
            _check_bandwidth(bridge.name, bridge.bandwidth)
        devices: tuple[Gpu | Nic, ...] = (*self.gpus, *self.nics)
        for device in devices:
            above = device.slot.above
            if above is not None and not 0 <= above < len(self.bridges):
                raise TopologyError(f"{device.name}: is attached to bridge {above}, which does not exist")
            _check_bandwidth(device.name, device.slot.bandwidth)
        for nic in self.nics:
            _check_bandwidth(nic.name, nic.bandwidth)

    def _check_links(self) -> None:
        n = len(self.gpus)
        for link in self.links:
            name, other = f"link of GPU {link.gpu} to {link.other}", link.other
            if not 0 <= link.gpu < n or not (other is None or link.gpu < other < n):
                raise TopologyError(f"{name}: expected two of {n} GPUs, the smaller first")
            if not 1 <= link.count <= MAX_LINKS:
                raise TopologyError(f"{name}: {link.count} links, expected 1 to {MAX_LINKS}")
            _check_bandwidth(name, link.bandwidth)
        _check_unique("link", (f"{link.gpu} to {link.other}" for link in self.links))
        for joint in self.host_links:
            hosts = {end for end in (joint.one, joint.other) if 0 <= end < len(self.bridges)}
            if len(hosts) != 2 or {self.bridges[end].kind for end in hosts} != {BridgeKind.HOST}:
                raise TopologyError(f"box: bridges {joint.one} and {joint.other} are not two CPUs")
            _check_bandwidth("CPUs", joint.bandwidth)

    @property
    def has_switch(self) -> bool:
        """Whether GPUs are joined by NVSwitches."""
        return any(link.other is None for link in self.links)

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """GPUs by what links join directly or in several hops, each part rising, parts by their first."""
        return joined_parts(len(self.gpus), ((link.gpu, link.other) for link in self.links))

    def chain(self, slot: Slot) -> list[int]:
        """Return the bridges above a device, from the nearest up to the root."""
        found: list[int] = []
        above = slot.above
        while above is not None:
            found.append(above)
            above = self.bridges[above].above
        return found


def joined_parts(n: int, pairs: Iterable[tuple[int, int | None]]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers 0 to n - 1 by what pairs join.

    Larger numbers in pairs, and None, which is n, join others but appear in no part.
    """
    ends = np.array([(one, n if other is None else other) for one, other in pairs], np.int32).reshape(-1, 2)
    labels = components(max(n, int(ends.max(initial=-1)) + 1), ends[:, 0], ends[:, 1])
    parts: dict[int, list[int]] = {}
    for number, label in enumerate(labels[:n].tolist()):
        parts.setdefault(label, []).append(number)
    return tuple(map(tuple, parts.values()))


def rank_order(gpus: Sequence[Gpu]) -> tuple[int, ...]:
    """Places of GPUs in rank order: by the file's ranks where all have one, else by bus id, else as given."""
    places = range(len(gpus))
    if all(gpu.rank is not None for gpu in gpus):
        return tuple(sorted(places, key=lambda place: gpus[place].rank or 0))
    if all(gpu.bus_id for gpu in gpus):
        return tuple(sorted(places, key=lambda place: (gpus[place].host, bus_number(gpus[place].bus_id))))
    return tuple(places)


def bus_number(bus_id: str) -> int:
    """A bus id such as ``0000:4f:00.0`` as a number, in which a larger domain, bus or device is larger."""
    *domains, bus, place = bus_id.split(":")
    domain = domains[0] if domains else "0"
    device, _, function = place.partition(".")
    return (int(domain, 16) << 20) | (int(bus, 16) << 12) | (int(device, 16) << 4) | int(function or "0", 16)


def _check_bandwidth(name: str, bandwidth: int | None) -> None:
    if bandwidth is not None and bandwidth < 1:
        raise TopologyError(f"{name}: bandwidth {bandwidth} bytes/s, expected at least 1")


def _check_unique(what: str, values: Iterable[str]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise TopologyError(f"box: {what} {value} is there twice")
