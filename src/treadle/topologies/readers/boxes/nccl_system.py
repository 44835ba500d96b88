"""The system tree in NCCL's log (``NCCL_DEBUG_SUBSYS=GRAPH``): what NCCL knows of a box, after its trimming.

A line names a link and the node at its end (``+ PCI[24.0] - GPU/18000 (0)``) and begins below the node that
it hangs from; only PCIe goes deeper. Speeds are GB/s of NCCL's own table, but for network cards, whose speed
is the port's. Format: NCCL 2.5 to 2.30, graph/topo.cc; later ones put the system's number before each id, and
2.30 a device above each GPU, which then has no rank. RCCL's links between GPUs are XGMI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from treadle.errors import FormatError, TopologyError
from treadle.topologies.readers.boxes.box import (
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    GpuLink,
    HostLink,
    HostSpeed,
    Nic,
    Slot,
)
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, LinkSpeeds, SourceText

MAX_TREE_LINES = 4096
GB_PER_S = 10**9

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
_GPU_LINKS = {"NVL": ("NVLink", _NVLINK), "XGMI": ("xGMI", _XGMI)}
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


_MESSAGE = re.compile(r"([\w.\-]{1,255}:\d{1,10}(?::\d{1,10})?) \[-?\d{1,6}\] NCCL INFO ?(.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read(source: SourceText, options: ImportOptions) -> Imported:
    """The fabric of boxes like that of the first whole system tree in a log.

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
_INTEL_SPEEDS = (("1/1/4/", 40), ("1/1/3/", 22), ("1/1/2/", 10), ("1/1/1/", 6))
_CPU_SPEEDS = (("2/", 32), ("3/", 6), ("1/2/", 16), *_INTEL_SPEEDS)
"""GB/s that NCCL takes between CPUs, by how "architecture/vendor/model" begins (src/graph/topo.h)."""
_LONGEST = 8192
"""Characters of a line that are looked at."""


def read_system(
    lines: Sequence[tuple[int, str]], *, links: LinkSpeeds = LinkSpeeds.NOMINAL, source: str = ""
) -> Box:
    """The box that a system tree shows.

    Parameters
    ----------
    lines : sequence of (int, str)
        Number of each line in the log and its text after ``NCCL INFO``, indented as it was; the heading and
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
    nodes = _nodes(lines, source)
    return _Assembly(nodes, links, source).box()


def _nodes(lines: Sequence[tuple[int, str]], source: str) -> list[_Node]:
    """Nodes in the order of the lines; links that go no deeper are kept with the node that has them."""
    if len(lines) > MAX_TREE_LINES:
        raise FormatError(f"the system tree has more than {MAX_TREE_LINES} lines", source=source)
    nodes: list[_Node] = []
    open_at: dict[int, int] = {}  # column at which what hangs from a node begins
    for number, text in lines:
        if text.startswith("==="):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise FormatError(f"no line of a system tree: {text.strip()[:60]!r}", source=source, line=number)
        kind, identity, more = match["kind"], match["id"].upper(), match["more"] or ""
        indent = len(match["indent"])
        if match["link"] is None:
            if kind != "CPU" or indent:
                raise FormatError("a system tree begins with CPUs", source=source, line=number)
            open_at = {0: len(nodes)}
            nodes.append(_Node(kind, identity, number, more=more))
            continue
        above = open_at.get(indent)
        if above is None:
            raise FormatError(
                "hangs from nothing: the tree's indentation is lost; give --topology",
                source=source,
                line=number,
            )
        speed = Fraction(match["speed"])
        if match["link"] == "PCI" and kind in ("PCI", "GPU", "NIC", "DEV"):
            if kind == "DEV":
                kind, more = "GPU", _DEVICE
            open_at = {column: node for column, node in open_at.items() if column <= indent}
            open_at[match.start("kind")] = len(nodes)
            nodes.append(_Node(kind, identity, number, above, speed, more))
            continue
        holder = nodes[above]
        if not _may_hold(holder, match["link"]):
            raise FormatError(
                f"{match['link']} hangs from {holder.kind}/{holder.id}: the tree's indentation is lost; give "
                f"--topology",
                source=source,
                line=number,
            )
        if match["link"] == "NET" and kind != "NET":
            continue  # the same port under another name, for transfers that GPUs start
        holder.links.append((match["link"], more if kind == "NET" else kind, identity, speed, number))
    return nodes


_POWER = "2/"
"""With this begins what NCCL says of POWER's CPUs, which have NVLinks to GPUs."""


def _may_hold(holder: _Node, link: str) -> bool:
    """Whether such a link begins at such a node."""
    if link in _GPU_LINKS:
        return holder.kind == "GPU" or (holder.kind == "CPU" and holder.more.startswith(_POWER))
    return link != "NET" or holder.kind == "NIC"


