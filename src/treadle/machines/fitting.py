"""Fit times of collectives on measured rows, and state the error on rows left out.

A curve (system, collective, number of GPUs) has a segment for each protocol that NCCL's tuning model picks:

    time = launch + (latency^p + transfer^p)^(1/p)

with latency = base + step x steps, to which another pair is added from small to middle sizes as channels are,
and transfer = bytes per link / (rate x efficiency). Rates and changes of protocol are NCCL's. The logarithm
of each parameter is a sum of effects of levels (all, generation, system, collective, GPUs), each with a prior
width, so that what a system lacks is filled in from its generation and from the others.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from treadle.machines.achievable import GROWTH_TO, SIZE_RANGES, Segment, joined_us, latency_us
from treadle.machines.nccl import LibraryModel, nccl_model
from treadle.machines.system import Generation, System
from treadle.schedules.collective import CollectiveKind

Floats = npt.NDArray[np.float64]

GENERATIONS = {
    "a100_sxm": "ampere",
    "h200_sxm": "hopper",
    "h200_sxm NCCL 2.23": "hopper",
    "b300_sxm": "blackwell",
    "gb300": "blackwell",
    "rtx_pro_6000_server": "pcie",
}
SOURCES = {
    "a100_sxm": "A100 SXM, NCCL 2.27.3",
    "h200_sxm": "H200 SXM, NCCL 2.29.2",
    "h200_sxm NCCL 2.23": "H200 SXM, NCCL 2.23",
    "b300_sxm": "B300 SXM, NCCL 2.29.2",
    "gb300": "GB300, one tray of 4, NCCL 2.29.2",
    "rtx_pro_6000_server": "RTX PRO 6000 server, PCIe 5.0, NCCL 2.29.2",
}
"""Measured systems; rows: NVIDIA's ai-dynamo/aiconfigurator (Apache-2.0)."""
_KINDS = {
    "all_gather": "allgather",
    "reduce_scatter": "reduce-scatter",
    "all_reduce": "allreduce",
    "alltoall": "alltoall",
}
_RATES = {"ampere": 240.0, "hopper": 360.0, "blackwell": 720.0, "pcie": 24.0}
"""GB/s per GPU and direction that NCCL's search finds: 12 x 20, 12 x 30, 16 x 45, 1 x 24."""
_NVLS_RATES = {"hopper": 272.0, "blackwell": 474.0}
"""NCCL's own: 8 heads of 40 (80) GB/s, efficiency 0.85 (0.74)."""
_LL_RATES = {"ampere": 87.7, "hopper": 141.0, "blackwell": 282.0, "pcie": 12.0}
"""NCCL's table; over PCIe half of the ring's rate."""
_LINKS = {"ampere": 300, "hopper": 450, "blackwell": 900, "pcie": 32}
"""GB/s from which NCCL's search gets its rate; of PCIe 5.0 half, which is what the rows reach."""


@lru_cache
def _library(generation: str, gpus: int, has_nvls: bool) -> LibraryModel:
    is_nvlink = generation != "pcie"
    return nccl_model(
        System(
            *(Generation(generation if is_nvlink else "blackwell"), 1, gpus, _LINKS[generation] * 10**9),
            has_fast_links=is_nvlink,
            has_switch=is_nvlink and has_nvls,
        )
    )


@lru_cache(maxsize=4096)
def segment_name(generation: str, kind: str, gpus: int, size_bytes: int, has_nvls: bool = True) -> str:
    """Return what NCCL's tuning model picks: protocol of a ring, or nvls; p2p for an all-to-all."""
    if kind == "alltoall":
        return "p2p"
    pick = _library(generation, gpus, has_nvls).pick(kind, size_bytes)
    return pick.protocol.lower() if pick.algorithm == "ring" else pick.algorithm


