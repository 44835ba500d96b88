"""Fabrics of equal boxes: what joins them, and how much of each box takes part.

A network is said, not guessed: ``one-switch`` joins all NICs; ``rail`` NIC k of every box to switch k;
``rails:K`` NIC k to switch k mod K; ``leaf-spine:L,S[,over]`` spreads the boxes in order over L leaves, all
NICs of a box below one leaf, and joins every leaf to S spines with 1/over of the leaf's bandwidth. Nodes are
called as in the catalogue: ``box0.gpu3``, ``box0.nvswitch``, ``box0.pcie1``, ``box0.nic2``, ``ib0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from treadle.spelling import did_you_mean
from treadle.topologies.limits import check_size
from treadle.topologies.readers.boxes.box import (
    MAX_DEVICES,
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    GpuLink,
    HostLink,
    HostSpeed,
    Nic,
    Slot,
    joined_parts,
)
from treadle.topologies.readers.boxes.gpu_models import GPU_MODELS
from treadle.topologies.readers.boxes.pcie_tree import PcieLink, PciePosition, full_tree, near_nics, near_tree
from treadle.topologies.readers.boxes.recognised import recognise
from treadle.topologies.readers.checked_values import missing_option
from treadle.topologies.readers.imported import (
    Finding,
    Imported,
    ImportOptions,
    LinkSpeeds,
    PcieDetail,
    SourceFile,
)
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

_DUMP = "read a dump of the machine (NCCL_TOPO_DUMP_FILE)"
NETWORKS = "one-switch, rail, rails:K or leaf-spine:L,S[,over]"
"""Values of ``--network``."""
_LEAF_SPINE = re.compile(r"leaf-spine:([0-9]{1,6}),([0-9]{1,6})(?:,([0-9]{1,6})(?::1)?)?")
_NETWORK = re.compile(f"one-switch|rail|rails:[0-9]{{1,6}}|{_LEAF_SPINE.pattern}")


def fabric_of(source: SourceFile, box: Box, options: ImportOptions, format: str) -> Imported:
    """Return the fabric of `options.boxes` boxes, and what was recognised.

    Raises
    ------
    FormatError
        If the options do not fit the box, or something has to be asked.
    TopologyError
        If the fabric would be too large.
    """
    boxes = _count_boxes(source, options)
    box = _of_trays(source, box, options.trays or 1)
    if options.cpu_link is not None:
        speed, origin = options.cpu_link, HostSpeed.TYPED
        joints = (replace(joint, bandwidth=speed, origin=origin) for joint in box.host_links)
        box = replace(box, host_links=tuple(joints))
    defaulted, warnings = list(box.defaulted), list(box.warnings)
    has_p2p = box.has_p2p and all(GPU_MODELS[gpu.model].has_p2p for gpu in box.gpus if gpu.model)
    is_full = options.pcie is PcieDetail.FULL
    if not is_full and len(box.parts()) > 1:
        is_full = True
        warnings.append(Finding("links join not all GPUs: the whole PCIe tree is part of the fabric"))
    speeds: dict[int, int] = {}
    if boxes > 1:
        chosen = _choose_nics(source, box, options, warnings)
        speeds = _nic_speeds(source, box, chosen, options, warnings)
        near = near_nics(box, list(speeds))
        far = [box.nics[nic].name for nic in speeds if nic not in near]
        if not is_full and far:
            text = "shares no switch with a GPU: the whole PCIe tree is part of the fabric"
            warnings.append(Finding(text, ", ".join(far)))
        is_full = is_full or bool(far) or not has_p2p
    elif options.nics is not None:
        _choose_nics(source, box, options, [])
    tree = near_tree(box, speeds) if boxes > 1 and not is_full else ()
    if is_full:
        tree = _whole_tree(source, box, speeds, format)
        warnings += _pcie_warnings(box, tree)
        if not has_p2p:
            defaulted.append(Finding("GPUs without peer-to-peer over PCIe: each transfer crosses the host"))
    nodes = len(box.gpus) + len(tree) + len(box.bridges) + len(speeds) + 1
    check_size(source.stem, boxes * nodes + 1, boxes * 2 * (nodes + len(box.links) + len(box.host_links)))
    network = options.network if boxes > 1 else None
    words = [source.stem, *([f"{boxes} boxes", network or ""] if boxes > 1 else [])]
    words += ["library's speeds"] * (options.links is LinkSpeeds.LIBRARY)
    words += ["all of PCIe"] * (options.pcie is PcieDetail.FULL)
    builder = TopologyBuilder(", ".join(words))
    prefixes = [f"box{number}" for number in range(boxes)]
    for prefix in prefixes:
        gpus = [builder.compute(f"{prefix}.gpu{gpu}") for gpu in range(len(box.gpus))]
        switch = builder.switch(f"{prefix}.nvswitch") if box.has_switch else ""
        for link in box.links:
            builder.duplex(gpus[link.gpu], switch if link.other is None else gpus[link.other], link.bandwidth)
    flags = {"is_full": is_full, "is_split": is_full and not has_p2p}
    ports = [_add_tree(builder, prefix, box, speeds, tree, **flags) for prefix in prefixes]
    if boxes > 1:
        _join(source, builder, ports, list(speeds.values()), network or "")
    recognised = recognise(box, speeds, tree, boxes, network)
    return Imported(builder.build(), format, recognised, tuple(defaulted), tuple(warnings))


def _of_trays(source: SourceFile, box: Box, trays: int) -> Box:
    """Return the machines that NVSwitches join, as one box; FormatError if the file's has none."""
    if trays == 1:
        return box
    if not box.has_switch:
        raise source.error(f"--trays {trays}: NVSwitches join trays, and GPUs of this file have none")
    if trays * max(len(box.gpus), len(box.nics)) > MAX_DEVICES:
        raise source.error(f"--trays {trays}: expected at most {MAX_DEVICES} GPUs and NICs in all")

    parts: dict[str, list[Any]] = {name: [] for name in ("gpus", "nics", "bridges", "links", "host_links")}
    for tray in range(trays):
        n_gpus, n_bridges, word = tray * len(box.gpus), tray * len(box.bridges), f"tray {tray} "
        for gpu in box.gpus:
            slot, rank = _shifted(gpu.slot, n_bridges, "above"), _shifted(gpu, n_gpus, "rank").rank
            parts["gpus"].append(replace(gpu, name=word + gpu.name, host=tray, rank=rank, slot=slot))
        for nic in box.nics:
            slot = _shifted(nic.slot, n_bridges, "above")
            parts["nics"].append(replace(nic, name=word + nic.name, slot=slot))
        for bridge in box.bridges:
            parts["bridges"].append(_shifted(replace(bridge, name=word + bridge.name), n_bridges, "above"))
        parts["links"] += [_shifted(link, n_gpus, "gpu", "other") for link in box.links]
        parts["host_links"] += [_shifted(joint, n_bridges, "one", "other") for joint in box.host_links]
    tuples: dict[str, Any] = {name: tuple(values) for name, values in parts.items()}
    return replace(box, **tuples)


