"""The catalogue of suspects: what each looks for, and which lines prove it; the surest come first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from treadle.diagnosis.graph_rules import graph_fell_back, no_p2p, slow_links
from treadle.diagnosis.network_rules import acs, crossed_rails, idle_nics, no_gdr, pcie, ports, tcp
from treadle.diagnosis.suspect import Case, Rule, Suspect
from treadle.units import format_size

# Variables of the environment that hold NCCL back

_MOST = 8


def _number_below(limit: int) -> Callable[[str], bool]:
    return lambda value: value.isdigit() and int(value) < limit


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.upper() in values


def _any(value: str) -> bool:
    return bool(value)


_OFF, _ON = _one_of("0", "FALSE", "NO"), _one_of("1", "TRUE", "YES")


@dataclass(frozen=True)
class Restriction:
    """A variable, the values that hold NCCL back, what they do, and whether that concerns a single box."""

    name: str
    holds_back: Callable[[str], bool]
    text: str
    between_boxes: bool = False


RESTRICTIONS = (
    Restriction("NCCL_P2P_DISABLE", _ON, "GPUs of a box do not reach each other's memory"),
    Restriction("NCCL_P2P_LEVEL", _one_of("LOC", "0"), "GPUs of a box do not reach each other's memory"),
    Restriction("NCCL_SHM_DISABLE", _ON, "GPUs without peer access meet over the network"),
    Restriction("NCCL_IB_DISABLE", _ON, "RDMA is off", between_boxes=True),
    Restriction("NCCL_NET_GDR_LEVEL", _one_of("0", "LOC"), "GPUDirect RDMA is off", between_boxes=True),
    Restriction("NCCL_IB_GDR_LEVEL", _one_of("0", "LOC"), "GPUDirect RDMA is off", between_boxes=True),
    Restriction("NCCL_NET_GDR_READ", _OFF, "GPUs' memory is not read by NICs", between_boxes=True),
    Restriction("NCCL_DMABUF_ENABLE", _OFF, "DMA-BUF is off", between_boxes=True),
    Restriction("NCCL_NET", _one_of("SOCKET"), "TCP is wanted", between_boxes=True),
    Restriction("NCCL_PXN_DISABLE", _ON, "GPUs do not use each other's NICs", between_boxes=True),
    Restriction("NCCL_ALGO", _any, "the choice of algorithms is narrowed"),
    Restriction("NCCL_PROTO", _any, "the choice of protocols is narrowed"),
    Restriction(
        "NCCL_MAX_NCHANNELS", _number_below(16), "few channels, so few thread blocks and links at a time"
    ),
    Restriction("NCCL_MAX_NRINGS", _number_below(16), "few rings"),
    Restriction("NCCL_MAX_CTAS", _number_below(16), "few thread blocks"),
    Restriction("NCCL_NTHREADS", _number_below(256), "few threads per block"),
    Restriction("NCCL_BUFFSIZE", _number_below(2**20), "small buffers"),
    Restriction("NCCL_NVLS_ENABLE", _OFF, "NVLink SHARP is off"),
    Restriction("NCCL_MNNVL_ENABLE", _OFF, "NVLink between boxes is not used", between_boxes=True),
    Restriction("NCCL_GRAPH_FILE", _any, "NCCL's own search is replaced by a file"),
    Restriction("NCCL_NCHANNELS_PER_NET_PEER", _one_of("1"), "one channel per peer", between_boxes=True),
)
"""Values that make NCCL slower, as its documentation of the environment describes the variables."""


def restricting(case: Case, found: tuple[Suspect, ...]) -> list[Suspect]:
    """A variable holds NCCL back, and no other suspect names it yet."""
    named = {line for one in found for line in one.lines}
    suspects = []
    for restriction in RESTRICTIONS:
        for setting in case.log.settings:
            if setting.name != restriction.name or not restriction.holds_back(setting.value):
                continue
            if restriction.between_boxes and case.n_hosts == 1:
                continue
            if setting.line in named and any(setting.name in one.remedy for one in found):
                continue
            text = f"{setting.name}={setting.value[:40]}: {restriction.text}"
            remedy = f"unset {setting.name}, unless it is there for a reason"
            suspects.append(Suspect("environment", text, (setting.line,), remedy))
            break
    return suspects[:_MOST]


# What the figures themselves show: wrong results, a curve that falls, a curve that still rises

_FALLEN = 0.7
"""Of the peak: a curve that ends below has fallen; protocols change by less."""
_RISING = 1.15
"""A doubling of the size that brings so much has not reached the peak."""


def wrong_results(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Values were wrong."""
    found = []
    for table in case.log.tables:
        wrong = [row for row in table.rows if row.wrong]
        lines = [row.line for row in wrong[:2]]
        lines += [table.out_of_bounds] if table.out_of_bounds is not None else []
        if lines:
            sizes = f"{len(wrong)} of {len(table.rows)} sizes" if wrong else "some sizes"
            text = f"results are wrong at {sizes}: no speed counts before that is mended"
            remedy = "test GPUs and links one by one (dcgmi diag -r 3), NCCL_P2P_DISABLE=1, without plug-ins"
            found.append(Suspect("wrong-results", text, tuple(lines), remedy))
    return found[:2]


