"""``--mesh`` and ``--axes``: reports of 80 columns, JSON as its schema says, groups that are cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.json_schema_judge import faults
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema

SPINES = "leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4"
ALONE_AND_TOGETHER = "66.67 GB/s (200/3) algbw of a group that runs alone"


def judged(argv: list[str], capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    """The command's JSON, which is as its schema says."""
    assert main([*argv, "--json"]) == status
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    schema = json_schema(argv[0])
    assert faults(values, schema, schema) == []
    return values


@pytest.mark.parametrize(
    "words",
    [
        ["generalized_kautz:4,64", "allgather", "--mesh", "8,8", "--axes", "0", "--forward"],
        ["dgx_h100:2", "allreduce", "--mesh", "dp=2,tp=8", "--axes", "tp"],
        ["mesh:3,4", "allreduce", "--mesh", "3,4", "--axes", "0", "--forward"],
        ["dgx_a100:2", "reduce", "--mesh", "2,8", "--axes", "1", "--root", "3"],
    ],
)
def test_reports_are_eighty_columns_wide(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("alone ", "together ", "bottleneck "))]
    assert all(len(line) <= 96 for line in lines)


def test_who_is_cut_off_even_so_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bound", "ring:4", "allgather", "--mesh", "2,2", "--axes", "0", "--without", "n0"]
    assert main([*words[:-2], "--without", "n0--n1,n0--n3"]) == 3
    out, err = capsys.readouterr()
    assert "--forward" not in out
    assert "group 0 (n0, n2): 'n0' does not reach 'n2', and would not if other compute nodes forwarded" in err
    assert main(words) == 2  # three ranks are left
    assert "it lays out 4 ranks" in capsys.readouterr().err


def test_alltoalls_in_groups_are_block_demands(capsys: pytest.CaptureFixture[str]) -> None:
    values = judged(["bound", "dgx_h100:2", "alltoall", "--mesh", "2,8", "--axes", "1"], capsys)
    assert values["groups"] == 2
    assert values["optimal_algbw_exact"] == "4000000000000/7"  # 500 GB/s out of each GPU, an eighth stays
    assert values["optimal_busbw_exact"] == "500000000000/1"
    assert values["busbw_bytes_per_s"] == pytest.approx(5e11)
    assert main(["bound", "dgx_h100:2", "alltoall", "--mesh", "2,8", "--axes", "1"]) == 0
    assert "mesh         2,8, over 1: 2 groups of 8 ranks, concurrent" in capsys.readouterr().out


