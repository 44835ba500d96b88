"""The catalogue of causes: what each looks for, and which lines prove it; the surest come first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from treadle.diagnosis.cause import MOST_LINES, Case, Cause, Rule, make_cause
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_lines import LogLine
from treadle.diagnosis.network_rules import acs, crossed_rails, idle_nics, no_gdr, pcie, ports, tcp
from treadle.diagnosis.verdict import FALLEN, fallen
from treadle.units import format_size

# Variables of the environment that hold NCCL back

_MOST = 8


def _number_below(limit: int) -> Callable[[str], bool]:
    return lambda value: value.isdigit() and int(value) < limit


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.upper() in values


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
    Restriction("NCCL_ALGO", bool, "the choice of algorithms is narrowed"),
    Restriction("NCCL_PROTO", bool, "the choice of protocols is narrowed"),
    Restriction(
        "NCCL_MAX_NCHANNELS", _number_below(16), "few channels, so few thread blocks and links at a time"
    ),
    Restriction("NCCL_MAX_NRINGS", _number_below(16), "few rings"),
    Restriction("NCCL_MAX_CTAS", _number_below(16), "few thread blocks"),
    Restriction("NCCL_NTHREADS", _number_below(256), "few threads per block"),
    Restriction("NCCL_BUFFSIZE", _number_below(2**20), "small buffers"),
    Restriction("NCCL_NVLS_ENABLE", _OFF, "NVLink SHARP is off"),
    Restriction("NCCL_MNNVL_ENABLE", _OFF, "NVLink between boxes is not used", between_boxes=True),
    Restriction("NCCL_GRAPH_FILE", bool, "NCCL's own search is replaced by a file"),
    Restriction("NCCL_NCHANNELS_PER_NET_PEER", _one_of("1"), "one channel per peer", between_boxes=True),
)
"""Values that make NCCL slower, as its documentation of the environment describes the variables."""


def restricting(case: Case, found: tuple[Cause, ...]) -> list[Cause]:
    """Find variables that restrict NCCL and that no other cause names yet."""
    named = {line for one in found for line in one.lines}
    causes: list[Cause] = []
    for restriction in RESTRICTIONS:
        settings = (
            one
            for one in case.log.settings
            if one.name == restriction.name
            and restriction.holds_back(one.value)
            and not (one.line in named and any(one.name in other.fix for other in found))
        )
        setting = next(settings, None)
        if setting is not None and not (restriction.between_boxes and case.n_hosts == 1):
            fix = f"unset {setting.name}, unless it is there for a reason"
            causes += make_cause("environment", f"{setting.summary}: {restriction.text}", fix, setting)
    return causes[:_MOST]


# What is amiss in what NCCL made of a box

_FEW_CHANNELS = 2
"""One channel that NCCL's search found, doubled: the least that it can find."""
_LINK = re.compile(r"\+ (PCI|NVL|XGMI|NET)\[(\d{1,6}(?:\.\d{1,3})?)\] - (GPU|NVS|NET|DEV)/")


