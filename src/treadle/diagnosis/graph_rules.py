"""What is amiss in what NCCL made of a box: channels, ways between GPUs, links slower than their like."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction

from treadle.diagnosis.log import Log
from treadle.diagnosis.log_lines import LogLine
from treadle.diagnosis.suspect import MOST_LINES, Case, Suspect

_FEW_CHANNELS = 2
"""One channel that NCCL's search found, doubled: the least that it can find."""
_LINK = re.compile(r"\+ (PCI|NVL|XGMI|NET)\[(\d{1,6}(?:\.\d{1,3})?)\] - (GPU|NVS|NET|DEV)/")


def graph_fell_back(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """NCCL found hardly any way through a box that has fast links."""
    log = case.log
    least = min(log.channels, key=lambda one: one.collective, default=None)
    no_path = log.remarks.get("no-path")
    if log.setting("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_GRAPH_FILE") is not None:
        return []  # that is why, and another suspect
    is_few = least is not None and least.collective <= _FEW_CHANNELS and least.nvls <= 0
    if case.spans_hosts and 0 < case.used_nics <= _FEW_CHANNELS:
        is_few = False  # so many serve one or two NICs
    if no_path is None and not (is_few and case.has_fast_links and case.gpus_per_host != 1):
        return []
    lines = [least.line] if is_few and least is not None else []
    lines += [no_path] if no_path is not None else []
    single = next((one for one in log.patterns if one.channels <= 1), None)
    if single is not None and is_few:
        lines.append(single.line)
    count = f"{least.collective} coll channels, {max(least.nvls, 0)} nvls" if is_few and least else "no path"
    text = f"NCCL's graph search fell back ({count}): it sees too few links between the GPUs"
    remedy = (
        "look for a missing link: nvidia-smi nvlink -s, fabric manager, IMEX; NCCL_TOPO_DUMP_FILE shows what "
        "NCCL sees"
    )
    return [Suspect("graph-search", text, tuple(lines[:MOST_LINES]), remedy)]


def no_p2p(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """GPUs of a box exchange data through the CPU's memory although they have fast links."""
    log = case.log
    said, shared = log.remarks.get("p2p-disabled"), log.transport("SHM")
    setting = log.setting("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL")
    is_staged = log.has_staged_transfers and case.is_one_box
    if said is None and (shared is None or not (case.has_fast_links or setting is not None or is_staged)):
        return []
    lines = [
        line for line in (said, shared.line if shared else None, setting.line if setting else None) if line
    ]
    count = f" ({shared.count} connections by SHM)" if shared is not None else ""
    text = f"GPUs of a box exchange data through the CPU's memory{count}, not peer to peer"
    remedy = "see nvidia-smi topo -p2p r, ACS and IOMMU; in containers share /dev/shm and all GPUs"
    if not case.has_fast_links:
        text += ": half of the PCIe bandwidth remains"
        remedy = "GeForce cards have no peer-to-peer; with others see nvidia-smi topo -p2p r, ACS and IOMMU"
    if setting is not None:
        remedy = f"unset {setting.name}"
    return [Suspect("no-p2p", text, tuple(lines[:MOST_LINES]), remedy)]


def slow_links(case: Case, found: tuple[Suspect, ...]) -> list[Suspect]:
    """A GPU or a network card has slower links than its like."""
    del found
    figures = _figures(case.log)
    slowest = []
    for what, values in figures.items():
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
        lines = (*(line for line, _, _ in slow[: MOST_LINES - 1]), usual_line)
        remedy = {
            "PCIe": "see lspci -vv for LnkSta (downgraded): reseat the card, check slot and BIOS",
            "NVLinks": "see nvidia-smi nvlink -s for links that are down",
            "a port": "see ibstat for the port's rate: cable, switch port",
        }[what]
        slowest.append(Suspect("slow-link", text, lines, remedy))
    return slowest


def _figures(log: Log) -> dict[str, list[tuple[LogLine, str, Fraction]]]:
    """Of GPUs and network cards of all hosts: PCIe, NVLinks in all, ports; with the line and a name."""
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