@pytest.mark.parametrize("forward", [[], ["--forward"]])
def test_alltoalls_in_groups_tell_alone_together_and_who_forwards(
    forward: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bound", "torus:8,8", "alltoall", "--mesh", "4,16", "--axes", "0", *forward]
    values = judged(words, capsys)
    assert (values["alone_exact"], values["together_exact"]) == ("16/3", "1/1")
    assert values["model"] == "alltoall in groups, ranks of other groups forward"
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "             5.33 B/s (16/3) algbw of a group that runs alone" in lines
    assert "optimum      1 B/s algbw of each group, 0.75 B/s busbw (exact)" in lines
    assert "rate         0.25 B/s for each pair of a group, concurrently" in lines
    assert all(len(line) <= 96 for line in lines)
    assert judged(["solve", *words[1:]], capsys)["alone_exact"] == "16/3"


def test_two_phases_stand_beside_the_joint_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dgx_h100:4", "allreduce", "--mesh", "4,8", "--axes", "0", "--forward"]
    dead = [*words, "--without", "box0.gpu0--ib0"]
    assert judged(["bound", *dead], capsys)["rs_ag_exact"] == "87500000000/3"
    assert main(["bound", *dead]) == 0
    said = capsys.readouterr().out
    assert "             29.17 GB/s (175/6) with reduce-scatter, then allgather\n" in said
    assert main(["bound", *words]) == 0
    assert "             reduce-scatter, then allgather is optimal\n" in capsys.readouterr().out
    solved = judged(["solve", *dead], capsys)
    assert solved["rs_ag_exact"] == "87500000000/3"


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_solve_attains_the_bound(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dgx_h100:2", kind, "--mesh", "dp=2,tp=8", "--axes", "tp", "--without", "box0.gpu0--ib0"]
    bound = judged(["bound", *words], capsys)
    plan = str(tmp_path / "groups.plan")
    values = judged(["solve", *words, "-o", plan], capsys)
    assert values["algbw_exact"] == bound["together_exact"] == values["together_exact"]
    assert values["optimal"] is True
    assert values["alone_rates"] == bound["alone_rates"]
    assert (values["mesh"], values["groups"]) == ("dp=2,tp=8", 2)
    assert len(values["trees_of_groups"]) == 2
    again = judged(["verify", plan], capsys)
    assert again["verified"] is True
    assert (again["groups"], again["group_size"]) == (2, 8)


def test_plans_of_groups_are_simulated_and_run_beside_their_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "groups.plan")
    words = [SPINES, "allgather", "--mesh", "4,8", "--axes", "0"]
    assert main(["solve", *words, "-o", plan]) == 0
    assert ALONE_AND_TOGETHER in capsys.readouterr().out
    for command in (["simulate", plan, "--size", "1M"], ["run", plan, "--size", "4K", "--iterations", "1"]):
        assert main(command) == 0
        assert ALONE_AND_TOGETHER in capsys.readouterr().out
        assert judged(command, capsys)["alone_exact"] == "200000000000/3"


def test_schedulers_are_compared_on_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [SPINES, "allreduce", "--mesh", "dp=4,tp=8", "--axes", "dp"]
    plan = str(tmp_path / "groups.plan")
    assert main(["solve", *words, "-o", plan, "-q"]) == 0
    values = judged(["compare", *words, "--with", plan, "--size", "1M"], capsys)
    assert (values["mesh"], values["axes"], values["groups"]) == ("dp=4,tp=8", ["dp"], 8)
    told = judged(["bound", *words], capsys)
    keys = ("alone_exact", "alone_rates", "together_exact", "rs_ag_exact", "binding_links", "witness")
    assert [values[key] for key in keys] == [told[key] for key in keys]
    rates = {one["algorithm"]: one["algbw_exact"] for one in values["schedules"]}
    assert rates["forestcoll"] == rates["rs-ag"] == rates["groups.plan"] == told["together_exact"]
    assert rates["isolated"] == "6250000000/1"  # all groups alone would take the same spine
    assert rates["ring"] == "12500000000/3"
    assert all(one["verified"] for one in values["schedules"])
    assert main(["compare", *words, "--algorithms", "isolated"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "optimum      8.33 GB/s algbw of each group, 12.5 GB/s busbw (exact: 25/3 GB/s)" in lines
    assert "             reduce-scatter, then allgather is optimal" in lines
    assert [line for line in lines if line.startswith("isolated ")]


def test_comparing_names_a_group_that_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "rail_optimized:4", "allgather", "--mesh", "4,8", "--axes", "0"]
    values = judged([*words, "--without", "box2.gpu3--rail3"], capsys, 3)
    assert (values["together_exact"], values["cut_off_group"], values["schedules"]) == ("0/1", 3, [])
    assert values["forwarding_exact"] == "175000000000/3"


def test_alltoalls_of_groups_and_one_group_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "torus:4,4", "alltoall", "--mesh", "4,4", "--axes", "1"]
    names = ["--algorithms", "pipelined,torus-exchange,pairwise"]
    values = judged([*words, *names], capsys)
    assert (values["alone_exact"], values["together_exact"]) == ("16/3", "2/1")
    assert [one["algbw_exact"] for one in values["schedules"]] == ["2/1", "2/1", "1/2"]
    whole = ["compare", "ring:4", "allgather", "--mesh", "2,2", "--axes", "0,1", "--algorithms", "ring"]
    assert judged(whole, capsys)["groups"] == 1


def test_plans_of_groups_are_repaired_and_hardened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, repaired = str(tmp_path / "rails.plan"), str(tmp_path / "new.plan")
    rails = ["rail_optimized(2, gpus_per_box=2)", "allreduce", "--mesh", "2,2", "--axes", "0"]
    assert main(["solve", *rails, "-o", plan]) == 0
    capsys.readouterr()
    words = ["repair", plan, "--link", "box1.gpu1--rail1"]
    assert main(words) == 3
    assert "group 1 (box0.gpu1, box1.gpu1): 'box0.gpu1' does not reach" in capsys.readouterr().err
    values = judged([*words, "--forward", "-o", repaired], capsys)
    assert (values["before"]["algbw_exact"], values["algbw_exact"]) == ("50000000000/1", "25000000000/1")
    assert values["optimum_loss"] == values["throughput_loss"] == 0.5
    assert (values["groups"], values["group_size"], values["ranks_forward"]) == (2, 2, True)
    assert values["together_exact"] == values["optimal_algbw_exact"] == "25000000000/1"
    assert judged(["verify", repaired], capsys)["verified"] is True
    assert main([*words, "--forward"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "before       optimum 50 GB/s algbw, 50 GB/s busbw" in said
    assert "after        optimum 25 GB/s algbw, 25 GB/s busbw" in said
    hardened = judged(["harden", plan, "--forward"], capsys)["failures"]
    assert len(hardened) == 8
    assert {one["loss"] for one in hardened} == {0.0, 0.5}
    assert sum("refusal" in one for one in judged(["harden", plan], capsys)["failures"]) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mesh", "dp=4,tp=8"], "the axes that groups go over are missing; expected --axes"),
        (["--axes", "dp"], "the mesh that has them is missing; expected --mesh"),
        (["--mesh", "4,4", "--axes", "0"], "mesh 4,4: it lays out 16 ranks, and leaf_spine(4, 2"),
        (["--mesh", "dp=4,tp=8", "--axes", "pp"], "no axis 'pp'; expected some of dp, tp"),
    ],
)
@pytest.mark.parametrize("command", ["bound", "solve", "simulate", "run"])
def test_meshes_that_do_not_fit(
    command: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, SPINES, "allgather", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