_Part = TypeVar("_Part", Gpu, Slot, Bridge, GpuLink, HostLink)


def _shifted(part: _Part, by: int, *fields: str) -> _Part:
    """Return a part with larger numbers of others in some fields; None stays."""
    numbers = {field: getattr(part, field) for field in fields}
    return replace(part, **{field: old + by for field, old in numbers.items() if old is not None})


def _whole_tree(source: SourceFile, box: Box, speeds: Mapping[int, int], format: str) -> tuple[PcieLink, ...]:
    """Return the tree up to the CPUs; FormatError unless it joins all GPUs, with known bandwidths."""
    devices: list[Gpu | Nic] = [*box.gpus, *(box.nics[nic] for nic in speeds)]
    for device in devices:
        # a matrix may know only who shares a switch
        chain = box.chain(device.slot)
        if not chain or box.bridges[chain[-1]].kind is not BridgeKind.HOST:
            raise source.error(
                f"does not say what lies between {device.name} and the CPUs, which --pcie full, GPUs that "
                f"links do not join, and NICs that share no switch with a GPU need; {_DUMP}"
            )
    # with the NICs: a bridge of one GPU, which goes where it is alone, stays where a NIC is below it, too
    tree = full_tree(box, speeds)
    if any(link.bandwidth is None for link in tree):
        reason = "does not say how fast PCIe is, which --pcie full and GPUs without links need"
        fix = "say it by --pcie-bandwidth, as gen4x16" if format == "nvidia-smi" else _DUMP
        raise source.error(f"{reason}; {fix}")
    # GPUs, the switch of their links, and bridges are numbered for the search for what is apart
    n, first_bridge = len(box.gpus), len(box.gpus) + 1
    pairs = [(link.gpu, n if link.other is None else link.other) for link in box.links]
    pairs += [(first_bridge + joint.one, first_bridge + joint.other) for joint in box.host_links]
    starts = {"gpu": 0, "bridge": first_bridge}
    for link in full_tree(box, {}):
        one, other = (starts[end.kind] + end.number for end in (link.lower, link.upper))
        pairs.append((one, other))
    apart = joined_parts(n, pairs)
    if len(apart) > 1:
        gpus = " and ".join(box.gpus[part[0]].name for part in apart[:2])
        raise source.error(f"does not say what joins {gpus}: neither links nor CPUs; {_DUMP}")
    used = {link.upper.number for link in tree if link.upper.kind == "bridge"}
    for joint in box.host_links:
        if joint.bandwidth is None and {joint.one, joint.other} <= used:
            cpus = " and ".join(box.bridges[end].name for end in (joint.one, joint.other))
            raise missing_option(source, "cpu-link", f"does not say how fast {cpus} are joined, as 32GB/s")
    return tree


