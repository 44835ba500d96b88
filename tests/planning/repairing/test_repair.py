"""Repair: what is left of a fabric is planned as before, and the loss is that of the two optima."""

from __future__ import annotations

import dataclasses
import random
import re
from fractions import Fraction
from pathlib import Path

import pytest

from reference.optimum import optimal_algbw
from treadle.errors import FormatError, InfeasibleError, ScheduleError, TopologyError
from treadle.planning import Form, RepairResult, SizeRequest, bound, repair, solve, verify
from treadle.schedulers import forestcoll
from treadle.schedulers.given_options import given_options
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.topologies import are_ranks_connected, with_failed_links, with_failed_nodes

GB = 10**9


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


def test_a_failed_network_link_costs_what_the_cuts_say() -> None:
    # 16 GPUs: 300 + 25 GB/s enter each, 15 shards have to. Without its NIC a GPU gets 300 / 15 GB/s a shard.
    old = solve("dgx_a100_flat:2", "allgather", exact=True).plan
    result = checked(repair(old, links=["box0.gpu0--ib0"]))
    assert old.algbw == Fraction(16 * 325 * GB, 15)
    assert result.new.algbw == Fraction(16 * 300 * GB, 15)
    assert result.solved.is_optimal
    assert result.optimum_loss == result.throughput_loss == Fraction(1, 13)
    assert (result.lost_links, result.lost_ranks) == (2, ())
    assert isinstance(result.new.certificate, BottleneckCut)
    outside = set(range(result.new.topology.n_nodes)) - set(result.new.certificate.nodes)
    assert {result.new.topology.node_names[node] for node in outside} == {"box0.gpu0"}
    assert {"failures", "verify", "total"} <= set(result.seconds)


def test_a_nic_fails_as_a_node_or_as_a_link() -> None:
    old = solve("dgx_a100(2, gpus_per_box=4)", "allgather").plan
    node = checked(repair(old, nodes=["box0.nic3"]))
    link = checked(repair(old, links=["box0.gpu3--box0.nic3"]))
    assert node.new.topology == link.new.topology
    assert node.new.algbw == link.new.algbw < old.algbw
    # the switch goes with its only other link, and may be named all the same
    both = checked(repair(old, links=["box0.gpu3--box0.nic3"], nodes=["box1.nic1"]))
    assert both.new.algbw <= node.new.algbw
    again = repair(old, links=["box0.gpu3--box0.nic3"], nodes=["box0.nic3"])
    assert again.new.topology == node.new.topology


def test_failed_ranks_leave_the_collective() -> None:
    old = solve(
        "dgx_a100_flat(2, gpus_per_box=4)",
        "reduce-scatter",
        ranks="0-6",
        forward=True,
        weights=[1 + i % 3 for i in range(7)],
    )
    result = checked(repair(old.plan, nodes=["box0.gpu1", "box1.gpu3"]))  # a rank and a forwarder
    assert result.lost_ranks == ("box0.gpu1",)
    collective = result.new.collective
    assert collective.n_ranks == 6
    assert collective.forwarders == ()
    assert collective.weights == tuple(1 + i % 3 for i in range(7) if i != 1)
    names = [result.new.topology.node_names[node] for node in collective.ranks]
    assert names == [f"box{i // 4}.gpu{i % 4}" for i in range(7) if i != 1]
    kept = checked(repair(old.plan, links=["box0.gpu1--ib0"]))
    assert len(kept.new.collective.forwarders) == 1


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


def test_steps_stay_steps() -> None:
    old = solve("torus:3,3", "allgather", algorithm="bfb", chunks=2).plan
    result = checked(repair(old, links=["n0_0->n0_1"]))
    assert isinstance(result.new.entries[0].schedule, StepSchedule)
    assert given_options(result.new) == given_options(old) == {"chunks": 2}
    [entry] = result.new.entries
    assert entry.schedule.broadcast is not None
    assert entry.schedule.broadcast.n_chunks <= 2


def test_uneven_demands_lose_rows_and_columns() -> None:
    demands = [[0, 3, 1, 2], [1, 0, 4, 1], [2, 2, 0, 5], [1, 1, 1, 0]]
    old = solve("complete:4", "alltoall", demands=_demands(demands)).plan
    result = checked(repair(old, nodes=["n1"]))
    assert result.new.collective.demands == _demands([[0, 1, 2], [2, 0, 5], [1, 1, 0]])


def _demands(rows: list[list[int]]) -> object:
    from treadle.schedules.alltoall.demands import Demands

    return Demands(rows)


def test_options_come_from_the_plan(tmp_path: Path) -> None:
    old = solve("dgx_a100_flat:2", "allgather", max_trees=2, form="factored").plan
    assert given_options(old) == {"max_trees": 2, "form": "factored"}
    save_plan(tmp_path / "old.plan", old)
    result = checked(repair(load_plan(tmp_path / "old.plan"), links=["box1.gpu2--ib0"]))
    assert isinstance(result.new.entries[0].schedule, FactoredSchedule)
    assert result.solved.trees_per_root is not None
    assert result.solved.trees_per_root <= 2
    assert result.subproblem_classes[0] is not None
    explicit = checked(repair(old, links=["box1.gpu2--ib0"], form=Form.EXPLICIT))
    assert explicit.subproblem_classes[1] is None
    ring = checked(repair(old, links=["box1.gpu2--ib0"], algorithm="ring"))
    assert ring.new.algorithm == "ring"
    assert given_options(ring.new) == {}


