"""What was recognised in a file about a box, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from treadle.topologies.readers.boxes.box import Box, Gpu
from treadle.topologies.readers.boxes.pcie_tree import PcieLink, Place
from treadle.units import format_link_bandwidth


def recognise(
    box: Box, speeds: Mapping[int, int], tree: Sequence[PcieLink], boxes: int, network: str | None
) -> dict[str, str]:
    """By subject: GPUs, links, switches, NICs, PCIe, rank order, pairs of GPU and NIC, network.

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
    found = {"GPUs": _counted(map(_kind, box.gpus))}
    if box.links:
        found["links"] = f"{box.link_word}: {_links(box)}"
    found["switches"] = _switches(box)
    if all(gpu.rank is not None for gpu in box.gpus):
        how = "by the file's ranks"
    else:
        how = "by bus id" if all(gpu.bus_id for gpu in box.gpus) else "as in the file"
    found["rank order"] = f"{how}: {_numbered([gpu.bus_id or gpu.name for gpu in box.gpus], 'gpu')}"
    found["NICs"] = _counted(_nic_speeds(box)) or "none"
    if boxes > 1:
        names = [box.nics[nic].name for nic in speeds]
        found["used NICs"] = f"{len(names)}: {_numbered(names, 'nic')}"
        found["pairs"] = _pairs(box, tree)
    if tree:
        found["PCIe"] = _counted(
            f"{link.lower.kind} {format_link_bandwidth(link.bandwidth or 0)}" for link in tree
        )
    found["boxes"] = "1" if network is None else f"{boxes}, joined by {network}"
    return found


def _kind(gpu: Gpu) -> str:
    generation = f" ({gpu.generation})" if gpu.generation else ""
    return f"{gpu.model}{generation}" if gpu.model else gpu.generation or "of unknown model"


def _counted(words: Iterable[str]) -> str:
    """``7 x a, b``: equal words counted, in the order in which they first appear."""
    counts = Counter(words)
    return ", ".join(f"{count} x {word}" if count > 1 else word for word, count in counts.items())


def _links(box: Box) -> str:
    words = []
    for link in box.links:
        where = "GPU to switch" if link.other is None else "between two GPUs"
        words.append(f"{where} {link.count} of {format_link_bandwidth(link.bandwidth // link.count)}")
    return _counted(words)


def _switches(box: Box) -> str:
    if not box.has_switch:
        return "none between GPUs"
    return f"{box.n_switches} NVSwitches, as one" if box.n_switches > 1 else "NVSwitches, as one"


def _numbered(names: Sequence[str], word: str) -> str:
    return ", ".join(f"{word}{number} = {name}" for number, name in enumerate(names))


def _nic_speeds(box: Box) -> Iterable[str]:
    for nic in box.nics:
        yield "speed not given" if nic.bandwidth is None else format_link_bandwidth(nic.bandwidth)


def _pairs(box: Box, tree: Sequence[PcieLink]) -> str:
    """NICs, and the GPUs below the lowest place that both hang from: a switch, one above it, or the GPU."""
    above = {link.lower: link.upper for link in tree}
    below: dict[Place, list[int]] = {}
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


def _upwards(place: Place, above: Mapping[Place, Place]) -> Iterator[Place]:
    """What a place hangs from, and what that hangs from, to the root."""
    while place in above:
        place = above[place]
        yield place
