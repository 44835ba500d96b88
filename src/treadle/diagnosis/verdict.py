"""Whether a measured collective is normal, and which faults would give such a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from treadle.brief import brief
from treadle.diagnosis.expected import Conditions, Expected, choice, expected
from treadle.diagnosis.log import ResultTable, TableRow
from treadle.machines.system import System
from treadle.schedules.collective import CollectiveKind
from treadle.spelling import counted
from treadle.units import format_bandwidth_in
from treadle.unsupported import Unsupported

FALLEN = 0.7
"""Share of the peak below which a curve has fallen; protocols change by less."""
_FITS = 0.16
"""Most that a measured value differs from one that explains it."""
_WITHOUT_GPUDIRECT = (0.2, 0.68)
"""Shares of what the NICs reach, in public cases where data passes through the CPU's memory."""
_TCP_GB_PER_S = 15
"""Most that TCP carries between boxes."""
_WITHOUT_P2P_GB_PER_S = 26
"""Most that GPUs exchange through the CPU's memory."""


class Outcome(StrEnum):
    """Verdict on a measured value."""

    NORMAL = "normal"
    SLOW = "slow"
    CANNOT_SAY = "cannot say"


@brief("name", "text")
@dataclass(frozen=True)
class Explanation:
    """A fault that would give the measured value.

    Parameters
    ----------
    name : str
        ``nics``, ``no-gdr``, ``acs``, ``tcp``, ``no-nvls``, ``no-p2p``, ``network`` or ``gpu``.
    text : str
        One line.
    check : str
        What confirms it.
    busbw : float, optional
        What the system reaches with this fault, GB/s.
    """

    name: str
    text: str
    check: str
    busbw: float | None = None


@brief("outcome", "reason")
@dataclass(frozen=True)
class Verdict:
    """Whether a value is normal, why, and what would explain a low one, the best first.

    Parameters
    ----------
    outcome : Outcome
    reason : str
        One line; with a share, what it is of.
    share : float, optional
        Measured over what `reason` names.
    expected : Expected, optional
        What the value is compared with; None if that is not known.
    explanations : tuple of Explanation
    """

    outcome: Outcome
    reason: str
    share: float | None = None
    expected: Expected | None = None
    explanations: tuple[Explanation, ...] = ()


def fallen(table: ResultTable) -> TableRow | None:
    """Return the largest size's row if larger sizes are much slower than middling ones."""
    last = max(table.rows, key=lambda row: row.size)
    return last if last.size > table.peak.size and last.busbw < FALLEN * table.peak.busbw else None


@brief("floor_us", "floor_size", "half_size", "plateau_size")
@dataclass(frozen=True)
class Curve:
    """Rise of a table's values with the size.

    Parameters
    ----------
    floor_us : float
        Smallest time.
    floor_size, half_size, plateau_size : int
        Largest size within 25% of that time; least sizes with half and with 90% of the peak, bytes.
    choices : tuple of (int, str)
        Sizes from which the library runs another algorithm or protocol, and which.
    is_stated : bool
        The log says so; else NCCL's model.
    model_floor_us : float, optional
        Time that NCCL's model gives the smallest size.
    """

    floor_us: float
    floor_size: int
    half_size: int
    plateau_size: int
    choices: tuple[tuple[int, str], ...]
    is_stated: bool
    model_floor_us: float | None


_LEAST_ROWS, _LEAST_SPAN = 6, 64
"""Rows, and largest over smallest size, from which a table is a curve."""
_MOST_CHOICES = 64


