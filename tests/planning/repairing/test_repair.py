"""Repair: what is left of a fabric is planned as before, and the loss is that of the two optima."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

from treadle.errors import FormatError, InfeasibleError, ScheduleError, TopologyError
from treadle.planning import RepairResult, SizeRequest, repair, solve, verify
from treadle.schedulers import forestcoll
from treadle.schedulers.given_options import given_options
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.topologies import with_failed_links, with_failed_nodes


def checked(result: RepairResult) -> RepairResult:
    """The repaired plan holds on a fabric that was made without `repair`."""
    fabric = result.old.topology
    if result.links:
        fabric = with_failed_links(fabric, *result.links)
    if result.nodes:
        fabric = with_failed_nodes(fabric, *result.nodes)
    assert result.new.topology == fabric
    found = verify(result.new, fabric)
    assert found.is_ok
    assert found.n_absent == 0
    assert result.lost_links == result.old.topology.n_links - fabric.n_links
    return result


def test_a_root_keeps_its_place_or_is_missed() -> None:
    old = solve("ring:6", "broadcast", root=4).plan
    result = checked(repair(old, nodes=["n1"]))
    assert result.new.collective.root == 3
    assert result.new.topology.node_names[result.new.collective.ranks[3]] == "n4"
    with pytest.raises(ScheduleError, match=r"'n4', the root of the broadcast, failed"):
        repair(old, nodes=["n4"])


@pytest.mark.parametrize("kind", list(CollectiveKind))
def test_direct_connect_fabrics_and_all_collectives(kind: CollectiveKind) -> None:
    old = solve("torus:3,3", kind).plan
    result = checked(repair(old, links=["n0_0--n0_1"], nodes=["n2_2"]))
    assert result.new.algorithm == old.algorithm
    assert result.optimum_loss is None or result.optimum_loss < 1


def test_uneven_demands_lose_rows_and_columns() -> None:
    demands = [[0, 3, 1, 2], [1, 0, 4, 1], [2, 2, 0, 5], [1, 1, 1, 0]]
    old = solve("complete:4", "alltoall", demands=_demands(demands)).plan
    result = checked(repair(old, nodes=["n1"]))
    assert result.new.collective.demands == _demands([[0, 1, 2], [2, 0, 5], [1, 1, 0]])


def _demands(rows: list[list[int]]) -> object:
    from treadle.schedules.alltoall.demands import Demands

    return Demands(rows)


def test_every_option_survives_a_plan() -> None:
    asked = {"exact": True, "packer": "growth", "trim": True, "multicast": True}
    assert given_options(solve("dgx_h100(1, nvls=True)", "allgather", **asked).plan) == {
        **asked,
        "form": "explicit",
    }
    asked = {"size": SizeRequest(2**20, 1e-05), "chunks": 3}
    found = solve("ring:4", "alltoall", algorithm="pipelined", **asked).plan
    assert given_options(found) == asked
    limits = {"max_layers": 4, "max_routes": 2, "max_flows": 3, "seed": 5}
    assert given_options(solve("torus:2,3", "alltoall", algorithm="routes", **limits).plan) == limits
    rounds = {"chunks": 1, "rounds": (1, 1, 1)}
    plain = solve("ring:4", "allgather").plan
    stored = dataclasses.replace(plain, provenance={"asked_chunks": 1, "asked_rounds": "1,1,1"})
    assert given_options(stored) == rounds
    assert given_options(plain) == {}


def test_one_direction_needs_trimming() -> None:
    old = solve("dgx_a100_flat:2", "allgather").plan
    with pytest.raises(InfeasibleError, match="--trim"):
        repair(old, links=["box0.gpu0->ib0"])
    result = checked(repair(old, links=["box0.gpu0->ib0"], trim=True))
    assert result.lost_links == 1
    assert given_options(result.new) == {"trim": True}


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ({"links": ["ib0--box0.gpu9"]}, "no node is called 'box0.gpu9'"),
        ({"links": ["box0.gpu0--box1.gpu0"]}, "there is no link"),
        ({"links": ["box0.gpu0"]}, "expected 'tail->head' or 'one--other'"),
        ({"nodes": ["box0.gpu00"]}, "did you mean 'box0.gpu0'"),
        ({"nodes": ["box0.gpu0", "box0.gpu0"]}, "named 2 times"),
        ({}, "nothing failed"),
        ({"nodes": [f"box{i}.gpu{j}" for i in (0, 1) for j in range(8)][:15]}, "1 of 16 ranks left"),
        ({"nodes": [f"box{i}.gpu{j}" for i in (0, 1) for j in range(8)]}, "no compute node is left"),
    ],
)
def test_wrong_names_and_too_much_failure(failed: dict[str, list[str]], words: str) -> None:
    with pytest.raises((TopologyError, ScheduleError), match=words):
        repair(_flat(), **failed)


def _flat() -> Plan:
    return solve("dgx_a100_flat:2", "allgather", max_trees=1).plan


def test_false_claims_and_foreign_plans_are_refused() -> None:
    old = _flat()
    false = dataclasses.replace(old, optimal_algbw=Fraction(10**15))
    with pytest.raises(ScheduleError, match="its certificate proves"):
        repair(false, links=["box0.gpu0--ib0"])
    for entries, words in (
        ({"asked_trees": "many"}, "asked_trees.*expected an integer"),
        ({"asked_exact": 2}, "expected 1"),
        ({"asked_rounds": "1,-1"}, "expected integers"),
        ({"asked_form": 3}, "expected a word"),
        ({"asked_form": "origami"}, "unknown form"),
        ({"asked_alpha_s": "x"}, "expected a number"),
        ({"asked_mercy": 1}, "not an option of solve"),
    ):
        with pytest.raises(FormatError, match=words):
            repair(dataclasses.replace(old, provenance=entries), links=["box0.gpu0--ib0"])
    designed = dataclasses.replace(solve("ring:5", "allgather", algorithm="bfb").plan, algorithm="finder: C5")
    with pytest.raises(ScheduleError, match="'finder: C5' does not exist; choose one"):
        repair(designed, links=["n0--n1"], trim=True)
    assert checked(repair(designed, links=["n0--n1"], algorithm="bfb")).new.algorithm == "bfb"


def test_trees_of_very_many_ranks_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forestcoll, "MAX_WRITTEN_OUT", 8)
    assert solve("ring:8", "allgather").report.is_ok
    assert solve("ring:9", "broadcast").report.is_ok
    for kind in ("allgather", "allreduce"):
        with pytest.raises(
            InfeasibleError, match=r"9 ranks are too many to be written out \(at most 8 ranks\)"
        ):
            solve("ring:9", kind)
