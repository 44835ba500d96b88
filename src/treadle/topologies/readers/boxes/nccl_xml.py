"""Topology files and dumps of NCCL and RCCL (``NCCL_TOPO_FILE``, ``NCCL_TOPO_DUMP_FILE``).

Elements and what they mean: NVIDIA/nccl, src/graph/xml.cc and topo.cc; ROCm/rccl the same, version 2 with
xGMI. Files that clouds give to NCCL before a run have classes of devices only; dumps have all that NCCL
found. Several machines, each with a hash of its name, may be fused in one file (multi-node NVLink).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lxml import etree

from treadle.topologies.readers.boxes.box import (
    MAX_DEVICES,
    MAX_LINKS,
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    HostLink,
    HostSpeed,
    Nic,
    Slot,
    rank_order,
)
from treadle.topologies.readers.boxes.gpu_models import (
    DEFAULT_GT_PER_S,
    DEFAULT_LANES,
    GB_PER_S,
    pcie_bandwidth,
)
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import check_model, model_by_device, typed_model, wire
from treadle.topologies.readers.boxes.xml_text import Attributes, line_of, parse_xml
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, LinkSpeeds, SourceText

_BUS_ID = re.compile(r"([0-9a-f]{1,8}:)?[0-9a-f]{1,4}:[0-9a-f]{1,2}(\.[0-9a-f]{1,2})?")
_GT_PER_S = re.compile(r"(2\.5|5|8|16|32|64)(?:\.0)? GT/s(?: PCIe)?")
_CLASS = re.compile(r"0x[0-9a-f]{4,6}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_KNOWN = {"cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c", "pcilink", "gin", "rma"}
_MAX_CPUS = 256
_MBIT_PER_S = 125_000
"""Bytes/s in 1 Mbit/s."""
_LIBRARY_NET = 10 * GB_PER_S // 8
"""What the libraries take for a NIC whose speed they do not know."""
_CPU_SPEEDS = {"ppc64": 32, "arm64": 6}
_NEWEST_INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10))


def read(source: SourceText, options: ImportOptions) -> Imported:
    """The fabric of boxes as the file describes one; FormatError if it is malformed or does not say all."""
    return fabric_of(source, read_box(source, options), options, "nccl-xml")


def read_box(source: SourceText, options: ImportOptions) -> Box:
    """The box that a file describes.

    Raises
    ------
    FormatError
        If the file is malformed, has no GPU, or lacks links of GPUs that have some.
    """
    found = _Reader(source, options).run(parse_xml(source))
    if not found.gpus:
        raise source.error(
            "holds no GPU: NCCL completes such a file when it runs; read its dump (NCCL_TOPO_DUMP_FILE)"
        )
    order = rank_order([one.gpu for one in found.gpus])
    gpus = [found.gpus[place] for place in order]
    counts = _link_counts(source, gpus, found)
    wired = wire(source, [one.gpu for one in gpus], counts, options)
    return Box(
        gpus=tuple(one.gpu for one in gpus),
        links=wired.links,
        nics=tuple(found.nics),
        bridges=tuple(found.bridges),
        host_links=tuple(found.host_links()),
        n_switches=len(found.switches),
        link_word=wired.word,
        defaulted=(*wired.defaulted, *found.defaulted),
        warnings=(*wired.warnings, *found.warnings),
    )


@dataclass
class _FoundGpu:
    """A GPU, and its links as the file has them: target, class, count, line."""

    gpu: Gpu
    host: int
    links: list[tuple[str, str, int, int]] = field(default_factory=list)


@dataclass
class _Cpu:
    """A CPU: its bridge and machine, NCCL's GB/s for its way to others if it knows the model."""

    bridge: int
    host: int
    speed: int | None
    name: str


