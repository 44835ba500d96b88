"""Times that NCCL achieves: fits on measured rows, their errors on rows left out, what has no rows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tools.measured_fit import SOURCES, Fit, accuracies, left_out, read_points

import treadle
from places import ROOT
from treadle import planning
from treadle.machines.achievable import measured_constants
from treadle.machines.system import Generation, System, system_of
from treadle.planning import Achievable, achievable
from treadle.reproduction.measured_times import CASES, SYSTEMS
from treadle.unsupported import Unsupported

KINDS = ("allgather", "reduce-scatter", "allreduce", "alltoall")
GB = 10**9


def found(system: str | System, kind: str, size: int, gpus: int | None = None) -> Achievable:
    one = achievable(treadle.parse(system) if isinstance(system, str) else system, kind, size, gpus)
    assert isinstance(one, Achievable), one
    return one


@pytest.mark.parametrize(
    ("case", "machines", "median", "ninth_decile"),
    [
        ("sizes", ["all"], 0.04, 0.12),
        ("gpus", ["all"], 0.08, 0.20),
        ("sibling", ["b300_sxm", "gb300"], 0.05, 0.12),
        ("launch", ["a100_sxm", "h200_sxm"], 0.15, 0.35),
    ],
)
def test_errors_on_rows_left_out(case: str, machines: list[str], median: float, ninth_decile: float) -> None:
    for machine in machines:
        of = measured_constants()["errors"][case][machine]
        assert of[0] <= median
        assert of[1] <= ninth_decile


def test_bands_hold_nine_rows_in_ten() -> None:
    errors = measured_constants()["errors"]
    assert errors.keys() == CASES.keys()
    for case in CASES:
        assert 0.85 <= errors[case]["all"][2] <= 0.95


def test_stored_errors_are_those_of_the_rows() -> None:
    folder = ROOT.parent / "shared" / "data" / "measured"
    if not (folder / "nccl.csv").is_file():
        pytest.skip("no measured rows next to the checkout")
    points = [point for point in read_points(folder) if point.kind in ("allgather", "alltoall")]
    anew = accuracies({"sizes": left_out(points, "sizes")})["sizes"]["all"]
    assert anew.median <= 0.04
    assert anew.ninth_decile <= 0.12
    fit = Fit(points)
    curve = [one for one in points if (one.system, one.kind, one.gpus) == ("a100_sxm", "allgather", 8)]
    stored = [found(SYSTEMS["a100_sxm"], "allgather", one.size_bytes).time_s * 1e6 for one in curve]
    assert stored == pytest.approx(fit.times_us(curve).tolist(), rel=0.05)


def test_times_of_dgx_a100() -> None:
    """Rows of half precision: 15.0 us at 4 KB, 26.8 us at 1 MB, 2288 us at 512 MB."""
    times = [found("dgx_a100:1", "allgather", size) for size in (2**12, 2**20, 2**29)]
    for one, measured in zip(times, (14.65, 26.79, 2288.0), strict=True):
        assert one.low_s < measured / 1e6 < one.high_s
        assert one.time_s * 1e6 == pytest.approx(measured, rel=0.06)
        assert one.source == "A100 SXM, NCCL 2.27.3"
    assert times[-1].busbw == pytest.approx(times[-1].algbw * 7 / 8)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_times_grow_with_the_size_within_a_protocol(name: str, kind: str) -> None:
    gpus = SYSTEMS[name].gpus_per_box
    ends = [segment[1] for segment in measured_constants()["systems"][name][kind][str(gpus)]]
    sizes = [2**exponent for exponent in range(4, 36)]
    times = [found(SYSTEMS[name], kind, size).time_s for size in sizes]
    for (size, now), (next_size, then) in pairwise(zip(sizes, times, strict=True)):
        if not any(size <= end < next_size for end in ends):
            assert now < then, (size, next_size)


def test_numbers_of_gpus_without_rows_lie_between_those_with() -> None:
    times = [found("dgx_h100:1", "allgather", 2**14, gpus) for gpus in (4, 5, 6, 8)]
    assert [one.time_s for one in times] == sorted(one.time_s for one in times)
    spread, known = (
        one.high_s / one.low_s for one in (found("dgx_a100:1", "allgather", 2**14, n) for n in (5, 4))
    )
    assert spread > known > 1


def test_siblings_and_other_rates_say_so() -> None:
    assert "another machine of this NVLink" in found("dgx_b200:1", "allreduce", 2**20).source
    assert found("gb200_nvl72:1", "allreduce", 2**20, 4).source.startswith("GB300")
    half = system_of(treadle.parse("dgx_b200:1"))
    assert isinstance(half, System)
    assert found(half.group(1, 4), "allreduce", 2**20).source.startswith("B300")
    pcie_4 = System(Generation.AMPERE, 1, 8, 32 * GB, has_fast_links=False, has_switch=False)
    slow, fast = (found(one, "allgather", 2**29) for one in (pcie_4, SYSTEMS["rtx_pro_6000_server"]))
    assert slow.time_s == pytest.approx(63 / 32 * fast.time_s, rel=0.01)
    assert "scaled to links of 32 GB/s by data sheet" in slow.source
    wide = System(Generation.AMPERE, 1, 8, 400 * GB)
    assert "scaled to links of 400 GB/s by data sheet" in found(wide, "allgather", 2**29).source
    assert slow.high_s / slow.low_s > 2 > fast.high_s / fast.low_s


@pytest.mark.parametrize(
    ("fabric", "kind", "gpus", "reason"),
    [
        ("dgx_h100:2", "allreduce", None, "measured rows are of one box"),
        ("gb200_nvl72:1", "allreduce", None, "measured rows are of 2 to 8 GPUs"),
        ("mi300x:1", "allreduce", None, "no measured rows of mi300"),
        ("dgx_h100:1", "broadcast", None, "no measured rows of broadcast"),
    ],
)
def test_what_has_no_rows_says_so(fabric: str, kind: str, gpus: int | None, reason: str) -> None:
    one = achievable(treadle.parse(fabric), kind, 2**20, gpus)
    assert isinstance(one, Unsupported)
    assert str(one) == reason
    assert planning.achievable is achievable
    assert set(measured_constants()["systems"]) == set(SOURCES)
