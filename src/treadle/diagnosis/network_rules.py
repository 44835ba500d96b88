"""What is amiss between boxes: network cards left idle, TCP, data through the CPU, rails crossed, ACS."""

from __future__ import annotations

from treadle.diagnosis.log import NetworkHop
from treadle.diagnosis.suspect import MOST_LINES, Case, Suspect
from treadle.spelling import counted

_MANY_GPUS = 4
"""So many GPUs of a box that share a NIC are worth a question."""
_FAR = ("PHB", "SYS")
"""Types of paths between GPU and network card that lead through a CPU."""


def idle_nics(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """NCCL uses fewer network cards than the fabric has."""
    log = case.log
    setting = log.setting("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")
    network = next((one for one in log.networks if one.kind != "Socket"), None)
    if not 0 < case.used_nics < case.fabric_nics or not (setting or network):
        return _narrowed(case)
    lines = [one.line for one in (setting, network) if one is not None]
    why = f": {setting.name}={setting.value[:40]}" if setting is not None else ""
    remedy = (
        f"unset {setting.name} or name all {case.fabric_nics} in it"
        if setting is not None
        else "see why the others are not found: ibstat, ulimit -l, devices passed into the container"
    )
    text = f"{case.used_nics} of {case.fabric_nics} NICs of a box used{why}"
    return [Suspect("idle-nics", text, tuple(lines), remedy)]


def _narrowed(case: Case) -> list[Suspect]:
    """Of a fabric made of the log nobody knows the NICs that NCCL was told to leave."""
    setting = case.log.setting("NCCL_IB_HCA")
    if setting is None or setting.value.startswith("^") or not (case.is_low and case.spans_hosts):
        return []
    if not 0 < case.used_nics * _MANY_GPUS <= case.gpus_per_host:
        return []
    nics = f"{case.used_nics} NIC{'s' if case.used_nics != 1 else ''}"
    text = f"{setting.name}={setting.value[:40]} leaves NCCL {nics} for {case.gpus_per_host} GPUs of a box"
    remedy = f"unset {setting.name} or name all NICs in it, if the boxes have more"
    return [Suspect("idle-nics", text, (setting.line,), remedy)]


def tcp(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Data between boxes goes by TCP."""
    log = case.log
    way = log.transport("NET/Socket")
    said = log.remarks.get("network-socket")
    if way is None and not (said is not None and case.spans_hosts):
        return []
    lines = [line for line in (way.line if way is not None else None, said) if line is not None]
    lines += [log.remarks[name] for name in ("no-ib", "plugin-failed") if name in log.remarks]
    setting = log.setting("NCCL_IB_DISABLE", "NCCL_NET")
    if setting is not None:
        lines.append(setting.line)
    remedy = "make RDMA available: drivers, /dev/infiniband in the container, the network's plugin"
    if setting is not None:
        remedy = f"unset {setting.name}"
    text = "boxes exchange data by TCP (NET/Socket): no RDMA, and copies by the CPU"
    return [Suspect("tcp", text, tuple(lines[:MOST_LINES]), remedy)]


def no_gdr(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Data between GPU and network card passes through the CPU's memory."""
    log = case.log
    staged, direct = log.rdma(direct=False), log.rdma(direct=True)
    remedy = (
        "load nvidia-peermem (or use DMA-BUF), use a NIC below the GPU's own PCIe switch, and do not lower "
        "NCCL_NET_GDR_LEVEL"
    )
    disabled = log.remarks.get("gdr-disabled")
    far = next((one for one in log.patterns if one.outer in _FAR), None)
    text = "no GPUDirect RDMA: data for the network passes through the CPU's memory"
    if staged is not None:
        lines = [staged.line]
        if direct is not None:
            text += f" ({staged.count} of {staged.count + direct.count} connections)"
    elif direct is None and (far is not None or disabled is not None):
        lines = []
    else:
        return []
    if far is not None:
        lines.append(far.line)
        text += f"; NICs are reached by {far.outer} (type {far.inner}/{far.outer})"
    if disabled is not None:
        lines.append(disabled)
    setting = log.setting("NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL")
    if setting is not None and setting.value.upper() in ("0", "LOC"):
        lines.append(setting.line)
    return [Suspect("no-gdr", text, tuple(lines[:MOST_LINES]), remedy)]


def crossed_rails(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """A ring leaves a box by one rail and enters the next by another."""
    if case.is_one_switch:
        return []
    sent: dict[tuple[int, tuple[int, int]], NetworkHop] = {}
    received: dict[tuple[int, tuple[int, int]], NetworkHop] = {}
    for hop in case.log.hops:
        (sent if hop.sends else received).setdefault((hop.channel, hop.ranks), hop)
    both = [(sent[key], received[key]) for key in sent if key in received]
    crossing = [(one, other) for one, other in both if one.nic != other.nic]
    if not crossing:
        return [] if both else _crossed_graphs(case)
    one, other = crossing[0]
    text = (
        f"{len(crossing)} of {len(both)} hops between boxes change rails: channel {one.channel} sends by NIC "
        f"{one.nic} and receives by NIC {other.nic}"
    )
    lines = [one.line, other.line]
    setting = case.log.setting("NCCL_CROSS_NIC")
    if setting is not None and setting.value != "0":
        lines.append(setting.line)
    remedy = "set NCCL_CROSS_NIC=0, and see that NICs have the same order in all boxes"
    return [Suspect("crossed-rails", text, tuple(lines), remedy)]


def _crossed_graphs(case: Case) -> list[Suspect]:
    """Where no hop is shown from both ends: rings that leave a box by another NIC than they came by."""
    rings = case.log.ring_ends
    crossing = [one for one in rings if one.enters != one.leaves]
    if not crossing or not case.spans_hosts:
        return []
    text = (
        f"{len(crossing)} of {len(rings)} rings leave a box by another NIC than they came by: "
        f"{crossing[0].enters}, {crossing[0].leaves}"
    )
    lines = [crossing[0].line]
    setting = case.log.setting("NCCL_CROSS_NIC")
    if setting is not None and setting.value != "0":
        lines.append(setting.line)
    remedy = "on rails set NCCL_CROSS_NIC=0, so that rings stay on theirs"
    return [Suspect("crossed-rails", text, tuple(lines), remedy)]


def pcie(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """More network cards hang from a GPU's PCIe than that can feed."""
    limit, log = case.pcie, case.log
    if limit is None:
        return []
    lines = [line for tree in log.trees[:1] for line, text in tree.lines if "PCI[" in text and "GPU/" in text]
    lines = lines[:1] + [one.line for one in log.networks if one.kind != "Socket"][:1]
    setting = log.setting("NCCL_IB_HCA")
    if setting is not None:
        lines.append(setting.line)
    if case.table is not None:
        lines.append(case.table.peak.line)
    if not lines:
        return []
    text = (
        f"the GPU's PCIe binds: {limit.bandwidth / 1e9:.1f} GB/s for {limit.n_nics} NICs of "
        f"{limit.nics / 1e9:.1f} GB/s together"
    )
    remedy = "more NICs per GPU do not help; use more GPUs of the box, each with a NIC of its own"
    if limit.n_nics <= case.gpus_per_host:
        carry = "carries" if limit.n_nics == 1 else "carry"
        nics = f"{counted(limit.n_nics, 'NIC')} {carry} {limit.nics / 1e9:.1f} GB/s together"
        text = f"PCIe between GPUs and NICs binds: {limit.bandwidth / 1e9:.1f} GB/s where {nics}"
        remedy = (
            "see lspci -vv for LnkSta (downgraded): reseat the cards, check slots and BIOS; if PCIe is no "
            "faster, faster NICs do not help"
        )
    return [Suspect("pcie", text, tuple(lines[:MOST_LINES]), remedy)]


def acs(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """PCIe's access control sends data between devices up to the CPU."""
    line = case.log.remarks.get("acs")
    if line is None:
        return []
    remedy = "disable ACS on the PCIe switches (setpci, or the BIOS); lspci -vvv then shows SrcValid-"
    text = "ACS is on: what GPU and NIC exchange goes up to the CPU instead of across the PCIe switch"
    return [Suspect("acs", text, (line,), remedy)]


def ports(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """A port failed or changed its speed meanwhile."""
    line = case.log.remarks.get("port")
    if line is None:
        return []
    text = "a network port failed or changed its speed during the run"
    return [
        Suspect("port", text, (line,), "see ibstat and the switch's counters; replace the cable or module")
    ]