class _Assembly:
    """Makes a box of a tree's nodes."""

    def __init__(self, nodes: Sequence[_Node], links: LinkSpeeds, source: str) -> None:
        self._nodes = nodes
        self._is_nominal = links is LinkSpeeds.NOMINAL
        self._source = source
        self._defaulted: list[Finding] = []
        self._warnings: list[Finding] = []
        gpus = [place for place, node in enumerate(nodes) if node.kind == "GPU"]
        if not gpus:
            raise self._error("the system tree shows no GPU", nodes[0].line if nodes else None)
        ranks = {place: self._rank(nodes[place]) for place in gpus}
        has_ranks = None not in ranks.values()
        self._gpus = sorted(
            gpus, key=lambda place: ranks[place] or 0 if has_ranks else _number(f"/{nodes[place].id}")
        )
        self._gpu_of = {nodes[place].id: number for number, place in enumerate(self._gpus)}
        self._bridge_of: dict[int, int] = {}
        self._word = "NVLink"

    def _error(self, message: str, line: int | None) -> FormatError:
        return FormatError(message, source=self._source, line=line)

    def _rank(self, node: _Node) -> int | None:
        if node.more == _DEVICE:
            return None
        if not re.fullmatch(r"-?\d{1,7}", node.more.strip()):
            raise self._error(f"GPU/{node.id} has no rank", node.line)
        return int(node.more)

    def box(self) -> Box:
        """The box, its GPUs in rank order."""
        bridges = self._bridges()
        nics = self._nics()
        links, n_switches = self._links()
        gpus = tuple(
            Gpu(
                name=f"GPU/{node.id}",
                bus_id=_bus_id(node.id),
                rank=self._rank(node),
                slot=self._slot(place),
            )
            for place, node in ((place, self._nodes[place]) for place in self._gpus)
        )
        try:
            return Box(
                gpus=gpus,
                links=links,
                nics=nics,
                bridges=bridges,
                host_links=self._host_links(),
                n_switches=n_switches,
                link_word=self._word,
                defaulted=tuple(self._defaulted),
                warnings=tuple(self._warnings),
            )
        except TopologyError as error:
            raise self._error(f"system tree: {error}", self._nodes[0].line) from None

    def _pcie(self, node: _Node) -> int | None:
        if node.above is None:
            return None
        if not node.speed:
            raise self._error(f"{node.kind}/{node.id} has a link of no speed", node.line)
        return int(node.speed * (_PCIE if self._is_nominal else 1) * GB_PER_S)

    def _bridges(self) -> tuple[Bridge, ...]:
        """CPUs, PCIe switches, and cards with several ports."""
        bridges: list[Bridge] = []
        for place, node in enumerate(self._nodes):
            ports = sum(link == "NET" for link, *_ in node.links)
            if node.kind == "GPU" or (node.kind == "NIC" and ports < 2):
                continue
            self._bridge_of[place] = len(bridges)
            kinds = {"CPU": BridgeKind.HOST, "NIC": BridgeKind.CARD}
            bridges.append(
                Bridge(
                    kind=kinds.get(node.kind, BridgeKind.SWITCH),
                    name=f"{node.kind}/{node.id}",
                    above=self._above(node),
                    bandwidth=self._pcie(node),
                )
            )
        return tuple(bridges)

    def _above(self, node: _Node) -> int | None:
        if node.above is None:
            return None
        if node.above not in self._bridge_of:
            raise self._error(f"{node.kind}/{node.id} hangs from what is no switch", node.line)
        return self._bridge_of[node.above]

    def _slot(self, place: int) -> Slot:
        node = self._nodes[place]
        return Slot(above=self._above(node), bandwidth=self._pcie(node))

    def _nics(self) -> tuple[Nic, ...]:
        """Ports, each where its card hangs."""
        found: dict[str, Nic] = {}
        for place, node in enumerate(self._nodes):
            for link, more, identity, speed, line in node.links:
                if link != "NET":
                    continue
                words = more.split("/")
                slot = Slot(above=self._bridge_of[place]) if place in self._bridge_of else self._slot(place)
                name = f"NET/{identity}"
                if name in found:
                    raise self._error(f"{name} is there twice", line)
                found[name] = Nic(
                    name=name,
                    bandwidth=int(speed * GB_PER_S) or None,
                    guid=words[-3] if len(words) >= 3 else "",
                    port=int(words[-2]) if len(words) >= 3 and re.fullmatch(r"\d{1,4}", words[-2]) else None,
                    slot=slot,
                )
        return tuple(sorted(found.values(), key=lambda nic: _number(nic.name)))

    def _links(self) -> tuple[tuple[GpuLink, ...], int]:
        """NVLinks between GPUs and to the switch, and how many switches there are."""
        speeds: dict[tuple[int, int | None], Fraction] = {}
        switches: set[str] = set()
        units: Sequence[tuple[Fraction, Fraction, int]] = _NVLINK
        for gpu, place in enumerate(self._gpus):
            for link, kind, identity, speed, line in self._nodes[place].links:
                if link not in _GPU_LINKS or kind not in ("NVS", "GPU", "DEV"):
                    if link not in ("LOC", "NET"):
                        text = f"GPU {gpu}: its {link} to {kind}/{identity} is left out"
                        self._warnings.append(Finding(text, f"line {line}"))
                    continue
                self._word, units = _GPU_LINKS[link]
                if kind == "NVS":
                    switches.add(identity)
                    key: tuple[int, int | None] = (gpu, None)
                    speeds[key] = speeds.get(key, Fraction(0)) + speed
                    continue
                other = self._gpu_of.get(identity)
                if other is None:
                    raise self._error(f"a link to GPU/{identity}, which the tree does not show", line)
                if other == gpu:
                    raise self._error(f"a link of GPU/{identity} to itself", line)
                key = (min(gpu, other), max(gpu, other))
                if speeds.setdefault(key, speed) != speed:
                    text = f"links of GPUs {key[0]} and {key[1]} differ by direction; the slower counts"
                    self._warnings.append(Finding(text, f"line {line}"))
                    speeds[key] = min(speeds[key], speed)
        unit = _one_link(speeds.values(), units)
        if speeds and unit is None and self._is_nominal:
            self._warnings.append(
                Finding(
                    "links of GPUs have speeds of no known generation; the log's own stand for nominal ones"
                )
            )
        if any(speed <= 0 for speed in speeds.values()):
            raise self._error("a link between GPUs has no speed", self._nodes[0].line)
        links = [
            GpuLink(gpu=gpu, other=other, **_sized(speed, unit, self._is_nominal))
            for (gpu, other), speed in sorted(speeds.items(), key=lambda one: (one[0][0], one[0][1] or -1))
        ]
        return tuple(links), len(switches)

    def _host_links(self) -> tuple[HostLink, ...]:
        cpus = {
            node.id: self._bridge_of[place] for place, node in enumerate(self._nodes) if node.kind == "CPU"
        }
        found: dict[tuple[int, int], tuple[Fraction, str]] = {}
        for place, node in enumerate(self._nodes):
            for link, kind, identity, speed, _ in node.links:
                if link == "SYS" and kind == "CPU" and node.kind == "CPU" and identity in cpus and speed:
                    ends = sorted((self._bridge_of[place], cpus[identity]))
                    if ends[0] != ends[1]:
                        found.setdefault((ends[0], ends[1]), (speed, node.more))
        return tuple(_host_link(*ends, *said) for ends, said in sorted(found.items()))


