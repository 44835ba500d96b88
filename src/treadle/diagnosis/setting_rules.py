"""Variables of the environment that hold NCCL back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.diagnosis.suspect import Case, Suspect

_MOST = 8


def _number_below(limit: int) -> Callable[[str], bool]:
    return lambda value: value.isdigit() and int(value) < limit


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.upper() in values


def _any(value: str) -> bool:
    return bool(value)


_OFF, _ON = _one_of("0", "FALSE", "NO"), _one_of("1", "TRUE", "YES")


@dataclass(frozen=True)
class Restriction:
    """A variable, the values that hold NCCL back, what they do, and whether that concerns a single box."""

    name: str
    holds_back: Callable[[str], bool]
    text: str
    between_boxes: bool = False


RESTRICTIONS = (
    Restriction("NCCL_P2P_DISABLE", _ON, "GPUs of a box do not reach each other's memory"),
    Restriction("NCCL_P2P_LEVEL", _one_of("LOC", "0"), "GPUs of a box do not reach each other's memory"),
    Restriction("NCCL_SHM_DISABLE", _ON, "GPUs without peer access meet over the network"),
    Restriction("NCCL_IB_DISABLE", _ON, "RDMA is off", between_boxes=True),
    Restriction("NCCL_NET_GDR_LEVEL", _one_of("0", "LOC"), "GPUDirect RDMA is off", between_boxes=True),
    Restriction("NCCL_IB_GDR_LEVEL", _one_of("0", "LOC"), "GPUDirect RDMA is off", between_boxes=True),
    Restriction("NCCL_NET_GDR_READ", _OFF, "GPUs' memory is not read by NICs", between_boxes=True),
    Restriction("NCCL_DMABUF_ENABLE", _OFF, "DMA-BUF is off", between_boxes=True),
    Restriction("NCCL_NET", _one_of("SOCKET"), "TCP is wanted", between_boxes=True),
    Restriction("NCCL_PXN_DISABLE", _ON, "GPUs do not use each other's NICs", between_boxes=True),
    Restriction("NCCL_ALGO", _any, "the choice of algorithms is narrowed"),
    Restriction("NCCL_PROTO", _any, "the choice of protocols is narrowed"),
    Restriction(
        "NCCL_MAX_NCHANNELS", _number_below(16), "few channels, so few thread blocks and links at a time"
    ),
    Restriction("NCCL_MAX_NRINGS", _number_below(16), "few rings"),
    Restriction("NCCL_MAX_CTAS", _number_below(16), "few thread blocks"),
    Restriction("NCCL_NTHREADS", _number_below(256), "few threads per block"),
    Restriction("NCCL_BUFFSIZE", _number_below(2**20), "small buffers"),
    Restriction("NCCL_NVLS_ENABLE", _OFF, "NVLink SHARP is off"),
    Restriction("NCCL_MNNVL_ENABLE", _OFF, "NVLink between boxes is not used", between_boxes=True),
    Restriction("NCCL_GRAPH_FILE", _any, "NCCL's own search is replaced by a file"),
    Restriction("NCCL_NCHANNELS_PER_NET_PEER", _one_of("1"), "one channel per peer", between_boxes=True),
)
"""Values that make NCCL slower, as its documentation of the environment describes the variables."""


def restricting(case: Case, found: tuple[Suspect, ...]) -> list[Suspect]:
    """A variable holds NCCL back, and no other suspect names it yet."""
    named = {line for one in found for line in one.lines}
    suspects = []
    for restriction in RESTRICTIONS:
        for setting in case.log.settings:
            if setting.name != restriction.name or not restriction.holds_back(setting.value):
                continue
            if restriction.between_boxes and case.n_hosts == 1:
                continue
            if setting.line in named and any(setting.name in one.remedy for one in found):
                continue
            text = f"{setting.name}={setting.value[:40]}: {restriction.text}"
            remedy = f"unset {setting.name}, unless it is there for a reason"
            suspects.append(Suspect("environment", text, (setting.line,), remedy))
            break
    return suspects[:_MOST]
