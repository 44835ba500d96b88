"""What the figures themselves show: wrong results, a curve that falls, a curve that still rises."""

from __future__ import annotations

import math

from treadle.diagnosis.suspect import Case, Suspect
from treadle.units import format_size

_FALLEN = 0.7
"""Of the peak: a curve that ends below has fallen; protocols change by less."""
_RISING = 1.15
"""A doubling of the size that brings so much has not reached the peak."""


def wrong_results(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Values were wrong."""
    found = []
    for table in case.log.tables:
        wrong = [row for row in table.rows if row.wrong]
        lines = [row.line for row in wrong[:2]]
        lines += [table.out_of_bounds] if table.out_of_bounds is not None else []
        if lines:
            sizes = f"{len(wrong)} of {len(table.rows)} sizes" if wrong else "some sizes"
            text = f"results are wrong at {sizes}: no speed counts before that is mended"
            remedy = "test GPUs and links one by one (dcgmi diag -r 3), NCCL_P2P_DISABLE=1, without plug-ins"
            found.append(Suspect("wrong-results", text, tuple(lines), remedy))
    return found[:2]


def falls(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """Large sizes are slower than middling ones."""
    table = case.table
    if table is None:
        return []
    peak, last = table.peak, max(table.rows, key=lambda row: row.size)
    if last.size <= peak.size or last.busbw >= _FALLEN * peak.busbw:
        return []
    later = (row for row in table.rows if row.size > peak.size)
    first = next(row for row in later if row.busbw < _FALLEN * peak.busbw)
    why = "congestion in the network"
    remedy = (
        "see the switches' counters: PFC and ECN of RoCE, adaptive routing, other traffic; NCCL_IB_TC, _SL"
    )
    if case.is_one_box:
        why = "within a box, where no network takes part"
        remedy = (
            "see the GPUs under load: throttling (nvidia-smi -q -d PERFORMANCE,CLOCK), errors of NVLinks "
            "(nvidia-smi nvlink -e), other jobs of the box"
        )
    text = (
        f"busbw falls with the size: {peak.busbw:g} GB/s at {format_size(peak.size)}, {last.busbw:g} at "
        f"{format_size(last.size)}: {why}"
    )
    lines = tuple(dict.fromkeys((peak.line, first.line, last.line)))
    return [Suspect("falls-with-size", text, lines, remedy)]


def still_rising(case: Case, _: tuple[Suspect, ...]) -> list[Suspect]:
    """The largest size is too small to show what the system can do."""
    table = case.table
    if table is None or len(table.rows) < 2:
        return []
    *smaller, last = sorted(table.rows, key=lambda row: (row.size, row.busbw))
    # sizes closer than a doubling differ by noise; they are compared only where there are no others
    before = next((row for row in reversed(smaller) if 2 * row.size <= last.size), smaller[0])
    if before.size == last.size or last is not table.peak:
        return []
    if last.busbw < before.busbw * _RISING ** max(1.0, math.log2(last.size / before.size)):
        return []
    text = f"busbw still rises at {format_size(last.size)}, the largest size: the peak was not reached"
    return [Suspect("small-sizes", text, (before.line, last.line), "measure larger sizes: -e 8G")]
