"""hwloc's XML (``lstopo x.xml``): the PCIe tree with its speeds, and links between GPUs by their bandwidths.

Objects and matrices: hwloc's documentation, "Topology Attributes" and "Heterogeneous Distances"; element
names as its XML export writes them. ``NVLinkBandwidth`` and ``XGMIBandwidth`` hold MB/s for pairs of GPUs,
NVSwitches and CPUs. Ports of NVSwitches to each other are not in it: the NVSwitches of a box are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from lxml import etree

from treadle.topologies.readers.boxes.box import (
    MAX_DEVICES,
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    Nic,
    Slot,
    rank_order,
)
from treadle.topologies.readers.boxes.gpu_models import GB_PER_S, GPU_MODELS
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import LinkCounts, Wired, model_by_device, typed_model, wire
from treadle.topologies.readers.boxes.xml_text import Attributes, line_of, parse_xml
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceText

_MAX_OBJECTS = 512
"""Most objects of a matrix of bandwidths."""
_MB_PER_S = 10**6
_MATRICES = {"NVLinkBandwidth": "NVLink", "XGMIBandwidth": "xGMI"}
_GPU_NAME = re.compile(r"(nvml|rsmi|cuda|hip|levelzero)[0-9]+")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\].*")
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_SPEED = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")
_INDEX = re.compile(r"(?:([A-Za-z]+):)?([0-9]{1,18})")


def read(source: SourceText, options: ImportOptions) -> Imported:
    """The fabric of boxes as the file describes one; FormatError if it is malformed or does not say all."""
    return fabric_of(source, read_box(source, options), options, "hwloc-xml")


def read_box(source: SourceText, options: ImportOptions) -> Box:
    """The box that a file describes.

    Raises
    ------
    FormatError
        If the file is malformed, has no GPU, or has no links of GPUs that have some.
    """
    found = _Reader(source, options)
    root = parse_xml(source)
    found.run(root)
    if not found.gpus:
        raise source.error(
            "holds no GPU; hwloc finds them if it was built with NVML or RSMI, and with I/O shown"
        )
    order = rank_order(found.gpus)
    gpus = [found.gpus[place] for place in order]
    place_of = {number: place for place, number in enumerate(order)}
    counts = {
        (place_of[one], None if other is None else place_of[other]): count
        for (one, other), count in found.link_counts(root).items()
    }
    wired = wire(source, gpus, counts, options) if counts or len(gpus) > 1 else Wired()
    return Box(
        gpus=tuple(gpus),
        links=wired.links,
        nics=tuple(found.nics),
        bridges=tuple(found.bridges),
        n_switches=found.n_switches,
        link_word=wired.word,
        defaulted=wired.defaulted,
        warnings=(*wired.warnings, *found.warnings),
    )


@dataclass
class _Device:
    """A PCI device on the way to its operating-system devices."""

    element: etree._Element
    slot: Slot
    bus_id: str
    pci_class: str
    vendor: int
    device: int
    names: list[str] = field(default_factory=list)


class _Reader:
    """Walks the objects once; what it finds stands in its fields."""

    def __init__(self, source: SourceText, options: ImportOptions) -> None:
        self.source = source
        self.read = Attributes(source)
        self.typed = typed_model(source, options)
        self.gpus: list[Gpu] = []
        self.nics: list[Nic] = []
        self.bridges: list[Bridge] = []
        self.warnings: list[Finding] = []
        self.n_switches = 0
        self.number_of: dict[str, int] = {}
        """GPUs by the indices that matrices use for them or their operating-system devices."""
        self.switches: set[str] = set()
        self.boards: set[tuple[int, int]] = set()
        """Vendors and devices of GPUs."""
        self.displays: list[_Device] = []
        """Devices of a GPU's class of which hwloc shows no GPU."""
        self.seen: set[str] = set()

    def run(self, root: etree._Element) -> None:
        """Read all objects; FormatError where one is malformed."""
        if root.tag != "topology":
            raise self.read.error(root, "found, expected <topology>")
        for element in _objects(root):
            self._object(element, None)
        for one in self.displays:
            if (one.vendor, one.device) in self.boards:
                text = f"{one.bus_id} is a board as the GPUs are, and has no GPU in it (nvml, rsmi, ...)"
                raise self.read.error(one.element, text)

    def _object(self, element: etree._Element, above: int | None) -> None:
        """An object and what is below it; recursion is bounded by the depth of the document."""
        kind = self.read.word(element, "type")
        self._once(element, "gp_index")
        if kind == "PCIDev":
            self._device(element, above)
            return
        if kind == "Bridge":
            above = self._bridge(element, above)
        for child in _objects(element):
            self._object(child, above)

    def _once(self, element: etree._Element, key: str) -> None:
        value = element.get(key)
        if value is not None and f"{key} {value}" in self.seen:
            raise self.read.error(element, f'{key}="{value[:40]}" is there twice')
        self.seen.add(f"{key} {value}")

    def _bridge(self, element: etree._Element, above: int | None) -> int:
        upstream, _, _ = element.get("bridge_type", "").partition("-")
        if upstream == "0":
            bridge = Bridge(kind=BridgeKind.HOST, name=f"host bridge at line {line_of(element)}")
        else:
            name = element.get("pci_busid", f"bridge at line {line_of(element)}")
            bridge = Bridge(kind=BridgeKind.SWITCH, name=name, above=above, bandwidth=self._speed(element))
        self.bridges.append(bridge)
        return len(self.bridges) - 1

    def _speed(self, element: etree._Element) -> int | None:
        """Bytes/s of an object's PCIe link; None where hwloc did not find out."""
        text = element.get("pci_link_speed", "0")
        if not _SPEED.fullmatch(text):
            raise self.read.error(element, f'pci_link_speed="{text[:40]}": expected GB/s such as 15.753846')
        return int(Fraction(text) * GB_PER_S) or None

    def _device(self, element: etree._Element, above: int | None) -> None:
        bus_id = self.read.word(element, "pci_busid").casefold()
        match = _PCI_TYPE.fullmatch(self.read.word(element, "pci_type").casefold())
        if not _BUS_ID.fullmatch(bus_id):
            raise self.read.error(element, f'pci_busid="{bus_id[:40]}": expected one such as 0000:4f:00.0')
        if match is None:
            raise self.read.error(
                element, 'pci_type: expected a class and identifiers, "0302 [10de:1db8] ..."'
            )
        self._once(element, "pci_busid")
        slot = Slot(above=above, bandwidth=self._speed(element))
        found = _Device(element, slot, bus_id, match[1], int(match[2], 16), int(match[3], 16))
        inside = list(_objects(element))
        for child in inside:
            if child.get("type") not in ("OSDev", "Misc"):
                raise self.read.error(child, f"hangs from the PCI device {bus_id}, which is no bridge")
        for child in inside:
            self._once(child, "gp_index")
        found.names = [child.get("name", "") for child in inside]
        indices = [f"{one.get('type')}:{one.get('gp_index')}" for one in (element, *inside)]
        if element.get("subtype") == "NVSwitch":
            self.switches.update(indices)
        elif any(_GPU_NAME.fullmatch(name) for name in found.names):
            for index in indices:
                self.number_of[index] = len(self.gpus)
            self._gpu(found)
            self.boards.add((found.vendor, found.device))
        elif found.pci_class.startswith("02"):
            self._nic(found)
        elif found.pci_class.startswith(("03", "12")):
            self.displays.append(found)

    def _gpu(self, found: _Device) -> None:
        if len(self.gpus) == MAX_DEVICES:
            raise self.read.error(
                found.element, f"is one of more than {MAX_DEVICES} GPUs, the most that are read"
            )
        name = f"GPU {found.bus_id}"
        model = model_by_device(self.source, self.typed, name, found.vendor, found.device)
        self.gpus.append(Gpu(name=name, model=model, bus_id=found.bus_id, slot=found.slot))

    def _nic(self, found: _Device) -> None:
        """A card by the name that verbs have for it, else the network's, else its bus id."""
        names = sorted(
            found.names, key=lambda name: (not name.startswith(("mlx", "bnxt", "hfi", "irdma")), name)
        )
        name = next((one for one in names if one), found.bus_id)
        if len(self.nics) == MAX_DEVICES:
            raise self.read.error(
                found.element, f"is one of more than {MAX_DEVICES} NICs, the most that are read"
            )
        if any(nic.name == name for nic in self.nics):
            name = f"{name} {found.bus_id}"
        self.nics.append(Nic(name=name, slot=found.slot))

    def link_counts(self, root: etree._Element) -> LinkCounts:
        """Links by pairs of GPUs, from a matrix of bandwidths: so many of a link's nominal speed."""
        matrices = [
            element
            for element in root
            if element.tag in ("distances2", "distances2hetero") and element.get("name") in _MATRICES
        ]
        if len(matrices) > 1:
            raise self.read.error(matrices[1], "is a second matrix of bandwidths between GPUs")
        counts: dict[tuple[int, int | None], int] = {}
        for element in matrices:
            ends, values = self._matrix(element)
            self._count_switches(element, ends, values)
            for place, end in enumerate(ends):
                one = self.number_of.get(end)
                if one is None:
                    continue
                for column, (other_end, value) in enumerate(zip(ends, values[place], strict=True)):
                    if value != values[column][place]:
                        raise self.read.error(
                            element, f"{end} and {other_end} have {value} MB/s one way only"
                        )
                    self._add(element, counts, (one, end), other_end, value)
        return counts

    def _count_switches(self, element: etree._Element, ends: list[str], values: list[list[int]]) -> None:
        """NVSwitches, which are taken as one; say so where they reach different GPUs."""
        reached = {
            frozenset(
                self.number_of[ends[place]]
                for place, row in enumerate(values)
                if ends[place] in self.number_of and row[column]
            )
            for column, end in enumerate(ends)
            if end in self.switches
        }
        self.n_switches = len(self.switches & set(ends))
        if len(reached) > 1:
            text = (
                f"{self.n_switches} NVSwitches reach different GPUs, and their links to each other are not "
            )
            self.warnings.append(
                Finding(f"{text}in the file: they are taken as one", f"line {line_of(element)}")
            )

    def _add(
        self,
        element: etree._Element,
        counts: dict[tuple[int, int | None], int],
        one: tuple[int, str],
        other_end: str,
        value: int,
    ) -> None:
        """Add the links of a GPU to another object."""
        number, end = one
        if not value or end == other_end:
            return
        gpu = self.gpus[number]
        kind = GPU_MODELS[gpu.model].kind if gpu.model else None
        if kind is None:
            raise self.read.error(
                element, f"has links of {gpu.name}, whose model is not known; name it by --gpu"
            )
        count, rest = divmod(value * _MB_PER_S, kind.nominal)
        if rest or not 1 <= count <= GPU_MODELS[gpu.model].links:
            raise self.read.error(
                element,
                f"{gpu.name} has links of {value} MB/s, which are not 1 to {GPU_MODELS[gpu.model].links} "
                f"links of a {gpu.model}",
            )
        other = self.number_of.get(other_end)
        if other is None and other_end not in self.switches:
            text = f"links of {gpu.name} to {other_end}, which is neither GPU nor NVSwitch, are left out"
            self.warnings.append(Finding(text, f"line {line_of(element)}"))
            return
        pair = (number, other)
        counts[pair] = counts.get(pair, 0) + count

    def _matrix(self, element: etree._Element) -> tuple[list[str], list[list[int]]]:
        """Objects of a matrix as ``type:index``, and its rows."""
        size = self.read.number(element, "nbobjs", 1, _MAX_OBJECTS)
        kind = element.get("type", "")
        ends = []
        for word in self._words(element, "indexes"):
            match = _INDEX.fullmatch(word)
            if match is None:
                raise self.read.error(element, f"index {word[:40]!r}: expected a number")
            ends.append(f"{match[1] or kind}:{match[2]}")
        values = []
        for word in self._words(element, "u64values"):
            if not re.fullmatch("[0-9]{1,12}", word, re.ASCII):
                raise self.read.error(element, f"value {word[:40]!r}: expected MB/s")
            values.append(int(word))
        if len(ends) != size or len(set(ends)) != size or len(values) != size * size:
            raise self.read.error(
                element, f"{len(ends)} indexes and {len(values)} values: expected {size} and {size * size}"
            )
        return ends, [values[size * place : size * (place + 1)] for place in range(size)]

    def _words(self, element: etree._Element, tag: str) -> Iterator[str]:
        for child in element:
            if child.tag == tag:
                yield from (child.text or "").split()


def _objects(element: etree._Element) -> Iterator[etree._Element]:
    return (child for child in element if child.tag == "object")
