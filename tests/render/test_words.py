"""Words of the reports: node sets, exact bandwidths, durations."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.planning import bound, make_problem
from treadle.render.quantities import Rates, busbw
from treadle.schedules.collective import CollectiveKind, busbw_factor


@pytest.mark.parametrize("kind", CollectiveKind)
def test_busbw_stands_beside_algbw_wherever_a_rate_is_printed(
    kind: CollectiveKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric, plan = 'ring(4, bandwidth="1GB/s")', str(tmp_path / "plan")
    algorithm = "pairwise" if kind is CollectiveKind.ALLTOALL else "ring"
    scaled = Rates()(busbw(bound(fabric, kind).bound.algbw, make_problem(fabric, kind).collective))
    for argv in (
        ["bound", fabric, kind.value],
        ["solve", fabric, kind.value, "-o", plan],
        ["compare", fabric, kind.value, "--algorithms", algorithm],
        ["run", plan, "--size", "1K", "--iterations", "1"],
        ["simulate", plan, "--size", "1K"],
        ["verify", plan],
    ):
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert f"{scaled} busbw" in out
        assert "busbw" in out
        assert main([*argv, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        for name in ("", "optimal_"):
            if f"{name}algbw_exact" in values:
                algbw, scaled_exact = (Fraction(values[f"{name}{one}_exact"]) for one in ("algbw", "busbw"))
                assert scaled_exact == algbw * busbw_factor(kind, 4)
        assert "optimal_busbw_exact" in values