@dataclass(frozen=True)
class MeasuredPoint:
    """Measured times of one system, collective, number of GPUs and size.

    Sums of 8-bit integers are apart: they take a little longer, and NVLink SHARP has none.
    """

    system: str
    kind: str
    gpus: int
    size_bytes: int
    is_integer: bool
    times_us: tuple[float, ...]

    @property
    def generation(self) -> str:
        """Generation of NVLink, or pcie."""
        return GENERATIONS[self.system]

    @property
    def segment(self) -> str:
        """Name of what NCCL runs."""
        return segment_name(self.generation, self.kind, self.gpus, self.size_bytes, not self.is_integer)

    @property
    def steps(self) -> float:
        """Steps whose latencies add up."""
        if self.segment == "nvls":
            return 0.0
        if self.kind == "alltoall":
            return math.log2(self.gpus)
        return (self.gpus - 1) * (2.0 if self.kind == "allreduce" else 1.0)

    @property
    def transfer_us(self) -> float:
        """Bytes per link over the nominal rate of the segment."""
        if self.segment == "nvls":
            return self.size_bytes / _NVLS_RATES[self.generation] / 1e3
        share = (self.gpus - 1) / self.gpus * (2 if self.kind == "allreduce" else 1)
        rates = _LL_RATES if self.segment == "ll" else _RATES
        return self.size_bytes * share / rates[self.generation] / 1e3


def read_points(folder: Path) -> list[MeasuredPoint]:
    """Read ``nccl.csv`` of a folder; rows of an older NCCL are a system of their own."""
    times: dict[tuple[str, str, int, int, bool], list[float]] = defaultdict(list)
    with (folder / "nccl.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            system = row["system"] + (" NCCL 2.23" if row["library"] == "NCCL 2.23" else "")
            kind = _KINDS[row["collective"]]
            is_integer = row["dtype"] == "int8" and CollectiveKind(kind).reduces
            key = system, kind, int(row["gpus"]), int(row["size_bytes"]), is_integer
            times[key].append(float(row["time_us"]))
    return [MeasuredPoint(*key, tuple(found)) for key, found in sorted(times.items())]


# --- the model

_START: Mapping[str, Mapping[str, float]] = {
    "ll": {"base": 0.3, "step": 1, "more": 0.8, "more_step": 0.4, "rate": 1, "power": 0.5},
    "p2p": {"base": 2, "step": 0.6, "more": 4, "more_step": 0.3, "rate": 0.85, "power": 1},
    "ll128": {"base": 8, "step": 2, "rate": 0.8, "power": 0.5},
    "simple": {"base": 8, "step": 5, "rate": 0.95, "power": 0.5},
    "nvls": {"base": 20, "rate": 0.95, "power": 0.3},
}
"""First guesses: microseconds, shares of the rate, and p - 1."""
_MIDDLES = {"ll": 13.5, "p2p": 15.5}
"""First guess of the size at which half of the channels are in use, as a power of two."""
_LAUNCH_US = 5.0
_PARAMETERS = ("launch", "base", "step", "more", "more_step", "middle", "rate", "power", "factor", "growth")
_ERROR, _FREEDOM = 0.03, 4
"""Spread of logarithms of times, and degrees of freedom of Student's t, which outliers hardly move."""
_FREE = 9.0
_ALONE = {"ampere", "pcie"}
"""Generations of one system, whose effects are the system's."""

Effect = tuple[str, tuple[object, ...], float, float]
"""Parameter, name, prior width of the logarithm, coefficient."""


def _effects(point: MeasuredPoint) -> Iterator[Effect]:
    """List what the logarithms of a point's parameters are sums of."""
    generation, kind, gpus, segment = point.generation, point.kind, point.gpus, point.segment
    doublings = math.log2(gpus) - 2
    is_alone = generation in _ALONE

    def levels(
        parameter: str, *name: object, shared: float, own: float, scale: float = 1
    ) -> Iterator[Effect]:
        yield parameter, (*name, generation), shared * scale, 1
        if not is_alone:
            yield parameter, (*name, point.system), own * scale, 1

    yield "launch", (), _FREE, 1
    yield from levels("launch", shared=0.5, own=0.08)
    parameters = [name for name in _START[segment] if name != "power"]
    for parameter in parameters + ["middle"] * (segment in _MIDDLES):
        scale = 2 if parameter == "middle" else 1
        yield parameter, (segment,), _FREE, 1
        yield from levels(parameter, segment, shared=0.3, own=0.05, scale=scale)
        if segment in ("ll", "ll128", "simple"):
            yield parameter, (segment, kind), 0.3 * scale, 1
            yield from levels(parameter, segment, kind, shared=0.1, own=0.05, scale=scale)
    if segment in _MIDDLES:
        yield "middle", (segment, "doublings"), 1, doublings
    yield "power", (segment,), 0.5, 1
    if segment in ("simple", "p2p", "nvls"):
        yield "growth", ("p2p" if segment == "p2p" else "simple",), 0.1, 1
        yield "growth", (segment, generation), 0.02, 1
    for parameter in ("factor", "rate"):
        if generation != "pcie":
            yield parameter, (segment, gpus), 0.2, 1
            yield parameter, (segment, kind, gpus), 0.1, 1
        yield from levels(parameter, segment, kind, gpus, shared=0.06, own=0.04)
        if point.is_integer:
            yield parameter, (segment, "integer"), 0.1, 1
            yield parameter, (segment, "integer", generation), 0.05, 1
    if generation != "pcie":
        yield "rate", (segment, generation, "doublings"), 0.1, doublings
    elif segment == "simple":
        # a ring of more than two GPUs passes the host's bridges once in each direction, however long it is
        yield "rate", (segment, "bridges"), 0.4, float(gpus > 2)
    else:
        yield "rate", (segment, "bridges"), 0.4, doublings


@dataclass(frozen=True)
class _Columns:
    """Rows as arrays, and which effects each parameter of a row sums up."""

    start: dict[str, Floats]
    entries: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]]
    steps: Floats
    transfer: Floats
    log_size: Floats

    def parameters(self, effects: Floats) -> dict[str, Floats]:
        """Logarithms of the parameters of each row; the middle is itself one."""
        found = {}
        for name, (rows, columns, coefficients) in self.entries.items():
            found[name] = self.start[name] + np.bincount(
                rows, coefficients * effects[columns], len(self.steps)
            )
        return found

    def log_times(self, of: Mapping[str, Floats]) -> Floats:
        """Logarithms of microseconds."""
        factor = np.exp(of["factor"])
        base = np.exp(of["base"]) + np.exp(of["step"]) * self.steps
        more = np.exp(of["more"]) + np.exp(of["more_step"]) * self.steps
        latency = factor * latency_us(base, more, of["middle"], self.log_size)
        transfer, power = self.transfer * np.exp(-of["rate"]), 1 + np.exp(of["power"])
        size = np.minimum(self.log_size, GROWTH_TO)
        times: Floats = joined_us(np.exp(of["launch"]), latency, transfer, of["growth"], power, size)
        return np.log(times)


