"""Plans written in every format: executed by an interpreter, with the way to load them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samples.format_samples import NAMES, taken, words
from treadle import planning
from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.formats.mscclpp.switch_channels import check_allocation
from treadle.formats.request import Given
from treadle.planning import find_format
from treadle.program.any_schedule import lower
from treadle.schedules.plan_files.archive import save_plan


def test_a_rank_that_asks_for_all_is_refused() -> None:
    plan = planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan
    program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
    equal = frozenset((chunk, chunk) for chunk in range(8))
    check_allocation(program, Given(equal, equal))
    one = frozenset((3, chunk) for chunk in range(8))
    with pytest.raises(ScheduleError, match=r"rank 3 triggers 100% .* 50% .* 89% pass"):
        check_allocation(program, Given(one, one))


def test_multicast_alone_is_lowered_to_stores() -> None:
    plan = planning.solve("dgx_h100(1, nvls=True)", "broadcast", multicast=True).plan
    result = planning.lower(plan, to="mscclpp-json", accept_any_root=True)
    assert result.faults == ()
    assert '"gstore"' in result.text


@pytest.mark.parametrize("name", NAMES)
def test_loading_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = taken(name)[0][0]
    path, out = str(tmp_path / "ring.plan"), str(tmp_path / "folder" / "ring.text")
    (tmp_path / "folder").mkdir()
    save_plan(tmp_path / "ring.plan", plan)
    command = ["lower", path, "--to", name, "-o", out, *words(find_format(name), plan)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    for word in ("how to load ", "how to check ", "not supported "):
        assert f"\n{word}" in shown
    assert str(tmp_path / "folder") in "".join(shown.split())
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert str(tmp_path / "folder") in json.dumps([values["environment"], values["check"], values["code"]])
