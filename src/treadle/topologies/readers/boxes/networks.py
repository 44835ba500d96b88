"""Fabrics of equal boxes: what joins them, and how much of each box takes part.

A network is said, not guessed: ``one-switch`` joins all NICs; ``rail`` NIC k of every box to switch k;
``rails:K`` NIC k to switch k mod K; ``leaf-spine:L,S[,over]`` spreads the boxes in order over L leaves, all
NICs of a box below one leaf, and joins every leaf to S spines with 1/over of the leaf's bandwidth. Nodes are
called as in the catalogue: ``box0.gpu3``, ``box0.nvswitch``, ``box0.pcie1``, ``box0.nic2``, ``ib0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.spelling import did_you_mean
from treadle.topologies.limits import check_size
from treadle.topologies.readers.boxes.box import (
    MAX_DEVICES,
    Box,
    Bridge,
    BridgeKind,
    Gpu,
    HostSpeed,
    Nic,
    Slot,
    joined_parts,
)
from treadle.topologies.readers.boxes.gpu_models import GPU_MODELS
from treadle.topologies.readers.boxes.pcie_tree import PcieLink, Place, full_tree, near_nics, near_tree
from treadle.topologies.readers.boxes.recognised import recognise
from treadle.topologies.readers.figures import asked
from treadle.topologies.readers.imported import (
    Finding,
    Imported,
    ImportOptions,
    LinkSpeeds,
    PcieDetail,
    SourceText,
)
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.units import format_link_bandwidth

_DUMP = "read a dump of the machine (NCCL_TOPO_DUMP_FILE)"
NETWORKS = "one-switch, rail, rails:K or leaf-spine:L,S[,over]"
"""What ``--network`` takes."""
_RAILS = re.compile(r"rails:([0-9]{1,6})")
_LEAF_SPINE = re.compile(r"leaf-spine:([0-9]{1,6}),([0-9]{1,6})(?:,([0-9]{1,6})(?::1)?)?")


@dataclass(frozen=True)
class _Parts:
    """What of a box takes part in a fabric.

    Parameters
    ----------
    box : Box
    speeds : mapping of int to int
        NICs that are used and their bytes/s, in order.
    tree : tuple of PcieLink
    is_full : bool
        Whether `tree` reaches the CPUs.
    """

    box: Box
    speeds: Mapping[int, int]
    tree: tuple[PcieLink, ...]
    is_full: bool


def fabric_of(source: SourceText, box: Box, options: ImportOptions, format: str) -> Imported:
    """The fabric of `options.boxes` boxes, and what was recognised.

    Raises
    ------
    FormatError
        If the options do not fit the box, or something has to be asked.
    TopologyError
        If the fabric would be too large.
    """
    boxes = _count_boxes(source, options)
    box = _with_cpu_link(_of_trays(source, box, options.trays or 1), options)
    defaulted, warnings = list(box.defaulted), list(box.warnings)
    is_full = options.pcie is PcieDetail.FULL
    if not is_full and len(box.parts()) > 1:
        is_full = True
        text = "links join not all GPUs: the whole PCIe tree is part of the fabric"
        warnings.append(Finding(text))
    speeds: dict[int, int] = {}
    if boxes > 1:
        chosen = _choose_nics(source, box, options, warnings)
        speeds = _nic_speeds(source, box, chosen, options, warnings)
        if not is_full and len(near_nics(box, list(speeds))) < len(speeds):
            is_full = True
            far = [box.nics[nic].name for nic in speeds if nic not in near_nics(box, list(speeds))]
            text = "shares no switch with a GPU: the whole PCIe tree is part of the fabric"
            warnings.append(Finding(text, ", ".join(far)))
        if not is_full and not _has_p2p(box):
            is_full = True
    elif options.nics is not None:
        _choose_nics(source, box, options, [])
    tree: tuple[PcieLink, ...] = ()
    if is_full:
        _check_rooted(source, box, speeds)
        _check_full(source, box, speeds, format)
        tree = full_tree(box, speeds)
        _check_cpu_links(source, box, tree)
        warnings += [*_host_findings(box), *_pcie_doubts(box, tree)]
        if not _has_p2p(box):
            defaulted.append(Finding("GPUs without peer-to-peer over PCIe: each transfer crosses the host"))
    elif boxes > 1:
        tree = near_tree(box, speeds)
    parts = _Parts(box, speeds, tree, is_full)
    topology = _build(source, parts, options, boxes)
    recognised = recognise(box, speeds, tree, boxes, options.network if boxes > 1 else None)
    return Imported(topology, format, recognised, tuple(defaulted), tuple(warnings))


def _has_p2p(box: Box) -> bool:
    return box.has_p2p and all(GPU_MODELS[gpu.model].has_p2p for gpu in box.gpus if gpu.model)


def _of_trays(source: SourceText, box: Box, trays: int) -> Box:
    """Machines that NVSwitches join, as one box; FormatError if the file's has none."""
    if trays == 1:
        return box
    if not box.has_switch:
        raise source.error(f"--trays {trays}: NVSwitches join trays, and GPUs of this file have none")
    if trays * max(len(box.gpus), len(box.nics)) > MAX_DEVICES:
        raise source.error(f"--trays {trays}: expected at most {MAX_DEVICES} GPUs and NICs in all")
    n, n_bridges = len(box.gpus), len(box.bridges)
    gpus: list[Gpu] = []
    nics: list[Nic] = []
    bridges: list[Bridge] = []
    for tray in range(trays):

        def moved(slot: Slot, shift: int = tray * n_bridges) -> Slot:
            return slot if slot.above is None else replace(slot, above=slot.above + shift)

        name = f"tray {tray} "
        gpus += [
            replace(
                gpu,
                name=name + gpu.name,
                host=tray,
                rank=None if gpu.rank is None else tray * n + gpu.rank,
                slot=moved(gpu.slot),
            )
            for gpu in box.gpus
        ]
        nics += [replace(nic, name=name + nic.name, slot=moved(nic.slot)) for nic in box.nics]
        bridges += [
            replace(
                bridge,
                name=name + bridge.name,
                above=None if bridge.above is None else bridge.above + tray * n_bridges,
            )
            for bridge in box.bridges
        ]
    return replace(
        box,
        gpus=tuple(gpus),
        nics=tuple(nics),
        bridges=tuple(bridges),
        links=tuple(
            replace(
                link,
                gpu=link.gpu + tray * n,
                other=None if link.other is None else link.other + tray * n,
            )
            for tray in range(trays)
            for link in box.links
        ),
        host_links=tuple(
            replace(joint, one=joint.one + tray * n_bridges, other=joint.other + tray * n_bridges)
            for tray in range(trays)
            for joint in box.host_links
        ),
    )


