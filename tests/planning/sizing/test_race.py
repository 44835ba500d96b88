"""The race against every candidate timed at every size, and each time against all numbers of slices."""

from __future__ import annotations

from treadle.inputs.problem import make_problem
from treadle.planning import as_cost_model
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.sizes.candidate_options import entrants
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate
from treadle.schedulers.sizes.size_sets import verified_racers


def racers_of(fabric: str, collective: str, most_tasks: int = 2**13) -> list[SizeCandidate]:
    problem = make_problem(fabric, collective)
    rules = SelectionRules(problem, as_cost_model("reference"), most_tasks)
    bound = find_bound(problem, cards_forward=True)
    found, _ = verified_racers(rules, entrants(problem, rules.least_alpha_s), bound)
    return found


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
