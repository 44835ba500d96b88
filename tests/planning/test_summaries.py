"""Results as JSON objects, key by key, of values that are made up so that none is like another."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle import planning
from treadle.planning import pose, solve, summary
from treadle.planning.judging.point_to_point import Shortfall
from treadle.schedules.witness import CutWitness
from treadle.synthesis.result import Bound
from treadle.verification.violations import Report


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def test_exact_numbers() -> None:
    assert summary.exact_text(Fraction(1040, 3)) == "1040/3"
    assert summary.exact_text(Fraction(4)) == "4/1"


def test_what_the_verifier_found() -> None:
    base = {"verified": True, "violations": [], "n_violations": 0}
    assert summary.verification_values(Report((), 0, None, None, None)) == base
    found = Report(cast(Any, ("late", "lost")), 5, None, None, 7, 8, 9, height_is_exact=False)
    assert summary.verification_values(found) == {
        "verified": False,
        "violations": ["late", "lost"],
        "n_violations": 5,
        "height_max": 7,
        "height_is_exact": False,
        "steps": 8,
        "layers": 9,
    }


def test_what_is_left_to_the_network() -> None:
    assert summary.shortfall_summary(None) == {"in_network_sends": 0}
    assert summary.shortfall_summary(Shortfall(3, None)) == {"in_network_sends": 3}
    assert summary.shortfall_summary(Shortfall(3, Fraction(5, 2))) == {
        "in_network_sends": 3,
        "point_to_point_algbw_bytes_per_s": 2.5,
        "point_to_point_algbw_exact": "5/2",
    }


def test_optima_and_witnesses() -> None:
    problem = pose("ring:4", "allgather")
    told = summary.bound_values(
        Bound(Fraction(8, 3), CutWitness((2, 0, 9)), False, ""), problem.topology, problem.collective
    )
    assert told == {
        "optimal_algbw_bytes_per_s": 8 / 3,
        "optimal_algbw_exact": "8/3",
        "optimal_busbw_bytes_per_s": 2.0,
        "optimal_busbw_exact": "2/1",
        "witness": {"kind": "cut", "nodes": ["n2", "n0", 9]},
        "bound_only": True,
    }
    tight = Bound(Fraction(8, 3), CutWitness((1,)), True, "")
    assert "bound_only" not in summary.bound_values(tight, problem.topology, problem.collective)


def test_problems() -> None:
    problem = pose("ring:5", "reduce", ranks="0-2", forward=True, root=2)
    assert summary.problem_summary(problem.topology, problem.collective) == {
        "topology": "ring(5)",
        "collective": "reduce",
        "ranks": 3,
        "nodes": 5,
        "links": 10,
        "forwarders": 2,
        "root": 2,
    }
    problem = pose("ring:3", "allgather", weights=[1, 2, 3])
    assert summary.problem_summary(problem.topology, problem.collective) == {
        "topology": "ring(3)",
        "collective": "allgather",
        "ranks": 3,
        "nodes": 3,
        "links": 6,
        "weights": [1, 2, 3],
    }
    problem = pose("ring:6", "allreduce", mesh="2,3", axes="1", forward=True)
    told = summary.problem_summary(problem.topology, problem.collective)
    assert told == {
        "topology": "ring(6)",
        "collective": "allreduce",
        "ranks": 6,
        "nodes": 6,
        "links": 12,
        "groups": 2,
        "group_size": 3,
        "ranks_forward": True,
        "model": "allreduce without in-network multicast and aggregation",
    }


def test_throughput_of_plans() -> None:
    """A ring of four has two links of 1 byte/s a node: T_B is 2 over algbw."""
    plan = solve("ring:4", "allgather").plan
    assert summary.throughput(plan) == {
        "algbw_bytes_per_s": 8 / 3,
        "algbw_exact": "8/3",
        "busbw_bytes_per_s": 2.0,
        "busbw_exact": "2/1",
        "t_b_exact": "3/4",
        "optimal_algbw_bytes_per_s": 8 / 3,
        "optimal_algbw_exact": "8/3",
        "optimal_busbw_bytes_per_s": 2.0,
        "optimal_busbw_exact": "2/1",
    }
    exchange = solve("ring(4, bandwidth='3B/s')", "alltoall").plan
    told = summary.throughput(exchange)
    # each pair's rate is a quarter of algbw, as the buffer has a part for the rank itself
    rate = exchange.algbw / exchange.collective.pair_demands.buffer_units
    assert told["pair_rate_bytes_per_s"] == float(rate)
    assert told["f"] == float(rate / 3)
    uneven = solve("path:3", "allgather").plan
    assert "t_b_exact" not in summary.throughput(uneven)
    assert "t_b_exact" not in summary.throughput(solve("dgx_a100:1", "allgather").plan)


def test_forms_of_schedules() -> None:
    forest = solve("ring:3", "allgather").plan.entries[0].schedule
    shape = summary._shape(forest)
    assert shape["trees"] == 3 * shape["chunks_per_shard"]  # type: ignore[operator]
    assert shape["power_of_two"] is False
    assert summary._shape(solve("ring:4", "allgather").plan.entries[0].schedule)["power_of_two"] is True
    broadcast = summary._shape(solve("ring:3", "broadcast").plan.entries[0].schedule)
    assert "chunks_per_shard" not in broadcast, "other ranks have no tree"
    steps = solve("ring:4", "allgather", algorithm="bfb").plan.entries[0].schedule
    assert summary._shape(steps) == {
        "sends": steps.n_sends,  # type: ignore[union-attr]
        "chunks_per_shard": max(one.n_chunks for one in steps.phases),  # type: ignore[union-attr]
    }
    groups = solve("ring:6", "allgather", mesh="2,3", axes="1").plan.entries[0].schedule
    trees = [one.total_units for one in groups.groups]  # type: ignore[union-attr]
    assert summary._shape(groups) == {"trees": sum(trees), "trees_of_groups": trees}


def test_numbers_of_routes() -> None:
    """Pairs 0, 0, 2, 5: four paths of three pairs."""
    routes = made_up(n_paths=4, pair=np.array([0, 0, 2, 5]), hops=np.array([1, 3, 2, 2]), n_chunks=6)
    assert summary.route_shape(routes) == {
        "routes": 4,
        "routes_per_pair": 4 / 3,
        "hops_max": 3,
        "chunks_per_unit": 6,
    }


def test_numbers_of_pieces() -> None:
    """Pieces within pieces: 0 and 1 stand alone, 2 is in 0, 3 in 2; one of the second layer alone."""
    first = made_up(n_pieces=9, pieces=[1, 2, 3, 4], outer=np.array([-1, -1, 0, 2]))
    second = made_up(n_pieces=5, pieces=[1], outer=np.array([-1]))
    schedule = made_up(forests=[made_up(layers=[first]), made_up(layers=[second, second])])
    assert summary.factored_shape(schedule) == {
        "layers": 3,
        "pieces": 19,
        "piece_kinds": 6,
        "piece_levels": 3,
    }
    assert [summary._levels(one) for one in (first, second)] == [3, 1]


def test_texts() -> None:
    loading = made_up(prepare=["p"], environment={"A": "1"}, code=["c"], check="k")
    bare = made_up(
        judgement=made_up(check=made_up(value="parsed")),
        checked="read",
        is_executed=False,
        n_operations=None,
        n_chunks=None,
        plan_chunks=None,
        served=(),
        friendlier=None,
        carried_algbw=None,
        cautions=("w",),
        loading=loading,
    )
    base = {
        "judged": "parsed",
        "checked": "read",
        "interpreted": False,
        "cautions": ["w"],
        "prepare": ["p"],
        "environment": {"A": "1"},
        "code": ["c"],
        "check": "k",
    }
    assert summary.text_summary(bare) == base
    served = [
        made_up(selector=made_up(value="one"), rule="r", sizes=(1, 2)),
        made_up(selector=made_up(value="two"), rule="s", sizes=(3,)),
    ]
    full = made_up(
        **{
            **vars(bare),
            "n_operations": 0,
            "n_chunks": 8,
            "plan_chunks": 6,
            "rounding_loss": Fraction(1, 4),
            "served": served,
            "friendlier": made_up(trees=4, n_served=21, loss=Fraction(1, 8)),
            "carried_algbw": Fraction(5, 2),
        }
    )
    assert summary.text_summary(full) == {
        **base,
        "operations": 0,
        "chunks": 8,
        "plan_chunks": 6,
        "rounding_loss": 0.25,
        "served_sizes_bytes": [1, 2],
        "served": [
            {"by": "one", "rule": "r", "sizes_bytes": [1, 2]},
            {"by": "two", "rule": "s", "sizes_bytes": [3]},
        ],
        "friendlier_trees": {"trees_per_root": 4, "served_sizes": 21, "loss_at_least": 0.125},
        "thread_blocks_algbw_bytes_per_s": 2.5,
        "thread_blocks_algbw_exact": "5/2",
    }


def test_other_numbers_of_trees_and_who_was_compared() -> None:
    offer = made_up(option="--trees 3", loss=Fraction(1, 8), trees_per_root=3, trees=12)
    assert summary._alternative(offer) == {
        "option": "--trees 3",
        "gap": 0.125,
        "trees_per_root": 3,
        "trees": 12,
    }
    offer = made_up(option="exact", loss=Fraction(0), trees_per_root=None, trees=5)
    assert summary._alternative(offer) == {"option": "exact", "gap": 0.0, "trees": 5}
    contest = made_up(
        size_bytes=64,
        old_seconds=3.0,
        contenders=[
            made_up(algorithm="a", seconds=1.5, algbw=Fraction(5, 2), reason=""),
            made_up(algorithm="b", seconds=1.5, algbw=None, reason="late"),
            made_up(algorithm="c", seconds=None, algbw=Fraction(1), reason=""),
        ],
    )
    assert summary._contest(contest) == {
        "size_bytes": 64,
        "time_before_s": 3.0,
        "contenders": [
            {"algorithm": "a", "time_s": 1.5, "algbw_bytes_per_s": 2.5},
            {"algorithm": "b", "reason": "late"},
            {"algorithm": "c"},
        ],
    }


def test_failures_of_hardened_plans() -> None:
    failure = made_up(name="n0--n1", is_node=False)
    late = made_up(failure=failure, result=None, loss=None, refusal="no", is_late=True)
    assert summary.hardened_summary(late, "x") == {
        "failure": "n0--n1",
        "kind": "cable",
        "refusal": "no",
        "late": True,
    }
    node = made_up(
        failure=made_up(name="n0", is_node=True), result=None, loss=None, refusal="no", is_late=False
    )
    assert summary.hardened_summary(node, None) == {"failure": "n0", "kind": "node", "refusal": "no"}
    plan = solve("ring:4", "allgather").plan
    solved = made_up(is_optimal=True, report=made_up(is_ok=False))
    result = made_up(solved=solved, new=plan, lost_ranks=(3, 1), seconds={"total": 9.0, "x": 1.0})
    result.throughput_loss = Fraction(1, 2)
    lost = {"loss": Fraction(1, 4), "optimum_loss": Fraction(1, 4)}
    row = made_up(failure=failure, result=result, **lost, refusal="", is_late=False)
    wanted = {
        "failure": "n0--n1",
        "kind": "cable",
        **summary.throughput(plan),
        "optimal": True,
        "verified": False,
        "loss": 0.25,
        "throughput_loss": 0.5,
        "optimum_loss": 0.25,
        "lost_ranks": [3, 1],
        "seconds": 9.0,
    }
    assert summary.hardened_summary(row, None) == wanted
    assert summary.hardened_summary(row, "x.plan") == {**wanted, "plan": "x.plan"}


def test_fronts() -> None:
    point = made_up(steps=3, rounds=(2, 1), chunks=4, ratio=Fraction(3, 4), is_proved=False)
    entry = made_up(steps=5, total_rounds=6, chunks=7, status=made_up(value="open"), reason="late")
    front = made_up(least_steps=2, least_ratio=Fraction(2, 3), points=[point], excluded=[entry])
    assert summary.front_summary(front) == {
        "least_steps": 2,
        "least_rounds_per_chunk": "2/3",
        "points": [
            {"steps": 3, "rounds": [2, 1], "chunks_per_shard": 4, "rounds_per_chunk": "3/4", "proved": False}
        ],
        "excluded": [
            {"steps": 5, "total_rounds": 6, "chunks_per_shard": 7, "status": "open", "reason": "late"}
        ],
    }


def test_rows_of_designs_leave_out_what_is_not_known() -> None:
    candidate = made_up(steps=3, gather=made_up(t_b=Fraction(3, 4)), reduce=made_up(t_b=Fraction(5, 4)))
    option = made_up(
        expression="e",
        notation="n",
        candidate=candidate,
        diameter=4,
        mean_distance=Fraction(5, 2),
        pair_rate=Fraction(1, 8),
        flow=made_up(rate=0.5, gap=0.25),
        parts=2,
    )
    row = made_up(
        option=option,
        allreduce_s=1.0,
        alltoall_bound_s=2.0,
        alltoall_s=3.0,
        seconds=4.0,
        least_s=5.0,
        own_order_s=6.0,
        placement=np.array([1, 0]),
    )
    assert summary._design_row(row) == {
        "topology": "e",
        "notation": "n",
        "steps": 3,
        "t_b_exact": "3/4",
        "t_b_reduce_scatter_exact": "5/4",
        "allreduce_s": 1.0,
        "diameter": 4,
        "mean_distance": 2.5,
        "alltoall_pair_rate_bound": 0.125,
        "alltoall_bound_s": 2.0,
        "alltoall_pair_rate": 0.5,
        "alltoall_gap": 0.25,
        "alltoall_s": 3.0,
        "workload_s": 4.0,
        "workload_bound_s": 5.0,
        "workload_own_order_s": 6.0,
        "node_of_rank": [1, 0],
        "separate_parts": 2,
    }
    option.mean_distance = option.pair_rate = option.flow = None
    option.parts = 1
    row.placement = row.own_order_s = None
    assert set(summary._design_row(row)) == {
        "topology",
        "notation",
        "steps",
        "t_b_exact",
        "t_b_reduce_scatter_exact",
        "allreduce_s",
        "diameter",
        "alltoall_bound_s",
        "alltoall_s",
        "workload_s",
        "workload_bound_s",
    }


@pytest.mark.parametrize("fabric", ["ring:4", "dgx_a100:1"])
def test_solved_problems_say_what_they_are(fabric: str) -> None:
    solved = planning.solve(fabric, "allgather")
    told = summary.solve_summary(solved)
    assert told["algorithm"] == solved.plan.algorithm
    assert (told["optimal"], told["gap"]) == (True, 0.0)
    assert told["time_limit_reached"] is False
    assert told["seconds"] == dict(solved.seconds)
    assert told["trees"] == solved.plan.entries[0].schedule.total_units  # type: ignore[union-attr]
    assert told["witness"] == summary._witness(solved.bound.witness, solved.topology)  # type: ignore[union-attr]
