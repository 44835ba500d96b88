"""Parts of a box's PCIe tree that become part of a fabric.

Near: a GPU, the lowest switch that it shares with a NIC, and that NIC. The full tree would give GPUs that
NVLinks join a second way to each other, which a collective's bound would count on. A link's bandwidth is the
least on its path, rounded down to half a GB/s and, for GPUs, no more than the NICs behind it take: otherwise
fractions of bytes require billions of trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.topologies.readers.boxes.box import Box, BridgeKind, Slot

HALF_GB_PER_S = 5 * 10**8
"""Bytes/s to which PCIe is rounded down."""


@dataclass(frozen=True)
class PciePosition:
    """An end of a link in a PCIe tree: a GPU, a NIC or a bridge, and its number."""

    kind: str
    number: int


@dataclass(frozen=True)
class PcieLink:
    """Two joined places, the one further from the root first; bytes/s each way, None for no known limit."""

    lower: PciePosition
    upper: PciePosition
    bandwidth: int | None


def near_nics(box: Box, nics: Sequence[int]) -> tuple[int, ...]:
    """Return the `nics` that share a switch with a GPU."""
    with_gpu = {bridge for gpu in box.gpus for bridge in box.chain(gpu.slot)}
    return tuple(nic for nic in nics if _meeting(box, box.nics[nic].slot, with_gpu) is not None)


def near_tree(box: Box, speeds: Mapping[int, int]) -> tuple[PcieLink, ...]:
    """Return links between GPUs, the switches that they share with NICs, and those NICs.

    Parameters
    ----------
    box : Box
    speeds : mapping of int to int
        Numbers of the NICs that are used, and bytes/s of each; they share switches with GPUs.
    """
    devices = _devices(box, speeds)
    above: dict[str, set[int]] = {"gpu": set(), "nic": set()}
    for place, slot in devices.items():
        above[place.kind].update(box.chain(slot))
    others = {"gpu": above["nic"], "nic": above["gpu"]}
    tops = {_meeting(box, slot, others[place.kind]) for place, slot in devices.items()}
    parents: dict[PciePosition, PcieLink] = {}
    for place, slot in devices.items():
        chain = box.chain(slot)
        last = max((depth for depth, bridge in enumerate(chain) if bridge in tops), default=-1)
        _climb(box, place, slot, chain[: last + 1], parents)
    _contract(parents)
    _drop_wide_cards(box, parents, speeds)
    return tuple(_near_links(parents, speeds))


def full_tree(box: Box, speeds: Mapping[int, int]) -> tuple[PcieLink, ...]:
    """Links of the full tree from GPUs and used NICs up to the CPUs; what has neither below is left out."""
    parents: dict[PciePosition, PcieLink] = {}
    for place, slot in _devices(box, speeds).items():
        _climb(box, place, slot, box.chain(slot), parents)
    _contract(parents)
    _drop_wide_cards(box, parents, speeds)
    return tuple(_rounded(link, speeds.get(link.lower.number)) for link in parents.values())


def _devices(box: Box, nics: Iterable[int]) -> dict[PciePosition, Slot]:
    return {PciePosition("gpu", number): gpu.slot for number, gpu in enumerate(box.gpus)} | {
        PciePosition("nic", nic): box.nics[nic].slot for nic in nics
    }


def _climb(
    box: Box, place: PciePosition, slot: Slot, chain: Sequence[int], parents: dict[PciePosition, PcieLink]
) -> None:
    """Add the links from a device over the bridges of a chain."""
    bandwidth = slot.bandwidth
    for number in chain:
        upper = PciePosition("bridge", number)
        parents.setdefault(place, PcieLink(place, upper, bandwidth))
        place, bandwidth = upper, box.bridges[number].bandwidth


def _meeting(box: Box, slot: Slot, others: set[int]) -> int | None:
    """Return the lowest switch above a device that also has one of the others below; a CPU is none."""
    for number in box.chain(slot):
        kind = box.bridges[number].kind
        if kind is BridgeKind.HOST:
            return None
        if kind is BridgeKind.SWITCH and number in others:
            return number
    return None


def _contract(parents: dict[PciePosition, PcieLink]) -> None:
    """Take out bridges with one link below and one above: the path has the lesser bandwidth."""
    below = _below(parents)
    for bridge, links in below.items():
        up = parents.get(bridge)
        if len(links) == 1 and up is not None:
            # links are looked up anew: the one below may have been replaced by an earlier round
            lower = next(link for link in parents.values() if link.upper == bridge)
            del parents[bridge]
            parents[lower.lower] = PcieLink(lower.lower, up.upper, _least(lower.bandwidth, up.bandwidth))


def _drop_wide_cards(box: Box, parents: dict[PciePosition, PcieLink], speeds: Mapping[int, int]) -> None:
    """Take out cards whose own link carries all that their ports do."""
    for bridge, links in _below(parents).items():
        up = parents.get(bridge)
        if up is None or box.bridges[bridge.number].kind is not BridgeKind.CARD:
            continue
        wanted = sum(speeds[link.lower.number] for link in links)
        if up.bandwidth is None or _round(up.bandwidth) >= wanted:
            del parents[bridge]
            for link in links:
                parents[link.lower] = PcieLink(link.lower, up.upper, _least(link.bandwidth, up.bandwidth))


def _below(parents: Mapping[PciePosition, PcieLink]) -> dict[PciePosition, list[PcieLink]]:
    below: dict[PciePosition, list[PcieLink]] = {}
    for link in parents.values():
        below.setdefault(link.upper, []).append(link)
    return below


def _near_links(parents: Mapping[PciePosition, PcieLink], speeds: Mapping[int, int]) -> list[PcieLink]:
    """Links of each tree, capped; a switch of one GPU whose NICs take no more than that has is left out."""
    below, found = _below(parents), []
    for root in below:
        if root in parents:
            continue
        tree, following = [], [root]
        while following:
            links = below.get(following.pop(), [])
            tree += links
            following += [link.lower for link in links]
        capped = [_rounded(link, speeds.get(link.lower.number)) for link in tree]
        nics = [link for link in capped if link.lower.kind == "nic"]
        total = sum(link.bandwidth or speeds[link.lower.number] for link in nics)
        others = (link for link in capped if link.lower.kind != "nic")
        limited = {link: replace(link, bandwidth=_least(link.bandwidth, total)) for link in others}
        capped = [limited.get(link, link) for link in capped]
        gpus = [link for link in capped if link.lower.kind == "gpu"]
        if len(gpus) == 1 and len(gpus) + len(nics) == len(capped) and gpus[0].bandwidth == total:
            found += [replace(link, upper=gpus[0].lower) for link in nics]
        else:
            found += capped
    return found


def _rounded(link: PcieLink, speed: int | None) -> PcieLink:
    """Return a link with rounded bandwidth; that of a NIC (`speed`) has no more than the NIC."""
    bandwidth = None if link.bandwidth is None else _round(link.bandwidth)
    return PcieLink(link.lower, link.upper, _least(bandwidth, speed if link.lower.kind == "nic" else None))


def _round(bandwidth: int) -> int:
    """Round down to half a GB/s; less than that stays."""
    return bandwidth // HALF_GB_PER_S * HALF_GB_PER_S or bandwidth


def _least(one: int | None, other: int | None) -> int | None:
    known = [bandwidth for bandwidth in (one, other) if bandwidth is not None]
    return min(known) if known else None
