"""TACCL's profiled topologies (JSON): what a chunk takes on the links of a box, and between boxes.

``alpha`` and ``betas`` are microseconds for one chunk, of a size that only the file's name tells; the inverse
bandwidths are alpha + beta and say nothing new. Matrices have destinations as rows and sources as columns. A
profile with lists of betas instead of matrices leaves the links to TACCL's code: one beta is a hub that every
GPU has one link to, two are the eight GPUs of an NDv2 (V100, a hybrid cube mesh) with double and single
NVLinks.

Source: A. Shah et al., "TACCL: Guiding Collective Algorithm Synthesis using Communication Sketches", NSDI
2023, section 5 and table 1; the layout of NDv2 as in `dgx1_v100`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from treadle.input_files import parse_json
from treadle.topologies.readers.figures import (
    asked,
    check_import_size,
    number,
    shown,
    whole,
    whole_bandwidth,
    whole_latency,
    whole_together,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceText
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth, format_size

_NAMES = "name gpus_per_node nics_per_node alpha node_betas_list node_invbws_list"
KEYS = frozenset(f"{_NAMES} remote_alpha remote_beta remote_invbw links betas invbws".split())
_RELAY = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")
_DOUBLE = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
"""Pairs of an NDv2 with two NVLinks."""
_SINGLE = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))
"""Pairs with one."""
_MAX_GPUS = 128


@dataclass
class _Costs:
    """Bytes/s and latency of a link by its beta: chunk and alpha."""

    source: SourceText
    chunk: int
    _speeds: dict[Fraction, int] = field(default_factory=dict)
    """Bytes/s by beta."""

    def learn(self, betas: Mapping[str, Fraction]) -> None:
        """Speeds of all betas that there are, by place, so that they keep their ratios."""
        for place, beta in betas.items():
            if beta <= 0:
                raise self.source.error(f"{place}: expected more than 0 microseconds, found {float(beta):g}")
            whole_bandwidth(self.source, place, Fraction(self.chunk * 10**6) / beta)
        different = sorted(set(betas.values()))
        speeds = whole_together([Fraction(self.chunk * 10**6) / beta for beta in different])
        self._speeds = dict(zip(different, speeds, strict=True))

    def bandwidth(self, beta: Fraction) -> int:
        return self._speeds[beta]

    def latency(self, place: str, alpha: Fraction) -> int:
        return whole_latency(self.source, place, alpha * 1000)


def read(source: SourceText, options: ImportOptions) -> Imported:
    """The fabric of a profile; FormatError if it is malformed or the chunk's size was not given."""
    document = parse_json(source.text, source=source.name)
    if not isinstance(document, dict):
        raise source.error("expected an object, as TACCL's topology files are")
    if "nnodes" in document:
        raise source.error(_sketch(document))
    for key in document:
        if key not in KEYS:
            raise source.error(f"unknown key {shown(key)}; known are {', '.join(sorted(KEYS))}")
    if options.chunk_size is None:
        raise asked(
            source, "chunk-size", "betas are microseconds for a chunk whose size the file does not say"
        )
    costs = _Costs(source, options.chunk_size)
    n = whole(source, "gpus_per_node", _needed(source, document, "gpus_per_node"), 2, _MAX_GPUS)
    boxes = options.boxes or 1
    rows = _box_links(costs, document, n)
    betas = {row.place: row.beta for row in rows}
    if boxes > 1:
        betas["remote_beta"] = number(source, "remote_beta", _needed(source, document, "remote_beta"))
    costs.learn(betas)
    relays = _relays(source, document, options, n)
    check_import_size(
        source, nodes=boxes * (n + 1) + len(relays), links=boxes * (len(rows) + boxes * len(relays))
    )
    name = _needed(source, document, "name")
    if not isinstance(name, str) or not name.isprintable():
        raise source.error(f"name: expected text, found {shown(name)}")
    builder = TopologyBuilder(name)
    prefixes = [f"box{box}." if boxes > 1 else "" for box in range(boxes)]
    for prefix in prefixes:
        for gpu in range(n):
            builder.compute(f"{prefix}gpu{gpu}")
        if rows and rows[0].is_hub:
            builder.switch(f"{prefix}hub")
        for row in rows:
            builder.link(f"{prefix}{row.tail}", f"{prefix}{row.head}", costs.bandwidth(row.beta), row.latency)
    between = _join(builder, costs, document, prefixes, relays) if boxes > 1 else ""
    found = {
        "GPUs": f"{boxes} x {n}",
        "links": _speeds([costs.bandwidth(row.beta) for row in rows]),
        "chunk": f"{format_size(options.chunk_size)} ({options.chunk_size} bytes)",
    } | ({"between boxes": between} if between else {})
    return Imported(builder.build(), "taccl", MappingProxyType(found), defaulted=_defaulted(document))


