"""ASTRA-sim's analytical network files (``network.yml``): dimensions of rings, switches and full meshes.

The first dimension is the innermost: NPU ``i0 + n0 * (i1 + n1 * i2)`` has the coordinates i0, i1, i2, and in
each dimension all NPUs that differ in that coordinate only make one ring, switch or full mesh. Bandwidths are
GB/s per link and direction, latencies nanoseconds. A ring of two has one link.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

from treadle.topologies.readers.checked_values import (
    MAX_IMPORTED_NODES,
    check_import_size,
    integer,
    integer_bandwidth,
    integer_latency,
    mapping,
    number,
    unexpected,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.readers.yaml_source import parse_yaml
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

KEYS = ("topology", "npus_count", "bandwidth", "latency")
_BLOCKS = ("Ring", "Switch", "FullyConnected")
_MAX_DIMENSIONS = 16


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of a network file; FormatError if it is malformed."""
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
        raise source.error("npus_count: one NPU is not a fabric; expected at least 2")
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
    text = f"rounded to whole nanoseconds: {', '.join(rounded)}"
    rates = ((format_link_bandwidth(int(rate * 10**9)), block, count) for block, count, rate, _ in rows)
    speeds = ", ".join(f"{rate} {block} of {count}" for rate, block, count in rates)
    found = {"NPUs": str(total), "dimensions": speeds, "rank order": "the first dimension is the innermost"}
    warnings = (Finding(text, "latency"),) if rounded else ()
    return Imported(builder.build(), "astra-sim", found, warnings=warnings)


def _columns(source: SourceFile) -> list[tuple[str, int, Fraction, Fraction]]:
    """Return the block, count, GB/s and nanoseconds of each dimension."""
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
    for place, (block, count, *figures) in enumerate(zip(*(lists[key] for key in KEYS), strict=True)):
        if block not in _BLOCKS:
            raise unexpected(source, f"topology[{place}]", f"one of {', '.join(_BLOCKS)}", block)
        npus = integer(source, f"npus_count[{place}]", count, 1, MAX_IMPORTED_NODES)
        keys = zip(KEYS[2:], figures, strict=True)
        bandwidth, latency = (number(source, f"{key}[{place}]", value) for key, value in keys)
        rows.append((block, npus, bandwidth, latency))
    return rows


def _join(builder: TopologyBuilder, block: str, group: list[str], name: str, speed: int, wait: int) -> None:
    if len(group) == 1:
        return
    pairs = [(one, other) for k, one in enumerate(group) for other in group[:k]]
    if block == "Switch":
        builder.switch(name)
        pairs = [(npu, name) for npu in group]
    elif block == "Ring":
        pairs = [*pairwise(group), *([(group[-1], group[0])] if len(group) > 2 else [])]
    for one, other in pairs:
        builder.duplex(one, other, speed, wait)
