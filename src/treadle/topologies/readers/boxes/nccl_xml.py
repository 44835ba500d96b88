"""Topology files and dumps of NCCL and RCCL (``NCCL_TOPO_FILE``, ``NCCL_TOPO_DUMP_FILE``).

Elements and what they mean: NVIDIA/nccl, src/graph/xml.cc and topo.cc; ROCm/rccl the same, version 2 with
xGMI. Files that clouds give to NCCL before a run have classes of devices only; dumps have all that NCCL
found. Several machines, each with a hash of its name, may be fused in one file (multi-node NVLink).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from lxml import etree

from treadle.topologies.readers.boxes.box import (
    MAX_LINKS,
    Box,
    BridgeKind,
    Gpu,
    HostLink,
    Nic,
    Slot,
    rank_order,
)
from treadle.topologies.readers.boxes.box_reader import BoxReader
from treadle.topologies.readers.boxes.gpu_models import (
    DEFAULT_GT_PER_S,
    DEFAULT_LANES,
    GB_PER_S,
    pcie_bandwidth,
)
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import check_model, model_by_device, wired_box
from treadle.topologies.readers.boxes.xml_source import line_of, parse_xml
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, LinkSpeeds, SourceFile

_BUS_ID = re.compile(r"([0-9a-f]{1,8}:)?[0-9a-f]{1,4}:[0-9a-f]{1,2}(\.[0-9a-f]{1,2})?")
_GT_PER_S = re.compile(r"(2\.5|5|8|16|32|64)(?:\.0)? GT/s(?: PCIe)?")
_CLASS = re.compile(r"(?:0x[0-9a-f]{4,6})?")
_TARGET_CLASS = re.compile(r"0x[0-9a-f]{4,6}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_KNOWN = {"cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c", "pcilink", "gin", "rma"}
_MAX_CPUS = 256
_MBIT_PER_S = 125_000
"""Bytes/s in 1 Mbit/s."""
_LIBRARY_NET = 10 * GB_PER_S // 8
"""Default of the libraries for a NIC of unknown speed."""
_CPU_SPEEDS = {"ppc64": 32, "arm64": 6}
_NEWEST_INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10))


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """The fabric of boxes as the file describes one; FormatError if it is malformed or does not say all."""
    return fabric_of(source, read_box(source, options), options, "nccl-xml")


def read_box(source: SourceFile, options: ImportOptions) -> Box:
    """Return the box that a file describes.

    Raises
    ------
    FormatError
        If the file is malformed, has no GPU, or lacks links of GPUs that have some.
    """
    found = _Reader(source, options)
    found.read(parse_xml(source))
    if not found.gpus:
        fix = "NCCL completes such a file when it runs; read its dump (NCCL_TOPO_DUMP_FILE)"
        raise source.error(f"holds no GPU: {fix}")
    found.gpus = [found.gpus[place] for place in rank_order([gpu for gpu, _ in found.gpus])]
    return wired_box(
        source,
        [gpu for gpu, _ in found.gpus],
        found.link_counts(),
        options,
        nics=found.nics,
        bridges=found.bridges,
        host_links=list(found.host_links()),
        n_switches=len(found.switches),
        defaulted=found.defaulted,
        warnings=found.warnings,
    )


_FoundGpu = tuple[Gpu, list[tuple[str, str, int, int]]]
"""A GPU, and its links as the file has them: target, class, count, line."""


class _Reader(BoxReader):
    """Walks the elements once; what it finds is in its fields."""

    def __init__(self, source: SourceFile, options: ImportOptions) -> None:
        super().__init__(source, options)
        self.speeds = options.links or LinkSpeeds.NOMINAL
        self.hosts: list[str] = []
        self.cpus: list[tuple[int, int, int | None]] = []
        """Bridge and machine of each CPU, NCCL's GB/s for its way to others if it knows the model."""
        self.gpus: list[_FoundGpu] = []
        self.by_class: list[_FoundGpu] = []
        self.bare_nics: list[Nic] = []
        self.switches: set[str] = set()
        self.defaulted: list[Finding] = []
        self.unknown_speeds: list[str] = []
        self.unknown: set[str] = set()
        """Tags that were reported."""

    def read(self, root: etree._Element) -> None:
        """Read the whole file; FormatError where it is malformed."""
        if root.tag != "system":
            raise self.error(root, "found, expected <system>")
        for element in self._children(root):
            if element.tag != "cpu":
                raise self.error(element, "found in <system>, expected <cpu>")
            self._cpu(element)
        if self.by_class and self.gpus:
            name = self.by_class[0][0].name
            raise self.source.error(f"{name} is a GPU by its class and has no <gpu>, others have")
        self.gpus += self.by_class
        self.nics = self.nics or self.bare_nics
        if self.unknown_speeds:
            names, more = self.unknown_speeds[:3], len(self.unknown_speeds) - 3
            others = f" and {more} more" if more > 0 else ""
            missing = f"PCIe of {', '.join(names)}{others}: speed or width is not given"
            text = f"{missing}; {DEFAULT_GT_PER_S} GT/s and {DEFAULT_LANES} lanes, as the libraries take it"
            self.defaulted.append(Finding(text))

    def host_links(self) -> Iterator[HostLink]:
        """Ways between the CPUs of each machine that have devices, as the libraries' tables have them."""
        used = {bridge.above for bridge in self.bridges}
        used |= {nic.slot.above for nic in self.nics} | {gpu.slot.above for gpu, _ in self.gpus}
        cpus = [cpu for cpu in self.cpus if cpu[0] in used]
        for (one, host, speed), (other, other_host, other_speed) in combinations(cpus, 2):
            if host == other_host:
                yield HostLink.by_library(one, other, speed, other_speed)

    def _children(self, element: etree._Element) -> Iterator[etree._Element]:
        for child in element:
            tag = str(child.tag)
            if tag in _KNOWN:
                yield child
            elif tag not in self.unknown:
                self.unknown.add(tag)
                self.warn(line_of(child), f"<{tag[:40]}> is not known and left out")

    def _cpu(self, element: etree._Element) -> None:
        hash_text = element.get("host_hash", "")
        if hash_text not in self.hosts:
            self.hosts.append(hash_text)
        host = self.hosts.index(hash_text)
        numa = self.number(element, "numaid", -1, 4095)
        self.check_count(element, len(self.cpus), "", _MAX_CPUS)
        self.once(element, "numaid", str(numa), host)
        bridge = self.add_bridge(kind=BridgeKind.HOST, name=f"CPU {numa}{_of_machine(host)}")
        self.cpus.append((bridge, host, self._cpu_speed(element)))
        for child in self._children(element):
            self._below(child, bridge, (host, numa), 0)

    def _cpu_speed(self, element: etree._Element) -> int | None:
        """Return GB/s that NCCL takes for the way to another CPU; None for CPUs that it does not know."""
        arch, vendor = element.get("arch", "x86_64"), element.get("vendor", "")
        if arch in _CPU_SPEEDS:
            return _CPU_SPEEDS[arch]
        if vendor == "AuthenticAMD":
            return 16
        family, model = (self.number(element, key, 0, 4095, 0) for key in ("familyid", "modelid"))
        if vendor in ("CentaurHauls", "  Shanghai  "):
            return 9 if (family, model) == (7, 0x5B) else None
        if vendor != "GenuineIntel" or family != 6 or not model:
            return None
        return next((speed for least, speed in _NEWEST_INTEL if model >= least), 6)

    def _below(self, element: etree._Element, above: int, place: tuple[int, int], fusing: int) -> None:
        """Read what is attached to a bridge; `fusing`: generation of a switch including lower levels."""
        if element.tag == "nic":
            self._nics(element, Slot(above=above), place)
        elif element.tag == "pci":
            self._device(element, above, place, fusing)
        elif element.tag != "pcilink":
            raise self.error(element, "found, expected <pci> or <nic>")

    def _device(self, element: etree._Element, above: int, place: tuple[int, int], fusing: int) -> None:
        host, numa = place
        bus_id = self.matched(element, "busid", _BUS_ID, "one such as 0000:4f:00.0")[0]
        kind = self.matched(element, "class", _CLASS, "one such as 0x030200", "")[0]
        children = list(self._children(element))
        lanes = self.number(element, "link_width", 0, 32, 0) or None
        slot = Slot(above=above, bandwidth=self._bandwidth(element, bus_id, lanes), lanes=lanes)
        gpus, nics, inner = ([one for one in children if one.tag == tag] for tag in ("gpu", "nic", "pci"))
        if len(gpus) > 1:
            raise self.error(gpus[1], f"is the second of {bus_id}; one rank for each GPU is read")
        if gpus and inner:
            raise self.error(inner[0], f"is attached to the GPU {bus_id}, which has no bridge")
        if gpus or (not nics and kind.startswith(("0x03", "0x12"))):
            self.once(element, "busid", bus_id, host)
            name = f"GPU {bus_id}{_of_machine(host)}"
            bare = Gpu(name=name, bus_id=bus_id, host=host, numa=numa, slot=slot)
            self._gpu(element, gpus[0] if gpus else None, bare)
            return
        if nics or kind.startswith("0x02"):
            self.once(element, "busid", bus_id, host, "NIC")
            for child in nics:
                self._nics(child, slot, place)
            if not nics:
                self.bare_nics.append(Nic(name=self._nic_name(element, bus_id, host), numa=numa, slot=slot))
            return
        fuses = 0
        if not fusing or self._switch_generation(element, 1) != fusing:
            bridge = {"name": bus_id, "above": above, "bandwidth": slot.bandwidth}
            above, fuses = (
                self.add_bridge(kind=BridgeKind.SWITCH, **bridge),
                self._switch_generation(element, 0),
            )
        for child in children:
            self._below(child, above, place, fuses)

    def _hex(self, element: etree._Element, key: str) -> int:
        return int(self.matched(element, key, _HEX, "a number such as 0x10de", "0x0")[0], 16)

    def _switch_generation(self, element: etree._Element, level: int) -> int:
        """4 or 5 for Broadcom's switches of two levels, which pass on all they get: NCCL flattens them."""
        keys = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        vendor, device, sub_vendor, sub_device = (self._hex(element, key) for key in keys)
        if (vendor, sub_vendor) != (0x1000, 0x1000):
            return 0
        if device == 0xC010 and sub_device >> 12 == 0xA:
            return 4
        return 5 if device == 0xC030 and sub_device >> 12 == level else 0

    def _bandwidth(self, element: etree._Element, bus_id: str, lanes: int | None) -> int:
        text = element.get("link_speed", "").strip()
        match = _GT_PER_S.fullmatch(text)
        if match is None and text and not text.startswith("Unknown"):
            raise self.error(element, f'link_speed="{text[:40]}": expected one such as "16.0 GT/s PCIe"')
        if match is None or not lanes:
            self.unknown_speeds.append(bus_id)
        speed = DEFAULT_GT_PER_S if match is None else Fraction(match[1])
        return pcie_bandwidth(speed, lanes or DEFAULT_LANES, self.speeds)

    def _gpu(self, device: etree._Element, element: etree._Element | None, gpu: Gpu) -> None:
        self.check_count(device, len(self.gpus) + len(self.by_class), " GPUs")
        ids = self._hex(device, "vendor"), self._hex(device, "device")
        gpu = replace(gpu, model=model_by_device(self.source, self.typed, gpu.name, *ids))
        if element is None:
            self.by_class.append((gpu, []))
            return
        gcn, sm = element.get("gcn", "").strip(), 0
        if "rank" in element.attrib:
            gpu = replace(gpu, rank=self.number(element, "rank", 0, 2**20))
            self.once(element, "rank", str(gpu.rank))
        if not gcn and "sm" in element.attrib:
            sm = self.number(element, "sm", 0, 999)
        generation = f"gfx{gcn.removeprefix('gfx')}" if gcn else f"sm {sm}" if sm else ""
        gpu = replace(gpu, generation=generation)
        check_model(self.source, gpu, sm, gcn)
        links: dict[str, tuple[str, str, int, int]] = {}
        for link in self._children(element):
            if link.tag in ("nvlink", "xgmi"):
                count = self.number(link, "count", 1, MAX_LINKS)
                target = self.choice(link, "target").casefold()
                if target in links or len(links) == MAX_LINKS:
                    raise self.error(link, f'target="{target[:40]}" is there twice, or one of too many')
                kind = self.matched(link, "tclass", _TARGET_CLASS, "a class such as 0x068000")[0]
                links[target] = target, kind, count, line_of(link)
        self.gpus.append((gpu, list(links.values())))

    def _nic_name(self, element: etree._Element, name: str, host: int) -> str:
        """Return a name that no other NIC has."""
        taken = {nic.name for nic in (*self.nics, *self.bare_nics)}
        self.check_count(element, len(taken), " NICs")
        name = name if host == 0 else f"{name}@{host}"
        while name in taken:
            name += "'"
        return name

    def _nics(self, element: etree._Element, slot: Slot, place: tuple[int, int]) -> None:
        """The ports of a card, which share its PCIe link."""
        host, numa = place
        nets = [net for net in self._children(element) if net.tag == "net" and net.get("net") != "0"]
        for net in (net for net in nets if "dev" not in net.attrib):
            text = f"<net> {net.get('name', '')} has no dev: NCCL does not use it, and it is left out"
            self.warn(line_of(net), text)
        nets = [net for net in nets if "dev" in net.attrib]
        if len(nets) > 1 and slot.bandwidth is not None:
            name = nets[0].get("guid", "") or f"card at line {line_of(element)}"
            card = {"name": name, "above": slot.above, "bandwidth": slot.bandwidth}
            slot = Slot(above=self.add_bridge(kind=BridgeKind.CARD, **card))
        for net in nets:
            number = self.number(net, "dev", 0, 4095)
            name = net.get("name", "").strip() or f"net{number}"
            self.once(net, "dev", str(number), host, name)
            speed = self.number(net, "speed", -(2**31), 10**9, 0)
            name = self._nic_name(net, name, host)
            bandwidth = speed * _MBIT_PER_S if speed > 0 else None
            if bandwidth is None and self.speeds is LinkSpeeds.LIBRARY:
                bandwidth = _LIBRARY_NET
                self.defaulted.append(Finding("speed is not given; 10 Gbit/s, as the library takes it", name))
            if net.get("gdr") == "0":
                text = "has no GPUDirect RDMA (gdr is 0): what it carries goes through the CPU's memory"
                self.warnings.append(Finding(text, name))
            port = self.number(net, "port", -1, 2**31, 0) if "port" in net.attrib else None
            self.nics.append(
                Nic(name=name, bandwidth=bandwidth, guid=net.get("guid", ""), port=port, numa=numa, slot=slot)
            )

    def link_counts(self) -> dict[tuple[int, int | None], int]:
        """Return the links by pairs of GPUs; warns of targets that are not GPUs of the file."""
        numbers = {(gpu.host, gpu.bus_id): number for number, (gpu, _) in enumerate(self.gpus)}
        counts = Counter[tuple[int, int | None]]()
        for number, (gpu, links) in enumerate(self.gpus):
            for target, kind, count, line in links:
                other = numbers.get((gpu.host, target))
                if kind.startswith("0x068001"):
                    self.warn(line, "NVLinks to a CPU are left out")
                elif kind.startswith("0x0680"):
                    self.switches.add(target)
                    counts[number, None] += count
                elif other == number:
                    fix = "read a dump of the machine (NCCL_TOPO_DUMP_FILE), or take them away"
                    raise self.source.error(f"links of {gpu.name} lead to itself; {fix}", line)
                elif other is None:
                    text = f"links of {gpu.name} lead to {target[:40]}, which is no GPU of the file: left out"
                    self.warn(line, text)
                else:
                    counts[number, other] += count
        return counts


def _of_machine(host: int) -> str:
    return f" of machine {host}" if host else ""