def test_a_form_that_was_asked_for_gives_way() -> None:
    old = solve("dgx_a100_flat(2, gpus_per_box=4)", "allgather", form="factored").plan
    failed = {"nodes": [f"box1.gpu{i}" for i in range(4)]}  # one box is left, which nothing divides
    result = checked(repair(old, **failed))
    assert result.subproblem_classes[1] is None
    assert result.solved.is_optimal
    assert any("no factored forest" in note for note in result.solved.notes)
    with pytest.raises(InfeasibleError, match="no factored forest"):
        repair(old, **failed, form="factored")


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


def test_ranks_cut_off_are_told_with_the_cut() -> None:
    links = [f"box0.gpu{i}--ib0" for i in range(8)]
    with pytest.raises(
        InfeasibleError,
        match=r"no link is left from ranks box0\.gpu0, box0\.gpu1, box0\.gpu2 and 5 more to ranks "
        r"box1\.gpu0, .* \(9 of 1[89] nodes\) has no bandwidth",
    ):
        repair(_flat(), links=links)
    one_way = solve("ring(5, bidirectional=False)", "allgather", algorithm="bfb").plan
    with pytest.raises(InfeasibleError, match="no link is left from"):
        repair(one_way, links=["n2->n3"])
    # a broadcast needs one direction only
    rooted = solve("ring(5, bidirectional=False)", "broadcast", algorithm="bfb", root=3).plan
    assert checked(repair(rooted, links=["n2->n3"])).new.collective.root == 3
    with pytest.raises(InfeasibleError, match="from ranks n3, n4 to ranks n0, n1, n2"):
        repair(rooted, links=["n4->n0"])


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


def test_random_failures_meet_the_optimum_of_what_is_left() -> None:
    """Against the slow reference: every cut of the damaged fabric looked at."""
    met = 0
    for seed in range(12):
        chance = random.Random(seed)
        old = solve(
            chance.choice(
                ["dgx_a100_flat(2, gpus_per_box=3)", "torus:2,3", "leaf_spine(2,2,gpus_per_leaf=3)"]
            ),
            "allgather",
            form=chance.choice(["auto", "explicit"]),
            exact=True,
        ).plan
        pairs = sorted(
            {"--".join(sorted(old.topology.link_name(e).split("->"))) for e in range(old.topology.n_links)}
        )
        links = chance.sample(pairs, 2)
        if not are_ranks_connected(with_failed_links(old.topology, *links)):
            with pytest.raises(InfeasibleError, match="no link is left"):
                repair(old, links=links)
            continue
        result = checked(repair(old, links=links))
        met += 1
        assert result.new.algbw == optimal_algbw(result.new.topology)
        assert result.new.algbw == bound(result.new.topology, "allgather").algbw
    assert met >= 6


def test_large_fabrics_stay_in_pieces() -> None:
    old = solve("dgx_a100_flat(64)", "allgather").plan
    result = checked(repair(old, links=["box9.gpu5--ib0"], nodes=["box11.gpu2"]))
    assert isinstance(result.new.entries[0].schedule, FactoredSchedule)
    before, after = result.subproblem_classes
    assert before == 2
    assert after is not None
    assert after > before
    assert result.new.collective.n_ranks == 511
    assert result.solved.is_optimal


def test_trees_of_very_many_ranks_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forestcoll, "MAX_WRITTEN_OUT", 8)
    assert solve("ring:8", "allgather").report.is_ok
    assert solve("ring:9", "broadcast").report.is_ok
    for kind in ("allgather", "allreduce"):
        with pytest.raises(
            InfeasibleError, match=r"9 ranks are too many to be written out \(at most 8 ranks\)"
        ):
            solve("ring:9", kind)


def test_failed_links_and_nodes_may_be_patterns() -> None:
    """As --without takes them; the result has every exact name, so that it can be told and done again."""
    old = solve("dgx_a100(2, gpus_per_box=4)", "allgather").plan
    boxes = checked(repair(old, nodes=["box0.nic[12]", "box1.gpu3"]))
    assert boxes.nodes == ("box0.nic1", "box0.nic2", "box1.gpu3")
    assert boxes.lost_ranks == ("box1.gpu3",)
    links = checked(repair(old, links=["box0.gpu0--box0.nic?", "box0.gpu1--box0.nic1,box0.gpu2--box0.nic2"]))
    assert links.links == ("box0.gpu0--box0.nic0", "box0.gpu1--box0.nic1", "box0.gpu2--box0.nic2")
    whole = repair(old, nodes=["box0.*"])
    assert whole.new.collective.n_ranks == 4
    for failed, told in (
        ({"nodes": ["box0.gpu0--box0.*"]}, "names links, expected nodes"),
        ({"links": ["box0.*"]}, "names nodes, expected links"),
        ({"nodes": ["box9.*"]}, "no node and no link is called as 'box9.*'"),
    ):
        with pytest.raises(TopologyError, match=re.escape(told)):
            repair(old, **failed)  # type: ignore[arg-type]
