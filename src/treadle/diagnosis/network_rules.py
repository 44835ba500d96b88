"""Causes between boxes: idle NICs, TCP, data through the CPU, crossed rails, ACS."""

from __future__ import annotations

from treadle.diagnosis.cause import Case, Cause, make_cause
from treadle.diagnosis.log import NetworkHop, RingEnds
from treadle.spelling import counted

_MANY_GPUS = 4
"""Number of GPUs per NIC from which a restriction of NICs is suspicious."""
_FAR = ("PHB", "SYS")
"""Types of paths between GPU and network card that lead through a CPU."""


def idle_nics(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find network cards of the fabric that NCCL does not use."""
    setting = case.log.setting("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")
    network = case.log.rdma_network
    if not 0 < case.used_nics < case.fabric_nics or not (setting or network):
        return _narrowed(case)
    text = f"{case.used_nics} of {case.fabric_nics} NICs of a box used"
    fix = "see why the others are not found: ibstat, ulimit -l, devices passed into the container"
    if setting is not None:
        text += f": {setting.summary}"
        fix = f"unset {setting.name} or name all {case.fabric_nics} in it"
    return make_cause("idle-nics", text, fix, setting, network)


def _narrowed(case: Case) -> list[Cause]:
    """Report restricted NICs of a fabric derived from the log, where unused NICs are unknown."""
    setting = case.log.setting("NCCL_IB_HCA")
    if setting is None or setting.value.startswith("^") or not (case.is_low and case.spans_hosts):
        return []
    if not 0 < case.used_nics * _MANY_GPUS <= case.gpus_per_host:
        return []
    nics = counted(case.used_nics, "NIC")
    text = f"{setting.summary} leaves NCCL {nics} for {case.gpus_per_host} GPUs of a box"
    fix = f"unset {setting.name} or name all NICs in it, if the boxes have more"
    return make_cause("idle-nics", text, fix, setting)


def tcp(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find data between boxes that goes by TCP."""
    log = case.log
    way, said = log.transport("NET/Socket"), log.remarks.get("network-socket")
    if way is None and not (said is not None and case.spans_hosts):
        return []
    setting = log.setting("NCCL_IB_DISABLE", "NCCL_NET")
    fix = "make RDMA available: drivers, /dev/infiniband in the container, the network's plugin"
    if setting is not None:
        fix = f"unset {setting.name}"
    text = "boxes exchange data by TCP (NET/Socket): no RDMA, and copies by the CPU"
    causes = [log.remarks.get(name) for name in ("no-ib", "plugin-failed")]
    return make_cause("tcp", text, fix, way, said, *causes, setting)


def no_gdr(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find data between GPU and network card that passes through the CPU's memory."""
    log = case.log
    staged, direct = log.rdma(direct=False), log.rdma(direct=True)
    disabled = log.remarks.get("gdr-disabled")
    far = next((one for one in log.patterns if one.outer in _FAR), None)
    if staged is None and (direct is not None or (far is None and disabled is None)):
        return []
    text = "no GPUDirect RDMA: data for the network passes through the CPU's memory"
    if staged is not None and direct is not None:
        text += f" ({staged.count} of {staged.count + direct.count} connections)"
    if far is not None:
        text += f"; NICs are reached by {far.outer} (type {far.inner}/{far.outer})"
    setting = log.setting("NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL")
    if setting is not None and setting.value.upper() not in ("0", "LOC"):
        setting = None
    fix = (
        "load nvidia-peermem (or use DMA-BUF), use a NIC below the GPU's own PCIe switch, and do not lower "
        "NCCL_NET_GDR_LEVEL"
    )
    return make_cause("no-gdr", text, fix, staged, far, disabled, setting)


def crossed_rails(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find rings that leave a box by one rail and enter the next by another."""
    if case.is_one_switch:
        return []
    sent: dict[tuple[int, tuple[int, int]], NetworkHop] = {}
    received: dict[tuple[int, tuple[int, int]], NetworkHop] = {}
    for hop in case.log.hops:
        (sent if hop.sends else received).setdefault((hop.channel, hop.ranks), hop)
    both = [(sent[key], received[key]) for key in sent if key in received]
    crossing = [(one, other) for one, other in both if one.nic != other.nic]
    # where no hop is shown from both ends: rings that leave a box by another NIC than they came by
    rings = [] if both or not case.spans_hosts else case.log.ring_ends
    crossing_rings = [one for one in rings if one.enters != one.leaves]
    evidence: tuple[NetworkHop | RingEnds, ...]
    if crossing:
        one, other = evidence = crossing[0]
        text = (
            f"{len(crossing)} of {len(both)} hops between boxes change rails: channel {one.channel} sends by "
            f"NIC {one.nic} and receives by NIC {other.nic}"
        )
        fix = "set NCCL_CROSS_NIC=0, and see that NICs have the same order in all boxes"
    elif crossing_rings:
        evidence = (crossing_rings[0],)
        text = (
            f"{len(crossing_rings)} of {len(rings)} rings leave a box by another NIC than they came by: "
            f"{crossing_rings[0].enters}, {crossing_rings[0].leaves}"
        )
        fix = "on rails set NCCL_CROSS_NIC=0, so that rings stay on theirs"
    else:
        return []
    setting = case.log.setting("NCCL_CROSS_NIC")
    return make_cause(
        "crossed-rails", text, fix, *evidence, setting if setting and setting.value != "0" else None
    )


def pcie(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find a GPU whose PCIe is slower than its NICs."""
    limit, log = case.pcie, case.log
    if limit is None:
        return []
    lines = (line for tree in log.trees[:1] for line, text in tree.lines if "PCI[" in text and "GPU/" in text)
    bandwidth, together = f"{limit.bandwidth / 1e9:.1f} GB/s", f"{limit.nics / 1e9:.1f} GB/s together"
    text = f"the GPU's PCIe binds: {bandwidth} for {limit.n_nics} NICs of {together}"
    fix = "more NICs per GPU do not help; use more GPUs of the box, each with a NIC of its own"
    if limit.n_nics <= case.gpus_per_host:
        carry = "carries" if limit.n_nics == 1 else "carry"
        nics = f"{counted(limit.n_nics, 'NIC')} {carry} {together}"
        text = f"PCIe between GPUs and NICs binds: {bandwidth} where {nics}"
        fix = (
            "see lspci -vv for LnkSta (downgraded): reseat the cards, check slots and BIOS; if PCIe is no "
            "faster, faster NICs do not help"
        )
    peak = None if case.table is None else case.table.peak
    return make_cause(
        "pcie", text, fix, next(lines, None), log.rdma_network, log.setting("NCCL_IB_HCA"), peak
    )


def acs(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find PCIe access control, which sends data between devices up to the CPU."""
    fix = "disable ACS on the PCIe switches (setpci, or the BIOS); lspci -vvv then shows SrcValid-"
    text = "ACS is on: what GPU and NIC exchange goes up to the CPU instead of across the PCIe switch"
    return make_cause("acs", text, fix, case.log.remarks.get("acs"))


def ports(case: Case, _: tuple[Cause, ...]) -> list[Cause]:
    """Find a port that failed or changed its speed."""
    text = "a network port failed or changed its speed during the run"
    fix = "see ibstat and the switch's counters; replace the cable or module"
    return make_cause("port", text, fix, case.log.remarks.get("port"))
