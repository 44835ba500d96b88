"""Ranks in the order given: the numbering of meshes, weights, roots, demands and data."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from treadle.planning import bound, lower, make_problem, repair, run, solve, verify
from treadle.schedulers.bound_results import CutOffGroupError
from treadle.schedulers.jobs.job_plans import read_jobs
from treadle.schedulers.plan_directory import find_plans, index_plans
from treadle.schedulers.third_party.placed_schedules import route_schedules
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.torch.plans import problems_of

GB = 10**9


def random_fabric(random: Random) -> Topology:
    """Compute nodes and balanced switches in any order, joined up by bidirectional links."""
    n = random.randint(4, 6)
    builder = TopologyBuilder("random")
    nodes = [(f"g{i}", True) for i in range(n)] + [(f"s{i}", False) for i in range(random.randint(0, 2))]
    random.shuffle(nodes)
    for name, is_compute in nodes:
        (builder.compute if is_compute else builder.switch)(name)
    names = [name for name, _ in nodes]
    for place in range(1, len(names)):
        builder.duplex(names[place], random.choice(names[:place]), random.randint(1, 6) * GB)
    for _ in range(n):
        builder.duplex(*random.sample(names, 2), random.randint(1, 6) * GB)
    return builder.build()


def permuted(fabric: Topology, order: list[int]) -> Topology:
    """The fabric whose i-th compute node is the one of number `order[i]`; switches and links stay."""
    computes = iter([fabric.node_names[int(fabric.compute_nodes[place])] for place in order])
    builder = TopologyBuilder("permuted")
    for name, is_compute in zip(fabric.node_names, fabric.is_compute, strict=True):
        if is_compute:
            builder.compute(next(computes))
        else:
            builder.switch(name)
    for link in range(fabric.n_links):
        ends = (fabric.node_names[int(end[link])] for end in (fabric.tails, fabric.heads))
        builder.link(*ends, int(fabric.bandwidths[link]))
    return builder.build()


def random_question(random: Random, n: int) -> tuple[CollectiveKind, dict[str, Any]]:
    """A collective of `n` ranks with what numbers ranks: a root, weights, demands or a mesh."""
    kind = random.choice(list(CollectiveKind))
    if n % 2 == 0 and random.random() < 0.4:
        return kind, {"mesh": f"2,{n // 2}", "axes": random.choice((0, "0,1", 1))}
    if kind.is_rooted:
        return kind, {"root": random.randrange(n)}
    if kind is CollectiveKind.ALLTOALL:
        rows = [[random.randint(0, 3) * (row != column) for column in range(n)] for row in range(n)]
        rows[0][1] = 1
        return kind, {"demands": Demands(rows)}
    if kind is CollectiveKind.ALLREDUCE:
        return kind, {}
    return kind, {"weights": [random.randint(1, 4) for _ in range(n)]}


def answer(fabric: Topology, kind: CollectiveKind, **words: Any) -> Plan | tuple[int, tuple[str, ...]]:
    """The plan, or the group that is cut off and the nodes that it reaches."""
    try:
        return solve(fabric, kind, **words).plan
    except CutOffGroupError as error:
        return error.group, error.cut


@pytest.mark.parametrize("seed", range(8))
def test_ranks_in_an_order_are_those_of_the_permuted_fabric(seed: int) -> None:
    """Run by hand with 200 seeds."""
    random = Random(seed)
    fabric = random_fabric(random)
    n = len(fabric.compute_nodes)
    order = random.sample(range(n), n)
    kind, question = random_question(random, n)
    other = permuted(fabric, order)
    found, expected = answer(fabric, kind, ranks=order, **question), answer(other, kind, **question)
    if not isinstance(found, Plan) or not isinstance(expected, Plan):
        assert found == expected
        return
    assert found.topology == other
    assert found.collective == expected.collective
    assert found.algbw == expected.algbw
    assert verify(found, fabric).is_ok
    assert bound(fabric, kind, ranks=order, **question).algbw == bound(other, kind, **question).algbw


@pytest.mark.parametrize("seed", range(4))
def test_ranks_keep_their_order_beside_forwarders(seed: int) -> None:
    """Run by hand with 200 seeds."""
    random = Random(seed)
    fabric = random_fabric(random)
    n = len(fabric.compute_nodes)
    order = random.sample(range(n), n)
    kind, question = random_question(random, n - 1)
    words = {"forward": True, **question}
    found = solve(fabric, kind, ranks=order[:-1], **words).plan
    expected = solve(permuted(fabric, order), kind, ranks=range(n - 1), **words).plan
    names = [[plan.topology.node_names[node] for node in plan.collective.ranks] for plan in (found, expected)]
    assert found.topology == fabric
    assert names[0] == names[1]
    assert found.optimal_algbw == expected.optimal_algbw
    if kind is not CollectiveKind.ALLTOALL:  # rounded to chunks in the order of the nodes
        assert found.algbw == expected.algbw


def test_a_mesh_lays_out_the_ranks_in_the_order_given() -> None:
    fabric = parse("mesh:2,2")
    plan = solve(fabric, "allgather", ranks=[3, 1, 0, 2], mesh="2,2", axes=[1]).plan
    names = [plan.topology.node_names[node] for node in plan.collective.ranks]
    nodes = [fabric.node_index(name) for name in names]
    groups = [tuple(nodes[rank] for rank in group) for group in plan.collective.groups or ()]
    assert groups == [(3, 1), (0, 2)]


def test_plan_files_runs_and_texts_keep_the_order(tmp_path: Path) -> None:
    words: dict[str, Any] = {"ranks": "n2,n0,n3", "weights": [5, 1, 1]}
    plan = solve("complete:4", "allgather", **words).plan
    save_plan(tmp_path / "part.plan", plan)
    stored = load_plan(tmp_path / "part.plan")
    assert [stored.topology.node_names[node] for node in stored.collective.ranks] == ["n2", "n0", "n3"]
    assert stored.collective == plan.collective
    assert parse(stored.topology.name) == stored.topology
    assert run(stored, [7 * 1024], iterations=1).wrong == 0
    index = index_plans(tmp_path)
    for ranks, count in (("n2,n0,n3", 1), ("n0,n2,n3", 0)):
        problem = make_problem("complete:4", "allgather", ranks=ranks, weights=[5, 1, 1])
        assert len(find_plans(index, problem.topology, problem.collective).plans) == count


def test_texts_for_runtimes_number_ranks_in_the_order_given() -> None:
    fabric = random_fabric(Random(2))
    order = [2, 0, 3, 1, *range(4, len(fabric.compute_nodes))]
    texts = [
        lower(solve(one, "broadcast", ranks=ranks, root=1), accept_any_root=True).text
        for one, ranks in ((fabric, order), (permuted(fabric, order), None), (fabric, None))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_a_plan_of_another_order_is_another_question(tmp_path: Path) -> None:
    save_plan(tmp_path / "turned.plan", solve("complete:4", "allgather", ranks=[1, 0, 2, 3]).plan)
    problems = [make_problem("complete:4", "allgather", ranks=ranks) for ranks in (None, "1,0,2-3")]
    placed = [route_schedules([tmp_path / "turned.plan"], problem)[0] for problem in problems]
    assert [one.report.is_ok for one in placed] == [False, True]
    assert "for other ranks" in placed[0].report.violations[0].message


def test_jobs_and_torch_groups_keep_the_order(tmp_path: Path) -> None:
    fabric = parse("mesh:2,2")
    text = '[[job]]\nkind = "allgather"\nranks = [3, 1, 0, 2]\nmesh = "2,2"\naxes = "1"\n'
    (tmp_path / "jobs.toml").write_text(text)
    assert [job.collective.ranks for job in read_jobs(tmp_path / "jobs.toml", fabric)] == [(3, 1), (0, 2)]
    for ranks in ([3, 1, 0, 2], [3, 1]):
        own, *_ = problems_of(fabric, ranks, CollectiveKind.ALLGATHER, None)
        assert own == make_problem(fabric, "allgather", ranks=ranks)


def test_repair_keeps_the_order() -> None:
    plan = solve("complete:4", "broadcast", ranks=[2, 0, 3], root=0).plan
    repaired = repair(plan, links=["n2--n3"]).plan
    assert [repaired.topology.node_names[node] for node in repaired.collective.ranks] == ["n2", "n0", "n3"]
    assert repaired.collective.root == 0