def _with_cpu_link(box: Box, options: ImportOptions) -> Box:
    """The box with the ways between CPUs that its user states."""
    if options.cpu_link is None:
        return box
    typed = [replace(joint, bandwidth=options.cpu_link, origin=HostSpeed.TYPED) for joint in box.host_links]
    return replace(box, host_links=tuple(typed))


def _check_cpu_links(source: SourceText, box: Box, tree: Sequence[PcieLink]) -> None:
    """Require the bandwidths between CPUs that take part and are not stated."""
    used = {link.upper.number for link in tree if link.upper.kind == "bridge"}
    for joint in box.host_links:
        if joint.bandwidth is None and {joint.one, joint.other} <= used:
            one, other = (box.bridges[end].name for end in (joint.one, joint.other))
            raise asked(source, "cpu-link", f"does not say how fast {one} and {other} are joined, as 32GB/s")


def _pcie_doubts(box: Box, tree: Sequence[PcieLink]) -> Iterator[Finding]:
    """GPUs with fewer PCIe lanes than others, and uplinks that several GPUs share."""
    above = {link.lower: link for link in tree}
    speeds = [above[Place("gpu", number)].bandwidth or 0 for number in range(len(box.gpus))]
    widest = max(gpu.slot.lanes or 0 for gpu in box.gpus)
    for gpu, speed in zip(box.gpus, speeds, strict=True):
        if speed < max(speeds):
            lanes = gpu.slot.lanes
            shown = f" (x{lanes} of x{widest})" if lanes and lanes < widest else ""
            text = f"its PCIe link carries {format_link_bandwidth(speed)}{shown}, that of another GPU"
            yield Finding(f"{text} {format_link_bandwidth(max(speeds))}", gpu.name)
    below: dict[Place, list[int]] = {}
    for number in range(len(box.gpus)):
        link = above.get(Place("gpu", number))
        while link is not None:
            below.setdefault(link.upper, []).append(number)
            link = above.get(link.upper)
    for place, gpus in below.items():
        up = above.get(place)
        wanted = sum(speeds[gpu] for gpu in gpus)
        if up is not None and up.bandwidth is not None and len(gpus) > 1 and up.bandwidth < wanted:
            text = f"share one PCIe uplink of {format_link_bandwidth(up.bandwidth)} to the CPU"
            yield Finding(text, ", ".join(box.gpus[gpu].name for gpu in gpus))


