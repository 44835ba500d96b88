"""TACCL's profiled topologies (JSON): what a chunk takes on the links of a box, and between boxes.

``alpha`` and ``betas`` are microseconds for one chunk, of a size that only the file's name gives; the inverse
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
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from treadle.input_files import parse_json
from treadle.topologies.readers.checked_values import (
    check_import_size,
    integer,
    integer_bandwidth,
    integer_latency,
    integers_together,
    mapping,
    missing_option,
    number,
    unexpected,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
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


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of a profile; FormatError if it is malformed or the chunk's size was not given."""
    document = parse_json(source.text, source=source.name)
    if not isinstance(document, dict):
        raise source.error("expected an object, as TACCL's topology files are")
    if "nnodes" in document:
        raise source.error(_sketch(document))
    mapping(source, "", document, KEYS)
    chunk, boxes = options.chunk_size, options.boxes or 1
    if chunk is None:
        missing = "betas are microseconds for a chunk whose size the file does not say"
        raise missing_option(source, "chunk-size", missing)
    profile = _Profile(source, document)
    n = integer(source, "gpus_per_node", profile["gpus_per_node"], 2, _MAX_GPUS)
    rows = _box_links(profile, n)
    betas = {row.place: row.beta for row in rows}
    if boxes > 1:
        betas["remote_beta"] = profile.number("remote_beta")
    for place, beta in betas.items():
        if beta <= 0:
            raise source.error(f"{place}: expected more than 0 microseconds, found {float(beta):g}")
        integer_bandwidth(source, place, Fraction(chunk * 10**6) / beta)
    different = sorted(set(betas.values()))
    speeds = integers_together([Fraction(chunk * 10**6) / beta for beta in different])
    speed_of = dict(zip(different, speeds, strict=True))
    relays = _relays(profile, options, n)
    links = boxes * (len(rows) + boxes * len(relays))
    check_import_size(source, nodes=boxes * (n + 1) + len(relays), links=links)
    name = profile["name"]
    if not isinstance(name, str) or not name.isprintable():
        raise unexpected(source, "name", "text", name)
    builder = TopologyBuilder(name)
    prefixes = [f"box{box}." if boxes > 1 else "" for box in range(boxes)]
    for prefix in prefixes:
        for gpu in range(n):
            builder.compute(f"{prefix}gpu{gpu}")
        if rows and rows[0].is_hub:
            builder.switch(f"{prefix}hub")
        for row in rows:
            builder.link(f"{prefix}{row.tail}", f"{prefix}{row.head}", speed_of[row.beta], row.latency)
    common = Counter(speed_of[row.beta] for row in rows).most_common(5)
    counts = [f"{count} of {format_link_bandwidth(speed)}" for speed, count in common]
    found = {
        "GPUs": f"{boxes} x {n}",
        "links": ", ".join([*counts[:4], *["..."] * (len(counts) > 4)]),
        "chunk": f"{format_size(chunk)} ({chunk} bytes)",
    }
    if boxes > 1:
        speed = speed_of[betas["remote_beta"]]
        _join(builder, speed, profile.latency("remote_alpha"), prefixes, relays)
        pairs = ", ".join(f"gpu{a} to gpu{b}" for a, b in relays)
        found["between boxes"] = f"{pairs} of every other box at {format_link_bandwidth(speed)}"
    layout = "every GPU has one link to a hub, as TACCL's code has it"
    if len(document.get("node_betas_list", [])) == 2:
        layout = "8 GPUs as in an NDv2, whose links TACCL's code holds"
    defaulted = () if "links" in document else (Finding(layout, "node_betas_list"),)
    return Imported(builder.build(), "taccl", found, defaulted)


@dataclass(frozen=True)
class _Profile:
    """The values of a file; FormatError for those that are missing."""

    source: SourceFile
    document: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        if key not in self.document:
            raise self.source.error(f"key {key!r} is missing")
        return self.document[key]

    def number(self, key: str) -> Fraction:
        return number(self.source, key, self[key])

    def latency(self, key: str) -> int:
        return integer_latency(self.source, key, self.number(key) * 1000)

    def matrix(self, key: str, n: int) -> list[list[Any]]:
        rows = self[key]
        if not isinstance(rows, list) or [len(row) for row in rows if isinstance(row, list)] != [n] * n:
            raise self.source.error(f"{key}: expected {n} rows of {n} numbers, one for each GPU")
        return rows


@dataclass(frozen=True)
class _BoxLink:
    """A link within a box; `is_hub` where one end is the box's hub."""

    tail: str
    head: str
    place: str
    beta: Fraction
    latency: int
    is_hub: bool = False


