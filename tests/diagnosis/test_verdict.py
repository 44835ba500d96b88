"""What diagnose says of tables alone: the usual fabric, the verdict, explanations, curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from samples.logs.nccl_logs import ranks, rows, table
from treadle.api.diagnose import diagnose
from treadle.cli.main import main
from treadle.diagnosis.diagnosed import CheckedTable
from treadle.errors import FormatError
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import TopologyBuilder

ALLREDUCE, ALLTOALL = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"


def judged(folder: Path, lines: list[str], **keywords: object) -> CheckedTable:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    (found,) = diagnose(path, **keywords).checked_tables  # type: ignore[arg-type]
    return found


def test_a_bare_table_names_the_nic(tmp_path: Path) -> None:
    found = judged(tmp_path, [*ranks(2, 8, H100), *table(ALLREDUCE, 16, [(2**33, 44.9)])]).verdict
    assert (found.outcome, found.explanations[0].text) == ("slow", "one NIC of 400 Gbit/s per node")
    assert "NCCL_IB_HCA" in found.explanations[0].check


def test_half_of_assumed_nics_may_be_all(tmp_path: Path) -> None:
    """HGX boxes have four or eight NICs; said, the number decides."""
    log = [*ranks(3, 8, A100), *table(ALLREDUCE, 24, [(2**33, 95)])]
    found = judged(tmp_path, log).verdict
    assert (found.outcome, found.reason.partition(" of")[0]) == ("cannot say", "normal with half")
    for nics, outcome in (("4", "normal"), ("8", "slow")):
        assert judged(tmp_path, log, nics=nics).verdict.outcome == outcome
    for nics in ("-3", "0", "65", "mlx5_0"):
        with pytest.raises(FormatError, match=f"--nics: expected the number of NICs per box.*{nics}"):
            judged(tmp_path, log, nics=nics)


def test_what_nvlink_sharp_would_give_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nccl.log"
    path.write_text("\n".join([*ranks(1, 8, H100), *table(ALLREDUCE, 8, [(2**32, 409)])]) + "\n")
    assert main(["diagnose", str(path), "--topology", "dgx_h100:1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines if line.startswith(("optimum", "predicted"))] == ["91%", "86%"]
    assert "note         with NVLink SHARP, NCCL's default, the optimum is 700 GB/s" in lines
    assert lines[-2].startswith("verdict      normal: ")
    off = judged(tmp_path, [*ranks(1, 8, H100), *table(ALLREDUCE, 8, [(2**32, 330)])]).verdict
    assert (off.outcome, off.explanations[0].name) == ("slow", "no-nvls")


def test_an_all_to_all_is_compared_with_the_nics(tmp_path: Path) -> None:
    """Across N boxes a GPU's NIC carries (N-1)/N of its data."""
    for busbw, outcome in ((95, "normal"), (50, "slow")):
        log = [*ranks(2, 8, H100), *table(ALLTOALL, 16, [(2**33, busbw)])]
        found = judged(tmp_path, log, nics="8").verdict
        assert found.outcome == outcome
        assert found.expected is not None
        assert found.expected.value == pytest.approx(97)


def test_a_curve(tmp_path: Path) -> None:
    """A floor of 16 us and 272 GB/s algbw: where it ends, half of the peak, 90%; NCCL's model beside it."""
    sizes = [2**shift for shift in range(10, 34)]
    figures = [(size, size / (16 + size / 272e3) / 1e3 * 1.75) for size in sizes]
    found = judged(tmp_path, [*ranks(1, 8, H100), *table(ALLREDUCE, 8, figures)])
    curve = found.curve
    assert curve is not None
    assert curve.floor_us == pytest.approx(16, abs=0.3)
    assert curve.model_floor_us == pytest.approx(15, abs=0.1)
    assert (curve.floor_size, curve.half_size, curve.plateau_size) == (2**20, 2**23, 2**26)
    assert curve.choices == ((2**10, "ring/LL"), (2**21, "nvls/Simple"))
    assert judged(tmp_path, [*ranks(1, 8, H100), *rows(ALLREDUCE, 8, figures[-3:])]).curve is None


def test_a_fall_is_slow_whatever_the_peak(tmp_path: Path) -> None:
    log = [*ranks(1, 8, H100), *table(ALLREDUCE, 8, [(2**28, 460), (2**30, 470), (2**33, 250)])]
    found = judged(tmp_path, log).verdict
    assert (found.outcome, found.reason) == ("slow", "larger sizes are slower than middling ones")


def test_without_a_model_the_rings_decide(tmp_path: Path) -> None:
    builder = TopologyBuilder("a ring")
    nodes = [builder.compute(name) for name in "abcd"]
    for tail, head in zip(nodes, nodes[1:] + nodes[:1], strict=True):
        builder.duplex(tail, head, 25 * 10**9)
    for busbw, outcome in ((45, "normal"), (25, "slow")):
        log = [*ranks(1, 4, "some GPU"), *table(ALLREDUCE, 4, [(2**30, busbw)])]
        found = judged(tmp_path, log, topology=builder.build()).verdict
        assert found.outcome == outcome
