"""What problems are made of, on two matrices by hand: states, values, prices, pins, finer meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod

import numpy as np
import pytest

from parallelism.plan.small_models import Drafted, small_model
from parallelism.problem.settings import TIMES
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import (
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    Source,
    TensorRef,
)
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.constraints import sharding_of
from treadle.parallelism.problem.operators import choices_of_node, is_everywhere, operator_of
from treadle.parallelism.problem.prices import StatePrices, seconds_between
from treadle.parallelism.problem.refining import JoinedCosts, refined
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.values import values_of
from treadle.parallelism.problem.variables import (
    OperatorVariable,
    StateVariable,
    Wait,
    same_states,
    states_over,
    view_of,
)
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.one_plan import fastest_plan
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.strategies import WHOLE, Choice
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


@pytest.mark.parametrize("all_orders", [True, False])
def test_states_over_factors_that_may_be_cut(all_orders: bool) -> None:
    """Every axis at one of two factors of three or nowhere, in every order or the mesh's."""
    factor_sizes, sizes = (12, 5, 8), {"p": 2, "q": 3, "r": 4}
    expected = set()
    for order in permutations(sizes) if all_orders else [tuple(sizes)]:
        for places in product((-1, 0, 2), repeat=3):
            by_axis = dict(zip(sizes, places, strict=True))
            dims = tuple(tuple(axis for axis in order if by_axis[axis] == at) for at in range(3))
            if all(n % prod(sizes[a] for a in axes) == 0 for n, axes in zip(factor_sizes, dims, strict=True)):
                expected.add(Sharding(dims))
    found = list(states_over(factor_sizes, frozenset((2, 0)), sizes, all_orders=all_orders))
    assert len(found) == len(expected)
    assert set(found) == expected
    assert found[0] == Sharding(((), (), ()))


def test_views_number_distinct_states() -> None:
    one, other, third = Sharding((("a",),)), Sharding(((),)), Sharding(((),), frozenset("a"))
    first = view_of([other, one, other, third])
    assert (first.states, first.index.tolist()) == ((other, one, third), [0, 1, 0, 2])
    second = view_of([one, other])
    assert same_states(first, second).tolist() == [
        [False, True],
        [True, False],
        [False, True],
        [False, False],
    ]
    variable = StateVariable(
        "v", Wait.SHARED, 0, TensorRef(0), (one, third, other), ("a", "b"), (True, False, False)
    )
    assert variable.state_keys.tolist() == [[0, -1, 0], [-2, -1, 1], [-1, -1, 2]]
    assert variable.early.tolist() == [True, False, False]
    assert replace(variable, is_early=()).early.tolist() == [False] * 3
    assert variable.view.index.tolist() == [0, 1, 2]
    assert variable.size == 3


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


def test_who_makes_and_who_reads() -> None:
    """Of y = x + act(x up) down: what the backward pass reads, itself or to compute others again."""
    values = values_of(MODEL.part("block"))
    graph = values.graph
    names = {node.name: at for at, node in enumerate(graph.nodes)}
    owner = {graph.nodes[m].name: at for at, one in enumerate(values.clusters) for m in one.members}

    def readers(tensor: str, phase: Phase) -> set[int]:
        return set(values.readers(TensorRef(names[tensor]), phase))

    assert values.producer[TensorRef(names["u"])] == owner["u"]
    assert readers("up", Phase.FORWARD) == {owner["u"]}
    assert readers("up", Phase.BACKWARD) == {owner["dxu"]}
    assert readers("x", Phase.FORWARD) == {owner["u"], owner["y"]}
    assert readers("x", Phase.BACKWARD) == {owner["dup"]}
    assert readers("y", Phase.BACKWARD) == set()
    needed = {name: values.is_reread[owner[name]] for name in ("u", "a", "d", "y")}
    assert needed == {"u": True, "a": True, "d": False, "y": False}
    assert set(values.backward_readers(TensorRef(names["x"]))) == {owner["u"]}
    assert values.backward_readers(TensorRef(names["a"])) == ()
    assert [values.is_read_backward(owner[name]) for name in ("u", "a", "d")] == [True, True, False]
    assert values.tangent == TensorRef(names["dy"])
    assert values.entered_gradient == TensorRef(names["dx"])
    assert values.parameter_gradients == {
        TensorRef(names["dup"]): TensorRef(names["up"]),
        TensorRef(names["ddown"]): TensorRef(names["down"]),
    }
    assert not any(values.is_free(TensorRef(names[name])) for name in ("x", "up", "dy", "u"))
    head = values_of(MODEL.part("head"))
    free = [node.name for at, node in enumerate(head.graph.nodes[:-1]) if head.is_free(TensorRef(at))]
    assert (free, head.tangent) == (["dloss"], None)


