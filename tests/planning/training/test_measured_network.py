"""Network efficiency: one share, or measured times by kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.errors import TreadleError
from treadle.planning import step_costs
from treadle.schedules.collective import CollectiveKind
from treadle.training.prices.measured_network import as_network_efficiency, read_network_efficiency

MIB = 2**20


def written(path: Path) -> Path:
    rows = [{"size_bytes": size, "time_s": time} for size, time in ((MIB, 1e-4), (4 * MIB, 2e-4))]
    path.write_text(json.dumps({"collective": "allgather", "ranks": 8, "rows": rows}), encoding="utf-8")
    return path


def test_one_share_for_all_schedules_but_bounds() -> None:
    for schedule in ("treadle", "ring"):
        whole, part = (
            step_costs("dgx_h100:1", "tp=8", schedule=schedule, network_efficiency=share)
            for share in (None, 0.8)
        )
        time = whole.time_s(CollectiveKind.ALLREDUCE, ("tp",), MIB)
        assert part.time_s(CollectiveKind.ALLREDUCE, ("tp",), MIB) == pytest.approx(time / 0.8)
        assert part.send_s("tp", MIB) == pytest.approx(whole.send_s("tp", MIB) / 0.8)
    limit = [
        step_costs("dgx_h100:1", "tp=8", schedule="bound", network_efficiency=one) for one in (None, 0.8)
    ]
    assert len({one.time_s(CollectiveKind.ALLREDUCE, ("tp",), MIB) for one in limit}) == 1


def test_measured_times(tmp_path: Path) -> None:
    path = written(tmp_path / "gather.json")
    found = read_network_efficiency(["0.5", f"all_gather={path}"])
    costs = step_costs("dgx_h100:1", "tp=8", network_efficiency=found)
    times = [costs.time_s(CollectiveKind.ALLGATHER, ("tp",), size * MIB) for size in (0.5, 1, 2.5, 4, 8)]
    assert times == pytest.approx([1e-4, 1e-4, 1.5e-4, 2e-4, 4e-4])
    assert found.words == "0.5 of modelled rates, allgather as measured"
    plain = step_costs("dgx_h100:1", "tp=8").time_s(CollectiveKind.ALLREDUCE, ("tp",), MIB)
    assert costs.time_s(CollectiveKind.ALLREDUCE, ("tp",), MIB) == pytest.approx(2 * plain)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["much"], "expected a share such as 0.85"),
        (["0"], "more than 0 and at most 1"),
        (["1.5"], "more than 0 and at most 1"),
        (["nan"], "more than 0 and at most 1"),
        (["0.5", "0.6"], "second share"),
        (["sideways=x"], "unknown collective"),
        (["allgather=/nowhere/x"], "/nowhere/x"),
    ],
)
def test_what_is_no_efficiency(texts: list[str], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        read_network_efficiency(texts)


def test_a_kind_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "gather.json")
    with pytest.raises(TreadleError, match="is given twice"):
        read_network_efficiency([f"allgather={path}", f"all_gather={path}"])
    with pytest.raises(TreadleError, match="expected a share"):
        as_network_efficiency(object())
