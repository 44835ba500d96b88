"""Output of ``ibnetdiscover`` and ``iblinkinfo``: switches, adapters and cables of an InfiniBand fabric.

Every cable stands twice, at each of its ends, with the same width and speed; both are read and must agree.
Adapters are the compute nodes, in the order of the file: which of them sit in one host the file says in free
text only. An "Aggregation Node" is a switch's reduction unit (SHARP), not a host, and is left out.

Source: infiniband-diags, ibnetdiscover(8), "TOPOLOGY FILE FORMAT"; iblinkinfo.c of rdma-core, which prints
local identifiers (LIDs) of ports in the place of nodes' GUIDs, and the signalling rate of a lane.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from treadle.topologies.properties import n_components
from treadle.topologies.readers.checked_values import check_import_size, format_value, missing_option
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

_LANES: dict[str, Fraction] = {
    **{"SDR": Fraction(2), "DDR": Fraction(4), "QDR": Fraction(8), "FDR10": Fraction(10)},
    **{"FDR": Fraction("14.0625") * Fraction(64, 66), "EDR": Fraction(25), "HDR": Fraction(50)},
    **{"NDR": Fraction(100), "XDR": Fraction(200)},
}
"""Gbit/s of data on a lane, without its coding."""
_WIDTHS = (1, 2, 4, 8, 12)
_SIGNALS = {
    **{"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "10.3125": "FDR10", "14.0625": "FDR"},
    **{"25.78125": "EDR", "53.125": "HDR", "106.25": "NDR", "212.5": "XDR"},
}
"""Generations by the Gbit/s of a lane with its coding."""

_NODE = re.compile(r'(Switch|Ca|Rt)\s+([0-9]{1,5})\s+"([^"]{1,80})"\s*#\s*"([^"]*)".*')
_PORT = re.compile(
    r'\[([0-9]{1,5})\](?:\([0-9a-fA-F]+\)|\[ext [0-9]+\])?\s+"([^"]{1,80})"\[([0-9]{1,5})\](.*)'
)
_RATE = re.compile(r"\s([0-9]{1,2})x([A-Z]{2,4}[0-9]{0,2})\s*$")
_IGNORED = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=.*|#.*|")
_IN_HOST = re.compile(r"\S+ (?:HCA-[0-9]+|[a-z]+[a-z0-9]*_[0-9]+|ib[a-z0-9]*)")


_LINK_NODE = re.compile(r"(Switch|CA|Router|RT): *(.{0,160}?):?")
_LINK_PORT = re.compile(
    r"(?:0x[0-9a-fA-F]+ +)?([0-9]{1,6}) +([0-9]{1,5})\[[^\]]{0,4}\] *==\((.{0,120}?)\)==> *"
    r'(?:(?:([0-9]{1,6}) +([0-9]{1,5}))? *\[[^\]]{0,4}\] *"[^"]{0,160}" *\(([^()]{0,80})\)'
    r'|"Port not available")'
)
"""LID and port here, state, LID and port there, remarks."""
_STATE = re.compile(r" *([0-9]{1,2})X +([0-9.]{1,9}) +Gbps( \(FDR10\))? +Active/.*")


@dataclass
class _Node:
    """A block of the file."""

    kind: str
    guid: str
    text: str
    line: int
    n_ports: int
    ports: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """Far node, its port, and bytes/s (0 where the line has no speed)."""

    @property
    def sums_only(self) -> bool:
        return self.kind == "Ca" and "Aggregation Node" in self.text


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the discovered fabric; FormatError if the file is malformed."""
    return _imported(source, options, "ibnetdiscover", _blocks(source), [])