def test_prices_leave_out_what_nobody_cuts_and_are_found_once() -> None:
    """A tensor of 6 x 1 x 8 x 4: of the two factors that nobody cuts here the one that most ranks divide."""
    draft = Drafted(p=6, o=1, q=8, r=4)
    draft.placeholder("w", "poqr", Source.PARAMETER)
    graph = draft.graph({}, {}, "w")
    sizes, costs = {"x": 2, "y": 2}, costs_of(FINE)
    prices = StatePrices(sizes, costs)

    def states(*at: Sequence[str]) -> list[Sharding]:
        return [Sharding((tuple(axes), (), (), ())) for axes in at]

    sources, targets = states("", "x"), [*states("x"), Sharding(((), (), (), ()), frozenset("y"))]
    found = prices.seconds(graph, TensorRef(0), sources, targets)
    expected = seconds_between(
        sources, targets, shape=(6, 1, 8, 4), element_bytes=2, sizes=sizes, costs=costs
    )
    assert found == pytest.approx(expected)
    assert prices.seconds(graph, TensorRef(0), sources, targets) is found
    partial = [Sharding(((), (), (), ()), frozenset("xy"))]
    whole = [Sharding(((), (), (), ()))]
    assert prices.seconds(graph, TensorRef(0), partial, whole) == pytest.approx(
        seconds_between(partial, whole, shape=(6, 1, 8, 4), element_bytes=2, sizes=sizes, costs=costs)
    )


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


def test_all_factors_that_somebody_cuts_are_kept() -> None:
    draft = Drafted(p=4, q=8, r=6, s=2)
    draft.placeholder("w", "pqrs", Source.PARAMETER)
    graph = draft.graph({}, {}, "w")
    sizes, costs = {"x": 2, "y": 2}, costs_of(FINE)
    sources = [Sharding((("x",), (), (), ())), Sharding((("x",), (), ("y",), ()))]
    targets = [Sharding(((), (), ("x",), ())), Sharding(((), (), ("y",), ()), frozenset("x"))]
    assert StatePrices(sizes, costs).seconds(graph, TensorRef(0), sources, targets) == pytest.approx(
        seconds_between(sources, targets, shape=(4, 8, 6, 2), element_bytes=2, sizes=sizes, costs=costs)
    )


def node_of(operator: str, kind: OperatorKind, whole: frozenset[Index] = frozenset()) -> Node:
    rows, columns = (Index(0),), (Index(1),)
    operand = Operand(TensorRef(0), (rows, columns), (rows, columns))
    return Node(
        "n", kind, (operand,), (Result((rows,), (rows,), 2),), operator=operator, whole=whole, linear=((0,),)
    )


@pytest.mark.parametrize("word", ["amax", "amin", "max", "min", "all", "any", "argmax", "var", "var_mean"])
def test_extremes_are_not_split_over_what_they_are_taken_over(word: str) -> None:
    extreme = node_of(f"aten.{word}.default", OperatorKind.REDUCTION)
    assert not operator_of(extreme).summed
    assert operator_of(extreme).inputs == ((Index(0), Index(1)),)
    cut = {letter for choice in choices_of_node(extreme) for letter in choice.dims}
    assert cut == {Index(0)}


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten.sum.dim_IntList", OperatorKind.REDUCTION),
        ("", OperatorKind.REDUCTION),
        ("aten", OperatorKind.REDUCTION),
        ("aten.max.default", OperatorKind.ELEMENTWISE),
    ],
)
def test_what_adds_is_split_over_all_letters_that_may_be(operator: str, kind: OperatorKind) -> None:
    assert operator_of(node_of(operator, kind)).summed
    cut = {letter for choice in choices_of_node(node_of(operator, kind)) for letter in choice.dims}
    assert cut == {Index(0), Index(1)}
    needed = node_of(operator, kind, frozenset([Index(0)]))
    assert {letter for choice in choices_of_node(needed) for letter in choice.dims} == {Index(1)}
    assert is_everywhere(choices_of_node(needed)[-1])
    assert not is_everywhere(Choice((WHOLE,), ("+",)))
    assert not is_everywhere(Choice((Index(0),), (WHOLE,)))


