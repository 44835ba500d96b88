"""The race against every candidate timed at every size, and each time against all numbers of slices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.inputs.problem import make_problem
from treadle.planning import as_cost_model
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.sizes.candidate_options import entrants
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, best_baseline, select, winners
from treadle.schedulers.sizes.size_sets import verified_racers
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.slice_limits import MAX_AUTO_SLICES, slices_at_most

SIZES = (2**10, 2**14, 2**18, 2**22, 2**26, 2**30)


def racers_of(fabric: str, collective: str, most_tasks: int = 2**13) -> list[SizeCandidate]:
    problem = make_problem(fabric, collective)
    rules = SelectionRules(problem, as_cost_model("reference"), most_tasks)
    bound = find_bound(problem, cards_forward=True)
    found, _ = verified_racers(rules, entrants(problem, rules.least_alpha_s), bound)
    return found


@pytest.mark.parametrize(
    ("fabric", "collective"),
    [
        ("dgx_a100(2, 2)", "allreduce"),
        ("dgx_h100(2, 2)", "reduce-scatter"),
        ("ring:5", "allgather"),
        ("leaf_spine(2, 2)", "alltoall"),
    ],
)
def test_who_is_left_out_could_not_win(fabric: str, collective: str) -> None:
    raced, whole = racers_of(fabric, collective), racers_of(fabric, collective)
    select(raced, SIZES)
    for racer in whole:
        for size in SIZES if racer.is_able() else ():
            racer.time(size)
    ours, theirs = winners(raced, SIZES), winners(whole, SIZES)
    for size in SIZES:
        assert ours[size].title == theirs[size].title
        assert ours[size].times[size] == theirs[size].times[size]
        assert best_baseline(raced, size) == best_baseline(whole, size)
    timed = sum(len(racer.times) for racer in raced)
    assert timed < sum(len(racer.times) for racer in whole) / 2, "or nothing is left out"


def test_a_time_is_the_best_of_all_numbers_of_slices() -> None:
    racers = racers_of("dgx_a100(2, 2)", "allreduce", 2**10)
    for racer in racers[:12]:
        for size in (2**30, 2**10, 2**20) if racer.is_able() else ():
            (options,) = racer.rules.variants
            tried = [
                (float(simulate_graph(graph, size, replace(options, slices=slices)).time), slices, number)
                for number, graph in enumerate(racer.search.graphs)
                for slices in (2**digit for digit in range(7))
                if slices <= min(MAX_AUTO_SLICES, slices_at_most(graph, size, options, 2**10))
            ]
            timed = racer.time(size)
            assert (timed.seconds, timed.slices, timed.is_bundled) == min(tried)


def test_what_cannot_be_below_a_limit_is_remembered_as_that() -> None:
    racer = racers_of("dgx_a100(2, 2)", "allreduce")[0]
    assert racer.is_able()
    assert racer.time_below(2**20, 1e-6) is None
    assert not racer.times
    assert racer.floor(2**20) >= 1e-6
    seconds = racer.time(2**20).seconds
    assert racer.time_below(2**20, seconds) is None
    assert racer.time_below(2**20, 2 * seconds) == racer.times[2**20]


def test_equal_programs_are_timed_once() -> None:
    """One tree a root, or two that are alike: other schedules, whose messages are joined to the same."""
    racers = {one.title: one for one in racers_of("dgx_h100(2, 2)", "allgather") if one.is_able()}
    plain, few, other = (racers[title] for title in ("forestcoll", "forestcoll trees=2", "ring"))
    assert plain.schedule != few.schedule
    assert plain.graph is few.graph
    plain.time(2**20)
    assert few.times == plain.times
    assert other.graph is not plain.graph
    assert 2**20 not in other.times
    graphs = {id(one.graph): one for one in racers.values()}
    assert len(graphs) < len(racers)
