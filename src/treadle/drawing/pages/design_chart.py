"""Fabrics by steps and bandwidth time, as places in a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log2, log10

from treadle.brief import brief
from treadle.finder.designing.design_limits import DesignLimits

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _LOW = 760.0, 400.0, 66.0, 26.0, 18.0, 48.0


@brief("key", "name", "steps", "t_b")
@dataclass(frozen=True)
class ChartPoint:
    """A fabric in the chart.

    Parameters
    ----------
    key : str
        Its number or letter; "" of those that only the table names.
    kind : str
        frontier, other or known.
    name : str
    nodes, ports, steps : int
    t_b : Fraction
        In M/B.
    seconds : tuple of float
        Of an allreduce at each size; empty where no curve is drawn.
    note : str
    """

    key: str
    kind: str
    name: str
    nodes: int
    ports: int
    steps: int
    t_b: Fraction
    seconds: tuple[float, ...]
    note: str


def pareto_chart(points: Sequence[ChartPoint], limits: DesignLimits) -> dict[str, object]:
    """Places in the chart: steps by their logarithm, bandwidth time as it is.

    Parameters
    ----------
    points : sequence of ChartPoint
    limits : DesignLimits
        No fabric of the frontier's size is left of or below.
    """
    steps = [limits.steps, *(one.steps for one in points)]
    times = [float(limits.t_b), *(float(one.t_b) for one in points)]
    low, high = log2(min(steps)), max(log2(max(steps)), log2(min(steps)) + 1)
    base = min(times) - 0.06 * (max(times) - min(times) or 0.1)
    top = max(times) + 0.08 * (max(times) - min(times) or 0.1)

    def x(value: float) -> float:
        return round(_LEFT + 14 + (_WIDTH - _LEFT - _RIGHT - 28) * (log2(value) - low) / (high - low), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _LOW - (_HEIGHT - _LOW - _TOP) * (value - base) / (top - base), 1)

    together: dict[tuple[float, float], list[ChartPoint]] = {}
    for one in points:
        together.setdefault((x(one.steps), y(float(one.t_b))), []).append(one)
    labels = _labels(
        {place: ", ".join(one.key for one in some if one.key) for place, some in together.items()}
    )
    front = sorted({(one.steps, float(one.t_b)) for one in points if one.kind == "frontier"})
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "points": [
            [*place, [points.index(one) for one in some], _shape(some), *label]
            for (place, some), label in zip(together.items(), labels, strict=True)
        ],
        "front": [[x(step), y(time)] for step, time in front],
        "limit": [x(limits.steps), y(float(limits.t_b))],
        "left": _LEFT,
        "low": _HEIGHT - _LOW,
        "top": _TOP,
        "right": _WIDTH - _RIGHT,
        "xTicks": [[x(value), str(value)] for value in _step_ticks(min(steps), max(steps))],
        "yTicks": [[y(value), f"{value:.4g}"] for value in _ticks(base, top)],
        "names": [
            [one.name, one.kind, one.nodes, one.ports, one.steps, float(one.t_b), one.note] for one in points
        ],
    }


def _shape(some: Sequence[ChartPoint]) -> str:
    kinds = {one.kind for one in some}
    return next(kind for kind in ("frontier", "known", "other") if kind in kinds)


def _labels(words: dict[tuple[float, float], str]) -> list[tuple[float, float, str]]:
    """Beside each place, where no mark and no other label is."""
    taken = [(px - 7, py - 7, px + 7, py + 7) for px, py in words]
    found = []
    for (px, py), text in words.items():
        width = 7.0 * len(text)
        best = None
        for dx, dy in ((10, -5), (10, 15), (10, 4), (-10 - width, 4), (-width / 2, -12), (-width / 2, 20)):
            box = (px + dx, py + dy - 11, px + dx + width, py + dy + 2)
            clashes = sum(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                for other in taken
            )
            if box[2] > _WIDTH or box[0] < 0:
                clashes += 10
            if best is None or clashes < best[0]:
                best = (clashes, dx, dy, box)
        assert best is not None
        if text:
            taken.append(best[3])
        found.append((round(px + best[1], 1), round(py + best[2], 1), text))
    return found


def _step_ticks(low: int, high: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... within the range."""
    every = sorted({1 << power for power in range(18)} | {3 << power for power in range(17)})
    return [value for value in every if low <= value <= max(high, 2 * low)]


def _ticks(low: float, high: float) -> list[float]:
    each = 10.0 ** floor(log10((high - low) / 2))
    step = next(factor * each for factor in (1, 2, 5, 10) if (high - low) / (factor * each) <= 7)
    return [float(n * step) for n in range(ceil(low / step), int(high / step) + 1)]
