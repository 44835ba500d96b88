"""Facts recognised in a file about a box, as strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from treadle.topologies.readers.boxes.box import Box
from treadle.topologies.readers.boxes.pcie_tree import PcieLink, PciePosition
from treadle.units import format_link_bandwidth


def recognise(
    box: Box, speeds: Mapping[int, int], tree: Sequence[PcieLink], boxes: int, network: str | None
) -> dict[str, str]:
    """Return facts by subject: GPUs, links, switches, NICs, PCIe, rank order, pairs of GPU and NIC, network.

    Parameters
    ----------
    box : Box
    speeds : mapping of int to int
        NICs that are used, and their bytes/s.
    tree : sequence of PcieLink
        What of the PCIe tree is part of the fabric.
    boxes : int
    network : str, optional
        What joins them.
    """
    kinds = [
        f"{gpu.model} ({gpu.generation})" if gpu.model and gpu.generation else gpu.model or gpu.generation
        for gpu in box.gpus
    ]
    found = {"GPUs": _counted(kind or "of unknown model" for kind in kinds)}
    if box.links:
        links = _counted(
            f"{'GPU to switch' if link.other is None else 'between two GPUs'} {link.count} of "
            f"{format_link_bandwidth(link.bandwidth // link.count)}"
            for link in box.links
        )
        found["links"] = f"{box.link_word}: {links}"
    switches = f"{box.n_switches} NVSwitches" if box.n_switches > 1 else "NVSwitches"
    found["switches"] = f"{switches}, as one" if box.has_switch else "none between GPUs"
    how = "by bus id" if all(gpu.bus_id for gpu in box.gpus) else "as in the file"
    if all(gpu.rank is not None for gpu in box.gpus):
        how = "by the file's ranks"
    found["rank order"] = f"{how}: {_numbered([gpu.bus_id or gpu.name for gpu in box.gpus], 'gpu')}"
    rates = (format_link_bandwidth(nic.bandwidth) if nic.bandwidth else "speed not given" for nic in box.nics)
    found["NICs"] = _counted(rates) or "none"
    if boxes > 1:
        names = [box.nics[nic].name for nic in speeds]
        found["used NICs"] = f"{len(names)}: {_numbered(names, 'nic')}"
        found["pairs"] = _pairs(box, tree)
    if tree:
        speeds_of = ((link.lower.kind, format_link_bandwidth(link.bandwidth or 0)) for link in tree)
        found["PCIe"] = _counted(f"{kind} {rate}" for kind, rate in speeds_of)
    found["boxes"] = "1" if network is None else f"{boxes}, joined by {network}"
    return found


def _counted(words: Iterable[str]) -> str:
    """Return ``7 x a, b``: equal words counted, in the order in which they first appear."""
    counts = Counter(words)
    return ", ".join(f"{count} x {word}" if count > 1 else word for word, count in counts.items())


def _numbered(names: Sequence[str], word: str) -> str:
    return ", ".join(f"{word}{number} = {name}" for number, name in enumerate(names))


def _pairs(box: Box, tree: Sequence[PcieLink]) -> str:
    """Return NICs, and the GPUs below their lowest common bridge: a switch, one above it, or the GPU."""
    above = {link.lower: link.upper for link in tree}
    below: dict[PciePosition, list[int]] = {}
    for place in above:
        if place.kind == "gpu":
            for upper in _upwards(place, above):
                below.setdefault(upper, []).append(place.number)
    for upper in [upper for upper in above.values() if upper.kind == "gpu"]:
        below[upper] = [upper.number]
    groups: dict[tuple[int, ...], list[str]] = {}
    for place in above:
        shared = next((upper for upper in _upwards(place, above) if upper in below), None)
        if place.kind == "nic" and shared is not None:
            groups.setdefault(tuple(sorted(below[shared])), []).append(box.nics[place.number].name)
    words = [
        f"{'+'.join(f'gpu{gpu}' for gpu in gpus)}: {', '.join(groups[gpus])}"
        for gpus in sorted(groups, key=lambda one: one[0])
    ]
    return "; ".join(words) or "none"


def _upwards(place: PciePosition, above: Mapping[PciePosition, PciePosition]) -> Iterator[PciePosition]:
    """Yield the bridges above a position, up to the root."""
    while place in above:
        place = above[place]
        yield place
