"""The system tree in NCCL's log (``NCCL_DEBUG_SUBSYS=GRAPH``): NCCL's view of a box, after its pruning.

A line names a link and the node at its end (``+ PCI[24.0] - GPU/18000 (0)``) and begins below the node that
it is attached to; only PCIe goes deeper. Speeds are GB/s of NCCL's own table, but for network cards, whose
speed is the port's. Format: NCCL 2.5 to 2.30, graph/topo.cc; later ones put the system's number before each
id, and 2.30 a device above each GPU, which then has no rank. RCCL's links between GPUs are XGMI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from treadle.errors import TopologyError
from treadle.topologies.readers.boxes.box import (
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    GpuLink,
    HostLink,
    Nic,
    Slot,
)
from treadle.topologies.readers.boxes.gpu_models import GB_PER_S
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, LinkSpeeds, SourceFile

MAX_TREE_LINES = 4096

_LINE = re.compile(
    r"(?P<indent> *)(?:\+ (?P<link>[A-Z0-9]{2,4})\[(?P<speed>\d{1,6}(?:\.\d{1,3})?)\] - )?"
    r"(?P<kind>CPU|PCI|GPU|NIC|NET|NVS|GIN|RMA|DEV|CXB)/(?P<id>[0-9A-Fa-f]{1,16}(?:-[0-9A-Fa-f]{1,16})?)"
    r"(?: \((?P<more>[^()]{0,80})\))?(?: \[[^\]]{0,40}\])? *"
)

# NVLinks: NCCL's speed of one by version and generation, GB/s; the nominal one; most that a GPU has.
# NCCL graph/topo.h of 2.5 to 2.30; nominal: 25 of NVLink 2 to 4, 50 of NVLink 5, a direction.
_NVLINK = (
    (Fraction("20"), Fraction(25), 12),
    (Fraction("21"), Fraction(25), 12),
    (Fraction("22"), Fraction(25), 12),
    (Fraction("20.6"), Fraction(25), 18),
    (Fraction("40.1"), Fraction(50), 18),
    (Fraction("18"), Fraction(20), 4),
    (Fraction("12"), Fraction("14.0625"), 4),
)
# likewise of xGMI, in RCCL's table by generation, between two GPUs: MI50 and MI100, MI200, MI300
_XGMI = (
    (Fraction(24), Fraction(46), 1),
    (Fraction(36), Fraction(50), 4),
    (Fraction(48), Fraction(64), 1),
)
_GPU_LINKS: Mapping[str, tuple[str, tuple[tuple[Fraction, Fraction, int], ...]]] = {
    "NVL": ("NVLink", _NVLINK),
    "XGMI": ("xGMI", _XGMI),
}
_DEVICE = "device"
"""In the place of a rank: NCCL 2.30 shows none."""
_ROUNDING = Fraction(1, 20)
"""Speeds are printed to a tenth."""
_PCIE = Fraction(21, 16)
"""Nominal speed of PCIe over NCCL's: 15.75 GB/s for 12 of 16 lanes of the third generation, and so on."""


@dataclass
class _Node:
    """A node of the tree as it is read."""

    kind: str
    id: str
    line: int
    above: int | None = None
    speed: Fraction = Fraction(0)
    more: str = ""
    links: list[tuple[str, str, str, Fraction, int]] = field(default_factory=list)
    """Kind, kind of the far node (or details of a port), its id, GB/s and line."""

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.id}"