def graph_fell_back(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find a box with fast links through which NCCL found hardly any path."""
    log = case.log
    least = min(log.channels, key=lambda one: one.collective, default=None)
    no_path = log.remarks.get("no-path")
    if log.setting("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_GRAPH_FILE") is not None:
        return []  # that is why, and another cause
    if (
        least is None
        or least.collective > _FEW_CHANNELS
        or least.nvls > 0
        or (case.spans_hosts and 0 < case.used_nics <= _FEW_CHANNELS)  # so many serve one or two NICs
    ):
        least = None
    if no_path is None and (least is None or not case.has_fast_links or case.gpus_per_host == 1):
        return []
    single = next((one for one in log.patterns if one.channels <= 1), None) if least else None
    count = f"{least.collective} coll channels, {max(least.nvls, 0)} nvls" if least else "no path"
    text = f"NCCL's graph search fell back ({count}): it sees too few links between the GPUs"
    fix = (
        "look for a missing link: nvidia-smi nvlink -s, fabric manager, IMEX; NCCL_TOPO_DUMP_FILE shows what "
        "NCCL sees"
    )
    return make_cause("graph-search", text, fix, least, no_path, single)


def no_p2p(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find GPUs of a box that exchange data through the CPU's memory although they have fast links."""
    log = case.log
    said, shared = log.remarks.get("p2p-disabled"), log.transport("SHM")
    setting = log.setting("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
    is_staged = log.has_staged_transfers and case.is_one_box
    if said is None and (shared is None or not (case.has_fast_links or setting is not None or is_staged)):
        return []
    count = f" ({shared.count} connections by SHM)" if shared is not None else ""
    text = f"GPUs of a box exchange data through the CPU's memory{count}, not peer to peer"
    fix = "see nvidia-smi topo -p2p r, ACS and IOMMU; in containers share /dev/shm and all GPUs"
    if not case.has_fast_links:
        text += ": half of the PCIe bandwidth remains"
        fix = "GeForce cards have no peer-to-peer; with others see nvidia-smi topo -p2p r, ACS and IOMMU"
    if setting is not None:
        fix = f"unset {setting.name}"
    return make_cause("no-p2p", text, fix, said, shared, setting)


def slow_links(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find GPUs and network cards with slower links than others of their kind."""
    slowest: list[Cause] = []
    for what, values in _figures(case.log).items():
        counts = Counter(speed for _, _, speed in values)
        usual, times = max(counts.items(), key=lambda one: (one[1], one[0]))
        slow = [(line, name, speed) for line, name, speed in values if speed < usual]
        if not slow or times * 2 <= len(values):  # no usual speed
            continue
        name, speed = slow[0][1:]
        text = (
            f"{name} has {what} of {float(speed):g} GB/s where {times} of {len(values)} have {float(usual):g}"
            f"{f', as {len(slow) - 1} more' if len(slow) > 1 else ''}"
        )
        usual_line = next(line for line, _, one in values if one == usual)
        lines = [line for line, _, _ in slow[: MOST_LINES - 1]]
        fix = {
            "PCIe": "see lspci -vv for LnkSta (downgraded): reseat the card, check slot and BIOS",
            "NVLinks": "see nvidia-smi nvlink -s for links that are down",
            "a port": "see ibstat for the port's rate: cable, switch port",
        }[what]
        slowest += make_cause("slow-link", text, fix, *lines, usual_line)
    return slowest


def _figures(log: Log) -> dict[str, list[tuple[LogLine, str, Fraction]]]:
    """Return the speeds of GPUs and NICs of all hosts, with line and name: PCIe, total NVLink, ports."""
    found: dict[str, list[tuple[LogLine, str, Fraction]]] = {"PCIe": [], "NVLinks": [], "a port": []}
    for tree in log.trees:
        gpu, where = "", 0
        links: dict[str, tuple[LogLine, Fraction]] = {}
        for line, text in tree.lines:
            match = _LINK.search(text)
            if match is None:
                continue
            speed, name = Fraction(match[2]), text[match.start(3) :].split(" ")[0]
            if match[1] == "PCI" and match[3] in ("GPU", "DEV"):
                gpu, where = f"{name} of {tree.host}", match.start(3)
                found["PCIe"].append((line, gpu, speed))
            elif match[1] in ("NVL", "XGMI") and gpu and match.start() == where:
                first, total = links.get(gpu, (line, Fraction(0)))
                links[gpu] = (first, total + speed)
            elif match[1] == match[3] == "NET":
                found["a port"].append((line, f"{name} of {tree.host}", speed))
        found["NVLinks"] += [(line, name, speed) for name, (line, speed) in links.items()]
    return {what: values for what, values in found.items() if values}


# What the figures themselves show: wrong results, a curve that falls, a curve that still rises

_RISING = 1.15
"""A doubling of the size that brings so much has not reached the peak."""


def wrong_results(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find tables with wrong values."""
    found: list[Cause] = []
    fix = "test GPUs and links one by one (dcgmi diag -r 3), NCCL_P2P_DISABLE=1, without plug-ins"
    for table in case.log.tables:
        wrong = [row for row in table.rows if row.wrong]
        sizes = f"{len(wrong)} of {len(table.rows)} sizes" if wrong else "some sizes"
        text = f"results are wrong at {sizes}: no speed counts before that is mended"
        found += make_cause("wrong-results", text, fix, *wrong[:2], table.out_of_bounds)
    return found[:2]


def falls(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find large sizes that are slower than middling ones."""
    table = case.table
    last = None if table is None else fallen(table)
    if table is None or last is None:
        return []
    peak = table.peak
    later = (row for row in table.rows if row.size > peak.size)
    first = next(row for row in later if row.busbw < FALLEN * peak.busbw)
    why = "congestion in the network"
    fix = "see the switches' counters: PFC and ECN of RoCE, adaptive routing, other traffic; NCCL_IB_TC, _SL"
    if case.is_one_box:
        why = "within a box, where no network takes part"
        fix = (
            "see the GPUs under load: throttling (nvidia-smi -q -d PERFORMANCE,CLOCK), errors of NVLinks "
            "(nvidia-smi nvlink -e), other jobs of the box"
        )
    text = (
        f"busbw falls with the size: {peak.busbw:g} GB/s at {format_size(peak.size)}, {last.busbw:g} at "
        f"{format_size(last.size)}: {why}"
    )
    return make_cause("falls-with-size", text, fix, *dict.fromkeys((peak.line, first.line, last.line)))


def reported(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find errors that NCCL's RAS service reports."""
    lines = case.log.ras
    if not lines:
        return []
    first = next((one for one in lines if "dead" in one.text or "Missing" in one.text), lines[0])
    text = f"NCCL's RAS service reports {len(lines)} lines of errors and warnings: {first.text}"
    fix = "see the ranks and processes that it names: stopped, hung or behind the others"
    return make_cause("ras", text, fix, *dict.fromkeys((first, *lines)))


def still_rising(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find out whether the largest size is too small to show what the system can do."""
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
    return make_cause("small-sizes", text, "measure larger sizes: -e 8G", before, last)


RULES = (
    Rule(
        "wrong-results",
        wrong_results,
        "values that the test found wrong",
        "rows with #wrong above 0, # Out of bounds values",
        is_always=True,
    ),
    Rule("ras", reported, "errors and warnings of NCCL's RAS service", "output of ncclras", is_always=True),
    Rule(
        "idle-nics",
        idle_nics,
        "fewer NICs used than the fabric has",
        "NCCL_IB_HCA, NET/IB : Using",
        is_always=True,
    ),
    Rule("tcp", tcp, "TCP between boxes", "via NET/Socket, Using network Socket", is_always=True),
    Rule(
        "falls-with-size",
        falls,
        "large sizes much slower than middling ones: congestion, if data passes a network",
        "rows of the table",
        is_always=True,
    ),
    Rule(
        "no-gdr",
        no_gdr,
        "data for the network that passes through the CPU's memory",
        "via NET/IB without GDRDMA, type .../PHB or .../SYS",
    ),
    Rule(
        "graph-search",
        graph_fell_back,
        "NCCL's graph search fell back: a missing NVLink edge",
        "2 coll channels, 0 nvls channels",
    ),
    Rule("no-p2p", no_p2p, "GPUs of a box that meet in the CPU's memory", "via SHM, P2P is disabled"),
    Rule(
        "slow-link",
        slow_links,
        "a GPU or a NIC with slower links than its like",
        "lines of the system tree",
        is_always=True,
    ),
    Rule(
        "pcie",
        pcie,
        "more NICs than a GPU's PCIe can feed",
        "the system tree, NET/IB : Using, the row of the peak",
    ),
    Rule(
        "crossed-rails",
        crossed_rails,
        "rings that change rails between boxes",
        "the [send] and the [receive] line of a hop, the graph's NET/3 ... NET/2",
    ),
    Rule("port", ports, "a port that failed or changed its speed", "async event, speed change detected"),
    Rule("environment", restricting, "variables that hold NCCL back", "set by environment to, -x NCCL_...="),
    Rule("acs", acs, "PCIe access control between GPU and NIC", "ACSCtl: SrcValid+"),
    Rule(
        "small-sizes",
        still_rising,
        "sizes too small to reach the peak: 15% more with each doubling, up to the last",
        "the last row, and the last of at most half its size",
    ),
)


def find_causes(case: Case) -> tuple[Cause, ...]:
    """Return all causes that the catalogue finds, the surest first."""
    found: tuple[Cause, ...] = ()
    for rule in RULES:
        if rule.is_always or case.is_low:
            found += tuple(rule.find(case, found))
    return found
