"""What problems are made of, on two matrices by hand: states, values, prices, pins, finer meshes."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from parallelism.plan.small_models import Drafted, small_model
from parallelism.problem.settings import TIMES
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import (
    Source,
    TensorRef,
)
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.prices import StatePrices, seconds_between
from treadle.parallelism.problem.refining import JoinedCosts, refined
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.variables import (
    OperatorVariable,
    StateVariable,
)
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.one_plan import fastest_plan
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

MODEL = small_model(3, t=16, h=8, f=64)
COARSE, FINE = Mesh((4,), ("a",)), Mesh((2, 2), ("x", "y"))


def costs_of(mesh: Mesh) -> AlphaBetaCosts:
    names = mesh.axis_names
    groups = [axes for n in range(1, len(names) + 1) for axes in permutations(names, n)]
    rates = {
        (kind, axes): 3 + 7 * at + 5 * place
        for at, kind in enumerate(CollectiveKind)
        for place, axes in enumerate(groups)
        if list(axes) == sorted(axes)
    }
    return AlphaBetaCosts(1, rates)


@pytest.fixture(scope="module")
def coarse() -> SearchProblem:
    return make_problem(MODEL, COARSE, costs_of(COARSE), TIMES)


@pytest.fixture(scope="module")
def fine() -> SearchProblem:
    return make_problem(MODEL, FINE, costs_of(FINE), TIMES)


def test_states_of_an_operator_run_through_its_flags_fastest(fine: SearchProblem) -> None:
    operators = [one for one in fine.table.variables if isinstance(one, OperatorVariable)]
    one = next(one for one in operators if len(one.keeps) > 1 and len(one.strategies) > 2)
    n = len(one.keeps)
    assert one.size == n * len(one.strategies)
    for state in range(one.size):
        assert one.strategy(state) is one.strategies[state // n]
        assert one.policy(state) is one.keeps[state % n]
        assert one.loop(state) is one.loops[state % n]
        for keep in ActivationPolicy:
            assert bool(one.is_saved(keep)[state]) == (one.keeps[state % n] is keep)
    amounts = np.arange(len(one.strategies)) + 5.0
    assert one.by_state(amounts).tolist() == [5.0 + state // n for state in range(one.size)]
    assert one.fraction.tolist() == [
        1.0 if one.loop(state) is None else 1 / one.loop(state).n_chunks  # type: ignore[union-attr]
        for state in range(one.size)
    ]


@pytest.mark.parametrize("order", ["pqr", "qrp", "rqp"])
@pytest.mark.parametrize(
    ("p", "q", "r"), [(3, 6, 8), (3, 3, 2), (3, 1, 2), (5, 2, 4), (6, 3, 4), (1, 3, 6), (10, 3, 12)]
)
def test_a_factor_that_nobody_cuts_takes_parts_in_between(order: str, p: int, q: int, r: int) -> None:
    """Sums go by parts, which are quicker here: of the factor that most ranks divide."""
    draft = Drafted(p=p, q=q, r=r)
    draft.placeholder("w", order, Source.PARAMETER)
    graph = draft.graph({}, {}, "w")
    sizes = {"x": 2, "y": 2}
    slow = {CollectiveKind.ALLREDUCE: 1, CollectiveKind.ALLTOALL: 50}
    groups = (("x",), ("y",), ("x", "y"))
    costs = AlphaBetaCosts(
        0, {(kind, axes): slow.get(kind, 1000) for kind in CollectiveKind for axes in groups}
    )
    shape = tuple({"p": p, "q": q, "r": r}[letter] for letter in order)
    sums = [Sharding(((), (), ()), frozenset(axes)) for axes in ("x", "xy")]
    whole = [Sharding(((), (), ()))]
    found = StatePrices(sizes, costs).seconds(graph, TensorRef(0), sums, whole)
    expected = seconds_between(sums, whole, shape=shape, element_bytes=2, sizes=sizes, costs=costs)
    assert found == pytest.approx(expected)


def test_parameters_are_pinned_by_their_path_its_end_or_a_word_of_it() -> None:
    block, head = MODEL.parts
    paths = {"up": "ffn.up.weight", "down": "ffn.down.weight"}
    nodes = tuple(replace(node, path=paths.get(node.name, node.path)) for node in block.graph.nodes)
    named = replace(block, graph=replace(block.graph, nodes=nodes))
    problem = make_problem(replace(MODEL, parts=(named, head)), COARSE, costs_of(COARSE), TIMES)
    names = [variable.name for variable in problem.table.variables]
    sizes = [variable.size for variable in problem.table.variables]

    def pinned(**pins: str) -> set[str]:
        found = problem.constrained({name.replace("_", "."): text for name, text in pins.items()})
        return {name for name, states, size in zip(names, found, sizes, strict=True) if len(states) < size}

    up, down = "block/ffn.up.weight", "block/ffn.down.weight"
    for name in ("ffn_up_weight", "up_weight", "up"):
        assert pinned(**{name: "a | -"}) == {up}
    for name in ("ffn", "weight"):
        assert pinned(**{name: "a | -"}) == {up, down}
    for name in ("p_weight", "ffn_up", "up_weigh", "x_ffn_up_weight"):
        with pytest.raises(ScheduleError, match="unknown parameter or tensor"):
            pinned(**{name: "a | -"})
    # two pins of one parameter both hold
    assert pinned(up="a | -", up_weight="a | -") == {up}
    with pytest.raises(ScheduleError, match=r"pin up.weight=- \| a: not possible for block/ffn.up.weight"):
        pinned(up="a | -", up_weight="- | a")


def test_plans_of_a_coarse_mesh_are_plans_of_a_finer_one(coarse: SearchProblem, fine: SearchProblem) -> None:
    """Costs of groups of both parts: every amount of every plan is the same."""
    parts = {"a": ("x", "y")}
    joined = make_problem(MODEL, COARSE, JoinedCosts(costs_of(FINE), parts), TIMES)
    met = fastest_plan(joined.graph, effort=SearchEffort(gap=0.0, n_parts=4))
    assert isinstance(met, Incumbent)
    n_found = 0
    for plan in met.plans:
        found = refined(joined, fine, parts, plan)
        if found is None or not joined.graph.is_allowed(plan):
            continue
        n_found += 1
        for before, after, mine, theirs in zip(
            joined.table.variables, fine.table.variables, plan, found, strict=True
        ):
            if isinstance(before, StateVariable):
                assert isinstance(after, StateVariable)
                assert str(after.states[theirs]) == str(before.states[mine]).replace("a", "x,y")
        # kernels aside, compute and bytes are the same; a finer mesh offers no dearer collectives
        amounts, finer = (one.graph.amounts(chosen) for one, chosen in ((joined, plan), (fine, found)))
        names = fine.graph.quantities
        for section in range(names.n_sections):
            at = names.serial(section)
            assert finer[at] == pytest.approx(amounts[at])
            at = names.overlapped(section)
            assert finer[at] <= amounts[at] * (1 + 1e-9)
        assert finer[names.persistent] == pytest.approx(amounts[names.persistent])
    assert n_found > 0