def _host_link(one: int, other: int, speed: Fraction, cpu: str) -> HostLink:
    if speed < _UNMEASURED:
        return HostLink(one=one, other=other, bandwidth=int(speed * GB_PER_S))
    found = next((amount for model, amount in _CPU_SPEEDS if f"{cpu}/".startswith(model)), None)
    origin = HostSpeed.UNKNOWN if found is None else HostSpeed.LIBRARY
    return HostLink(
        one=one, other=other, bandwidth=None if found is None else found * GB_PER_S, origin=origin
    )


def _one_link(
    speeds: Iterable[Fraction], units: Sequence[tuple[Fraction, Fraction, int]]
) -> tuple[Fraction, Fraction] | None:
    """The library's and the nominal speed of one link; None if none, or several, explain all speeds."""
    values = list(speeds)
    fitting = []
    for unit, nominal, most in units:
        counts = [round(value / unit) for value in values]
        if all(
            1 <= count <= most and abs(value - count * unit) <= _ROUNDING
            for value, count in zip(values, counts, strict=True)
        ):
            fitting.append((unit, nominal))
    return fitting[0] if values and len(fitting) == 1 else None


def _sized(speed: Fraction, unit: tuple[Fraction, Fraction] | None, is_nominal: bool) -> Mapping[str, int]:
    """Count and bandwidth of the links between two ends."""
    if unit is None:
        return {"count": 1, "bandwidth": int(speed * GB_PER_S)}
    count = round(speed / unit[0])
    return {"count": count, "bandwidth": int((count * unit[1] if is_nominal else speed) * GB_PER_S)}


def _bus_id(identity: str) -> str:
    """Bus id of a GPU's number: ``18000`` is 0000:18:00.0; "" for one that is none."""
    digits = identity.rpartition("-")[2].rjust(9, "0")
    if len(digits) > 9 or ("-" in identity and not identity.startswith("0-")):
        return ""  # of another system, whose bus ids may be the same
    return f"{digits[:4]}:{digits[4:6]}:{digits[6:8]}.{digits[8]}".lower()


def _number(name: str) -> tuple[int, int]:
    """Order of NETs: by system, then by number."""
    system, _, number = name.partition("/")[2].rpartition("-")
    return int(system or "0", 16), int(number, 16)