class _Reader:
    """Walks the elements once; what it finds stands in its fields."""

    def __init__(self, source: SourceText, options: ImportOptions) -> None:
        self.read = Attributes(source)
        self.source = source
        self.speeds = options.links or LinkSpeeds.NOMINAL
        self.typed = typed_model(source, options)
        self.hosts: list[str] = []
        self.cpus: list[_Cpu] = []
        self.gpus: list[_FoundGpu] = []
        self.by_class: list[_FoundGpu] = []
        self.nics: list[Nic] = []
        self.bare_nics: list[Nic] = []
        self.bridges: list[Bridge] = []
        self.switches: set[str] = set()
        self.seen: set[tuple[str, int, str]] = set()
        self.defaulted: list[Finding] = []
        self.warnings: list[Finding] = []
        self.unknown_speeds: list[str] = []
        self.unknown: set[str] = set()
        """Tags that were told."""

    def run(self, root: etree._Element) -> _Reader:
        """Read the whole file; FormatError where it is malformed."""
        if root.tag != "system":
            raise self.read.error(root, "found, expected <system>")
        for element in self._children(root):
            if element.tag != "cpu":
                raise self.read.error(element, "found in <system>, expected <cpu>")
            self._cpu(element)
        if self.by_class and self.gpus:
            raise self.source.error(
                f"{self.by_class[0].gpu.name} is a GPU by its class and has no <gpu>, others have"
            )
        self.gpus += self.by_class
        self.nics = self.nics or self.bare_nics
        if self.unknown_speeds:
            names, more = self.unknown_speeds[:3], len(self.unknown_speeds) - 3
            others = f" and {more} more" if more > 0 else ""
            said = f"PCIe of {', '.join(names)}{others}: speed or width is not given"
            text = f"{said}; {DEFAULT_GT_PER_S} GT/s and {DEFAULT_LANES} lanes, as the libraries take it"
            self.defaulted.append(Finding(text))
        return self

    def host_links(self) -> Iterator[HostLink]:
        """Ways between the CPUs of each machine that have devices, as the libraries' tables have them."""
        used = {bridge.above for bridge in self.bridges}
        used |= {nic.slot.above for nic in self.nics} | {found.gpu.slot.above for found in self.gpus}
        cpus = [cpu for cpu in self.cpus if cpu.bridge in used]
        for place, one in enumerate(cpus):
            for other in cpus[place + 1 :]:
                if one.host == other.host:
                    known = [cpu.speed for cpu in (one, other) if cpu.speed is not None]
                    speed = min(known) * GB_PER_S if len(known) == 2 else None
                    origin = HostSpeed.UNKNOWN if speed is None else HostSpeed.LIBRARY
                    yield HostLink(one=one.bridge, other=other.bridge, bandwidth=speed, origin=origin)

    def _children(self, element: etree._Element) -> Iterator[etree._Element]:
        for child in element:
            if isinstance(child.tag, str) and child.tag in _KNOWN:
                yield child
            elif str(child.tag) not in self.unknown:
                self.unknown.add(str(child.tag))
                text = f"<{str(child.tag)[:40]}> is not known and left out"
                self.warnings.append(Finding(text, f"line {line_of(child)}"))

    def _once(self, element: etree._Element, key: str, host: int, value: str, of: str = "") -> None:
        """Refuse a value that another element of the kind `of` of the same machine has."""
        if (f"{key} {of}", host, value) in self.seen:
            raise self.read.error(element, f'{key}="{value[:40]}" is there twice')
        self.seen.add((f"{key} {of}", host, value))

    def _cpu(self, element: etree._Element) -> None:
        hash_text = element.get("host_hash", "")
        if hash_text not in self.hosts:
            self.hosts.append(hash_text)
        host = self.hosts.index(hash_text)
        numa = self.read.number(element, "numaid", -1, 4095)
        if len(self.cpus) == _MAX_CPUS:
            raise self.read.error(element, f"is one of more than {_MAX_CPUS}, the most that are read")
        self._once(element, "numaid", host, str(numa))
        name = f"CPU {numa}" if host == 0 else f"CPU {numa} of machine {host}"
        bridge = self._bridge(Bridge(kind=BridgeKind.HOST, name=name))
        self.cpus.append(_Cpu(bridge, host, self._cpu_speed(element), name))
        for child in self._children(element):
            self._below(child, bridge, (host, numa), 0)

    def _cpu_speed(self, element: etree._Element) -> int | None:
        """GB/s that NCCL takes for the way to another CPU; None for CPUs that it does not know."""
        arch, vendor = element.get("arch", "x86_64"), element.get("vendor", "")
        if arch in _CPU_SPEEDS:
            return _CPU_SPEEDS[arch]
        if vendor == "AuthenticAMD":
            return 16
        family, model = (self.read.number(element, key, 0, 4095, 0) for key in ("familyid", "modelid"))
        if vendor in ("CentaurHauls", "  Shanghai  "):
            return 9 if (family, model) == (7, 0x5B) else None
        if vendor != "GenuineIntel" or family != 6 or not model:
            return None
        return next((speed for least, speed in _NEWEST_INTEL if model >= least), 6)

    def _bridge(self, bridge: Bridge) -> int:
        self.bridges.append(bridge)
        return len(self.bridges) - 1

    def _below(self, element: etree._Element, above: int, place: tuple[int, int], fusing: int) -> None:
        """What hangs from a bridge; `fusing`: generation of a switch whose lower levels count as it."""
        if element.tag == "nic":
            self._nics(element, Slot(above=above), place)
        elif element.tag == "pci":
            self._device(element, above, place, fusing)
        elif element.tag != "pcilink":
            raise self.read.error(element, "found, expected <pci> or <nic>")

    def _device(self, element: etree._Element, above: int, place: tuple[int, int], fusing: int) -> None:
        host, numa = place
        bus_id = self.read.word(element, "busid").casefold()
        if not _BUS_ID.fullmatch(bus_id):
            raise self.read.error(element, f'busid="{bus_id[:40]}": expected one such as 0000:4f:00.0')
        kind = element.get("class", "").casefold()
        if kind and not _CLASS.fullmatch(kind):
            raise self.read.error(element, f'class="{kind[:40]}": expected one such as 0x030200')
        children = list(self._children(element))
        lanes = self.read.number(element, "link_width", 0, 32, 0) or None
        slot = Slot(above=above, bandwidth=self._bandwidth(element, bus_id), lanes=lanes)
        gpus = [child for child in children if child.tag == "gpu"]
        nics = [child for child in children if child.tag == "nic"]
        if len(gpus) > 1:
            raise self.read.error(gpus[1], f"is the second of {bus_id}; one rank for each GPU is read")
        inner = next((child for child in children if child.tag == "pci"), None)
        if gpus and inner is not None:
            raise self.read.error(inner, f"hangs from the GPU {bus_id}, which has no bridge")
        if gpus or (not nics and kind.startswith(("0x03", "0x12"))):
            name = f"GPU {bus_id}" if host == 0 else f"GPU {bus_id} of machine {host}"
            self._once(element, "busid", host, bus_id)
            bare = Gpu(name=name, bus_id=bus_id, host=host, numa=numa, slot=slot)
            self._gpu(element, gpus[0] if gpus else None, bare)
        elif nics:
            self._once(element, "busid", host, bus_id, "NIC")
            for child in nics:
                self._nics(child, slot, place)
        elif kind.startswith("0x02"):
            self._once(element, "busid", host, bus_id, "NIC")
            self.bare_nics.append(Nic(name=self._nic_name(element, bus_id, host), numa=numa, slot=slot))
        else:
            own = self._switch_generation(element, 1)
            if fusing and own == fusing:
                bridge, fuses = above, 0
            else:
                bridge = self._bridge(
                    Bridge(kind=BridgeKind.SWITCH, name=bus_id, above=above, bandwidth=slot.bandwidth)
                )
                fuses = self._switch_generation(element, 0)
            for child in children:
                self._below(child, bridge, place, fuses)

    def _hex(self, element: etree._Element, key: str) -> int:
        text = element.get(key, "0x0")
        if not _HEX.fullmatch(text):
            raise self.read.error(element, f'{key}="{text[:40]}": expected a number such as 0x10de')
        return int(text, 16)

    def _switch_generation(self, element: etree._Element, level: int) -> int:
        """4 or 5 for Broadcom's switches of two levels, which pass on all they get: NCCL flattens them."""
        keys = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        vendor, device, sub_vendor, sub_device = (self._hex(element, key) for key in keys)
        if (vendor, sub_vendor) != (0x1000, 0x1000):
            return 0
        if device == 0xC010 and sub_device >> 12 == 0xA:
            return 4
        return 5 if device == 0xC030 and sub_device >> 12 == level else 0

    def _bandwidth(self, element: etree._Element, bus_id: str) -> int:
        text = element.get("link_speed", "").strip()
        lanes = self.read.number(element, "link_width", 0, 32, 0)
        match = _GT_PER_S.fullmatch(text)
        if match is None and text and not text.startswith("Unknown"):
            raise self.read.error(element, f'link_speed="{text[:40]}": expected one such as "16.0 GT/s PCIe"')
        if match is None or not lanes:
            self.unknown_speeds.append(bus_id)
        speed = DEFAULT_GT_PER_S if match is None else Fraction(match[1])
        return pcie_bandwidth(speed, lanes or DEFAULT_LANES, self.speeds)

    def _gpu(self, device: etree._Element, element: etree._Element | None, gpu: Gpu) -> None:
        if len(self.gpus) + len(self.by_class) == MAX_DEVICES:
            raise self.read.error(device, f"is one of more than {MAX_DEVICES} GPUs, the most that are read")
        ids = self._hex(device, "vendor"), self._hex(device, "device")
        model = model_by_device(self.source, self.typed, gpu.name, *ids)
        if element is None:
            self.by_class.append(_FoundGpu(replace(gpu, model=model), gpu.host))
            return
        gcn, sm = element.get("gcn", "").strip(), 0
        if "rank" in element.attrib:
            rank = self.read.number(element, "rank", 0, 2**20)
            self._once(element, "rank", 0, str(rank))
            gpu = replace(gpu, rank=rank)
        if not gcn and "sm" in element.attrib:
            sm = self.read.number(element, "sm", 0, 999)
        generation = f"gfx{gcn.removeprefix('gfx')}" if gcn else f"sm {sm}" if sm else ""
        gpu = replace(gpu, model=model, generation=generation)
        check_model(self.source, gpu, sm, gcn)
        found = _FoundGpu(gpu, gpu.host)
        targets: set[str] = set()
        for link in self._children(element):
            if link.tag in ("nvlink", "xgmi"):
                count = self.read.number(link, "count", 1, MAX_LINKS)
                target = self.read.word(link, "target").casefold()
                if target in targets or len(targets) == MAX_LINKS:
                    raise self.read.error(link, f'target="{target[:40]}" is there twice, or one of too many')
                targets.add(target)
                kind = self.read.word(link, "tclass").casefold()
                if not _CLASS.fullmatch(kind):
                    raise self.read.error(link, f'tclass="{kind[:40]}": expected a class such as 0x068000')
                found.links.append((target, kind, count, line_of(link)))
        self.gpus.append(found)

    def _nic_name(self, element: etree._Element, name: str, host: int) -> str:
        """A name that no other NIC has."""
        if len(self.nics) + len(self.bare_nics) == MAX_DEVICES:
            raise self.read.error(element, f"is one of more than {MAX_DEVICES} NICs, the most that are read")
        name = name if host == 0 else f"{name}@{host}"
        taken = {nic.name for nic in (*self.nics, *self.bare_nics)}
        while name in taken:
            name += "'"
        return name

    def _nics(self, element: etree._Element, slot: Slot, place: tuple[int, int]) -> None:
        """The ports of a card, which share its PCIe link."""
        host, numa = place
        nets = [child for child in self._children(element) if child.tag == "net" and self._is_used(child)]
        if len(nets) > 1 and slot.bandwidth is not None:
            name = nets[0].get("guid", "") or f"card at line {line_of(element)}"
            card = Bridge(kind=BridgeKind.CARD, name=name, above=slot.above, bandwidth=slot.bandwidth)
            slot = Slot(above=self._bridge(card))
        for net in nets:
            number = self.read.number(net, "dev", 0, 4095)
            name = net.get("name", "").strip() or f"net{number}"
            self._once(net, "dev", host, str(number), name)
            speed = self.read.number(net, "speed", -(2**31), 10**9, 0)
            name = self._nic_name(net, name, host)
            bandwidth = speed * _MBIT_PER_S if speed > 0 else None
            if bandwidth is None and self.speeds is LinkSpeeds.LIBRARY:
                bandwidth = _LIBRARY_NET
                self.defaulted.append(Finding("speed is not given; 10 Gbit/s, as the library takes it", name))
            if net.get("gdr") == "0":
                text = "has no GPUDirect RDMA (gdr is 0): what it carries goes through the CPU's memory"
                self.warnings.append(Finding(text, name))
            port = self.read.number(net, "port", -1, 2**31, 0) if "port" in net.attrib else None
            self.nics.append(
                Nic(name=name, bandwidth=bandwidth, guid=net.get("guid", ""), port=port, numa=numa, slot=slot)
            )

    def _is_used(self, net: etree._Element) -> bool:
        """Whether NCCL makes a NIC of it: it has a number, and is not for other uses only."""
        if net.get("net") == "0":
            return False
        if "dev" not in net.attrib:
            text = f"<net> {net.get('name', '')} has no dev: NCCL does not use it, and it is left out"
            self.warnings.append(Finding(text, f"line {line_of(net)}"))
            return False
        return True


