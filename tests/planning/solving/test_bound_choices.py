"""Which way a bound is found, at every number of ranks where that changes; what routes are told to cost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.context import Context, context
from treadle.errors import FormatError
from treadle.inputs.problem import Problem
from treadle.planning import make_problem, schedulers
from treadle.render.comparing import schedulers_rows
from treadle.render.rows import values
from treadle.schedulers import alltoall_candidates, bounds, route_candidates
from treadle.schedulers.bounds import (
    bound_of_allreduce,
    bound_of_alltoall,
    bound_of_groups,
    find_bound,
    large_allreduce,
)
from treadle.schedulers.route_candidates import best_routes
from treadle.schedulers.schedulers import (
    default_algorithm,
    find_scheduler,
    is_scheduler,
)
from treadle.schedules.certificate import BottleneckCut
from treadle.synthesis.alltoall.steps.hop_steps import MAX_CHUNKS
from treadle.synthesis.result import Bound
from treadle.synthesis.scheduler_options import RouteOptions
from treadle.unsupported import Unsupported

CUT = BottleneckCut((0,))
COSTLY = Bound(Fraction(1), CUT, True, "groups")


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def group_optimum(*, upper: int = 7, lower: int | None = None) -> Any:
    lower = upper if lower is None else lower
    return made_up(upper=Fraction(upper), lower=Fraction(lower), certificate=CUT, is_exact=lower == upper)


def test_the_limits_of_ranks() -> None:
    limits = bounds.MAX_RANKS_BY_CUTS, bounds.MAX_RANKS_BY_FLOW, bounds.MAX_RANKS_AS_GROUP
    assert limits == (128, 1024, 8192)


def test_bounds_as_they_are_told() -> None:
    switched = make_problem("dgx_h100(1, nvls=True)", "allgather")
    plain, whole = make_problem("ring:4", "allgather"), make_problem("ring:4", "allreduce")
    model = "without in-network multicast and aggregation"
    assert bound_of_groups(plain, group_optimum()) == Bound(Fraction(7), CUT, True, "")
    assert bound_of_groups(whole, group_optimum(lower=6)).model == f"allreduce {model}"
    assert not bound_of_groups(whole, group_optimum(lower=6)).is_tight
    assert bound_of_groups(switched, group_optimum()).model == f"allgather {model}"
    for attained, is_tight in ((True, True), (False, False), (None, False)):
        found: Any = made_up(algbw=Fraction(3), certificate=CUT, is_attained=attained)
        assert bound_of_allreduce(whole, found) == Bound(Fraction(3), CUT, is_tight, f"allreduce {model}")
    exchange = make_problem("ring:4", "alltoall").collective
    rate: Any = made_up(collective=exchange, upper=Fraction(1, 3), certificate=CUT, exact=None)
    units = exchange.pair_demands.buffer_units
    assert bound_of_alltoall(rate) == Bound(units * Fraction(1, 3), CUT, False)
    rate.exact = Fraction(1, 3)
    assert bound_of_alltoall(rate).is_tight


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Limits that rings of five, seven and nine are beyond."""
    monkeypatch.setattr(bounds, "MAX_RANKS_BY_CUTS", 4)
    monkeypatch.setattr(bounds, "MAX_RANKS_BY_FLOW", 6)
    monkeypatch.setattr(bounds, "MAX_RANKS_AS_GROUP", 8)
    return monkeypatch


