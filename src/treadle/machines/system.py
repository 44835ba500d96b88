"""The machine behind a fabric, as cost models of libraries need it: GPUs, boxes, links, NICs, CPU.

A topology has bandwidths, not product names. NVLink generations differ so much in bandwidth per GPU (150,
300, 450, 900 GB/s) that it identifies them; AMD's GPUs are joined directly, by links of 46 to 64 GB/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from treadle.brief import brief
from treadle.topologies.families import families_of
from treadle.topologies.named_boxes import NETWORK, find_boxes, nvswitches, rank_boxes
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


class Generation(StrEnum):
    """GPU generations whose constants differ.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.Generation("hopper").is_amd
    False
    """

    VOLTA = "volta"
    AMPERE = "ampere"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    MI200 = "mi200"
    MI300 = "mi300"

    @property
    def is_amd(self) -> bool:
        """Whether RCCL runs on it, not NCCL."""
        return self in (Generation.MI200, Generation.MI300)

    @property
    def has_nvls(self) -> bool:
        """Whether its NVSwitches multicast and add (NVLink SHARP)."""
        return self in (Generation.HOPPER, Generation.BLACKWELL)


@brief("generation", "boxes", "gpus_per_box", "link_bytes_per_s", "nics")
@dataclass(frozen=True)
class System:
    """The machine behind a fabric.

    Parameters
    ----------
    generation : Generation
    boxes : int
    gpus_per_box : int
    link_bytes_per_s : int
        From a GPU to the others of its box, per direction.
    has_fast_links : bool
        GPUs of a box are joined by NVLink or Infinity Fabric, not by PCIe.
    has_switch : bool
        All GPUs of a box meet at NVSwitches.
    nics : int
        Of a box; 0 in a single box.
    nic_bytes_per_s : int
        Of a NIC, per direction.
    cpu : str
        ``intel``, ``amd`` or ``arm``: what such boxes usually have.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> planning.system_of(treadle.parse("dgx_h100:2"))
    <System hopper, boxes 2, gpus per box 8, 450 GB/s link, nics 8>
    """

    generation: Generation
    boxes: int
    gpus_per_box: int
    link_bytes_per_s: int
    has_fast_links: bool = True
    has_switch: bool = True
    nics: int = 0
    nic_bytes_per_s: int = 0
    cpu: str = "intel"

    @property
    def cost_preset(self) -> str | None:
        """Cost model with NCCL's latencies, by name; None for PCIe and for AMD's GPUs."""
        if self.generation.is_amd or not self.has_fast_links:
            return None
        return f"nccl-{self.generation}{'-boxes' if self.boxes > 1 else ''}"

    def group(self, boxes: int, gpus_per_box: int) -> System:
        """Return the part of the machine that a group of ranks has, next to groups like it on the other GPUs.

        Parameters
        ----------
        boxes, gpus_per_box : int
            Boxes of the group, and its ranks in each.
        """
        nics = self.nics * gpus_per_box // self.gpus_per_box if boxes > 1 else 0
        rate = self.nic_bytes_per_s if nics else self.nics * self.nic_bytes_per_s * gpus_per_box
        rate = rate if nics else rate // self.gpus_per_box
        own = (nics or min(self.nics, 1), rate) if boxes > 1 else (0, 0)
        part = replace(self, boxes=boxes, gpus_per_box=gpus_per_box, nics=own[0], nic_bytes_per_s=own[1])
        if self.has_switch or not self.has_fast_links or self.gpus_per_box == 1:
            return part
        # direct links to GPUs outside the group do not serve it
        link = self.link_bytes_per_s * (gpus_per_box - 1) // (self.gpus_per_box - 1)
        return replace(part, link_bytes_per_s=link)


def system_of(topology: Topology) -> System | Unsupported:
    """Return the machine behind a fabric, or why it is not known.

    Parameters
    ----------
    topology : Topology

    Notes
    -----
    Boxes are what the names of ranks say, and must be alike. Links between GPUs of a box are fast ones if
    they are direct or lead to an NVSwitch; else the fastest link of a GPU is its PCIe slot. The generation of
    PCIe cards is assumed from the slot: PCIe 5.0 Blackwell, else Ampere.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> planning.system_of(treadle.parse("mi300x:1")).generation.value
    'mi300'
    """
    if "." not in topology.node_names[int(topology.compute_nodes[0])]:
        return Unsupported("the names of its nodes do not say which GPUs share a box")
    if (found := _of_two_boxes(topology)) is not None:
        return found
    of_rank = rank_boxes(topology)
    sizes = np.bincount(of_rank)
    if len(of_rank) < 2 or sizes.min() < sizes.max():
        return Unsupported("its boxes differ in their numbers of GPUs")
    boxes, gpus = find_boxes(topology, of_rank), int(sizes[0])
    box = boxes.of_node[topology.tails]
    inside = box == boxes.of_node[topology.heads]
    own = np.flatnonzero(topology.tails == topology.compute_nodes[0])
    heads, rates = topology.heads[own], topology.bandwidths[own]
    direct, switched = inside[own] & topology.is_compute[heads], nvswitches(topology)[heads]
    link = int(rates[direct | switched].sum())
    found = System(Generation.AMPERE, boxes.count, gpus, link, has_switch=bool(switched.any()))
    if boxes.count > 1:
        # the box with the fewest NICs limits all
        leaves = ~inside & (box != NETWORK)
        nics = int(np.bincount(box[leaves], minlength=boxes.count).min())
        if not nics:
            return Unsupported("a box is joined to no network")
        found = replace(found, nics=nics, nic_bytes_per_s=int(topology.bandwidths[leaves].max()))
    if gpus > 1 and not link:
        near = set(heads[inside[own]].tolist())
        if not near or near & set(topology.tails[~inside].tolist()):
            return Unsupported("nothing says which of its GPUs share a host")
        slot = int(rates[inside[own]].max())
        if not _LEAST_PCIE <= slot <= _MOST_PCIE:
            return Unsupported("its GPUs are joined neither by NVLink nor by PCIe")
        generation = Generation.BLACKWELL if 2 * slot > _MOST_PCIE else Generation.AMPERE
        return replace(found, generation=generation, link_bytes_per_s=slot, has_fast_links=False)
    if gpus == 1:
        generation = next((one for most, one in _NICS if found.nic_bytes_per_s <= most), Generation.BLACKWELL)
        return replace(found, generation=generation)
    fabric = rates[direct]
    is_nvlink = switched.any() or (fabric.min() == fabric.max() and link in _DIRECT_NVLINK)
    if not is_nvlink:
        # MI300X has 7 links of 64 GB/s; MI200's links, or several of them together, have 46 or 50 each
        if fabric.min() == fabric.max() and 60 * 10**9 <= fabric[0] <= 80 * 10**9:
            return replace(found, generation=Generation.MI300, cpu="amd")
        if all(one % (46 * 10**9) == 0 or one % (50 * 10**9) == 0 for one in fabric.tolist()):
            return replace(found, generation=Generation.MI200, cpu="amd")
    if link < _LEAST_NVLINK:
        return Unsupported("its links are neither NVLink nor Infinity Fabric")
    generation = next((one for most, one in _NVLINKS if link <= most * 10**9), Generation.BLACKWELL)
    # a DGX A100 has AMD's CPUs, later ones Intel's, racks and trays of Grace Blackwell Arm's
    is_grace = generation is Generation.BLACKWELL and (gpus > 16 or gpus <= 4)
    cpu = "amd" if generation is Generation.AMPERE else "arm" if is_grace else "intel"
    return replace(found, generation=generation, cpu=cpu)


def _of_two_boxes(topology: Topology) -> System | Unsupported | None:
    """The machine by two of its boxes, which in a fabric with families are like all others."""
    families = families_of(topology)
    rank = next((one for one in families.node_families if one.is_compute), None) if families else None
    if families is None or rank is None:
        return None
    # a box has the indices after the last dot of a rank's name; the others tell boxes apart
    last = max(place for place, (text, _) in enumerate(rank.fields) if "." in text)
    outer = [index for _, indices in rank.fields[:last] for index in indices]
    boxes = families.count(outer)
    if boxes <= 2 ** len(outer):
        return None
    few = {**families.sizes, **{index: min(families.sizes[index], 2) for index in outer}}
    found = system_of(replace(families, sizes=few).build(topology.name))
    return replace(found, boxes=boxes) if isinstance(found, System) else found


def system_of_groups(topology: Topology, groups: Iterable[Sequence[int]]) -> System | Unsupported:
    """Return the machine that each of these groups of ranks has, or why it is not known."""
    system, box_of = system_of(topology), rank_boxes(topology)
    shapes = set()
    for group in groups:
        _, counts = np.unique([box_of[rank] for rank in group], return_counts=True)
        shapes |= {(len(counts), int(count)) for count in counts}
    if isinstance(system, System) and len(shapes) > 1:
        return Unsupported("its boxes hold different numbers of ranks")
    return system if isinstance(system, Unsupported) else system.group(*shapes.pop())


_LEAST_NVLINK = 40 * 10**9
_DIRECT_NVLINK = (150 * 10**9, 300 * 10**9)
"""Equal direct links in boxes without NVSwitches: V100 and A100."""
_LEAST_PCIE, _MOST_PCIE = 3 * 10**9, 65 * 10**9
"""Sixteen lanes of PCIe 5.0 carry 63 GB/s."""
_NICS = ((30 * 10**9, Generation.AMPERE), (60 * 10**9, Generation.HOPPER))
"""What comes with NICs of 200 and 400 Gbit/s."""
_NVLINKS = ((200, Generation.VOLTA), (375, Generation.AMPERE), (675, Generation.HOPPER))
"""Most GB/s per GPU and direction: half-way between 150, 300, 450 and 900."""