@dataclass(frozen=True)
class _BoxLink:
    """A link within a box; `is_hub` where one end is the box's hub."""

    tail: str
    head: str
    place: str
    beta: Fraction
    latency: int
    is_hub: bool = False


def _needed(source: SourceText, document: Mapping[str, Any], key: str) -> Any:
    if key not in document:
        raise source.error(f"key {key!r} is missing")
    return document[key]


def _box_links(costs: _Costs, document: Mapping[str, Any], n: int) -> list[_BoxLink]:
    source = costs.source
    alpha = costs.latency("alpha", number(source, "alpha", _needed(source, document, "alpha")))
    if "links" in document:
        return _matrix_links(costs, document, n, alpha)
    betas = _needed(source, document, "node_betas_list")
    if not isinstance(betas, list) or len(betas) not in (1, 2):
        raise source.error(
            "node_betas_list: expected one or two numbers, or matrices links and betas instead"
        )
    given = [(place, number(source, place, beta)) for place, beta in _numbered("node_betas_list", betas)]
    if len(given) == 1:
        half = alpha // 2
        return [
            link
            for gpu in range(n)
            for link in (
                _BoxLink(f"gpu{gpu}", "hub", *given[0], alpha - half, is_hub=True),
                _BoxLink("hub", f"gpu{gpu}", *given[0], half, is_hub=True),
            )
        ]
    if n != 8:
        raise source.error(f"gpus_per_node: two betas are those of NDv2's 8 GPUs, found {n}")
    pairs = [(pair, beta) for pairs, beta in zip((_DOUBLE, _SINGLE), given, strict=True) for pair in pairs]
    return [
        _BoxLink(f"gpu{a}", f"gpu{b}", *beta, alpha)
        for (one, other), beta in pairs
        for a, b in ((one, other), (other, one))
    ]


def _numbered(key: str, values: list[Any]) -> list[tuple[str, Any]]:
    return [(f"{key}[{k}]", value) for k, value in enumerate(values)]


def _matrix_links(costs: _Costs, document: Mapping[str, Any], n: int, alpha: int) -> list[_BoxLink]:
    """Links of matrices whose rows are destinations; a count above 1 is as many links."""
    source = costs.source
    counts, betas = (_matrix(source, document, key, n) for key in ("links", "betas"))
    found: list[_BoxLink] = []
    for head, row in enumerate(counts):
        for tail, cell in enumerate(row):
            count = whole(source, f"links[{head}][{tail}]", cell, 0, 64)
            if not count:
                continue
            if head == tail:
                raise source.error(f"links[{head}][{tail}]: a GPU has no link to itself")
            place = f"betas[{head}][{tail}]"
            beta = number(source, place, betas[head][tail])
            found += [_BoxLink(f"gpu{tail}", f"gpu{head}", place, beta, alpha)] * count
    return found


def _matrix(source: SourceText, document: Mapping[str, Any], key: str, n: int) -> list[list[Any]]:
    rows = _needed(source, document, key)
    if not isinstance(rows, list) or [len(row) for row in rows if isinstance(row, list)] != [n] * n:
        raise source.error(f"{key}: expected {n} rows of {n} numbers, one for each GPU")
    return rows