class Fit:
    """Effects fitted on points.

    Parameters
    ----------
    points : sequence of MeasuredPoint
    """

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self._index: dict[tuple[object, ...], int] = {}
        widths: list[float] = []
        for point in points:
            for parameter, name, width, _ in _effects(point):
                if (parameter, *name) not in self._index:
                    self._index[parameter, *name] = len(widths)
                    widths.append(width)
        self._effects = _maximum(self._columns(points), points, np.array(widths))

    def _columns(self, points: Sequence[MeasuredPoint]) -> _Columns:
        found: dict[str, list[tuple[int, int, float]]] = {name: [] for name in _PARAMETERS}
        for row, point in enumerate(points):
            for parameter, name, _, coefficient in _effects(point):
                # an effect that no fitted point has is 0, the middle of its prior
                if (column := self._index.get((parameter, *name))) is not None:
                    found[parameter].append((row, column, coefficient))
        entries = {}
        for parameter, triples in found.items():
            rows, columns, coefficients = np.array(triples, float).reshape(-1, 3).T
            entries[parameter] = rows.astype(np.int64), columns.astype(np.int64), coefficients
        start = {name: np.array([_start(name, point.segment) for point in points]) for name in _PARAMETERS}
        return _Columns(
            start,
            entries,
            np.array([point.steps for point in points]),
            np.array([point.transfer_us for point in points]),
            np.log2([point.size_bytes for point in points]),
        )

    def times_us(self, points: Sequence[MeasuredPoint]) -> Floats:
        """Return the predicted times, also of points that were not fitted."""
        columns = self._columns(points)
        found: Floats = np.exp(columns.log_times(columns.parameters(self._effects)))
        return found

    def curve(self, points: Sequence[MeasuredPoint]) -> tuple[float, list[Segment]]:
        """Return the launch and the segments of one curve, given its points in the order of sizes."""
        columns = self._columns(points)
        of = columns.parameters(self._effects)
        segments: dict[str, Segment] = {}
        for row, point in enumerate(points):
            one = {name: float(values[row]) for name, values in of.items()}
            factor = math.exp(one["factor"])
            latency, more = (
                factor * (math.exp(one[base]) + math.exp(one[step]) * point.steps)
                for base, step in (("base", "step"), ("more", "more_step"))
            )
            rate = point.size_bytes / point.transfer_us / 1e3 * math.exp(one["rate"])
            segments[point.segment] = Segment(
                *(point.segment, _last_size(point), latency, more if point.segment in _MIDDLES else 0.0),
                *(one["middle"], rate, one["growth"], 1 + math.exp(one["power"])),
            )
        return math.exp(float(of["launch"][0])), list(segments.values())