_MESSAGE = re.compile(r"([\w.\-]{1,255}:\d{1,10}(?::\d{1,10})?) \[-?\d{1,6}\] NCCL INFO ?(.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of boxes like that of the first whole system tree in a log.

    Raises
    ------
    FormatError
        If the log has no such tree, the tree is malformed, or the options do not say all.
    """
    trees: dict[str, list[tuple[int, str]]] = {}
    for number, text in enumerate(source.text.split("\n"), start=1):
        match = _MESSAGE.search(_COLOURS.sub("", text[:_LONGEST]).rstrip("\r"))
        if match is None:
            continue
        process, message = match[1], match[2].rstrip()
        if message.startswith("=== System"):
            trees[process] = []
        elif process in trees and message.startswith("======"):
            box = read_system(trees[process], links=options.links or LinkSpeeds.NOMINAL, source=source.name)
            return fabric_of(source, box, options, "nccl-log")
        elif process in trees:
            trees[process].append((number, message))
    how = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH prints it"
    raise source.error(f"its system tree is cut off; {how}" if trees else f"has no system tree; {how}")


_UNMEASURED = 5000
"""GB/s that NCCL writes where it knows no speed (LOC_BW)."""
_CPU_SPEEDS = {"2/": 32, "3/": 6, "1/2/": 16, "1/1/4/": 40, "1/1/3/": 22, "1/1/2/": 10, "1/1/1/": 6}
"""GB/s that NCCL takes between CPUs, by how "architecture/vendor/model" begins (src/graph/topo.h)."""
_LONGEST = 8192
"""Characters of a line that are looked at."""


def read_system(
    lines: Sequence[tuple[int, str]], *, links: LinkSpeeds = LinkSpeeds.NOMINAL, source: str = ""
) -> Box:
    """Return the box that a system tree shows.

    Parameters
    ----------
    lines : sequence of (int, str)
        Number of each line in the log and its string after ``NCCL INFO``, indented as it was; the heading and
        the rule at the end may be there or not.
    links : LinkSpeeds
        Nominal speeds of NVLinks and PCIe, or NCCL's own.
    source : str
        The log's name, for messages.

    Raises
    ------
    FormatError
        If the lines are no such tree, contradict each other or show no GPU; it names the line.
    """
    log = SourceFile("", source)
    nodes = _nodes(lines, log)
    is_nominal = links is LinkSpeeds.NOMINAL
    gpus = [node for node in nodes if node.kind == "GPU"]
    if not gpus:
        raise log.error("the system tree shows no GPU", line=nodes[0].line if nodes else None)
    for node in gpus:
        if node.more != _DEVICE and not re.fullmatch(r"-?\d{1,7}", node.more.strip()):
            raise log.error(f"GPU/{node.id} has no rank", line=node.line)
    has_ranks = all(node.more != _DEVICE for node in gpus)
    gpus.sort(key=lambda node: int(node.more) if has_ranks else _number(node.id))
    # CPUs, PCIe switches, and cards with several ports
    inner = [
        place
        for place, node in enumerate(nodes)
        if node.kind in ("CPU", "PCI")
        or (node.kind == "NIC" and sum(link == "NET" for link, *_ in node.links) > 1)
    ]
    bridge_of = {place: number for number, place in enumerate(inner)}
    slot_of = partial(_slot, log, bridge_of, _PCIE if is_nominal else Fraction(1))
    bridges = []
    for node in (nodes[place] for place in inner):
        slot = slot_of(node)
        place = {"above": slot.above, "bandwidth": slot.bandwidth}
        bridges.append(Bridge(kind=_BRIDGES[node.kind], name=node.name, **place))
    nics = _nics(log, nodes, bridge_of, slot_of)
    warnings: list[Finding] = []
    word, gpu_links, n_switches = _gpu_links(gpus, log, warnings, is_nominal=is_nominal)
    if any(not link.bandwidth for link in gpu_links):
        raise log.error("a link between GPUs has no speed", line=nodes[0].line)
    devices = [
        Gpu(
            name=node.name,
            bus_id=_bus_id(node.id),
            rank=None if node.more == _DEVICE else int(node.more),
            slot=slot_of(node),
        )
        for node in gpus
    ]
    try:
        return Box(
            gpus=tuple(devices),
            links=tuple(gpu_links),
            nics=tuple(nics[name] for name in sorted(nics, key=lambda name: _number(name[len("NET/") :]))),
            bridges=tuple(bridges),
            host_links=_host_links(nodes, bridge_of),
            n_switches=n_switches,
            link_word=word,
            warnings=tuple(warnings),
        )
    except TopologyError as error:
        raise log.error(f"system tree: {error}", line=nodes[0].line) from None


def _slot(source: SourceFile, bridge_of: Mapping[int, int], scale: Fraction, node: _Node) -> Slot:
    """Return the position of a node in the PCIe tree, whose printed speeds are multiplied by `scale`."""
    if node.above is None:
        return Slot()
    if node.above not in bridge_of:
        raise source.error(f"{node.name} is attached to something other than a switch", line=node.line)
    if not node.speed:
        raise source.error(f"{node.name} has a link of no speed", line=node.line)
    return Slot(above=bridge_of[node.above], bandwidth=int(node.speed * scale * GB_PER_S))


def _nics(
    source: SourceFile, nodes: Sequence[_Node], bridge_of: Mapping[int, int], slot_of: Callable[[_Node], Slot]
) -> dict[str, Nic]:
    """Return the ports of network cards by name."""
    found: dict[str, Nic] = {}
    for place, node in enumerate(nodes):
        for link, more, identity, speed, line in node.links:
            if link != "NET":
                continue
            card, port = ["", "", "", *more.split("/")][-3:-1]
            name = f"NET/{identity}"
            if name in found:
                raise source.error(f"{name} is there twice", line=line)
            found[name] = Nic(
                name=name,
                bandwidth=int(speed * GB_PER_S) or None,
                guid=card,
                port=int(port) if re.fullmatch(r"\d{1,4}", port) else None,
                slot=Slot(above=bridge_of[place]) if place in bridge_of else slot_of(node),
            )
    return found


def _nodes(lines: Sequence[tuple[int, str]], source: SourceFile) -> list[_Node]:
    """Nodes in the order of the lines; links that go no deeper are kept with the node that has them."""
    if len(lines) > MAX_TREE_LINES:
        raise source.error(f"the system tree has more than {MAX_TREE_LINES} lines")
    nodes: list[_Node] = []
    open_at: dict[int, int] = {}  # column at which what hangs from a node begins
    for number, text in lines:
        if text.startswith("==="):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise source.error(f"no line of a system tree: {text.strip()[:60]!r}", line=number)
        kind, identity, link, more = match["kind"], match["id"].upper(), match["link"], match["more"] or ""
        indent = len(match["indent"])
        if link is None:
            if kind != "CPU" or indent:
                raise source.error("a system tree begins with CPUs", line=number)
            open_at = {0: len(nodes)}
            nodes.append(_Node(kind, identity, number, more=more))
            continue
        if indent not in open_at:
            lost = "hangs from nothing: the tree's indentation is lost; give --topology"
            raise source.error(lost, line=number)
        above, speed = open_at[indent], Fraction(match["speed"])
        if link == "PCI" and kind in ("PCI", "GPU", "NIC", "DEV"):
            if kind == "DEV":
                kind, more = "GPU", _DEVICE
            open_at = {column: node for column, node in open_at.items() if column <= indent}
            open_at[match.start("kind")] = len(nodes)
            nodes.append(_Node(kind, identity, number, above, speed, more))
            continue
        holder = nodes[above]
        # POWER's CPUs have NVLinks to GPUs, too
        has_links = holder.kind == "GPU" or (holder.kind == "CPU" and holder.more.startswith(_POWER))
        if not (has_links if link in _GPU_LINKS else link != "NET" or holder.kind == "NIC"):
            lost = f"hangs from {holder.name}: the tree's indentation is lost; give --topology"
            raise source.error(f"{link} {lost}", line=number)
        if link != "NET" or kind == "NET":  # else the same port under another name, for transfers of GPUs
            holder.links.append((link, more if kind == "NET" else kind, identity, speed, number))
    return nodes


_POWER = "2/"
"""Prefix of POWER's CPUs in NCCL."""
_BRIDGES = {"CPU": BridgeKind.HOST, "NIC": BridgeKind.CARD, "PCI": BridgeKind.SWITCH}


def _gpu_links(
    gpus: Sequence[_Node], source: SourceFile, warnings: list[Finding], *, is_nominal: bool
) -> tuple[str, list[GpuLink], int]:
    """Return the kind of links, those between GPUs and to the switch, and how many switches there are."""
    number_of = {node.id: number for number, node in enumerate(gpus)}
    speeds: dict[tuple[int, int | None], Fraction] = {}
    switches: set[str] = set()
    word, units = _GPU_LINKS["NVL"]
    for gpu, node in enumerate(gpus):
        for link, kind, identity, speed, line in node.links:
            if link not in _GPU_LINKS or kind not in ("NVS", "GPU", "DEV"):
                if link not in ("LOC", "NET"):
                    text = f"GPU {gpu}: its {link} to {kind}/{identity} is left out"
                    warnings.append(Finding(text, f"line {line}"))
                continue
            word, units = _GPU_LINKS[link]
            if kind == "NVS":
                switches.add(identity)
                speeds[gpu, None] = speeds.get((gpu, None), Fraction(0)) + speed
                continue
            other = number_of.get(identity)
            if other is None:
                raise source.error(f"a link to GPU/{identity}, which the tree does not show", line=line)
            if other == gpu:
                raise source.error(f"a link of GPU/{identity} to itself", line=line)
            key = (min(gpu, other), max(gpu, other))
            if speeds.setdefault(key, speed) != speed:
                text = f"links of GPUs {key[0]} and {key[1]} differ by direction; the slower counts"
                warnings.append(Finding(text, f"line {line}"))
                speeds[key] = min(speeds[key], speed)
    # the library's and the nominal speed of one link, if one pair only explains all speeds
    fitting = [
        (unit, nominal)
        for unit, nominal, most in units
        if all(
            1 <= round(speed / unit) <= most and abs(speed - round(speed / unit) * unit) <= _ROUNDING
            for speed in speeds.values()
        )
    ]
    is_known = len(fitting) == 1
    if speeds and not is_known and is_nominal:
        text = "links of GPUs have speeds of no known generation; the log's own are used as nominal ones"
        warnings.append(Finding(text))
    links = []
    for gpu, to in sorted(speeds, key=lambda pair: (pair[0], pair[1] or -1)):
        speed = speeds[gpu, to]
        count = round(speed / fitting[0][0]) if is_known else 1
        rate = count * fitting[0][1] if is_known and is_nominal else speed
        links.append(GpuLink(gpu=gpu, other=to, count=count, bandwidth=int(rate * GB_PER_S)))
    return word, links, len(switches)


def _host_links(nodes: Sequence[_Node], bridge_of: Mapping[int, int]) -> tuple[HostLink, ...]:
    cpus = {node.id: bridge_of[place] for place, node in enumerate(nodes) if node.kind == "CPU"}
    found: dict[tuple[int, int], HostLink] = {}
    for node in nodes:
        for link, kind, identity, speed, _ in node.links if node.kind == "CPU" else ():
            if link != "SYS" or kind != "CPU" or identity not in cpus or not speed:
                continue
            one, other = sorted((cpus[node.id], cpus[identity]))
            joint = HostLink(one=one, other=other, bandwidth=int(speed * GB_PER_S))
            if speed >= _UNMEASURED:
                model = f"{node.more}/"
                known = next((rate for start, rate in _CPU_SPEEDS.items() if model.startswith(start)), None)
                joint = HostLink.by_library(one, other, known)
            if one != other:
                found.setdefault((one, other), joint)
    return tuple(found[ends] for ends in sorted(found))


def _bus_id(identity: str) -> str:
    """Return the bus id of a GPU's number: ``18000`` is 0000:18:00.0; "" for one that is none."""
    digits = identity.rpartition("-")[2].rjust(9, "0")
    if len(digits) > 9 or ("-" in identity and not identity.startswith("0-")):
        return ""  # of another system, whose bus ids may be the same
    return f"{digits[:4]}:{digits[4:6]}:{digits[6:8]}.{digits[8]}".lower()


def _number(identity: str) -> tuple[int, int]:
    """Return the order of NETs: by system, then by number."""
    system, _, number = identity.rpartition("-")
    return int(system or "0", 16), int(number, 16)
