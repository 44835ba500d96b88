"""Blink's allgather: all shards go through one rank, and what each link carries follows from the packing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from treadle import planning
from treadle.inputs.problem import make_problem
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.trees.baselines.blink import best_root, blink, pack_from_root
from treadle.topologies import TopologyBuilder, parse
from treadle.verification.schedules import verify

FABRICS = ("dgx_a100(2)", "dgx1_v100()", "torus(3, 3)", "hypercube(3)", "ring(5)")


@pytest.mark.parametrize("fabric", FABRICS)
def test_gathers_are_verified_and_no_slower_than_the_allreduce(fabric: str) -> None:
    """Without the sum an edge carries its subtree's shards, at most all of them: what the allreduce sends."""
    allreduce = planning.solve(fabric, "allreduce", algorithm="blink")
    for kind in ("allgather", "reduce-scatter"):
        found = planning.solve(fabric, kind, algorithm="blink")
        assert found.report.is_ok
        assert allreduce.algbw <= found.algbw <= found.optimal_algbw


def test_every_shard_passes_the_root() -> None:
    problem = make_problem("dgx1_v100()", "allgather")
    root = best_root(problem.topology, problem.collective)
    forest = blink(problem.topology, problem.collective).broadcast
    assert forest is not None
    for rank in range(problem.collective.n_ranks):
        for tree in forest.trees(rank):
            if rank == root:
                continue
            # from the rank a single way leads to the root before anything fans out
            at = root
            while tree.parent[at] != rank:
                at = int(tree.parent[at])
                assert int((tree.parent == at).sum()) >= 1
            assert at != rank


def link_units(forest: Forest) -> Counter[int]:
    found: Counter[int] = Counter()
    for number, units in enumerate(forest.path_units().tolist()):
        for link in forest.path(number).tolist():
            found[link] += units
    return found


def test_loads_on_a_path_by_hand() -> None:
    """Ranks 0 - 1 - 2 - 3, root 1: up go 0 | 3, then 2 and 3; down goes what the other side sent."""
    builder = TopologyBuilder("path")
    for number in range(4):
        builder.compute(str(number))
    for number in range(3):
        builder.duplex(str(number), str(number + 1), 1)
    problem = make_problem(builder.build(), "allgather")
    collective = problem.collective
    schedule = blink(problem.topology, collective)
    assert verify(problem.topology, collective, schedule).algbw == Fraction(4, 3)
    assert schedule.broadcast is not None
    names = {
        problem.topology.link_name(link): units for link, units in link_units(schedule.broadcast).items()
    }
    assert names == {"0->1": 1, "1->0": 3, "1->2": 2, "2->1": 2, "2->3": 3, "3->2": 1}


def test_weights_and_units_are_kept() -> None:
    problem = make_problem("dgx1_v100()", "allgather", weights=(1, 0, 2, *[1] * 5))
    schedule = blink(problem.topology, problem.collective)
    assert verify(problem.topology, problem.collective, schedule).is_ok
    assert schedule.broadcast is not None
    units = schedule.broadcast.root_multiplicity.tolist()
    packed = pack_from_root(
        problem.topology,
        replace(problem.collective, kind=CollectiveKind.BROADCAST, root=0, weights=None),
    )
    assert [unit // units[0] for unit in units] == [1, 0, 2, *[1] * 5]
    assert units[0] == packed.root_multiplicity[0] == 6


def test_forwarders_pass_on() -> None:
    fabric = parse("torus(3, 3)")
    problem = make_problem(fabric, "allgather", ranks=[0, 1, 2, 3, 4, 5], forward=True)
    schedule = blink(problem.topology, problem.collective)
    assert verify(problem.topology, problem.collective, schedule).is_ok