def _last_size(point: MeasuredPoint) -> int:
    """Return the size, at most the double of a point's, up to which NCCL keeps its protocol."""
    low, high = point.size_bytes, 2 * point.size_bytes
    while high - low > low // 64:
        middle = (low + high) // 2
        if replace(point, size_bytes=middle).segment == point.segment:
            low = middle
        else:
            high = middle
    return low


def _start(parameter: str, segment: str) -> float:
    if parameter == "launch":
        return math.log(_LAUNCH_US)
    if parameter == "middle":
        return _MIDDLES.get(segment, 0.0)
    if parameter in ("factor", "growth"):
        return 0.0
    # a segment without a parameter has next to nothing of it
    return math.log(_START[segment].get(parameter, 1e-12))


def _maximum(columns: _Columns, points: Sequence[MeasuredPoint], widths: Floats) -> Floats:
    """Return the most probable effects: Levenberg-Marquardt with weights of Student's t."""
    measured = np.array([math.fsum(map(math.log, point.times_us)) / len(point.times_us) for point in points])
    effects, damping, step = np.zeros(len(widths)), 1e-2, 1e-5

    def residuals(effects: Floats) -> Floats:
        found: Floats = (columns.log_times(columns.parameters(effects)) - measured) / _ERROR
        return found

    def loss(residual: Floats, effects: Floats) -> float:
        rows = np.log1p(residual**2 / _FREEDOM).sum() * (_FREEDOM + 1) / 2
        return float(rows + ((effects / widths) ** 2).sum() / 2)

    residual = residuals(effects)
    now = loss(residual, effects)
    for _ in range(40):
        of = columns.parameters(effects)
        here = columns.log_times(of)
        jacobian = np.zeros((len(points), len(widths)))
        for name, (rows, entries, coefficients) in columns.entries.items():
            slope = (columns.log_times({**of, name: of[name] + step}) - here) / step / _ERROR
            np.add.at(jacobian, (rows, entries), slope[rows] * coefficients)
        weights = (_FREEDOM + 1) / (_FREEDOM + residual**2)
        weighted = jacobian * weights[:, None]
        curvature = jacobian.T @ weighted
        gradient = weighted.T @ residual + effects / widths**2
        while damping < 1e6:
            matrix = curvature + np.diag(1 / widths**2 + damping * np.diag(curvature))
            tried = effects + np.clip(np.linalg.solve(matrix, -gradient), -1, 1)
            residual_tried = residuals(tried)
            then = loss(residual_tried, tried)
            if then < now:
                break
            damping *= 5
        else:
            break
        gain, effects, residual, now = now - then, tried, residual_tried, then
        damping = max(damping / 5, 1e-6)
        if gain < 0.3:
            break
    return effects


# --- errors on rows left out

Predictions = list[tuple[MeasuredPoint, float]]
"""Points that were left out, and the times predicted for them, microseconds."""
MACHINES = ("a100_sxm", "h200_sxm", "b300_sxm", "gb300", "rtx_pro_6000_server")
SIBLINGS = ("b300_sxm", "gb300", "h200_sxm", "h200_sxm NCCL 2.23")
"""Systems left out of which another with the same NVLink stays; of H200 one of two versions of NCCL."""
_LAUNCH_BYTES = 4096


def machine(point: MeasuredPoint) -> str:
    """Return the machine of a point, whatever its NCCL."""
    return point.system.partition(" ")[0]


def _predict(
    points: Sequence[MeasuredPoint], key: Callable[[MeasuredPoint], object], left_out: object
) -> Predictions:
    missing = [point for point in points if key(point) == left_out]
    fit = Fit([point for point in points if key(point) != left_out])
    return list(zip(missing, fit.times_us(missing).tolist(), strict=True))


CASES = ("sizes", "gpus", "sibling", "launch", "alone")


