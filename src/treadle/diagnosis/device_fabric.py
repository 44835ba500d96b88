"""The fabric that a list of devices suggests: what boxes of such GPUs usually have, if no more is known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from treadle.diagnosis.log import Log
from treadle.diagnosis.log_values import used_nics
from treadle.errors import FormatError, TopologyError
from treadle.machines.system import Generation
from treadle.spelling import counted
from treadle.topologies.catalogue.platforms import add_box, mi250, mi300x
from treadle.topologies.readers.imported import Imported, ImportOptions
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.units import format_bandwidth
from treadle.unsupported import Unsupported

_GB = 10**9
_MOST_NICS = 64


@dataclass(frozen=True)
class GpuModel:
    """GPUs by the names that drivers give them, and the box in which they are usual.

    Parameters
    ----------
    pattern : str
        Regular expression of the names.
    generation : Generation
    link : int
        GB/s per direction to the other GPUs of a box: NVLink, or a PCIe slot.
    nic : float
        GB/s of a NIC.
    nics : int, optional
        Of a box; default one for each GPU.
    has_fast_links : bool
    has_p2p : bool
        Whether the driver lets GPUs reach each other's memory over PCIe.
    per_domain : int
        GPUs that NVSwitches join across hosts; 0: within a host only.
    full_board : int
        Fewer GPUs may be joined by some of their links only, on boards without NVSwitches.
    platform : callable, optional
        Catalogue function of boxes, GPUs of a box and `nic_bandwidth` that makes the fabric.
    """

    pattern: str
    generation: Generation
    link: int
    nic: float
    nics: int | None = None
    has_fast_links: bool = True
    has_p2p: bool = True
    per_domain: int = 0
    full_board: int = 4
    platform: Callable[..., Topology] | None = None


_HOPPER, _AMPERE = Generation.HOPPER, Generation.AMPERE
GPU_MODELS = (
    GpuModel(r"GB[23]00", Generation.BLACKWELL, 900, 50, per_domain=72),
    GpuModel(r"GB10\b", Generation.BLACKWELL, 31, 25, has_fast_links=False),
    GpuModel(r"\bB[23]00", Generation.BLACKWELL, 900, 50),
    GpuModel(r"H100 (?:PCIe|NVL)|H200 NVL", _HOPPER, 63, 50, 1, has_fast_links=False),
    GpuModel(r"H800", _HOPPER, 200, 50),
    GpuModel(r"H[12]00|\bH20\b|\bH20-", _HOPPER, 450, 50),
    GpuModel(r"A800.SXM", _AMPERE, 200, 25),
    GpuModel(r"A100.SXM", _AMPERE, 300, 25),
    GpuModel(r"V100.SXM", Generation.VOLTA, 150, 12.5, 4, full_board=8),
    GpuModel(r"MI3\d\d[AX]", Generation.MI300, 64, 50, platform=mi300x),
    GpuModel(r"MI2[15]0", Generation.MI200, 50, 25, platform=mi250),
    GpuModel(r"RTX 50|RTX PRO", Generation.BLACKWELL, 63, 50, 1, has_fast_links=False, has_p2p=False),
    GpuModel(r"GeForce RTX [34]0", _AMPERE, 31, 25, 1, has_fast_links=False, has_p2p=False),
    GpuModel(
        r"\bL(?:4|20|40S?)\b|\bA(?:2|10G?|16|30|40)\b|A100.(?:80GB )?PCI|A800.*PCI|RTX A\d",
        *(_AMPERE, 31, 25, 1),
        has_fast_links=False,
    ),
    GpuModel(
        r"V100.PCI|P100.PCI|\bP40\b|\bT4\b|GeForce|TITAN", Generation.VOLTA, 15, 12.5, 1, has_fast_links=False
    ),
)
"""The first that fits counts. Bandwidths: data sheets; NICs: DGX and HGX reference systems."""


def model_of(log: Log) -> GpuModel | None:
    """Return the model of the listed GPUs; None for several or unknown ones."""
    names = {rank.model for rank in log.ranks.values()}
    found = {next((one for one in GPU_MODELS if re.search(one.pattern, name)), None) for name in names}
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class LogFabric:
    """A fabric, and where it comes from.

    Parameters
    ----------
    topology : Topology
    imported : Imported, optional
        What was recognised in the log; None for a fabric that was given.
    assumed : tuple of str
        What the log does not say and was taken for granted.
    is_usual : bool
        Nothing but the list of devices is known: the fabric is what boxes of such GPUs usually have.
    assumes_nics : bool
        The number of NICs is such a guess.
    """

    topology: Topology
    imported: Imported | None = None
    assumed: tuple[str, ...] = ()
    is_usual: bool = False
    assumes_nics: bool = False


def fabric_of_devices(log: Log, options: ImportOptions) -> LogFabric | Unsupported:
    """Return the usual fabric of the listed GPUs, or why none is known.

    Parameters
    ----------
    log : Log
    options : ImportOptions
        ``nics`` as a number, and ``nic_bandwidth``, replace what is usual.

    Raises
    ------
    FormatError
        If ``nics`` is no such number.
    """
    per_host = Counter(rank.host for rank in log.ranks.values())
    model = model_of(log)
    if model is None or len(set(per_host.values())) > 1:
        names = sorted({rank.model or "unknown" for rank in log.ranks.values()})
        return Unsupported(f"no usual fabric of {', '.join(names)[:80] or 'the ranks'} is known")
    hosts, gpus = len(per_host), next(iter(per_host.values()))
    if model.per_domain and hosts > 1:
        domains = max(1, hosts * gpus // model.per_domain)
        if domains > 1 and hosts * gpus % model.per_domain:
            return Unsupported("how many hosts NVSwitches join is not known")
        hosts, gpus = domains, hosts * gpus // domains
    given = options.nics
    if given is not None and not (given.isdecimal() and 1 <= int(given) <= _MOST_NICS):
        raise FormatError(
            f"--nics: expected the number of NICs per box, 1 to {_MOST_NICS}, found {given[:40]!r}; "
            "the log names none"
        )
    stated = used_nics(log) if given is None else int(given)
    nics = stated or min(model.nics or gpus, gpus)
    nic = options.nic_bandwidth or int(model.nic * _GB)
    name = f"{counted(hosts, 'box')} of {gpus} {next(iter(log.ranks.values())).model}"
    if model.platform is not None:
        try:
            made = model.platform(hosts, gpus, nic_bandwidth=nic)
            return LogFabric(made, assumed=(name,), is_usual=True, assumes_nics=hosts > 1)
        except TopologyError as error:
            return Unsupported(str(error))
    builder = TopologyBuilder(name)
    boxes = [_add_box(builder, f"box{box}", gpus, model) for box in range(hosts)]
    text = f"{name}, {model.link} GB/s per GPU {'by NVLink' if model.has_fast_links else 'by PCIe'}"
    if hosts > 1:
        top = builder.switch("network")
        for box, ends in enumerate(boxes):
            for number in range(nics):
                end = ends[number * len(ends) // nics]
                if nics > len(ends):
                    end, gpu = builder.switch(f"box{box}.nic{number}"), end
                    builder.duplex(gpu, end, nic)
                builder.duplex(end, top, nic)
        text += f"; {counted(nics, 'NIC')} of {format_bandwidth(nic)} a box; one switch between the boxes"
    assumes_nics = hosts > 1 and not (stated or options.nic_bandwidth)
    return LogFabric(builder.build(), assumed=(text,), is_usual=True, assumes_nics=assumes_nics)


def _add_box(builder: TopologyBuilder, box: str, gpus: int, model: GpuModel) -> list[str]:
    """Add a box; return the nodes at which its NICs are."""
    if gpus == 1:
        return [builder.compute(f"{box}.gpu0")]
    if model.has_fast_links:
        return add_box(builder, box, gpus, model.link * _GB)
    root = builder.switch(f"{box}.pcie")
    builder.duplex(root, builder.switch(f"{box}.cpu"), model.link * _GB)  # so that it is no NVSwitch
    for gpu in range(gpus):
        builder.duplex(builder.compute(f"{box}.gpu{gpu}"), root, model.link * _GB)
    return [root]
