"""Factored plans from solving to lowering: what works on their pieces, what needs all trees, what refuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from harness.summaries import plan_summary, solve_summary
from reference.cpu_parts import interpret_cpu_parts
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.formats.chakra.interpreter import interpret_chakra
from treadle.formats.cpu.interpreter_parts import interpret_cpu_part
from treadle.inputs.runtime_files import verify_runtime_file
from treadle.planning import Form, SolveResult, TargetFormat, lower, run, simulate, solve, verify
from treadle.schedulers import factored_candidates
from treadle.schedulers.factored_candidates import MAX_EXPLICIT_RANKS
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.schedule import MAX_EXPANDED_RANKS
from treadle.schedules.trees.forest import ForestSchedule
from treadle.topologies import dgx_a100, dump_topology, load_topology, parse

SMALL = "dgx_a100(3, gpus_per_box=4)"


@cache
def solved(fabric: str = SMALL, collective: str = "allgather", form: Form = Form.FACTORED) -> SolveResult:
    return solve(fabric, collective, form=form)


def test_forms() -> None:
    explicit, factored = solved(form=Form.EXPLICIT), solved()
    assert isinstance(explicit.plan.entries[0].schedule, ForestSchedule)
    assert isinstance(factored.plan.entries[0].schedule, FactoredSchedule)
    assert explicit.algbw == factored.algbw
    assert explicit.is_optimal
    assert factored.is_optimal
    assert "requested" in explicit.decomposition
    assert "circulant trees" in factored.decomposition
    auto = solved(form=Form.AUTO)
    assert isinstance(auto.plan.entries[0].schedule, ForestSchedule)
    assert not auto.decomposition
    assert auto.packer == "tight-cuts"


def test_capable_switches_are_not_factored_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factored_candidates, "MAX_EXPLICIT_RANKS", 8)
    assert isinstance(solve("dgx_h100(2)", "allgather").plan.entries[0].schedule, FactoredSchedule)
    result = solve("dgx_h100(2, nvls=True)", "allgather")
    assert isinstance(result.plan.entries[0].schedule, ForestSchedule)
    assert "multicast or aggregate" in result.decomposition


def test_many_ranks_are_factored_by_default() -> None:
    result = solve(dgx_a100(MAX_EXPLICIT_RANKS // 8 + 1), "allgather")
    assert isinstance(result.plan.entries[0].schedule, FactoredSchedule)
    assert result.is_optimal


@pytest.mark.parametrize("collective", ["reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_all_collectives(collective: str) -> None:
    result = solved(collective=collective)
    assert result.report.is_ok
    assert isinstance(result.plan.entries[0].schedule, FactoredSchedule)
    assert result.is_optimal
    assert not lower(result.plan, to="cpu-xml").faults


def test_summaries_tell_the_pieces() -> None:
    values = solve_summary(solved())
    assert (values["pieces"], values["piece_kinds"], values["piece_levels"], values["layers"]) == (4, 2, 2, 1)
    assert values["decomposition"] == solved().decomposition
    assert plan_summary(solved().plan)["pieces"] == 4


@pytest.mark.parametrize(
    ("fabric", "options", "said"),
    [
        ("ring:4", {"form": "factored"}, "no factored forest: no set of several ranks"),
        (SMALL, {"form": "pieces"}, "unknown form 'pieces'; expected one of auto, explicit, factored"),
        (SMALL, {"form": "factored", "packer": "growth"}, "is for trees written out"),
        (SMALL, {"form": "factored", "algorithm": "ring"}, "--form is for --algorithm forestcoll or rs-ag"),
        ("dgx_h100(2, nvls=True)", {"form": "factored", "multicast": True}, "have to stay whole"),
    ],
)
def test_forms_that_do_not_apply(fabric: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(TreadleError, match=said):
        solve(fabric, "allgather", **options)


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


@pytest.mark.parametrize(("collective", "in_place"), [("allgather", False), ("allreduce", True)])
@pytest.mark.parametrize("instances", [1, 2])
def test_parts_of_all_ranks_are_one_text(collective: str, in_place: bool, instances: int) -> None:
    plan = solved(collective=collective).plan
    options = {"in_place": in_place, "channels": 2, "instances": instances}
    parts = [lower(plan, to="cpu-xml", rank=rank, **options) for rank in range(12)]
    assert not any(part.faults for part in parts)
    seen = interpret_cpu_parts([part.text for part in parts])
    assert seen.violations == ()
    assert (seen.collective, seen.n_ranks) == (collective, 12)
    told = verify_runtime_file(parts[5].text)
    assert (told.format, told.violations) == ("cpu-xml, part of rank 5 of 12", ())
    traces = [lower(plan, to="chakra", rank=rank, size_bytes=12000, **options) for rank in range(12)]
    assert interpret_chakra([trace.files[0][1] for trace in traces]).violations == ()
    assert traces[7].files[0][0] == ".7.et"


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


def test_large_plans_are_lowered_a_rank_at_a_time() -> None:
    boxes = MAX_EXPANDED_RANKS // 8 + 1
    result = solve(f"dgx_a100({boxes})", "allgather")
    with pytest.raises(InfeasibleError, match=f"at most {MAX_EXPANDED_RANKS} ranks; lower one rank"):
        lower(result.plan)
    (row,) = simulate(result.plan, sizes="1G").rows  # by one box, which stands for all
    assert row.efficiency is not None
    assert 0.9 < row.efficiency <= 1
    part = lower(result.plan, to="cpu-xml", rank=boxes)
    assert not part.faults
    assert f'ranks="{8 * boxes}"' in part.text