def curve_of(
    table: ResultTable, kind: CollectiveKind, system: System | Unsupported, given: Conditions
) -> Curve | None:
    """Return how the values grow; None for a few sizes."""
    rows = sorted(table.rows, key=lambda row: row.size)
    if len(rows) < _LEAST_ROWS or rows[-1].size < _LEAST_SPAN * rows[0].size:
        return None
    floor_us, peak = min(row.time_us for row in rows), table.peak.busbw
    stated = {size: "/".join(pick[:2]) for (one, size), pick in (given.picks or {}).items() if one is kind}
    model_floor_us, texts = None, dict(sorted(stated.items()))
    if not isinstance(system, Unsupported):
        some = rows[:: max(1, len(rows) // _MOST_CHOICES)]
        found = {row.size: choice(system, kind, row.size, given) for row in some}
        chosen = {size: one for size, one in found.items() if not isinstance(one, Unsupported)}
        texts = texts or {size: "/".join(cell) for size, (cell, _, _) in chosen.items()}
        model_floor_us = chosen[rows[0].size][1] * 1e6 if rows[0].size in chosen else None
    starts = list(texts.items())
    return Curve(
        floor_us=floor_us,
        floor_size=max(row.size for row in rows if row.time_us <= 1.25 * floor_us),
        half_size=next(row.size for row in rows if row.busbw >= peak / 2),
        plateau_size=next(row.size for row in rows if row.busbw >= 0.9 * peak),
        choices=tuple(
            one for before, one in zip([(0, ""), *starts], starts, strict=False) if before[1] != one[1]
        ),
        is_stated=bool(stated),
        model_floor_us=model_floor_us,
    )


def verdict_of(
    table: ResultTable,
    kind: CollectiveKind,
    system: System | Unsupported,
    given: Conditions,
    *,
    assumes_nics: bool = False,
) -> Verdict:
    """Compare the peak of a table with what such a system reaches at that size.

    Parameters
    ----------
    table : ResultTable
    kind : CollectiveKind
    system : System or Refusal
    given : Conditions
    assumes_nics : bool
        The number of NICs is not known: half of them or more may be all.
    """
    peak = table.peak
    found = system if isinstance(system, Unsupported) else expected(system, kind, peak.size, given)
    if fallen(table) is not None:
        value = None if isinstance(found, Unsupported) else found
        return Verdict(Outcome.SLOW, "larger sizes are slower than middling ones", expected=value)
    if isinstance(system, Unsupported) or isinstance(found, Unsupported):
        return Verdict(Outcome.CANNOT_SAY, str(found))
    compared = ("what such a system reaches", peak.busbw / found.value, found)
    if peak.busbw >= found.low:
        return Verdict(Outcome.NORMAL, *compared)
    explanations = tuple(_explanations(peak, kind, system, given, found))
    if assumes_nics:
        if not system.has_fast_links:
            text = "the NICs of such boxes are not known; see --nics, --nic-bandwidth"
            return Verdict(Outcome.CANNOT_SAY, text, None, found, explanations)
        for part, name in ((0.5, "half"), (0.75, "three quarters")):
            slower = replace(system, nic_bytes_per_s=int(system.nic_bytes_per_s * part))
            fewer = expected(slower, kind, peak.size, given)
            if not isinstance(fewer, Unsupported) and fewer.low <= peak.busbw <= fewer.high:
                text = f"normal with {name} of the assumed NICs, else slow; see --nics, --nic-bandwidth"
                return Verdict(Outcome.CANNOT_SAY, text, None, found, explanations)
    return Verdict(Outcome.SLOW, *compared, explanations)


def _explanations(
    peak: TableRow, kind: CollectiveKind, system: System, given: Conditions, whole: Expected
) -> list[Explanation]:
    """List faults whose value fits, the closest first; those without a value of their own last."""
    given = replace(given, table=None, picks=None)  # what a log says holds without the fault
    faults = _faults(peak.size, kind, system, given, whole)
    far = [(abs(peak.busbw / one.busbw - 1), one) for one in faults if one.busbw]
    fits = sorted((pair for pair in far if pair[0] <= _FITS), key=lambda pair: pair[0])
    found = {one.text: one for _, one in reversed(fits)}
    every = (*reversed(found.values()), *_ranges(peak.busbw, kind, system, given, peak.size))
    return [one for one in every if one.name not in given.ruled_out]


def _faults(
    size: int, kind: CollectiveKind, system: System, given: Conditions, whole: Expected
) -> Iterator[Explanation]:
    """Yield faults that have one value: NVLink SHARP off, fewer NICs."""
    ring = replace(given, algorithms=("ring",))
    without = expected(system, kind, size, ring)
    if whole.algorithm.startswith("nvls") and not isinstance(without, Unsupported):
        check = "NCCL_NVLS_ENABLE, fabric manager, nvls channels in the log"
        yield Explanation("no-nvls", "rings without NVLink SHARP", check, without.value)
    check = "NCCL_IB_HCA, NET/IB : Using, port speeds (ibstat)"
    for nics in (4, 2, 1):
        for way in (given, ring):
            if system.boxes > 1 and nics < system.nics:
                fewer = expected(replace(system, nics=nics), kind, size, way)
                speed = format_bandwidth_in(system.nic_bytes_per_s, "Gbit/s")
                text = f"{counted(nics, 'NIC') if nics > 1 else 'one NIC'} of {speed} per node"
                if not isinstance(fewer, Unsupported):
                    yield Explanation("nics", text, check, fewer.value)


def _ranges(
    busbw: float, kind: CollectiveKind, system: System, given: Conditions, size: int
) -> Iterator[Explanation]:
    """Yield faults that leave a range of values."""
    if system.boxes > 1:
        ring = expected(system, kind, size, replace(given, algorithms=("ring",)))
        most = ring.value if not isinstance(ring, Unsupported) else busbw
        if _WITHOUT_GPUDIRECT[0] * most <= busbw <= _WITHOUT_GPUDIRECT[1] * most:
            check = "nvidia-peermem or DMA-BUF on every node, /GDRDMA in the log"
            yield Explanation("no-gdr", "no GPUDirect RDMA", check)
            check = "lspci -vvv for ACSCtl: SrcValid+, the IOMMU; in VMs ATS"
            yield Explanation("acs", "PCIe access control between GPUs and NICs", check)
        if busbw <= min(_TCP_GB_PER_S, most / 2):
            yield Explanation("tcp", "TCP between boxes", "Using network Socket, NCCL_IB_DISABLE")
        if busbw >= 0.1 * most:
            check = "pairs of nodes, NCCL_ALGO=RING, the switches' counters"
            yield Explanation("network", "a slow node or link, or congestion", check)
    else:
        check = "nvidia-smi nvlink -s and -e, clocks under load, other work on the box, dcgmi diag -r 3"
        yield Explanation("gpu", "a slow GPU or link within the box", check)
    if system.gpus_per_box > 1 and busbw <= _WITHOUT_P2P_GB_PER_S:
        check = "NCCL_P2P_DISABLE, via SHM in the log, nvidia-smi topo -p2p r"
        yield Explanation("no-p2p", "GPUs of a box exchange data through the CPU's memory", check)