def _count_boxes(source: SourceText, options: ImportOptions) -> int:
    """How many boxes; FormatError unless the network that joins several is said."""
    if options.network is not None:
        if not (options.network in ("one-switch", "rail") or _shape(options.network)):
            hint = _meant(options.network)
            raise source.error(f"--network {options.network[:40]!r}: expected {NETWORKS}{hint}")
        if options.boxes is None:
            raise source.error("--network joins several boxes; say by --boxes how many there are")
    boxes = options.boxes or 1
    if boxes > 1 and options.network is None:
        raise source.error(f"the file describes one box; say by --network what joins {boxes}: {NETWORKS}")
    return boxes


def _meant(network: str) -> str:
    """What a network's name was probably to be, for the end of a message."""
    word, _, numbers = network.partition(":")
    if re.fullmatch("[0-9]{1,6}", numbers) and word.casefold() in ("rail", "rails"):
        return f"; did you mean rails:{numbers}?"
    return did_you_mean(word, ("one-switch", "rail", "rails:K", "leaf-spine:L,S"))


def _shape(network: str) -> re.Match[str] | None:
    return _RAILS.fullmatch(network) or _LEAF_SPINE.fullmatch(network)


def _choose_nics(source: SourceText, box: Box, options: ImportOptions, warnings: list[Finding]) -> list[int]:
    """NICs by name, all of them, or those that share a switch with a GPU."""
    every = list(range(len(box.nics)))
    if options.nics is None:
        if not every:
            raise source.error("has no NICs, and so nothing joins several boxes")
        near = near_nics(box, every)
        has_tree = any(bridge.kind is BridgeKind.HOST for bridge in box.bridges)
        for nic in every:
            if nic not in near:
                text = "shares no PCIe switch with a GPU and is left out"
                text += "; --nics all takes it" if has_tree else ""
                warnings.append(Finding(text, box.nics[nic].name))
        if not near:
            if not has_tree:
                raise source.error(
                    f"no NIC shares a PCIe switch with a GPU, and the file has no PCIe tree; {_DUMP}"
                )
            raise source.error(
                "no NIC shares a PCIe switch with a GPU; --nics all takes them over the CPUs, or name those "
                "that are used"
            )
        return list(near)
    if options.nics == "all":
        return every
    names = {nic.name: number for number, nic in enumerate(box.nics)}
    chosen = []
    for name in options.nics.split(","):
        number = names.get(name.strip())
        if number is None:
            known = ", ".join(names) or "none"
            raise source.error(f"--nics: no NIC is called {name.strip()[:40]!r}; there are {known[:200]}")
        if number in chosen:
            raise source.error(f"--nics: {name.strip()[:40]!r} is named twice")
        chosen.append(number)
    return sorted(chosen)


def _nic_speeds(
    source: SourceText, box: Box, chosen: Sequence[int], options: ImportOptions, warnings: list[Finding]
) -> dict[int, int]:
    """Bytes/s of each used NIC: as typed, else as the file has it."""
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
    for bandwidth, names in differing.items():
        text = f"{format_link_bandwidth(bandwidth)} in the file, "
        text += f"{format_link_bandwidth(options.nic_bandwidth or 0)} by --nic-bandwidth"
        warnings.append(Finding(text, _listed(names)))
    return speeds


