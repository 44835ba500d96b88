"""ASTRA-sim's analytical network files (``network.yml``): dimensions of rings, switches and full meshes.

The first dimension is the innermost: NPU ``i0 + n0 * (i1 + n1 * i2)`` has the coordinates i0, i1, i2, and in
each dimension all NPUs that differ in that coordinate only make one ring, switch or full mesh. Bandwidths are
GB/s per link and direction, latencies nanoseconds. A ring of two has one link.
"""

from __future__ import annotations

import math
from fractions import Fraction

from treadle.topologies.readers.checked_values import (
    MAX_IMPORTED_NODES,
    check_import_size,
    format_value,
    integer,
    integer_bandwidth,
    integer_latency,
    mapping,
    number,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.readers.yaml_source import parse_yaml
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

KEYS = ("topology", "npus_count", "bandwidth", "latency")
_BLOCKS = ("Ring", "Switch", "FullyConnected")
_MAX_DIMENSIONS = 16


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """The fabric of a network file; FormatError if it is malformed."""
    del options  # such a file says everything
    rows = _columns(source)
    builder = TopologyBuilder(source.stem)
    counts = [row[1] for row in rows]
    total = math.prod(counts)
    links = switches = 0
    for block, count, *_ in rows:
        links += total * (count - 1) if block == "FullyConnected" else 2 * total
        switches += total // count if block == "Switch" else 0
    check_import_size(source, nodes=total + switches, links=links)
    if total < 2:
        raise source.error("npus_count: one NPU is no fabric; expected at least 2")
    for npu in range(total):
        builder.compute(f"npu{npu}")
    rounded = []
    stride = 1
    for place, (block, count, bandwidth, latency) in enumerate(rows):
        if round(latency) != latency:
            rounded.append(f"{float(latency):g}")
        speed = integer_bandwidth(source, f"bandwidth[{place}]", bandwidth * 10**9)
        wait = integer_latency(source, f"latency[{place}]", latency)
        for first in range(total):
            if first // stride % count == 0:
                group = [f"npu{first + k * stride}" for k in range(count)]
                _join(builder, block, group, f"dim{place}.switch{first}", speed, wait)
        stride *= count
    findings = [Finding(f"rounded to whole nanoseconds: {', '.join(rounded)}", "latency")] if rounded else []
    speeds = ", ".join(
        f"{format_link_bandwidth(int(bandwidth * 10**9))} {block} of {count}"
        for block, count, bandwidth, _ in rows
    )
    found = {"NPUs": str(total), "dimensions": speeds, "rank order": "the first dimension is the innermost"}
    return Imported(builder.build(), "astra-sim", found, warnings=tuple(findings))


def _columns(source: SourceFile) -> list[tuple[str, int, Fraction, Fraction]]:
    """Block, count, GB/s and nanoseconds of each dimension."""
    document = parse_yaml(source)
    if not isinstance(document, dict):
        raise source.error(f"expected a mapping with the keys {', '.join(KEYS)}")
    mapping(source, "", document, KEYS, KEYS)
    lists = {key: value if isinstance(value, list) else [value] for key, value in document.items()}
    for key in KEYS:
        if len(lists[key]) != len(lists["topology"]) or not 1 <= len(lists[key]) <= _MAX_DIMENSIONS:
            sizes = f"{len(lists['topology'])} of topology and {len(lists[key])} of {key}"
            raise source.error(f"{key}: expected one value for each of 1 to 16 dimensions, found {sizes}")
    rows = []
    for place, (block, *figures) in enumerate(zip(*(lists[key] for key in KEYS), strict=True)):
        if block not in _BLOCKS:
            known = ", ".join(_BLOCKS)
            raise source.error(f"topology[{place}]: expected one of {known}, found {format_value(block)}")
        count = integer(source, f"npus_count[{place}]", figures[0], 1, MAX_IMPORTED_NODES)
        bandwidth = number(source, f"bandwidth[{place}]", figures[1])
        rows.append((block, count, bandwidth, number(source, f"latency[{place}]", figures[2])))
    return rows


def _join(builder: TopologyBuilder, block: str, group: list[str], name: str, speed: int, wait: int) -> None:
    if len(group) == 1:
        return
    if block == "Switch":
        builder.switch(name)
        pairs = [(npu, name) for npu in group]
    elif block == "Ring":
        pairs = list(zip(group, group[1:] + group[:1], strict=True))[: 1 if len(group) == 2 else None]
    else:
        pairs = [(one, other) for k, one in enumerate(group) for other in group[:k]]
    for one, other in pairs:
        builder.duplex(one, other, speed, wait)
