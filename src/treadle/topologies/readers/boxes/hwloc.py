"""hwloc's XML (``lstopo x.xml``): the PCIe tree with its speeds, and links between GPUs by their bandwidths.

Objects and matrices: hwloc's documentation, "Topology Attributes" and "Heterogeneous Distances"; element
names as its XML export writes them. ``NVLinkBandwidth`` and ``XGMIBandwidth`` hold MB/s for pairs of GPUs,
NVSwitches and CPUs. Ports of NVSwitches to each other are not in it: the NVSwitches of a box are one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from lxml import etree

from treadle.topologies.readers.boxes.box import Box, BridgeKind, Gpu, Nic, Slot
from treadle.topologies.readers.boxes.box_reader import BoxReader
from treadle.topologies.readers.boxes.gpu_models import GB_PER_S, GPU_MODELS
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import LinkCounts, model_by_device, wired_box
from treadle.topologies.readers.boxes.xml_source import line_of, parse_xml
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile

_MAX_OBJECTS = 512
"""Most objects of a matrix of bandwidths."""
_MB_PER_S = 10**6
_MATRICES = {"NVLinkBandwidth": "NVLink", "XGMIBandwidth": "xGMI"}
_GPU_NAME = re.compile(r"(nvml|rsmi|cuda|hip|levelzero)[0-9]+")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\].*")
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_SPEED = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")
_MATRIX_VALUE = re.compile("[0-9]{1,12}", re.ASCII)
_INDEX = re.compile(r"(?:([A-Za-z]+):)?([0-9]{1,18})")


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """The fabric of boxes as the file describes one; FormatError if it is malformed or does not say all."""
    return fabric_of(source, read_box(source, options), options, "hwloc-xml")


def read_box(source: SourceFile, options: ImportOptions) -> Box:
    """Return the box that a file describes.

    Raises
    ------
    FormatError
        If the file is malformed, has no GPU, or has no links of GPUs that have some.
    """
    found = _Reader(source, options)
    root = parse_xml(source)
    found.read(root)
    if not found.gpus:
        hint = "hwloc finds them if it was built with NVML or RSMI, and with I/O shown"
        raise source.error(f"holds no GPU; {hint}")
    return wired_box(
        source,
        found.gpus,
        found.link_counts(root),
        options,
        may_be_alone=True,
        nics=found.nics,
        bridges=found.bridges,
        n_switches=found.n_switches,
        warnings=found.warnings,
    )


class _Reader(BoxReader):
    """Walks the objects once; what it finds is in its fields."""

    def __init__(self, source: SourceFile, options: ImportOptions) -> None:
        super().__init__(source, options)
        self.gpus: list[Gpu] = []
        self.n_switches = 0
        self.number_of: dict[str, int] = {}
        """GPUs by the indices that matrices use for them or their operating-system devices."""
        self.switches: set[str] = set()
        self.boards: set[tuple[str, str]] = set()
        """Vendors and devices of GPUs."""
        self.displays: list[tuple[etree._Element, str, tuple[str, str]]] = []
        """Devices of a GPU's class of which hwloc shows no GPU, each with bus id and board."""

    def read(self, root: etree._Element) -> None:
        """Read all objects; FormatError where one is malformed."""
        if root.tag != "topology":
            raise self.error(root, "found, expected <topology>")
        for element in _objects(root):
            self._object(element, None)
        for element, bus_id, board in self.displays:
            if board in self.boards:
                text = f"{bus_id} is a board as the GPUs are, and has no GPU in it (nvml, rsmi, ...)"
                raise self.error(element, text)

    def _object(self, element: etree._Element, above: int | None) -> None:
        """An object and what is below it; recursion is bounded by the depth of the document."""
        kind = self.choice(element, "type")
        if (index := element.get("gp_index")) is not None:
            self.once(element, "gp_index", index)
        if kind == "PCIDev":
            self._device(element, above)
            return
        if kind == "Bridge":
            name = f"bridge at line {line_of(element)}"
            if element.get("bridge_type", "").partition("-")[0] == "0":
                above = self.add_bridge(kind=BridgeKind.HOST, name=f"host {name}")
            else:
                place = {"name": element.get("pci_busid", name), "above": above}
                above = self.add_bridge(kind=BridgeKind.SWITCH, bandwidth=self._speed(element), **place)
        for child in _objects(element):
            self._object(child, above)

    def _speed(self, element: etree._Element) -> int | None:
        """Return bytes/s of an object's PCIe link; None where hwloc did not find out."""
        text = self.matched(element, "pci_link_speed", _SPEED, "GB/s such as 15.753846", "0")[0]
        return int(Fraction(text) * GB_PER_S) or None

    def _device(self, element: etree._Element, above: int | None) -> None:
        bus_id = self.matched(element, "pci_busid", _BUS_ID, "one such as 0000:4f:00.0")[0]
        expected = 'a class and identifiers, "0302 [10de:1db8] ..."'
        pci_class, *board = self.matched(element, "pci_type", _PCI_TYPE, expected).groups()
        self.once(element, "pci_busid", bus_id)
        slot = Slot(above=above, bandwidth=self._speed(element))
        inside = list(_objects(element))
        for child in inside:
            if child.get("type") not in ("OSDev", "Misc"):
                raise self.error(child, f"is attached to the PCI device {bus_id}, which is not a bridge")
        for child in inside:
            if (index := child.get("gp_index")) is not None:
                self.once(child, "gp_index", index)
        names = [child.get("name", "") for child in inside]
        indices = [f"{one.get('type')}:{one.get('gp_index')}" for one in (element, *inside)]
        if element.get("subtype") == "NVSwitch":
            self.switches.update(indices)
        elif any(map(_GPU_NAME.fullmatch, names)):
            self.number_of |= dict.fromkeys(indices, len(self.gpus))
            self.check_count(element, len(self.gpus), " GPUs")
            name = f"GPU {bus_id}"
            model = model_by_device(self.source, self.typed, name, *(int(part, 16) for part in board))
            self.gpus.append(Gpu(name=name, model=model, bus_id=bus_id, slot=slot))
            self.boards.add((board[0], board[1]))
        elif pci_class.startswith("02"):
            # by the name that verbs have for a card, else the network's, else its bus id
            names.sort(key=lambda name: (not name.startswith(("mlx", "bnxt", "hfi", "irdma")), name))
            name = next((one for one in names if one), bus_id)
            self.check_count(element, len(self.nics), " NICs")
            if any(nic.name == name for nic in self.nics):
                name = f"{name} {bus_id}"
            self.nics.append(Nic(name=name, slot=slot))
        elif pci_class.startswith(("03", "12")):
            self.displays.append((element, bus_id, (board[0], board[1])))

    def link_counts(self, root: etree._Element) -> LinkCounts:
        """Return links by pairs of GPUs, from a matrix of bandwidths divided by a link's nominal speed."""
        distances = (one for one in root if one.tag in ("distances2", "distances2hetero"))
        matrices = [element for element in distances if element.get("name") in _MATRICES]
        if len(matrices) > 1:
            raise self.error(matrices[1], "is a second matrix of bandwidths between GPUs")
        counts = Counter[tuple[int, int | None]]()
        for element in matrices:
            ends, values = self._matrix(element)
            self._count_switches(element, ends, values)
            for place, end in enumerate(ends):
                if end not in self.number_of:
                    continue
                for column, (other_end, value) in enumerate(zip(ends, values[place], strict=True)):
                    if value != values[column][place]:
                        raise self.error(element, f"{end} and {other_end} have {value} MB/s one way only")
                    if value and end != other_end:
                        self._add(element, counts, self.number_of[end], other_end, value)
        return counts

    def _count_switches(self, element: etree._Element, ends: list[str], values: list[list[int]]) -> None:
        """Count the NVSwitches, which are taken as one; warn where they reach different GPUs."""
        rows = [(self.number_of.get(end), row) for end, row in zip(ends, values, strict=True)]
        columns = [column for column, end in enumerate(ends) if end in self.switches]
        reached = {frozenset(gpu for gpu, row in rows if row[column]) - {None} for column in columns}
        self.n_switches = len(self.switches & set(ends))
        if len(reached) > 1:
            text = f"{self.n_switches} NVSwitches reach different GPUs, and their links to each other are "
            self.warn(line_of(element), f"{text}not in the file: they are taken as one")

    def _add(
        self,
        element: etree._Element,
        counts: Counter[tuple[int, int | None]],
        number: int,
        other_end: str,
        value: int,
    ) -> None:
        """Add the links of a GPU to another object."""
        gpu = self.gpus[number]
        model = GPU_MODELS.get(gpu.model)
        if model is None or model.kind is None:
            raise self.error(element, f"has links of {gpu.name}, whose model is not known; name it by --gpu")
        count, rest = divmod(value * _MB_PER_S, model.kind.nominal)
        if rest or not 1 <= count <= model.links:
            wrong = f"{value} MB/s, which are not 1 to {model.links} links of a {gpu.model}"
            raise self.error(element, f"{gpu.name} has links of {wrong}")
        other = self.number_of.get(other_end)
        if other is None and other_end not in self.switches:
            text = f"links of {gpu.name} to {other_end}, which is neither GPU nor NVSwitch, are left out"
            self.warn(line_of(element), text)
        else:
            counts[number, other] += count

    def _matrix(self, element: etree._Element) -> tuple[list[str], list[list[int]]]:
        """Return the objects of a matrix as ``type:index``, and its rows."""
        size = self.number(element, "nbobjs", 1, _MAX_OBJECTS)
        kind = element.get("type", "")
        indices = self._words(element, "indexes", "index", _INDEX, "a number")
        ends = [f"{match[1] or kind}:{match[2]}" for match in indices]
        cells = self._words(element, "u64values", "value", _MATRIX_VALUE, "MB/s")
        values = [int(match[0]) for match in cells]
        if len(ends) != size or len(set(ends)) != size or len(values) != size * size:
            found = f"{len(ends)} indexes and {len(values)} values"
            raise self.error(element, f"{found}: expected {size} and {size * size}")
        return ends, [values[size * place : size * (place + 1)] for place in range(size)]

    def _words(
        self, element: etree._Element, tag: str, what: str, pattern: re.Pattern[str], expected: str
    ) -> Iterator[re.Match[str]]:
        """Yield words of all elements of a tag."""
        for word in " ".join(child.text or "" for child in element if child.tag == tag).split():
            match = pattern.fullmatch(word)
            if match is None:
                raise self.error(element, f"{what} {word[:40]!r}: expected {expected}")
            yield match


def _objects(element: etree._Element) -> Iterator[etree._Element]:
    return (child for child in element if child.tag == "object")