def _pcie_warnings(box: Box, tree: Sequence[PcieLink]) -> Iterator[Finding]:
    """Yield assumed speeds between CPUs, GPUs with fewer PCIe lanes than others, and shared uplinks."""
    library = {joint.bandwidth or 0 for joint in box.host_links if joint.origin is HostSpeed.LIBRARY}
    if library:
        amounts = ", ".join(map(format_link_bandwidth, sorted(library)))
        yield Finding(f"between CPUs: {amounts} each way, as the libraries take it; the file does not say")
    above = {link.lower: link for link in tree}
    speeds = [above[PciePosition("gpu", number)].bandwidth or 0 for number in range(len(box.gpus))]
    widest = max(gpu.slot.lanes or 0 for gpu in box.gpus)
    below: dict[PciePosition, list[int]] = {}
    for number, (gpu, speed) in enumerate(zip(box.gpus, speeds, strict=True)):
        if speed < max(speeds):
            lanes = gpu.slot.lanes
            width = f" (x{lanes} of x{widest})" if lanes and lanes < widest else ""
            text = f"its PCIe link carries {format_link_bandwidth(speed)}{width}, that of another GPU"
            yield Finding(f"{text} {format_link_bandwidth(max(speeds))}", gpu.name)
        link = above.get(PciePosition("gpu", number))
        while link is not None:
            below.setdefault(link.upper, []).append(number)
            link = above.get(link.upper)
    for place, gpus in below.items():
        up = above[place].bandwidth if place in above else None
        if up is not None and len(gpus) > 1 and up < sum(speeds[gpu] for gpu in gpus):
            text = f"share one PCIe uplink of {format_link_bandwidth(up)} to the CPU"
            yield Finding(text, ", ".join(box.gpus[gpu].name for gpu in gpus))


def _count_boxes(source: SourceFile, options: ImportOptions) -> int:
    """Return the number of boxes; FormatError unless the network that joins several is given."""
    if options.network is not None and not _NETWORK.fullmatch(options.network):
        word, _, numbers = options.network.partition(":")
        hint = did_you_mean(word, ("one-switch", "rail", "rails:K", "leaf-spine:L,S"))
        if re.fullmatch("[0-9]{1,6}", numbers) and word.casefold() in ("rail", "rails"):
            hint = f"; did you mean rails:{numbers}?"
        raise source.error(f"--network {options.network[:40]!r}: expected {NETWORKS}{hint}")
    if options.network is not None and options.boxes is None:
        raise source.error("--network joins several boxes; say by --boxes how many there are")
    boxes = options.boxes or 1
    if boxes > 1 and options.network is None:
        raise source.error(f"the file describes one box; say by --network what joins {boxes}: {NETWORKS}")
    return boxes


def _choose_nics(source: SourceFile, box: Box, options: ImportOptions, warnings: list[Finding]) -> list[int]:
    """Return the NICs by name, all of them, or those that share a switch with a GPU."""
    every = list(range(len(box.nics)))
    if options.nics is None:
        if not every:
            raise source.error("has no NICs, and so nothing joins several boxes")
        near = near_nics(box, every)
        has_tree = any(bridge.kind is BridgeKind.HOST for bridge in box.bridges)
        text = f"shares no PCIe switch with a GPU and is left out{'; --nics all takes it' * has_tree}"
        warnings += [Finding(text, box.nics[nic].name) for nic in every if nic not in near]
        if not near:
            fix = "; --nics all takes them over the CPUs, or name those that are used"
            reason = fix if has_tree else f", and the file has no PCIe tree; {_DUMP}"
            raise source.error(f"no NIC shares a PCIe switch with a GPU{reason}")
        return list(near)
    if options.nics == "all":
        return every
    names = {nic.name: number for number, nic in enumerate(box.nics)}
    chosen: list[int] = []
    for name in map(str.strip, options.nics.split(",")):
        if name not in names:
            known = ", ".join(names) or "none"
            raise source.error(f"--nics: no NIC is called {name[:40]!r}; there are {known[:200]}")
        if names[name] in chosen:
            raise source.error(f"--nics: {name[:40]!r} is named twice")
        chosen.append(names[name])
    return sorted(chosen)