def read_links(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of ``iblinkinfo``, whose ports without a cable are left out."""
    nodes, slow = _link_blocks(source)
    findings = [
        Finding(f"{len(slow)} ports run below what they could ({first})", f"line {line}")
        for first, line in slow[:1]
    ]
    return _imported(source, options, "iblinkinfo", nodes, findings)


def _imported(
    source: SourceFile, options: ImportOptions, name: str, nodes: dict[str, _Node], warnings: list[Finding]
) -> Imported:
    missing = _check_cables(source, nodes)
    if missing and options.bandwidth is None:
        raise missing_option(source, "bandwidth", f"{missing} ports have no speed")
    kept = [node for node in nodes.values() if not node.sums_only]
    adapters = [node for node in kept if node.kind == "Ca"]
    if len(adapters) < 2:
        raise source.error(f"has {len(adapters)} channel adapters; a fabric has at least 2")
    uses = Counter(node.text for node in kept)
    # a node's description where it is that node's only, else with its identity
    names = {
        node.guid: node.text if node.text and uses[node.text] == 1 else f"{node.text} {node.guid}".strip()
        for node in kept
    }
    builder = TopologyBuilder(source.stem)
    for node in kept:
        (builder.compute if node.kind == "Ca" else builder.switch)(names[node.guid])
    left_out = 0
    for node in kept:
        for far, _, speed in node.ports.values():
            if nodes[far].sums_only:
                left_out += 1
            else:
                builder.link(names[node.guid], names[far], speed or options.bandwidth or 0)
    for node in kept:
        if node.kind != "Ca" and not any(far in names for far, _, _ in node.ports.values()):
            raise source.error(f"switch {format_value(node.text)} has no cable", node.line)
    topology = builder.build()
    parts = n_components(topology)
    nameless = [node for node in adapters if not _IN_HOST.fullmatch(node.text)]
    if nameless:
        first = f"{nameless[0].guid} and others" if len(nameless) > 1 else nameless[0].guid
        text = f"{len(nameless)} HCAs do not name their host ({first})"
        warnings.append(Finding(text, f"line {nameless[0].line}"))
    if left_out:
        warnings.append(Finding(f"{left_out} links to aggregation nodes are left out: SHARP is no host"))
    if parts > 1:
        warnings.append(Finding(f"the fabric falls into {parts} parts that no cable joins"))
    if unplugged := [node for node in adapters if not node.ports]:
        warnings.append(Finding(f"{len(unplugged)} HCAs have no cable", f"line {unplugged[0].line}"))
    hosts = {node.text.split()[0] for node in adapters if _IN_HOST.fullmatch(node.text)}
    speeds = Counter(topology.bandwidths.tolist()).most_common()
    found = {
        "switches": str(len(topology.switches)),
        "HCAs": f"{len(adapters)} of {len(hosts)} hosts",
        "SHARP": f"{len(nodes) - len(kept)} aggregation nodes left out",
        "links": f"{topology.n_links} directed",
        "speeds": ", ".join(f"{count} of {format_link_bandwidth(speed)}" for speed, count in speeds),
        "components": str(parts),
        "rank order": "adapters in the order of the file",
    }
    filled = (Finding(f"{missing} ports without a speed take --bandwidth"),) if missing else ()
    return Imported(topology, name, found, filled, tuple(warnings))


def _add_node(
    source: SourceFile, nodes: dict[str, _Node], kind: str, guid: str, words: str, line: int, n_ports: int = 0
) -> _Node:
    """Return a new block; FormatError for a second one of a node."""
    check_import_size(source, nodes=len(nodes))
    node = _Node(kind, guid, " ".join(words.split()), line, n_ports)
    if not node.text.isprintable():
        raise source.error("control characters in a description", line)
    if nodes.setdefault(guid, node) is not node:
        raise source.error(f"node {format_value(guid)} stands here a second time", line)
    return node


def _blocks(source: SourceFile) -> dict[str, _Node]:
    """Return blocks by their identity, with their ports."""
    nodes: dict[str, _Node] = {}
    block: _Node | None = None
    for line, text in enumerate(map(str.strip, source.text.splitlines()), start=1):
        if not text or text[0] == "#":
            continue
        head = _NODE.fullmatch(text)
        if head is not None:
            block = _add_node(source, nodes, head[1], head[3], head[4], line, int(head[2]))
        elif text.startswith("["):
            if block is None:
                raise source.error("a port before the first node", line)
            _take_port(source, block, text, line)
        elif not _IGNORED.fullmatch(text):
            raise source.error(f"expected a node, a port or a comment, found {format_value(text)}", line)
    return nodes


def _link_blocks(source: SourceFile) -> tuple[dict[str, _Node], list[tuple[str, int]]]:
    """Blocks of ``iblinkinfo`` by their name and line, with their ports; ports slower than they could be."""
    nodes: dict[str, _Node] = {}
    ends: dict[tuple[str, str], tuple[_Node, int]] = {}
    cables: list[tuple[_Node, int, tuple[str, str], int, int]] = []
    slow: list[tuple[str, int]] = []
    block: _Node | None = None
    for line, text in enumerate(map(str.strip, source.text.splitlines()), start=1):
        head, port = _LINK_NODE.fullmatch(text), _LINK_PORT.fullmatch(text)
        if not text or text[0] == "#":
            continue
        if head is not None:
            words = " ".join(head[2].split())
            kind = {"CA": "Ca", "Switch": "Switch"}.get(head[1], "Rt")
            guid, _, rest = words.partition(" ") if words.startswith("0x") else (f"line{line}", "", words)
            block = _add_node(source, nodes, kind, guid, rest, line)
        elif port is None or block is None:
            raise source.error(f"expected a node and its ports, found {format_value(text)}", line)
        elif port[4] is not None:
            place = port[1], port[2]
            if place in ends:
                raise source.error(f"port {port[2]} of LID {port[1]} stands here a second time", line)
            # adapters may have several LIDs with a port 1 each
            number = block.n_ports = block.n_ports + 1
            ends[place] = block, number
            cables.append((block, number, (port[4], port[5]), _signalled(source, port[3], line), line))
            if "Could be" in port[6]:
                slow.append((f"{block.text} port {port[2]}: {' '.join(port[6].split())}", line))
    for node, number, there, speed, line in cables:
        if there not in ends:
            raise source.error(f"port {there[1]} of LID {there[0]} is not in the file", line)
        far, far_number = ends[there]
        node.ports[number] = (far.guid, far_number, speed)
    return nodes, slow


def _signalled(source: SourceFile, state: str, line: int) -> int:
    """Return bytes/s of a port such as ``4X 25.78125 Gbps Active/ LinkUp``."""
    match = _STATE.fullmatch(state)
    words = format_value(" ".join(state.split()))
    if match is None:
        raise source.error(f"{words}: expected an active port, such as 4X 25.78125 Gbps Active", line)
    if match[2] not in _SIGNALS or int(match[1]) not in _WIDTHS:
        raise source.error(f"{words}: unknown speed; such as 4X 25.78125 Gbps are known", line)
    lane = _LANES["FDR10" if match[3] else _SIGNALS[match[2]]]
    return int(int(match[1]) * lane * 10**9 / 8)


def _take_port(source: SourceFile, block: _Node, text: str, line: int) -> None:
    port = _PORT.fullmatch(text)
    if port is None:
        raise source.error(f"malformed port {format_value(text)}", line)
    number, rate, speed = int(port[1]), _RATE.search(port[4]), 0
    if number in block.ports:
        raise source.error(f"port {number} stands here a second time", line)
    if not 1 <= number <= block.n_ports:
        raise source.error(f"port {number} of {block.n_ports} does not exist", line)
    if rate is not None:
        if rate[2] not in _LANES or int(rate[1]) not in _WIDTHS:
            raise source.error(f"speed {rate[0].strip()!r} is unknown; such as 4xNDR are", line)
        speed = int(int(rate[1]) * _LANES[rate[2]] * 10**9 / 8)
    block.ports[number] = (port[2], int(port[3]), speed)


def _check_cables(source: SourceFile, nodes: dict[str, _Node]) -> int:
    """Count the ports without speed; FormatError for a cable whose two ends contradict each other."""
    check_import_size(source, links=sum(len(node.ports) for node in nodes.values()))
    missing = 0
    for node in nodes.values():
        for number, (far, far_port, speed) in node.ports.items():
            place = f"port {number} of {node.guid}"
            if far not in nodes:
                lost = f"leads to {format_value(far)}, which is not in the file"
                raise source.error(f"{place}: {lost}", line=node.line)
            back = nodes[far].ports.get(far_port)
            if back is None or back[:2] != (node.guid, number):
                raise source.error(f"{place}: port {far_port} of {far} leads elsewhere", node.line)
            if back[2] != speed:
                raise source.error(f"{place}: the other end has another speed", node.line)
            missing += not speed
    return missing
