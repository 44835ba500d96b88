"""Facts on GPUs and PCIe that files do not give: links, their speeds, and the wiring of entire boxes.

Two speeds of each: the nominal one of vendors' documents, and the one of NCCL's and RCCL's own tables
(NVIDIA/nccl and ROCm/rccl, src/graph/topo.h and topo.cc), which is what a copy gets out of a link.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from treadle.topologies.readers.imported import LinkSpeeds

GB_PER_S = 10**9
"""Bytes/s in 1 GB/s."""
DEFAULT_GT_PER_S = Fraction(8)
"""Default of the libraries if a PCIe link's speed is unknown."""
DEFAULT_LANES = 16
"""Default of the libraries if a PCIe link's width is unknown."""
PCIE_GT_PER_S: Mapping[int, Fraction] = MappingProxyType(
    {1: Fraction("2.5"), 2: Fraction(5), 3: Fraction(8), 4: Fraction(16), 5: Fraction(32), 6: Fraction(64)}
)
"""Transfers of a lane, by generation of PCIe."""


class Wiring(StrEnum):
    """Wiring of the GPUs of an entire box."""

    SWITCH = "switch"
    """All links of every GPU go to NVSwitches."""
    PAIRS = "pairs"
    """One link between every two GPUs."""


@dataclass(frozen=True, kw_only=True)
class LinkKind:
    """Links of a generation of GPUs: bytes/s of one, nominal and in the library's table.

    Parameters
    ----------
    word : str
        ``NVLink`` or ``xGMI``.
    nominal, library : int
    """

    word: str
    nominal: int
    library: int

    def speed(self, links: LinkSpeeds) -> int:
        """Return bytes/s of one link."""
        return self.library if links is LinkSpeeds.LIBRARY else self.nominal


def _kind(word: str, *gb_per_s: str) -> LinkKind:
    nominal, library = (int(Fraction(speed) * GB_PER_S) for speed in gb_per_s)
    return LinkKind(word=word, nominal=nominal, library=library)


_SM60 = _kind("NVLink", "20", "18")
_SM70 = _kind("NVLink", "25", "20")
_SM80 = _kind("NVLink", "25", "20")
_SM86 = _kind("NVLink", "14.0625", "12")
_SM90 = _kind("NVLink", "25", "20.6")
_SM100 = _kind("NVLink", "50", "40.1")
_GFX906 = _kind("xGMI", "46", "24")
_GFX90A = _kind("xGMI", "50", "36")
_GFX94 = _kind("xGMI", "64", "48")


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """A model of GPUs.

    Parameters
    ----------
    kind : LinkKind, optional
        None for a model without links of its own.
    links : int
        That one GPU has.
    gt_per_s : int
        Of its 16 lanes of PCIe; 0 where models differ.
    boxes : mapping of int to Wiring
        Wiring of boxes of this many GPUs, if all of them are wired equally.
    sm : int
        NVIDIA's number of the generation; 0 for others.
    is_card : bool
        A PCIe card: its links, if it has any, are bridges between cards, and may be absent.
    has_p2p : bool
        Whether cards reach each other's memory over PCIe; without, each transfer crosses the host.
    """

    kind: LinkKind | None = None
    links: int = 0
    gt_per_s: int = 0
    boxes: Mapping[int, Wiring] = field(default_factory=lambda: MappingProxyType({}))
    sm: int = 0
    is_card: bool = False
    has_p2p: bool = True


def _card(
    sm: int, gt_per_s: int, kind: LinkKind | None = None, links: int = 0, *, p2p: bool = True
) -> GpuModel:
    return GpuModel(kind=kind, links=links, gt_per_s=gt_per_s, sm=sm, is_card=True, has_p2p=p2p)


_EIGHT = MappingProxyType({8: Wiring.SWITCH})
_EIGHT_PAIRS = MappingProxyType({2: Wiring.PAIRS, 4: Wiring.PAIRS, 8: Wiring.PAIRS})
_FOUR_PAIRS = MappingProxyType({2: Wiring.PAIRS, 4: Wiring.PAIRS})
_DGX2 = MappingProxyType({16: Wiring.SWITCH})
_HGX_A100 = MappingProxyType({8: Wiring.SWITCH, 16: Wiring.SWITCH})