def falls(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Large sizes are slower than middling ones."""
    table = case.table
    if table is None:
        return []
    peak, last = table.peak, max(table.rows, key=lambda row: row.size)
    if last.size <= peak.size or last.busbw >= _FALLEN * peak.busbw:
        return []
    later = (row for row in table.rows if row.size > peak.size)
    first = next(row for row in later if row.busbw < _FALLEN * peak.busbw)
    why = "congestion in the network"
    remedy = (
        "see the switches' counters: PFC and ECN of RoCE, adaptive routing, other traffic; NCCL_IB_TC, _SL"
    )
    if case.is_one_box:
        why = "within a box, where no network takes part"
        remedy = (
            "see the GPUs under load: throttling (nvidia-smi -q -d PERFORMANCE,CLOCK), errors of NVLinks "
            "(nvidia-smi nvlink -e), other jobs of the box"
        )
    text = (
        f"busbw falls with the size: {peak.busbw:g} GB/s at {format_size(peak.size)}, {last.busbw:g} at "
        f"{format_size(last.size)}: {why}"
    )
    lines = tuple(dict.fromkeys((peak.line, first.line, last.line)))
    return [Suspect("falls-with-size", text, lines, remedy)]


def still_rising(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """The largest size is too small to show what the system can do."""
    table = case.table
    if table is None or len(table.rows) < 2:
        return []
    *smaller, last = sorted(table.rows, key=lambda row: (row.size, row.busbw))
    # sizes closer than a doubling differ by noise; they are compared only where there are no others
    before = next((row for row in reversed(smaller) if 2 * row.size <= last.size), smaller[0])
    if before.size == last.size or last is not table.peak:
        return []
    if last.busbw < before.busbw * _RISING ** max(1.0, math.log2(last.size / before.size)):
        return []
    text = f"busbw still rises at {format_size(last.size)}, the largest size: the peak was not reached"
    return [Suspect("small-sizes", text, (before.line, last.line), "measure larger sizes: -e 8G")]


RULES: tuple[Rule, ...] = (
    Rule(
        name="wrong-results",
        looks_for="values that the test found wrong",
        evidence="rows with #wrong above 0, # Out of bounds values",
        is_always=True,
        find=wrong_results,
    ),
    Rule(
        name="idle-nics",
        looks_for="fewer NICs used than the fabric has",
        evidence="NCCL_IB_HCA, NET/IB : Using",
        is_always=True,
        find=idle_nics,
    ),
    Rule(
        name="tcp",
        looks_for="TCP between boxes",
        evidence="via NET/Socket, Using network Socket",
        is_always=True,
        find=tcp,
    ),
    Rule(
        name="falls-with-size",
        looks_for="large sizes much slower than middling ones: congestion, if data passes a network",
        evidence="rows of the table",
        is_always=True,
        find=falls,
    ),
    Rule(
        name="no-gdr",
        looks_for="data for the network that passes through the CPU's memory",
        evidence="via NET/IB without GDRDMA, type .../PHB or .../SYS",
        is_always=False,
        find=no_gdr,
    ),
    Rule(
        name="graph-search",
        looks_for="NCCL's graph search fell back: a missing NVLink edge",
        evidence="2 coll channels, 0 nvls channels",
        is_always=False,
        find=graph_fell_back,
    ),
    Rule(
        name="no-p2p",
        looks_for="GPUs of a box that meet in the CPU's memory",
        evidence="via SHM, P2P is disabled",
        is_always=False,
        find=no_p2p,
    ),
    Rule(
        name="slow-link",
        looks_for="a GPU or a NIC with slower links than its like",
        evidence="lines of the system tree",
        is_always=True,
        find=slow_links,
    ),
    Rule(
        name="pcie",
        looks_for="more NICs than a GPU's PCIe can feed",
        evidence="the system tree, NET/IB : Using, the row of the peak",
        is_always=False,
        find=pcie,
    ),
    Rule(
        name="crossed-rails",
        looks_for="rings that change rails between boxes",
        evidence="the [send] and the [receive] line of a hop, the graph's NET/3 ... NET/2",
        is_always=False,
        find=crossed_rails,
    ),
    Rule(
        name="port",
        looks_for="a port that failed or changed its speed",
        evidence="async event, speed change detected",
        is_always=False,
        find=ports,
    ),
    Rule(
        name="environment",
        looks_for="variables that hold NCCL back",
        evidence="set by environment to, -x NCCL_...=",
        is_always=False,
        find=restricting,
    ),
    Rule(
        name="acs",
        looks_for="PCIe access control between GPU and NIC",
        evidence="ACSCtl: SrcValid+",
        is_always=False,
        find=acs,
    ),
    Rule(
        name="small-sizes",
        looks_for="sizes too small to reach the peak: 15% more with each doubling, up to the last",
        evidence="the last row, and the last of at most half its size",
        is_always=False,
        find=still_rising,
    ),
)


def suspects(case: Case) -> tuple[Suspect, ...]:
    """All that the catalogue finds, the surest first."""
    found: tuple[Suspect, ...] = ()
    for rule in RULES:
        if rule.is_always or case.is_low:
            found += tuple(rule.find(case, found))
    return found
