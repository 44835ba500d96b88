"""What is told of candidates, rates and limits: sentences in full, and rows of tables number by number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError, TreadleError
from treadle.planning import make_problem, solve
from treadle.schedulers import exact_synthesis, route_candidates
from treadle.schedulers.alltoall import rate_by_method, rate_summary, uniform_bandwidth
from treadle.schedulers.alltoall_candidates import _busiest, _finest, _losses, _most_chunks, _runnable
from treadle.schedulers.comparison import Comparison, ComparisonRow, RowMeasures
from treadle.schedulers.exact_synthesis import DEFAULT_TIME_LIMIT_S, exact
from treadle.schedulers.expectations import reducing_counterpart
from treadle.schedulers.forest_request import ForestRequest, tree_budget
from treadle.schedulers.generation import generate, options_for
from treadle.schedulers.route_candidates import _counted, _layering, within_limits
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.solving import RejectedError, _provenance
from treadle.schedulers.tree_choice import _exact, _is_one_a_shard, with_tree_choice
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.result import Alternative, Bound, Result
from treadle.synthesis.scheduler_options import RouteOptions, StepOptions, TreeOptions
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.verification.violations import Report


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def candidate(**values: Any) -> Result:
    bound = Bound(Fraction(4), BottleneckCut((0,)), True, "")
    return Result(**{"schedule": cast(Any, None), "bound": bound, "algorithm": "a", **values})


@pytest.mark.parametrize(
    ("values", "chunks", "is_default", "text"),
    [
        ({"exact_trees_per_root": 1}, 8, False, "the optimum takes 1 tree per root (--exact)"),
        ({"exact_trees_per_root": 13}, 8, False, "the optimum takes 13 trees per root (--exact)"),
        ({"exact_trees": 5}, 8, False, "the optimum takes 5 trees in all (--exact)"),
        (
            {"exact_trees_per_root": 13, "trees_per_root": 3},
            12,
            True,
            "3 trees per root, 2% below the optimum with 13; --exact builds those",
        ),
        (
            {"exact_trees_per_root": 13, "trees_per_root": 2},
            8,
            True,
            "2 trees per root, 2% below the optimum with 13; --exact builds those (8 chunks divide buffers "
            "of a power of two, which runtimes ask of texts)",
        ),
        (
            {"exact_trees": 5, "trees_per_root": 3},
            12,
            True,
            "3 trees per root, 2% below the optimum with 5 in all; --exact builds those",
        ),
        (
            {"exact_trees": 5},
            12,
            True,
            "12 trees in all, 2% below the optimum with 5; --exact builds those",
        ),
        (
            {"exact_trees_per_root": 5},
            12,
            True,
            "12 trees in all, 2% below the optimum with 5 per root; --exact builds those",
        ),
    ],
)
def test_what_the_optimum_takes(values: dict[str, Any], chunks: int, is_default: bool, text: str) -> None:
    found, offer = _exact(candidate(**values), "2%", chunks, is_default=is_default)
    assert found == text
    per_root = values.get("exact_trees_per_root")
    assert offer == Alternative("--exact", Fraction(0), per_root, values.get("exact_trees"))


def test_chunks_that_are_shards_themselves() -> None:
    ring = make_problem("ring:4", "allgather").collective
    assert _is_one_a_shard(ring, 4)
    assert not _is_one_a_shard(ring, 8)
    assert not _is_one_a_shard(make_problem("ring:4", "allreduce").collective, 4)
    assert not _is_one_a_shard(make_problem("ring:4", "broadcast").collective, 4)
    assert _is_one_a_shard(make_problem("ring:4", "allgather", weights=[1, 2, 1, 1]).collective, 8)


def test_a_choice_is_told_where_there_was_one() -> None:
    """Three chunks of three ranks are shards; six are told of, and that the optimum takes more."""
    problem = make_problem("ring:3", "allgather")
    made = replace(generate(problem, find_scheduler("forestcoll")), notes=("first",), alternatives=())
    assert made.bound is not None
    whole = with_tree_choice(problem, ForestRequest(budget=tree_budget(exact=True)), made)
    assert whole is made
    unknown = replace(made, bound=None)
    assert with_tree_choice(problem, ForestRequest(), unknown) is unknown
    asked = ForestRequest(budget=tree_budget(trees=2))
    less = replace(made, exact_trees_per_root=2, exact_trees=None)
    told = with_tree_choice(problem, asked, replace(less, algbw=made.bound.algbw * Fraction(9, 10)))
    assert told.notes == ("first", "the optimum takes 2 trees per root (--exact)")
    assert told.alternatives == (Alternative("--exact", Fraction(0), 2, None),)
    same = with_tree_choice(problem, asked, replace(less, algbw=made.bound.algbw))
    assert (same.notes, same.alternatives) == (("first",), ())


def test_rates_of_exchanges() -> None:
    found = made_up(
        method="flows",
        rate=0.25,
        upper=Fraction(1, 3),
        algbw=1.0,
        gap=0.25,
        exact=None,
        is_late=True,
        topology=parse("ring(4, bandwidth='2B/s')"),
        collective=make_problem("ring:4", "alltoall").collective,
        binding_links=lambda: np.array([3, 1]),
        binding_hosts=lambda: np.array([2, 0]),
    )
    wanted = {
        "method": "flows",
        "pair_rate_bytes_per_s": 0.25,
        "pair_rate_upper_bytes_per_s": 1 / 3,
        "pair_rate_upper_exact": "1/3",
        "inverse": 4.0,
        "algbw_bytes_per_s": 1.0,
        "busbw_bytes_per_s": 0.75,
        "gap": 0.25,
        "optimal": None,
        "time_limit_reached": True,
        "binding_links": [3, 1],
        "binding_hosts": ["n2", "n0"],
        "f": 0.125,
        "inverse_f": 8.0,
        "f_upper": float(Fraction(1, 6)),
    }
    assert rate_summary(found) == wanted
    found.exact, found.binding_hosts = Fraction(1, 3), lambda: np.array([], dtype=np.int64)
    told = {**wanted, "optimal": True, "pair_rate_exact": "1/3", "f_exact": "1/6"}
    del told["binding_hosts"]
    assert rate_summary(found) == told
    assert uniform_bandwidth(found) == 2
    builder = TopologyBuilder("odd")
    names = [builder.compute(name) for name in "abc"]
    for width, name in enumerate(names, 1):
        builder.duplex(name, names[width % 3], width)
    found.topology = builder.build()
    assert uniform_bandwidth(found) is None
    assert not {key for key in rate_summary(found) if key.startswith(("f", "inverse_f"))}
    method: Any = made_up(is_cut=True)
    with pytest.raises(ScheduleError, match="takes none; it is for fleischer and the default"):
        rate_by_method(make_problem("ring:4", "alltoall"), method, gap=0.1)


def test_chunks_that_programs_may_have() -> None:
    """Equal shards as many as they like; unequal demands by how many units there are."""
    equal = make_problem("ring:4", "alltoall")
    assert _runnable(equal, 77) == 77
    assert _finest(equal, 5) == 5
    assert _most_chunks(equal, 5) == 5
    assert _finest(equal, None) >= _finest(equal, 5)

    def of(units: int) -> Any:
        return make_problem(
            "ring:4", "alltoall", demands=Demands([[0, units - 3, 1, 1], [1, 0, 0, 0]] + [[0] * 4] * 2)
        )

    assert int(of(1000).collective.pair_demands.matrix.sum()) == 1000
    assert _runnable(of(1000), 10**9) == 2**22 // 1000
    assert _runnable(of(1000), 99) == 99
    many = of(2**20 - 10)
    assert 1 <= _runnable(many, 10**9) <= 64


def test_losses_of_whole_chunks() -> None:
    assert _losses(0.9e-6, "flows") == ()
    assert _losses(0.0123, "the flows") == (
        "whole chunks take 1.23% longer than the flows; more of them (--chunks) lose less",
    )
    assert len(_losses(1e-6, "flows")) == 1


def capped() -> Topology:
    builder = TopologyBuilder("capped")
    names = [builder.compute(name) for name in "abc"]
    for width, name in enumerate(names, 2):
        builder.duplex(name, names[(width - 1) % 3], width)
    return builder.build()


def test_the_busiest_link_or_host_of_routes() -> None:
    """Units 2 and 3 over links of 2, 3 and 4 bytes/s; a host that sends no more than 1 takes longest."""
    fabric = capped()
    assert fabric.bandwidths.tolist() == [2, 2, 3, 3, 4, 4]
    routes: Any = made_up(
        path_links=np.array([0, 2, 2]), units=np.array([2, 3]), hops=np.array([2, 1]), n_chunks=5
    )
    # loads: 2 on link 0, 5 on link 2
    assert _busiest(fabric, routes) == max(Fraction(2, 2), Fraction(5, 3)) / 5
    tail = int(fabric.tails[2])
    caps = np.zeros(3, dtype=np.int64)
    caps[tail] = 1
    assert _busiest(replace(fabric, injection_bytes_per_s=caps), routes) == Fraction(5, 5)
    caps = np.zeros(3, dtype=np.int64)
    caps[int(fabric.heads[0])] = 1
    through = 5 if int(fabric.heads[0]) == tail else 2
    assert _busiest(replace(fabric, injection_bytes_per_s=caps), routes) == Fraction(through, 5)


def test_routes_within_limits() -> None:
    assert (_counted(1, "layer"), _counted(2, "layer"), _counted(0, "hop")) == (
        "1 layer",
        "2 layers",
        "0 hops",
    )
    problem = make_problem("ring:5", "alltoall")
    routes = solve("ring:5", "alltoall", algorithm="routes").plan.entries[0].schedule
    most = int(np.bincount(routes.pair).max())  # type: ignore[union-attr]
    needed = {
        "max_layers": ("layers", routes.n_layers),  # type: ignore[union-attr]
        "max_routes": ("routes a pair", most),
        "max_hops": ("hops", int(routes.hops.max())),  # type: ignore[union-attr]
    }
    for name, (what, number) in needed.items():
        with under(Context()):
            kept = within_limits("own", problem.topology, cast(Any, routes), RouteOptions(**{name: number}))
        assert kept is routes
        if number > 1:
            with pytest.raises(InfeasibleError) as caught, under(Context()):
                within_limits("own", problem.topology, cast(Any, routes), RouteOptions(**{name: number - 1}))
            assert str(caught.value) == (
                f"own: needs {number} {what}, at most {number - 1} are allowed; allow more, or use "
                "--algorithm routes"
            )


def test_late_layers_get_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_candidates, "monotonic", lambda: 100.0)
    with under(Context(None, 99.0)):
        assert _layering(is_late=True).deadline == 100.5
    with under(Context(None, 200.0)):
        assert _layering(is_late=True).deadline == 200.0
    with under(Context(None, 99.0)):
        assert _layering(is_late=False).deadline == 99.0
    with under(Context()):
        assert _layering(is_late=True).deadline is None


def test_time_that_is_left_to_exact_synthesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    assert exact_synthesis._seconds_left() == DEFAULT_TIME_LIMIT_S == 60.0
    with under(Context(deadline=102.5)):
        assert exact_synthesis._seconds_left() == 2.5
    for deadline in (100.0, 99.0):
        with (
            under(Context(deadline=deadline)),
            pytest.raises(TimeLimitError, match=r"^exact: the time limit was reached$"),
        ):
            exact_synthesis._seconds_left()


def test_exact_synthesis_without_a_schedule() -> None:
    problem = make_problem("ring:4", "allgather")
    with pytest.raises(InfeasibleError) as caught:
        exact(problem.topology, problem.collective, steps=1)
    assert str(caught.value) == (
        "exact: no schedule of ring(4) has 1 steps or fewer (the least possible is 2) and up to 2 chunks; "
        "allow more"
    )


def report(algbw: Fraction | None, *, wrong: int = 0) -> Report:
    return Report(cast(Any, ("late", "lost")[:wrong]), wrong, algbw, None, None)


def test_schedules_that_are_rejected() -> None:
    for maker, whose in (("", "Treadle"), ("somebody", "somebody")):
        assert str(RejectedError("a", report(None, wrong=2), maker)) == (
            f"a: fails verification (violations: 2; first: late); nothing was written; this is a defect of "
            f"{whose}, please report it"
        )
    assert "(violations: 0; first: no throughput)" in str(RejectedError("a", report(None)))


def test_where_plans_come_from() -> None:
    assert set(_provenance(candidate())) == {"version"}
    assert _provenance(candidate(trees_per_root=3))["trees_per_root"] == 3
    told = candidate(bound=Bound(Fraction(1), BottleneckCut((0,)), True, "switches"))
    assert _provenance(told)["model"] == "switches"


def test_tables_of_comparisons() -> None:
    problem = make_problem("ring:4", "allgather")
    at = made_up(size_bytes=64, time=Fraction(1, 4), algbw_bytes_per_s=2.0)
    rows = (
        ComparisonRow("a", report(Fraction(3)), 6, 0.5, measured=RowMeasures(sizes=(at, at))),
        ComparisonRow("b", None, None, 1.5, "no"),
        ComparisonRow("c", report(Fraction(3), wrong=1), 2, 2.5),
    )
    bound = Bound(Fraction(4), BottleneckCut((0,)), True, "")
    plain = Comparison(problem.topology, problem.collective, bound, rows)
    assert plain.optimal_algbw == 4
    first = {
        "algorithm": "a",
        "algbw_bytes_per_s": 3.0,
        "busbw_bytes_per_s": 2.25,
        "pipelined_algbw_bytes_per_s": None,
        "share_of_bound": 0.75,
        "trees": 6,
        "seconds": 0.5,
        "refusal": "",
    }
    nothing = {"algbw_bytes_per_s": None, "busbw_bytes_per_s": None, "share_of_bound": None}
    second = {**first, **nothing, "algorithm": "b", "trees": None, "seconds": 1.5, "refusal": "no"}
    third = {**first, **nothing, "algorithm": "c", "trees": 2, "seconds": 2.5}
    assert plain.records() == [first, second, third]
    figures = {
        "size_bytes": 64,
        "time_s": 0.25,
        "simulated_algbw_bytes_per_s": 2.0,
        "simulated_busbw_bytes_per_s": 1.5,
    }
    unknown = dict.fromkeys(figures)
    assert replace(plain, sizes=(64,)).records() == [
        first | figures,
        first | figures,
        second | unknown,
        third | unknown,
    ]


def test_what_is_asked_of_schedulers() -> None:
    trees, steps = find_scheduler("forestcoll"), find_scheduler("bfb")
    with pytest.raises(ScheduleError) as caught:
        options_for(trees, StepOptions(), {})
    assert str(caught.value) == "forestcoll: options are StepOptions, expected TreeOptions"
    with pytest.raises(ScheduleError, match=r"^bfb: --trees is for --algorithm .* or "):
        options_for(steps, None, {"trees": 3})
    assert options_for(steps, None, {"seed": 3}).seed == 3
    assert options_for(trees, TreeOptions(trees=2, trim=True), {"trees": 3}).given() == {
        "trees": 3,
        "trim": True,
    }
    pruned = options_for(trees, None, {"multicast": True})
    assert (pruned.form, pruned.multicast) == ("explicit", True)  # type: ignore[attr-defined]
    with pytest.raises(ScheduleError) as caught:
        options_for(trees, None, {"multicast": True, "form": "factored"})
    assert str(caught.value) == "--multicast prunes trees written out; factored ones have to stay whole"
    with pytest.raises(TreadleError) as caught:
        generate(make_problem("ring:4", "alltoall"), trees)
    assert str(caught.value).endswith("; for an all-to-all leave out --algorithm (treadle algorithms)")
    groups = make_problem("ring:4", "allgather", mesh="2,2", axes="1")
    with pytest.raises(ScheduleError) as caught:
        generate(groups, trees, TreeOptions(multicast=True))
    assert str(caught.value) == ("forestcoll: --multicast prunes trees of one group of ranks; leave it out")


def star(width: int, *, ranks: str = "abcd") -> Topology:
    """Three or four nodes at a switch, the last one at another too."""
    builder = TopologyBuilder("star")
    switch, other = builder.switch("s"), builder.switch("t")
    for place, name in enumerate(ranks):
        node = builder.compute(name)
        builder.duplex(node, switch, (width if place else 2 * width) * 10**9)
        if place > 1:
            builder.duplex(node, other, 500 * 10**9)
    return builder.build()


def test_switches_that_may_be_of_those_that_sum() -> None:
    """Those that join all ranks by links faster than 300 GB/s, where nothing else is said."""
    assert reducing_counterpart(make_problem(star(300), "allreduce")) is None
    twin = reducing_counterpart(make_problem(star(301), "allreduce"))
    assert twin is not None
    able = [twin.topology.node_names[node] for node in np.flatnonzero(twin.topology.multicast)]
    assert able == ["s"]
    assert (twin.topology.multicast == twin.topology.aggregation).all()
    assert reducing_counterpart(twin) is None, "it is said"
    assert reducing_counterpart(make_problem(star(301), "allgather")) is None
    assert reducing_counterpart(make_problem(star(301), "allreduce", ranks="0-2", forward=True)) is None
    assert reducing_counterpart(make_problem(star(301), "allreduce", mesh="2,2", axes="1")) is None
    assert twin.collective.kind is CollectiveKind.ALLREDUCE