GPU_MODELS: Mapping[str, GpuModel] = MappingProxyType(
    {
        "p100": GpuModel(kind=_SM60, links=4, gt_per_s=8, sm=60),
        "v100": GpuModel(kind=_SM70, links=6, gt_per_s=8, boxes=_DGX2, sm=70),
        "a100": GpuModel(kind=_SM80, links=12, gt_per_s=16, boxes=_HGX_A100, sm=80),
        "a800": GpuModel(kind=_SM80, links=8, gt_per_s=16, boxes=_EIGHT, sm=80),
        "h100": GpuModel(kind=_SM90, links=18, gt_per_s=32, boxes=_EIGHT, sm=90),
        "h200": GpuModel(kind=_SM90, links=18, gt_per_s=32, boxes=_EIGHT, sm=90),
        "h20": GpuModel(kind=_SM90, links=18, gt_per_s=32, boxes=_EIGHT, sm=90),
        "h800": GpuModel(kind=_SM90, links=8, gt_per_s=32, boxes=_EIGHT, sm=90),
        "b200": GpuModel(kind=_SM100, links=18, gt_per_s=32, boxes=_EIGHT, sm=100),
        "b300": GpuModel(kind=_SM100, links=18, gt_per_s=64, boxes=_EIGHT, sm=103),
        "gb200": GpuModel(kind=_SM100, links=18, gt_per_s=32, sm=100),
        "gb10": _card(121, 32),
        "h100-nvl": _card(90, 32, _SM90, 12),
        "h200-nvl": _card(90, 32, _SM90, 18),
        "3090": _card(86, 16, _SM86, 4, p2p=False),
        "4090": _card(89, 16, p2p=False),
        "5090": _card(120, 32, p2p=False),
        "a10": _card(86, 16),
        "a40": _card(86, 16, _SM86, 4),
        "a6000": _card(86, 16, _SM86, 4),
        "l4": _card(89, 16),
        "l40s": _card(89, 16),
        "rtx6000": _card(89, 16),
        "rtx-pro-6000": _card(120, 32),
        "mi50": GpuModel(kind=_GFX906, links=2, gt_per_s=16),
        "mi60": GpuModel(kind=_GFX906, links=2, gt_per_s=16),
        "mi100": GpuModel(kind=_GFX906, links=3, gt_per_s=16, boxes=_FOUR_PAIRS),
        "mi250": GpuModel(kind=_GFX90A, links=8, gt_per_s=16),
        "mi250x": GpuModel(kind=_GFX90A, links=8, gt_per_s=16),
        "mi300x": GpuModel(kind=_GFX94, links=7, gt_per_s=32, boxes=_EIGHT_PAIRS),
        "mi325x": GpuModel(kind=_GFX94, links=7, gt_per_s=32, boxes=_EIGHT_PAIRS),
        "pcie": GpuModel(),
    }
)
"""Models by the name that ``--gpu`` takes; ``pcie`` is any model without its own links.

Links and generations: NVIDIA's data sheets of P100 to B300, of A10 to RTX PRO 6000 and of its GeForce cards,
AMD's of MI50 to MI325X and its white papers. ``rtx6000`` is the RTX 6000 of the Ada generation. GeForce from
the 3090 on has no peer-to-peer over PCIe in NVIDIA's drivers.
"""

_NVIDIA, _AMD = 0x10DE, 0x1002
_DEVICES: Mapping[tuple[int, str], tuple[int, ...]] = MappingProxyType(
    {
        **{(_NVIDIA, "v100"): (0x1DB1, 0x1DB5, 0x1DB8), (_NVIDIA, "a100"): (0x20B0, 0x20B2)},
        **{(_NVIDIA, "h100"): (0x2330,), (_NVIDIA, "h200"): (0x2335,)},
        **{(_NVIDIA, "b200"): (0x2901,), (_NVIDIA, "gb200"): (0x2941,)},
        **{(_NVIDIA, "h100-nvl"): (0x2321,), (_NVIDIA, "h200-nvl"): (0x233B,)},
        **{(_NVIDIA, "3090"): (0x2204,), (_NVIDIA, "4090"): (0x2684,), (_NVIDIA, "5090"): (0x2B85,)},
        **{(_NVIDIA, "pcie"): (0x1EB8,), (_NVIDIA, "a10"): (0x2236, 0x2237), (_NVIDIA, "a40"): (0x2235,)},
        **{(_NVIDIA, "a6000"): (0x2230,), (_NVIDIA, "l4"): (0x27B8,), (_NVIDIA, "l40s"): (0x26B9,)},
        **{(_NVIDIA, "rtx6000"): (0x26B1,), (_NVIDIA, "rtx-pro-6000"): (0x2BB1, 0x2BB4, 0x2BB5)},
        **{(_AMD, "mi100"): (0x738C,), (_AMD, "mi250x"): (0x740C, 0x7408)},
        **{(_AMD, "mi300x"): (0x74A1,), (_AMD, "mi325x"): (0x74A5,)},
    }
)
"""PCI devices by vendor and model (the PCI ID database); ``pcie`` is the T4."""


def model_of_device(vendor: int, device: int) -> str:
    """Return the name of the model with these PCI identifiers; "" for one that is not known."""
    return next((model for (maker, model), own in _DEVICES.items() if maker == vendor and device in own), "")


def nvlink_of(sm: int) -> LinkKind | None:
    """Return the NVLinks of a compute capability such as 90; None for GPUs that had none."""
    steps = ((100, _SM100), (90, _SM90), (80, _SM80), (70, _SM70), (60, _SM60))
    return _SM86 if sm in (86, 87) else next((kind for least, kind in steps if sm >= least), None)


def xgmi_of(gcn: str) -> LinkKind | None:
    """xGMI links of a generation as RCCL writes it: ``906``, ``910``, ``gfx942``; None for an unknown one."""
    name = gcn.casefold().removeprefix("gfx")
    if name in ("906", "908"):
        return _GFX906
    if name in ("910", "90a"):
        return _GFX90A
    return _GFX94 if re.fullmatch(r"94\w?", name) else None


def pcie_bandwidth(gt_per_s: Fraction, lanes: int, links: LinkSpeeds) -> int:
    """Return bytes/s of a PCIe link in each direction.

    Parameters
    ----------
    gt_per_s : Fraction
        Transfers of a lane: 2.5, 5, 8, 16, 32 or 64 GT/s.
    lanes : int
    links : LinkSpeeds
        Nominal: less the encoding, 8b/10b up to 5 GT/s, 128b/130b up to 32, 242/256 of a flit at 64. The
        library's: three quarters of a bit per transfer.
    """
    if links is LinkSpeeds.LIBRARY:
        share = Fraction(3, 4)
    elif gt_per_s <= 5:
        share = Fraction(8, 10)
    else:
        share = Fraction(128, 130) if gt_per_s <= 32 else Fraction(242, 256)
    return int(gt_per_s * GB_PER_S * share * lanes / 8)