def _link_counts(
    source: SourceText, gpus: list[_FoundGpu], found: _Reader
) -> dict[tuple[int, int | None], int]:
    """Links by pairs of GPUs; targets that are no GPU of the file are said in `found`."""
    numbers = {(one.host, one.gpu.bus_id): number for number, one in enumerate(gpus)}
    counts: dict[tuple[int, int | None], int] = {}
    for number, one in enumerate(gpus):
        for target, kind, count, line in one.links:
            other = numbers.get((one.host, target))
            pair: tuple[int, int | None]
            if kind.startswith("0x068001"):
                found.warnings.append(Finding("NVLinks to a CPU are left out", f"line {line}"))
                continue
            if kind.startswith("0x0680"):
                found.switches.add(target)
                pair = (number, None)
            elif other == number:
                raise source.error(
                    f"links of {one.gpu.name} lead to itself; read a dump of the machine "
                    f"(NCCL_TOPO_DUMP_FILE), or take them away",
                    line=line,
                )
            elif other is None:
                text = f"links of {one.gpu.name} lead to {target[:40]}, which is no GPU of the file: left out"
                found.warnings.append(Finding(text, f"line {line}"))
                continue
            else:
                pair = (number, other)
            counts[pair] = counts.get(pair, 0) + count
    return counts