def _box_links(profile: _Profile, n: int) -> list[_BoxLink]:
    source, alpha = profile.source, profile.latency("alpha")
    if "links" in profile.document:
        return _matrix_links(profile, n, alpha)
    betas = profile["node_betas_list"]
    if not isinstance(betas, list) or len(betas) not in (1, 2):
        expected = "expected one or two numbers, or matrices links and betas instead"
        raise source.error(f"node_betas_list: {expected}")
    places = [f"node_betas_list[{k}]" for k in range(len(betas))]
    given = [(place, number(source, place, beta)) for place, beta in zip(places, betas, strict=True)]
    if len(given) == 1:
        ends, waits = [(f"gpu{gpu}", "hub") for gpu in range(n)], (alpha - alpha // 2, alpha // 2)
    elif n != 8:
        raise source.error(f"gpus_per_node: two betas are those of NDv2's 8 GPUs, found {n}")
    else:
        ends, waits = [(f"gpu{one}", f"gpu{other}") for one, other in (*_DOUBLE, *_SINGLE)], (alpha, alpha)
    links = []
    for number_of_pair, pair in enumerate(ends):
        beta = given[0] if number_of_pair < len(ends) // len(given) else given[1]
        for (tail, head), wait in zip((pair, pair[::-1]), waits, strict=True):
            links.append(_BoxLink(tail, head, *beta, wait, is_hub="hub" in pair))
    return links


def _matrix_links(profile: _Profile, n: int, alpha: int) -> list[_BoxLink]:
    """Return the links of matrices whose rows are destinations; a count above 1 is as many links."""
    source = profile.source
    counts, betas = profile.matrix("links", n), profile.matrix("betas", n)
    found: list[_BoxLink] = []
    for head, tail in product(range(n), repeat=2):
        at = f"[{head}][{tail}]"
        count = integer(source, f"links{at}", counts[head][tail], 0, 64)
        if count and head == tail:
            raise source.error(f"links{at}: a GPU has no link to itself")
        if count:
            beta = number(source, f"betas{at}", betas[head][tail])
            found += [_BoxLink(f"gpu{tail}", f"gpu{head}", f"betas{at}", beta, alpha)] * count
    return found


def _relays(profile: _Profile, options: ImportOptions, n: int) -> list[tuple[int, int]]:
    """Return the sender and receiver of each pair of boxes."""
    source, boxes, text = profile.source, options.boxes or 1, options.network
    if boxes == 1 and text is not None:
        raise missing_option(source, "boxes", "--network joins boxes, and there is one")
    if boxes == 1:
        return []
    if text is None:
        raise missing_option(source, "network", f"how {boxes} boxes are joined (relay:0-1 or direct-map)")
    option = f"--network {text[:40]!r}"
    if text == "direct-map":
        pairs = [(gpu, gpu) for gpu in range(n)]
    elif re.fullmatch(rf"relay:{_RELAY.pattern}(?:,{_RELAY.pattern})*", text):
        pairs = [(int(match[1]), int(match[2])) for match in _RELAY.finditer(text)]
    else:
        raise source.error(f"{option}: expected direct-map or relay:SENDER-RECEIVER,...")
    if any(gpu >= n for pair in pairs for gpu in pair) or len({a for a, _ in pairs}) < len(pairs):
        raise source.error(f"{option}: expected each sender once, GPUs 0 to {n - 1}")
    nics = integer(source, "nics_per_node", profile["nics_per_node"], 1, _MAX_GPUS)
    if len(pairs) > nics:
        raise source.error(f"{option}: {len(pairs)} senders and {nics} NICs; who shares one is not said")
    return pairs


def _join(
    builder: TopologyBuilder,
    speed: int,
    latency: int,
    prefixes: list[str],
    relays: list[tuple[int, int]],
) -> None:
    """Links between boxes: straight ones for two boxes, else a switch for each sender."""
    for sender, receiver in relays:
        if len(prefixes) == 2:
            for a, b in (prefixes, prefixes[::-1]):
                builder.link(f"{a}gpu{sender}", f"{b}gpu{receiver}", speed, latency)
            continue
        switch = builder.switch(f"net{sender}")
        for prefix in prefixes:
            builder.link(f"{prefix}gpu{sender}", switch, speed, latency - latency // 2)
            builder.link(switch, f"{prefix}gpu{receiver}", speed, latency // 2)


def _sketch(document: Mapping[str, Any]) -> str:
    """Explain the use of a sketch: its boxes and relays as options of its topology."""
    between = document.get("internode_sketch")
    joined = between.get("internode_conn") if isinstance(between, dict) else None
    words = "--boxes N --network relay:SENDER-RECEIVER"
    if isinstance(joined, dict):
        pairs = [f"{a}-{b}" for a, row in joined.items() if isinstance(row, list) for b in row]
        words = f"--boxes {document['nnodes']} --network relay:{','.join(pairs)}"[:120]
    elif joined == "direct-map":
        words = f"--boxes {document['nnodes']} --network direct-map"[:120]
    return f"is a TACCL sketch, which has no links; give the topology's file with {words}"
