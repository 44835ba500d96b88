"""Texts that would do harm: roots nobody compares, folders parsed whole, options that nothing heeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.formats.format import all_formats

ROOTLESS = tuple(record.name for record in all_formats() if "accept_any_root" in record.options)


# --- options


# --- roots


@pytest.mark.parametrize("target", ROOTLESS)
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_roots_that_no_runtime_compares(collective: str, target: str) -> None:
    plan = planning.solve("hypercube(2)", collective, root=3).plan
    with pytest.raises(
        ScheduleError, match=rf"the file of root 3 .* {collective} of any root .*--accept-any-root"
    ):
        planning.lower(plan, to=target)
    result = planning.lower(plan, to=target, accept_any_root=True)
    assert result.faults == ()
    assert any("another root than 3" in caution for caution in result.cautions)


# --- folders


# --- what is printed


def test_a_part_of_a_trace_is_read_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "large.plan")
    assert main(["solve", "dgx_a100:3,4", "allgather", "--form", "factored", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--to", "chakra", "--size", "1MB", "--rank", "1", "-o", f"{plan}.t"]) == 0
    said = capsys.readouterr().out
    assert "parsed back, rank 1 alone; nothing executed" in said
    assert main(["lower", plan, "--to", "cpu-xml", "--rank", "1", "-o", f"{plan}.xml"]) == 0
    assert "executed by Treadle's own interpreter, rank 1 alone" in capsys.readouterr().out