def _relays(
    source: SourceText, document: Mapping[str, Any], options: ImportOptions, n: int
) -> list[tuple[int, int]]:
    """Sender and receiver of each pair of boxes."""
    boxes = options.boxes or 1
    if boxes == 1:
        if options.network is not None:
            raise asked(source, "boxes", "--network joins boxes, and there is one")
        return []
    text = options.network
    if text is None:
        raise asked(source, "network", f"how {boxes} boxes are joined (relay:0-1 or direct-map)")
    kind, _, rest = text.partition(":")
    matches = [_RELAY.fullmatch(part) for part in rest.split(",")]
    pairs = [(k, k) for k in range(n)] if text == "direct-map" else []
    if kind == "relay":
        pairs = [(int(match[1]), int(match[2])) for match in matches if match]
    if not pairs or (kind == "relay" and len(pairs) < len(matches)):
        raise source.error(f"--network {text[:40]!r}: expected direct-map or relay:SENDER-RECEIVER,...")
    if any(gpu >= n for pair in pairs for gpu in pair) or len({a for a, _ in pairs}) < len(pairs):
        raise source.error(f"--network {text[:40]!r}: expected each sender once, GPUs 0 to {n - 1}")
    nics = whole(source, "nics_per_node", _needed(source, document, "nics_per_node"), 1, _MAX_GPUS)
    if len(pairs) > nics:
        raise source.error(
            f"--network {text[:40]!r}: {len(pairs)} senders and {nics} NICs; who shares one is not said"
        )
    return pairs


def _join(
    builder: TopologyBuilder,
    costs: _Costs,
    document: Mapping[str, Any],
    prefixes: list[str],
    relays: list[tuple[int, int]],
) -> str:
    """Links between boxes: straight ones for two boxes, else a switch for each sender."""
    beta = number(costs.source, "remote_beta", document["remote_beta"])
    alpha = number(costs.source, "remote_alpha", _needed(costs.source, document, "remote_alpha"))
    speed, latency = costs.bandwidth(beta), costs.latency("remote_alpha", alpha)
    for sender, receiver in relays:
        if len(prefixes) == 2:
            for a, b in (prefixes, prefixes[::-1]):
                builder.link(f"{a}gpu{sender}", f"{b}gpu{receiver}", speed, latency)
            continue
        switch = builder.switch(f"net{sender}")
        for prefix in prefixes:
            builder.link(f"{prefix}gpu{sender}", switch, speed, latency - latency // 2)
            builder.link(switch, f"{prefix}gpu{receiver}", speed, latency // 2)
    pairs = ", ".join(f"gpu{a} to gpu{b}" for a, b in relays)
    return f"{pairs} of every other box at {format_link_bandwidth(speed)}"


def _speeds(speeds: list[int]) -> str:
    counts = [f"{count} of {format_link_bandwidth(speed)}" for speed, count in Counter(speeds).most_common(5)]
    return ", ".join(counts[:4]) + (", ..." if len(counts) > 4 else "")


def _defaulted(document: Mapping[str, Any]) -> tuple[Finding, ...]:
    if "links" in document:
        return ()
    layout = (
        "8 GPUs as in an NDv2, whose links TACCL's code holds"
        if len(document["node_betas_list"]) == 2
        else "every GPU has one link to a hub, as TACCL's code has it"
    )
    return (Finding(layout, "node_betas_list"),)


def _sketch(document: Mapping[str, Any]) -> str:
    """What to do with a sketch: its boxes and relays as options of the topology that it goes with."""
    between = document.get("internode_sketch")
    joined = between.get("internode_conn") if isinstance(between, dict) else None
    words = "--boxes N --network relay:SENDER-RECEIVER"
    if isinstance(joined, dict):
        pairs = [f"{a}-{b}" for a, row in joined.items() if isinstance(row, list) for b in row]
        words = f"--boxes {document['nnodes']} --network relay:{','.join(pairs)}"[:120]
    elif joined == "direct-map":
        words = f"--boxes {document['nnodes']} --network direct-map"[:120]
    return f"is a TACCL sketch, which has no links; give the topology's file with {words}"