def left_out(points: Sequence[MeasuredPoint], case: str) -> Predictions:
    """Predict points by fits without them.

    Parameters
    ----------
    case : str
        ``sizes``: every other size left out; ``gpus``: a machine's largest number of GPUs; ``sibling``,
        ``alone``: a machine with or without a sibling; ``launch``: as ``alone``, with a launch that is fitted
        on the machine's own rows up to 4 KB.
    """
    key: Callable[[MeasuredPoint], object]
    values: Iterable[object]
    match case:
        case "sizes":
            key, values = (lambda point: point.size_bytes.bit_length() % 2), (0, 1)
        case "gpus":
            most = {machine(one): one.gpus for one in sorted(points, key=lambda one: one.gpus)}
            key, values = (lambda point: (machine(point), point.gpus)), most.items()
        case "sibling":
            key, values = (lambda point: point.system), SIBLINGS
        case _:
            key, values = machine, ("a100_sxm", "h200_sxm", "rtx_pro_6000_server")
    if case == "launch":
        alone = [one for value in ("a100_sxm", "h200_sxm") for one in _predict(points, key, value)]
        systems = dict.fromkeys(point.system for point, _ in alone)
        return [
            one
            for name in systems
            for one in _with_launch([each for each in alone if each[0].system == name])
        ]
    return [one for value in values for one in _predict(points, key, value)]


def cross_validate(points: Sequence[MeasuredPoint]) -> dict[str, Predictions]:
    """Return the predictions of every case."""
    return {case: left_out(points, case) for case in CASES}


def _with_launch(predictions: Predictions) -> Predictions:
    """Add one constant, fitted on the small sizes."""
    differences = [
        time - predicted
        for point, predicted in predictions
        if point.size_bytes <= _LAUNCH_BYTES
        for time in point.times_us
    ]
    launch = float(np.median(differences))
    return [(point, predicted + launch) for point, predicted in predictions]


@dataclass(frozen=True)
class Accuracy:
    """Errors |predicted / measured - 1| of rows left out, and their share in bands that they did not set."""

    median: float
    ninth_decile: float
    coverage: float
    rows: int


def accuracies(predictions: Mapping[str, Predictions]) -> dict[str, dict[str, Accuracy]]:
    """Return the accuracy of each case, of all machines and of each."""
    found: dict[str, dict[str, Accuracy]] = {}
    for case, all_of in predictions.items():
        inside = _coverage(case, all_of)
        found[case] = {}
        for name in ("all", *MACHINES):
            own = [one for one in all_of if name in ("all", machine(one[0]))]
            if not own:
                continue
            errors = [abs(predicted / time - 1) for point, predicted in own for time in point.times_us]
            held = [one for point, _ in own for one in inside[point]]
            median, ninth_decile = np.quantile(errors, (0.5, 0.9)).tolist()
            found[case][name] = Accuracy(median, ninth_decile, sum(held) / len(held), len(errors))
    return found


_LEVEL = 0.92
"""A little above 90%, since a new machine differs more than a new row does; see `Accuracy.coverage`."""
Cell = tuple[str, bool, int]
"""Rows of a band: machine (of ``sizes``; else ""), all-to-all or not, range of sizes."""


def cell_of(case: str, point: MeasuredPoint) -> Cell:
    """Return the band that a point belongs to."""
    name = machine(point) if case == "sizes" else ""
    return name, point.kind == "alltoall", sum(point.size_bytes > end for end in SIZE_RANGES)


def bands(case: str, predictions: Predictions) -> dict[Cell, float]:
    """Return half of each 90% band of log(measured / predicted): a conformal quantile of the rows."""
    residuals: dict[Cell, list[float]] = defaultdict(list)
    for point, predicted in predictions:
        residuals[cell_of(case, point)] += [abs(math.log(time / predicted)) for time in point.times_us]
    return {
        cell: sorted(found)[min(len(found), math.ceil(_LEVEL * (len(found) + 1))) - 1]
        for cell, found in residuals.items()
    }


def _coverage(case: str, predictions: Predictions) -> dict[MeasuredPoint, list[bool]]:
    """Say which rows lie in bands that were set without them: without their curve, or their whole machine."""

    def group(point: MeasuredPoint) -> object:
        if case == "sizes":
            return point.system, point.kind, point.gpus
        return point.system if case == "sibling" else machine(point)

    inside = {}
    for name in {group(point) for point, _ in predictions}:
        half = bands(case, [one for one in predictions if group(one[0]) != name])
        for point, predicted in predictions:
            if group(point) == name:
                limit = half[cell_of(case, point)]
                inside[point] = [abs(math.log(time / predicted)) <= limit for time in point.times_us]
    return inside