def _listed(names: Sequence[str]) -> str:
    """Names with commas between; of more than four the first three, and how many more."""
    few = len(names) <= _MOST_NAMES
    return ", ".join(names) if few else f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - 3} more"


_MOST_NAMES = 4


def _check_full(source: SourceText, box: Box, speeds: Mapping[int, int], format: str) -> None:
    """The whole tree needs a way between all GPUs, and its bandwidths."""
    tree = full_tree(box, {})
    # with the NICs: a bridge of one GPU, which goes where it is alone, stays where a NIC is below it, too
    slow = next((link for link in full_tree(box, speeds) if link.bandwidth is None), None)
    if slow is not None:
        reason = "does not say how fast PCIe is, which --pcie full and GPUs without links need"
        remedy = "say it by --pcie-bandwidth, as gen4x16" if format == "nvidia-smi" else _DUMP
        raise source.error(f"{reason}; {remedy}")
    n = len(box.gpus)
    bridges = [(link.lower, link.upper) for link in tree]
    numbers = {Place("gpu", number): number for number in range(n)}
    pairs = [
        (numbers.setdefault(one, len(numbers)), numbers.setdefault(other, len(numbers)))
        for one, other in bridges
    ]
    for joint in box.host_links:
        ends = (Place("bridge", joint.one), Place("bridge", joint.other))
        one, other = (numbers.setdefault(end, len(numbers)) for end in ends)
        pairs.append((one, other))
    switch = len(numbers)
    pairs += [(link.gpu, switch if link.other is None else link.other) for link in box.links]
    apart = joined_parts(n, pairs)
    if len(apart) > 1:
        one_name, other_name = (box.gpus[part[0]].name for part in apart[:2])
        raise source.error(
            f"does not say what joins {one_name} and {other_name}: neither links nor CPUs; {_DUMP}"
        )


def _check_rooted(source: SourceText, box: Box, nics: Iterable[int]) -> None:
    """The whole tree goes up to the CPUs; a matrix may know only who shares a switch."""
    devices: list[Gpu | Nic] = [*box.gpus, *(box.nics[nic] for nic in nics)]
    for one in devices:
        chain = box.chain(one.slot)
        if not chain or box.bridges[chain[-1]].kind is not BridgeKind.HOST:
            raise source.error(
                f"does not say what lies between {one.name} and the CPUs, which --pcie full, GPUs that links "
                f"do not join, and NICs that share no switch with a GPU need; {_DUMP}"
            )


def _host_findings(box: Box) -> list[Finding]:
    """What is taken for the ways between CPUs where the file does not say."""
    found = []
    library = {joint.bandwidth or 0 for joint in box.host_links if joint.origin is HostSpeed.LIBRARY}
    if library:
        shown = ", ".join(format_link_bandwidth(amount) for amount in sorted(library))
        found.append(
            Finding(f"between CPUs: {shown} each way, as the libraries take it; the file does not say")
        )
    return found


def _name(source: SourceText, options: ImportOptions, boxes: int) -> str:
    """The file's name, and the options that make another fabric of the same box."""
    words = [source.stem]
    if boxes > 1:
        words += [f"{boxes} boxes", options.network or ""]
    if options.links is LinkSpeeds.LIBRARY:
        words.append("library's speeds")
    if options.pcie is PcieDetail.FULL:
        words.append("all of PCIe")
    return ", ".join(words)


def _build(source: SourceText, parts: _Parts, options: ImportOptions, boxes: int) -> Topology:
    """Boxes first, then their PCIe trees and NICs, then the network."""
    box, speeds, network = parts.box, parts.speeds, options.network or ""
    nodes = len(box.gpus) + len(parts.tree) + len(box.bridges) + len(speeds) + 1
    check_size(source.stem, boxes * nodes + 1, boxes * 2 * (nodes + len(box.links) + len(box.host_links)))
    builder = TopologyBuilder(_name(source, options, boxes))
    for number in range(boxes):
        _add_gpus(builder, f"box{number}", box)
    ports = [_add_tree(builder, f"box{number}", parts) for number in range(boxes)]
    if boxes > 1:
        _join(source, builder, ports, list(speeds.values()), network)
    return builder.build()