@pytest.mark.parametrize("text", ["", "a b", "a,,b", "a | ", "- | a partial b c", "a partial x,", "-a"])
def test_texts_that_are_no_states(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        sharding_of(text)
    assert str(caught.value) == (
        f"state {text!r}: expected one such as 'dp | - | tp', a word for each factor"
    )


def test_long_names_and_states_are_told_by_their_beginning(fine: SearchProblem) -> None:
    with pytest.raises(ScheduleError) as caught:
        fine.constrained({"n" * 61: "-"})
    assert str(caught.value) == (
        f"--pin {'n' * 60!r}: unknown parameter or tensor; expected one of block/up, block/down, head/w"
    )
    with pytest.raises(ScheduleError, match=f"^state '{'a ' * 30}': expected one such as"):
        sharding_of("a " * 31 + "b")


def test_pins_keep_the_states_that_mean_the_same(fine: SearchProblem) -> None:
    everything = [np.arange(variable.size) for variable in fine.table.variables]
    names = [variable.name for variable in fine.table.variables]

    def pinned(**pins: str) -> dict[str, list[int]]:
        found = fine.constrained({name.replace("__", "/"): text for name, text in pins.items()})
        return {
            name: states.tolist()
            for name, states, every in zip(names, found, everything, strict=True)
            if len(states) < len(every)
        }

    up = next(one for one in fine.table.variables if isinstance(one, StateVariable) and "up" in one.name)
    where = next(at for at, state in enumerate(up.states) if str(state) == "- | y,x")
    assert pinned(up="- | y,x") == {up.name: [where]}
    assert pinned(block__up="- | y,x") == {up.name: [where]}
    assert pinned() == {}
    made = pinned(u="x | y")
    (maker,) = made
    variable = fine.table.variables[names.index(maker)]
    assert isinstance(variable, OperatorVariable)
    u = next(one for one in variable.cluster.makes if variable.graph.spelled(one) == "u")
    assert made[maker] == [
        state for state in range(variable.size) if str(variable.strategy(state).results[u]) == "x | y"
    ]
    for name, text, words in (
        ("head/up", "-", "--pin 'head/up': unknown parameter or tensor; expected one of "
         "block/up, block/down, head/w"),
        ("up", "x", f"--pin up=x: not possible for {up.name}; expected one of "
         + "; ".join(dict.fromkeys(map(str, up.states)))[:400]),
    ):  # fmt: skip
        with pytest.raises(ScheduleError) as caught:
            fine.constrained({name: text})
        assert str(caught.value) == words


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


def test_joined_costs_are_those_of_all_parts() -> None:
    class Told(AlphaBetaCosts):
        def send_s(self, axis: str, size_bytes: int) -> int:
            return {"x": 5, "y": 7}[axis] * size_bytes

    parts = {"a": ("x", "y"), "b": ("z",)}
    rates = {(CollectiveKind.ALLGATHER, axes): rate for axes, rate in ((("x", "y", "z"), 3), (("x", "y"), 5))}
    costs = JoinedCosts(Told(1, rates), parts)
    whole = Told(1, rates)
    assert costs.time_s(CollectiveKind.ALLGATHER, ("a", "b"), 60) == whole.time_s(
        CollectiveKind.ALLGATHER, ("x", "y", "z"), 60
    )
    assert costs.time_s(CollectiveKind.ALLGATHER, ("a",), 60) == whole.time_s(
        CollectiveKind.ALLGATHER, ("x", "y"), 60
    )
    assert costs.send_s("a", 3) == 21
    assert (costs.summary, costs.is_bound) == (whole.summary, whole.is_bound)
    assert costs.slowdowns(()) == ()