def _nic_speeds(
    source: SourceFile, box: Box, chosen: Sequence[int], options: ImportOptions, warnings: list[Finding]
) -> dict[int, int]:
    """Return bytes/s of each used NIC: as typed, else as the file has it."""
    speeds = {}
    differing: dict[int, list[str]] = {}
    for number in chosen:
        nic = box.nics[number]
        speed = options.nic_bandwidth or nic.bandwidth
        if speed is None:
            raise source.error(f"speed of NIC {nic.name} is not in the file; say it by --nic-bandwidth")
        if nic.bandwidth not in (None, speed):
            differing.setdefault(nic.bandwidth or 0, []).append(nic.name)
        speeds[number] = speed
    typed = format_link_bandwidth(options.nic_bandwidth or 0)
    for bandwidth, names in differing.items():
        text = f"{format_link_bandwidth(bandwidth)} in the file, {typed} by --nic-bandwidth"
        more = "" if len(names) <= 4 else f" and {len(names) - 3} more"
        warnings.append(Finding(text, ", ".join(names[:3] if more else names) + more))
    return speeds


def _add_tree(
    builder: TopologyBuilder,
    name: str,
    box: Box,
    speeds: Iterable[int],
    tree: Sequence[PcieLink],
    *,
    is_full: bool,
    is_split: bool,
) -> list[str]:
    """Return the PCIe tree of a box; names of its NICs.

    `is_full`: it reaches the CPUs. `is_split`: without peer-to-peer no switch passes on what comes from below
    but to the CPU, and so each is two.
    """
    names = {PciePosition("gpu", number): f"{name}.gpu{number}" for number in range(len(box.gpus))}
    ports = {PciePosition("nic", nic): f"{name}.nic{order}" for order, nic in enumerate(speeds)}
    used = {end.number for link in tree for end in (link.lower, link.upper) if end.kind == "bridge"}
    hosts = [number for number, bridge in enumerate(box.bridges) if bridge.kind is BridgeKind.HOST]
    upward: dict[PciePosition, str] = {}
    for order, number in enumerate(sorted(used.difference(hosts))):
        names[PciePosition("bridge", number)] = builder.switch(f"{name}.pcie{order}" + ".down" * is_split)
        if is_split:
            upward[PciePosition("bridge", number)] = builder.switch(f"{name}.pcie{order}.up")
    for order, number in enumerate(hosts):
        if number in used:
            names[PciePosition("bridge", number)] = builder.switch(f"{name}.cpu{order}")
    for port in ports.values():
        builder.switch(port)
    names |= ports
    for link in tree:
        assert link.bandwidth is not None
        lower, upper = (upward.get(end, names[end]) for end in (link.lower, link.upper))
        builder.link(lower, upper, link.bandwidth)
        builder.link(names[link.upper], names[link.lower], link.bandwidth)
    for joint in box.host_links if is_full else ():
        if {joint.one, joint.other} <= used:
            assert joint.bandwidth is not None
            one, other = (names[PciePosition("bridge", end)] for end in (joint.one, joint.other))
            builder.duplex(one, other, joint.bandwidth)
    return list(ports.values())


def _join(
    source: SourceFile,
    builder: TopologyBuilder,
    ports: Sequence[Sequence[str]],
    speeds: Sequence[int],
    network: str,
) -> None:
    """Join the NICs of all boxes; `ports` has their names by box, `speeds` their bytes/s."""
    if (match := _LEAF_SPINE.fullmatch(network)) is None:
        rails = {"one-switch": 1, "rail": len(speeds)}.get(network)
        if rails is None:
            rails = int(network.removeprefix("rails:"))
        if not 1 <= rails <= len(speeds):
            found = f"a box has {len(speeds)} NICs, expected 1 to {len(speeds)} rails"
            raise source.error(f"--network {network}: {found}")
        switches = [builder.switch(f"ib{rail}") for rail in range(rails)]
        for names in ports:
            for order, (name, speed) in enumerate(zip(names, speeds, strict=True)):
                builder.duplex(name, switches[order % rails], speed)
        return
    leaves, spines, over, boxes = int(match[1]), int(match[2]), int(match[3] or 1), len(ports)
    if not 1 <= leaves <= boxes or not 1 <= spines <= 2**16 or over < 1:
        expected = f"expected 1 to {boxes} leaves (there are {boxes} boxes), at least one spine"
        raise source.error(f"--network {match[0]}: {expected} and an oversubscription of at least 1")
    check_size(source.stem, leaves + spines, 2 * leaves * spines)
    tops = [builder.switch(f"spine{number}") for number in range(spines)]
    for leaf in range(leaves):
        name = builder.switch(f"leaf{leaf}")
        members = [names for number, names in enumerate(ports) if number * leaves // boxes == leaf]
        uplink = len(members) * sum(speeds) // (spines * over)
        if uplink < 1:
            raise source.error(f"--network {match[0]}: less than 1 byte/s is left for an uplink")
        for names in members:
            for port, speed in zip(names, speeds, strict=True):
                builder.duplex(port, name, speed)
        for top in tops:
            builder.duplex(name, top, uplink)