def _add_gpus(builder: TopologyBuilder, name: str, box: Box) -> None:
    gpus = [builder.compute(f"{name}.gpu{number}") for number in range(len(box.gpus))]
    switch = builder.switch(f"{name}.nvswitch") if box.has_switch else ""
    for link in box.links:
        builder.duplex(gpus[link.gpu], switch if link.other is None else gpus[link.other], link.bandwidth)


def _add_tree(builder: TopologyBuilder, name: str, parts: _Parts) -> list[str]:
    """The PCIe tree of a box; names of its NICs."""
    names = {Place("gpu", number): f"{name}.gpu{number}" for number in range(len(parts.box.gpus))}
    ports = []
    for order, nic in enumerate(parts.speeds):
        names[Place("nic", nic)] = f"{name}.nic{order}"
        ports.append(f"{name}.nic{order}")
    bridges = {end for link in parts.tree for end in (link.lower, link.upper) if end.kind == "bridge"}
    hosts = [number for number, bridge in enumerate(parts.box.bridges) if bridge.kind is BridgeKind.HOST]
    used = sorted(place.number for place in bridges)
    # without peer-to-peer no switch passes on what comes from below but to the CPU
    has_p2p = not parts.is_full or _has_p2p(parts.box)
    upward: dict[Place, str] = {}
    for order, number in enumerate(one for one in used if one not in hosts):
        names[Place("bridge", number)] = builder.switch(f"{name}.pcie{order}" + ".down" * (not has_p2p))
        if not has_p2p:
            upward[Place("bridge", number)] = builder.switch(f"{name}.pcie{order}.up")
    for order, number in enumerate(hosts):
        if number in used:
            names[Place("bridge", number)] = builder.switch(f"{name}.cpu{order}")
    for port in ports:
        builder.switch(port)
    for link in parts.tree:
        assert link.bandwidth is not None
        lower, upper = (upward.get(end, names[end]) for end in (link.lower, link.upper))
        builder.link(lower, upper, link.bandwidth)
        builder.link(names[link.upper], names[link.lower], link.bandwidth)
    if parts.is_full:
        for joint in parts.box.host_links:
            hosts_of = [names.get(Place("bridge", end)) for end in (joint.one, joint.other)]
            if hosts_of[0] is not None and hosts_of[1] is not None:
                assert joint.bandwidth is not None
                builder.duplex(hosts_of[0], hosts_of[1], joint.bandwidth)
    return ports


def _join(
    source: SourceText,
    builder: TopologyBuilder,
    ports: Sequence[Sequence[str]],
    speeds: Sequence[int],
    network: str,
) -> None:
    """Join the NICs of all boxes; `ports` has their names by box, `speeds` their bytes/s."""
    match = _shape(network)
    if match is not None and network.startswith("leaf-spine"):
        _join_leaves(source, builder, ports, speeds, match)
        return
    rails = 1 if network == "one-switch" else len(speeds) if match is None else int(match[1])
    if not 1 <= rails <= len(speeds):
        raise source.error(f"--network {network}: a box has {len(speeds)} NICs, expected 1 to so many rails")
    switches = [builder.switch(f"ib{rail}") for rail in range(rails)]
    for names in ports:
        for order, (name, speed) in enumerate(zip(names, speeds, strict=True)):
            builder.duplex(name, switches[order % rails], speed)


def _join_leaves(
    source: SourceText,
    builder: TopologyBuilder,
    ports: Sequence[Sequence[str]],
    speeds: Sequence[int],
    match: re.Match[str],
) -> None:
    leaves, spines, over = int(match[1]), int(match[2]), int(match[3] or 1)
    boxes = len(ports)
    if not 1 <= leaves <= boxes or not 1 <= spines <= 2**16 or over < 1:
        raise source.error(
            f"--network {match[0]}: expected 1 to {boxes} leaves (there are {boxes} boxes), at least one "
            f"spine and an oversubscription of at least 1"
        )
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
