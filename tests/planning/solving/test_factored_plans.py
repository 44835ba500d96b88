"""Factored plans from solving to lowering: what works on their pieces, what needs all trees, what refuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from reference.cpu_parts import interpret_cpu_parts
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.formats.cpu.interpreter_parts import interpret_cpu_part
from treadle.planning import Form, SolveResult, TargetFormat, lower, run, simulate, solve, verify
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies import dump_topology, load_topology, parse

SMALL = "dgx_a100(3, gpus_per_box=4)"


@cache
def solved(fabric: str = SMALL, collective: str = "allgather", form: Form = Form.FACTORED) -> SolveResult:
    return solve(fabric, collective, form=form)


@pytest.mark.parametrize("collective", ["reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_all_collectives(collective: str) -> None:
    result = solved(collective=collective)
    assert result.report.is_ok
    assert isinstance(result.plan.entries[0].schedule, FactoredSchedule)
    assert result.is_optimal
    assert not lower(result.plan, to="cpu-xml").faults


def test_a_saved_plan_is_verified_and_run_through_its_trees(tmp_path: Path) -> None:
    save_plan(tmp_path / "plan", solved().plan)
    plan = load_plan(tmp_path / "plan")
    assert plan == solved().plan
    assert verify(plan).report.is_optimal
    assert not verify(plan, "dgx_a100(3, gpus_per_box=4, nic_bandwidth='24GB/s')").is_ok
    assert all(not row.wrong for row in run(plan, sizes=[1000]).rows)
    assert simulate(plan, sizes=[2**20]).rows
    for to in (TargetFormat.MSCCL_XML, TargetFormat.CPU_XML):
        assert not lower(plan, to=to).faults


def test_links_in_another_order_are_refused(tmp_path: Path) -> None:
    text = dump_topology(parse(SMALL)).replace("]}", "]}")
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if '"tail"' in line)
    links = [line.rstrip(",") for line in lines[start:-1]]
    turned = [*lines[:start], ",\n".join(reversed(links)), lines[-1]]
    (tmp_path / "fabric.json").write_text("\n".join(turned))
    result = verify(solved().plan, load_topology(tmp_path / "fabric.json"))
    assert "links of a subproblem must rise" in str(result.report.violations[0])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_damaged_part_is_noticed(*, in_place: bool) -> None:
    """In place too a rank has its own shard alone before it receives."""
    lines = lower(solved().plan, to="cpu-xml", rank=1, in_place=in_place).text.splitlines()
    for kind, said in (("<recv", "never stored"), ("<sync", "ends without waiting")):
        place = max(i for i, line in enumerate(lines) if kind in line)
        damaged = "\n".join([*lines[:place], *lines[place + 1 :]])
        assert any(said in violation for violation in interpret_cpu_part(damaged).violations)
    doubled = "\n".join(line for line in lines for _ in range(1 + ("<recv" in line)))
    assert "which a transfer still uses" in interpret_cpu_part(doubled).violations[0]
    unsynced = "\n".join(line for line in lines if "<sync" not in line)
    assert any("which is undefined" in found for found in interpret_cpu_part(unsynced).violations)
    parts = [lower(solved().plan, to="cpu-xml", rank=rank).text for rank in range(12)]
    with pytest.raises(TreadleError, match="part 0 is of rank 1 of 12, expected 0 of 12"):
        interpret_cpu_parts(parts[1:] + parts[:1])


def test_parts_that_cannot_be(tmp_path: Path) -> None:
    plan = solved().plan
    with pytest.raises(ScheduleError, match="--rank is for chakra and cpu-xml"):
        lower(plan, rank=0)
    with pytest.raises(ScheduleError, match="rank 12: expected 0 to 11"):
        lower(plan, to="cpu-xml", rank=12)
    with pytest.raises(InfeasibleError, match="--rank is for factored plans"):
        lower(solved(form=Form.EXPLICIT).plan, to="cpu-xml", rank=0)