def test_who_bounds_an_allreduce(small: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pieces: list[Any] = [None]
    classes, tight = [0], [True]

    def by_pieces(problem: Problem) -> Bound | None:
        asked.append("pieces")
        return pieces[0]  # type: ignore[no-any-return]

    def as_group(problem: Problem) -> Any:
        asked.append("group")
        return group_optimum(lower=7 if tight[0] else 6)

    small.setattr(bounds, "_bound_by_pieces", by_pieces)
    small.setattr(bounds, "groups_optimum", as_group)
    small.setattr("treadle.synthesis.trees.groups.group_optimum.count_classes", lambda *given: classes[0])

    def found(ranks: int, fabric: str = "ring") -> Bound | None:
        asked.clear()
        return large_allreduce(make_problem(f"{fabric}:{ranks}", "allreduce"))

    assert (found(4), asked) == (None, [])
    assert found(5) is not None
    assert asked == ["group"]
    assert found(6) is not None
    assert asked == ["group"]
    assert found(7) is not None
    assert asked == ["pieces", "group"]
    pieces[0] = COSTLY
    assert (found(7), asked) == (COSTLY, ["pieces"])
    pieces[0] = None
    assert found(8) is not None
    assert (found(9), asked) == (None, ["pieces"])
    classes[0] = 3  # twice that is 6
    assert found(6) is not None
    assert (found(5), asked) == (None, [])
    classes[0], tight[0] = 0, False
    assert (found(5), asked) == (None, ["group"])
    tight[0] = True
    for able in ("multicast", "aggregation"):
        box = make_problem("dgx_a100:1", "allreduce")
        capable = replace(box.topology, **{able: ~box.topology.is_compute})
        assert large_allreduce(replace(box, topology=capable)) is None
    capped = make_problem("ring:7", "allreduce")
    caps = np.array([0, 1, 0, 0, 0, 0, 0])
    limited = replace(capped, topology=replace(capped.topology, injection_bytes_per_s=caps))
    assert large_allreduce(limited) is None


def test_pieces_bound_where_they_attain(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem("ring:4", "allreduce")
    answers: list[Any] = [
        Unsupported("no"),
        made_up(bound=Fraction(3), certificate=CUT, found=made_up(algbw=Fraction(2))),
        made_up(bound=Fraction(3), certificate=CUT, found=made_up(algbw=Fraction(3))),
    ]
    monkeypatch.setattr(bounds.forestcoll, "decompose_allreduce", lambda *given, **words: answers.pop(0))
    assert bounds._bound_by_pieces(problem) is None
    assert bounds._bound_by_pieces(problem) is None
    assert bounds._bound_by_pieces(problem) == Bound(
        Fraction(3), CUT, True, "allreduce without in-network multicast and aggregation"
    )


def test_optima_of_many_ranks_are_those_of_forests_that_attain_them(small: pytest.MonkeyPatch) -> None:
    own, by_flow = made_up(algbw=Fraction(5)), made_up(algbw=Fraction(6))
    answer: list[Any] = [made_up(algbw=Fraction(5), optimum=own)]
    small.setattr(bounds.forestcoll, "decompose", lambda *given: answer[0])
    small.setattr(bounds.forestcoll, "optimum", lambda *given: by_flow)
    assert bounds._optimum(make_problem("ring:6", "allgather")) is by_flow
    assert bounds._optimum(make_problem("ring:7", "allgather")) is own
    answer[0] = made_up(algbw=Fraction(4), optimum=own)
    assert bounds._optimum(make_problem("ring:7", "allgather")) is by_flow
    answer[0] = Unsupported("no")
    assert bounds._optimum(make_problem("ring:7", "allgather")) is by_flow


def test_one_group_of_many_ranks_is_no_group(small: pytest.MonkeyPatch) -> None:
    small.setattr(bounds, "groups_optimum", lambda problem: group_optimum(upper=99))

    def one_group(ranks: int) -> Problem:
        found = make_problem(f"ring:{ranks}", "allgather")
        return replace(found, collective=replace(found.collective, groups=(tuple(range(ranks)),)))

    assert find_bound(one_group(6)).algbw == 99
    assert find_bound(one_group(7)).algbw == Fraction(7, 3)
    assert find_bound(make_problem("ring:8", "allgather", mesh="2,4", axes="1")).algbw == 99


def test_where_switches_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless groups say the same, theirs is the bound; nobody knows where switches do more."""
    by_cuts = Bound(Fraction(7), BottleneckCut((1,)))
    answer = [group_optimum()]
    monkeypatch.setattr(bounds, "groups_optimum", lambda problem: answer[0])
    problem = make_problem("ring:4", "allgather")
    assert bounds._where_switches_lose(problem, by_cuts) is by_cuts
    for upper, lower, algbw, is_tight in ((6, 6, 6, True), (6, 5, 6, False)):
        answer[0] = group_optimum(upper=upper, lower=lower)
        found = bounds._where_switches_lose(problem, by_cuts)
        assert (found.algbw, found.certificate, found.is_tight) == (algbw, CUT, is_tight)
    # of two bounds that nothing is known to attain, the lesser one
    for upper in (7, 9):
        answer[0] = group_optimum(upper=upper, lower=6)
        assert bounds._where_switches_lose(problem, by_cuts) == replace(by_cuts, is_tight=False)
    answer[0] = group_optimum(upper=9, lower=7)
    assert bounds._where_switches_lose(problem, by_cuts) is by_cuts
    box = make_problem("dgx_a100:1", "allgather")
    able = ~box.topology.is_compute
    for changed in ({"multicast": able}, {"aggregation": able}, {"injection_bytes_per_s": 9 * ~able}):
        capable = Problem(replace(box.topology, **changed), box.collective)
        assert bounds._where_switches_lose(capable, by_cuts) == replace(by_cuts, is_tight=False)


def routes_built(
    monkeypatch: pytest.MonkeyPatch, *, late: bool = False, efficiency: float = 1.0, loss: float = 0.0
) -> list[Any]:
    """What `best_routes` asks for, of parts that are made up."""
    told: list[Any] = []
    best = made_up(is_late=late, rate=0.75, bound=1.0, routing=made_up(paths="paths", weights="weights"))
    layered = made_up(
        routing=made_up(paths="own", weights="w"), layer="layer", is_late=False, efficiency=efficiency
    )
    monkeypatch.setattr(route_candidates, "generate_routes", lambda *given: best)
    monkeypatch.setattr(route_candidates, "lash_layers", lambda paths, links: np.array([0, 2, 1]))
    monkeypatch.setattr(route_candidates, "layered_routes", lambda *given, **words: layered)

    def built(topology: Any, collective: Any, paths: Any, weights: Any, **words: Any) -> Any:
        told.append((paths, words["chunks"], words["max_routes"], words["layer"]))
        return made_up(loss=loss, schedule="schedule")

    monkeypatch.setattr(route_candidates, "route_schedule", built)
    return told


def test_what_routes_are_told_to_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem("ring:4", "alltoall")
    given = problem.topology, problem.collective
    told = routes_built(monkeypatch)
    found = best_routes(*given)
    assert (found.schedule, found.notes, found.is_late, found.bound) == ("schedule", (), False, None)
    assert told[-1][:3] == ("paths", None, None)
    assert told[-1][3].tolist() == [0, 2, 1]
    best_routes(*given, chunks=5, max_flows=2, max_routes=3)
    assert told[-1][:3] == ("paths", 5, 3)
    best_routes(*given, max_flows=2)
    assert told[-1][1] == route_candidates._TIMED_CHUNKS
    routes_built(monkeypatch, late=True)
    found = best_routes(*given)
    assert found.is_late
    assert found.notes == ("time ran out; the paths are at most 25.00% below the best ones",)
    told = routes_built(monkeypatch, efficiency=0.5)
    found = best_routes(*given, max_layers=1)
    assert told[-1] == ("own", None, None, "layer")
    assert found.notes == ("1 layer cost 50.00% of the rate; 3 are enough for all of it (--layers)",)
    routes_built(monkeypatch, loss=0.125)
    assert best_routes(*given).notes == ("whole chunks cost 12.50% of the rate; more (--chunks) cost less",)
    assert best_routes(*given, max_routes=2).notes == (
        "whole chunks on at most 2 routes cost 12.50% of the rate; more routes (--max-routes) or chunks "
        "(--chunks) cost less",
    )


def test_limits_that_only_a_search_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem("ring:4", "alltoall")
    routes_built(monkeypatch)
    asked: list[Any] = []
    monkeypatch.setattr(
        route_candidates, "_searched", lambda topology, collective, limits: asked.append(limits)
    )
    monkeypatch.setattr(route_candidates, "SEARCHED_PAIRS", 12)
    best_routes(problem.topology, problem.collective)
    assert asked == [], "twelve pairs"
    for words in ({"max_hops": 3}, {"layer_changes": True}):
        best_routes(problem.topology, problem.collective, **words)  # type: ignore[arg-type]
        assert asked[-1].given() == words
    monkeypatch.setattr(route_candidates, "SEARCHED_PAIRS", 11)
    best_routes(problem.topology, problem.collective, max_layers=2, max_routes=3, seed=4, max_flows=1)
    assert asked[-1].given() == {
        "max_layers": 2,
        "max_routes": 3,
        "seed": 4,
        "chunks": route_candidates._TIMED_CHUNKS,
    }


@pytest.mark.parametrize(("layers", "words"), [(1, "1 layer"), (3, "3 layers")])
def test_how_far_searched_routes_are_below_the_bound(
    layers: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem("ring:4", "alltoall")
    schedule = made_up(n_layers=layers)
    found = made_up(schedule=schedule, unlayered_algbw=Fraction(3), layer_rates={}, is_late=True)
    asked: list[Any] = []

    def search(*given: Any, **named: Any) -> Any:
        asked.append((given, named))
        return found

    bound = Bound(Fraction(4), CUT)
    monkeypatch.setattr(route_candidates, "searched_routes", search)
    monkeypatch.setattr(route_candidates, "rate_with_routes", lambda *given: given)
    monkeypatch.setattr(
        route_candidates, "bound_of_alltoall", lambda rate: bound if rate[2] is schedule else None
    )
    monkeypatch.setattr(route_candidates, "route_algbw", lambda *given: Fraction(2))
    given = (problem.topology, problem.collective)
    options = RouteOptions(chunks=2, max_layers=3, layer_changes=True, max_routes=4, max_hops=5, seed=6)
    built = route_candidates._searched(*given, options)
    assert (built.schedule, built.bound, built.is_late) == (schedule, bound, True)
    assert built.notes == (f"below the bound: without layers 25.00%, in {words} 50.00%",)
    assert asked == [(given, options.given())]


@pytest.mark.parametrize("late", [(False, False), (True, False), (False, True)])
def test_a_search_is_late_where_one_of_its_halves_is(
    late: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fifths of the time are for paths, another fifth for steps."""
    problem = make_problem("ring:4", "alltoall")
    halves = dict(zip((0.4, 0.6), late, strict=True))
    part = alltoall_candidates
    ends = {share: Context(None, -share if halves[share] else 1e9 + share) for share in halves}
    shares = {ends[share]: share for share in halves}
    monkeypatch.setattr(part, "until", ends.__getitem__)
    monkeypatch.setattr(part, "cut_demands", lambda *_, max_routes, max_hops: (max_routes, max_hops))
    found = made_up(offset=0, place=np.zeros(2))
    monkeypatch.setattr(
        part, "search_paths", lambda pieces: (found, 0) if shares[context()] == 0.4 else (None, 0)
    )
    monkeypatch.setattr(part, "subflow_routes", lambda *given: given[0])
    monkeypatch.setattr(
        part,
        "routes_in_steps",
        lambda *given, max_steps, max_chunks: (given[2], max_steps, max_chunks, shares[context()]),
    )
    monkeypatch.setattr(part, "alltoall_rate", lambda *given, **named: "rate")
    monkeypatch.setattr(part, "bound_of_alltoall", lambda rate: rate)
    for chunks, most in ((7, 7), (None, MAX_CHUNKS)):
        built = part._searched_steps(problem.topology, problem.collective, chunks, 9)
        told: Any = built.schedule, built.bound, built.notes, built.is_late
        assert told == (((most, 9), 9, most, 0.6), "rate", (), any(late))


def test_what_is_used_where_nothing_is_asked_for() -> None:
    assert default_algorithm(make_problem("ring:4", "allreduce")) == "forestcoll"
    assert default_algorithm(make_problem("dgx_a100:1", "allgather")) == "forestcoll"
    assert default_algorithm(make_problem("ring:4", "alltoall")) == "pipelined"
    assert default_algorithm(make_problem("dgx_a100:1", "alltoall")) == "routes"


def test_schedulers_by_name() -> None:
    assert find_scheduler("ForestColl") is find_scheduler("forestcoll")
    assert is_scheduler("Few_Trees")
    assert not is_scheduler("forest fire")
    with pytest.raises(FormatError, match=r"^unknown algorithm 'forest fire'; did you mean forestcoll\?"):
        find_scheduler("forest fire")
    (told,) = values(schedulers_rows([find_scheduler("few-trees")]))["schedulers"]
    assert told == {
        "name": "few-trees",
        "form": "trees",
        "collectives": ["allgather", "reduce-scatter", "allreduce"],
        "needs": list(find_scheduler("few-trees").format_requirements),
        "options": list(find_scheduler("few-trees").supported_options),
        "flags": told["flags"],
        "comparing": "at sizes",
        "peer": False,
        "groups": False,
        "source": find_scheduler("few-trees").source,
        "origin": "",
    }
    assert told["flags"][:2] == ["--trees", "--height"]
    forms = [one.form for one in schedulers()]
    assert forms == sorted(forms, key=list(dict.fromkeys(forms)).index)
    trees = [one.name for one in schedulers() if one.form == "trees"]
    assert trees[:4] == ["forestcoll", "rs-ag", "few-trees", "isolated"]
    assert trees[4:] == sorted(trees[4:], key=lambda name: (find_scheduler(name).origin, name))
