"""Searches for better graphs on demand: repeatable, within their time, never worse than the library."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from treadle.errors import ScheduleError
from treadle.finder.construction import expression
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.searches import fresh
from treadle.finder.searches.fresh import USUAL_SEARCH, SearchLimit, search_now
from treadle.finder.workload import Network, allreduce_of
from treadle.planning import design, design_plan, verify
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import parse


def test_a_number_of_sets_and_a_seed_decide_what_is_found() -> None:
    """66 nodes of degree 3: Cayley digraphs, and line graphs of those of 22."""
    limit = SearchLimit(sets=3000)
    one, same, other = (search_now(66, 3, limit, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    kinds = ["abelian Cayley digraphs", "Cayley digraphs", "line graphs of Cayley digraphs", "neighbours"]
    assert [effort.kind for effort in one] == [*kinds, "multicirculants"]
    assert all(3000 <= effort.tried < 3000 + 1024 for effort in one[1:3])
    assert one[3].tried < 3100
    assert one[0].tried >= 3000
    found = [candidate for effort in one for candidate in effort.found]
    assert found
    for candidate in found:
        graph = parse(expression(candidate.construction))
        gather, reduce = bfb_value(graph), bfb_reduce_scatter_value(graph)
        assert graph.n_nodes == 66
        assert candidate.steps == max(gather.diameter, reduce.diameter)
        assert candidate.t_b_both >= gather.t_b + reduce.t_b


def test_all_that_is_found_is_checked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    for name in ("check_cayley", "check_line_graph", "check_neighbour"):
        monkeypatch.setattr(fresh, name, lambda _, name=name: checked.append(name))
    nothing = SimpleNamespace(sets=lambda *_, **__: ())
    monkeypatch.setattr(fresh, "shipped_abelian_table", lambda: nothing)
    checks = {
        "abelian Cayley digraphs": "check_cayley",
        "Cayley digraphs": "check_cayley",
        "line graphs of Cayley digraphs": "check_line_graph",
        "neighbours": "check_neighbour",
        "multicirculants": "check_neighbour",
    }
    found = dict.fromkeys(checks.values(), 0)
    for nodes in (50, 66):
        for effort in search_now(nodes, 3, SearchLimit(sets=2000), seed=1):
            found[checks[effort.kind]] += len(effort.found)
    assert all(0 < count <= checked.count(name) for name, count in found.items())
    assert found["check_cayley"] == checked.count("check_cayley") > 2, "abelian ones too"
    assert found["check_line_graph"] == checked.count("check_line_graph")


def test_sizes_that_no_search_has_are_told() -> None:
    assert search_now(5000, 4, SearchLimit(sets=1)) == ()
    assert [effort.kind for effort in search_now(7, 9, SearchLimit(sets=1))] == []


def test_a_time_is_kept() -> None:
    """A tenth of a second: each kind tries a block at least, and none goes on."""
    began = time.process_time()
    efforts = search_now(1024, 4, SearchLimit(seconds=0.1))
    assert time.process_time() - began < 60
    assert len(efforts) == 7
    assert all(0 < effort.tried < 10_000 for effort in efforts[1:5])
    assert efforts[0].tried > 0


def test_the_usual_search_is_beyond_the_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was done is not done again, and nothing is searched once the bounds are met."""
    assert search_now(64, 3, USUAL_SEARCH) == search_now(74, 9, USUAL_SEARCH) == ()
    monkeypatch.setattr(fresh, "_WORK_OF_A_SECOND", 2 * 10**8 // 3)
    before = designed(149, 4, None, cache=tmp_path)
    (effort,) = designed(149, 4, USUAL_SEARCH, cache=tmp_path).efforts
    assert (effort.kind, effort.usual_s) == ("multicirculants", 3)
    after = designed(149, 4, USUAL_SEARCH, cache=tmp_path)
    assert not after.efforts
    assert len(after.kept) == len(effort.found) > 0
    (file,) = tmp_path.glob("*.graphs")
    text = file.read_text()
    file.write_text(text.replace("multicirculant", "nothing"))
    assert designed(149, 4, USUAL_SEARCH, cache=tmp_path).efforts == (effort,), "what was lost is found again"
    assert file.read_text() == text
    worse, better = ([row.option.candidate for row in found.rows] for found in (before, after))
    assert all(
        any(new.steps <= old.steps and new.t_b_both <= old.t_b_both for new in better) for old in worse
    )
    ideal = replace(worse[-1].gather, steps=4)
    met = replace(worse[-1], gather=ideal, reduce=ideal)
    assert met.is_bandwidth_optimal
    assert search_now(149, 4, USUAL_SEARCH, known=[met]) == ()


@pytest.mark.parametrize("limit", [{}, {"seconds": 1.0, "sets": 1}, {"sets": 0}, {"seconds": -1.0}])
def test_one_limit_is_expected(limit: dict[str, float]) -> None:
    with pytest.raises(ScheduleError, match="search: expected"):
        SearchLimit(**limit)  # type: ignore[arg-type]


def designed(
    nodes: int, degree: int, search: SearchLimit | None, *, cache: Path | None = None
) -> DesignResult:
    return design(
        nodes,
        degree,
        network=Network(alpha_s=1e-5, bandwidth_bytes_per_s=12_500_000_000),
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        search=search,
        cache=cache,
        use_cache=cache is not None,
    )


def test_designs_take_what_is_better_and_verify_it() -> None:
    """90 nodes of degree 4 are no size of the library; a few sets are enough for both lower bounds."""
    before, after = designed(90, 4, None), designed(90, 4, SearchLimit(sets=5000))
    assert not before.efforts
    assert not any(before.is_fresh(row) for row in before.rows)
    assert after.best.allreduce_s < before.best.allreduce_s
    assert after.is_fresh(after.best)
    plan, _ = design_plan(after, CollectiveKind.ALLREDUCE, use_cache=False)
    assert verify(plan).report.is_ok


@pytest.mark.parametrize(("nodes", "degree"), [(8, 3), (66, 3)])
def test_what_is_only_as_good_leaves_the_frontier_alone(nodes: int, degree: int) -> None:
    before, after = (designed(nodes, degree, search) for search in (None, SearchLimit(sets=20_000)))
    assert [row.option for row in after.rows] == [row.option for row in before.rows]
    assert not any(effort.found for effort in after.efforts)
