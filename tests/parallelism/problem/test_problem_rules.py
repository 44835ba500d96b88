"""Names and states of named plans, loops and their limits, moments, layers: on small models by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parallelism.plan.small_models import Drafted, small_model, square_loss
from parallelism.problem.settings import TIMES
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import OperatorKind, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.assembly import loop_rules
from treadle.parallelism.problem.lifetimes import Moment, without_dominated
from treadle.parallelism.problem.loops import LoopChoice, _connected, regions_of
from treadle.parallelism.problem.mixing import layering_of
from treadle.parallelism.problem.presets import preset_domains
from treadle.parallelism.problem.prices import seconds_between
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.values import values_of
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable, Variable
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

MESH = Mesh((2, 2), ("x", "y"))
SIZES = {"x": 2, "y": 2}
GROUPS = (("x",), ("y",), ("x", "y"))
COSTS = AlphaBetaCosts(
    1,
    {
        (kind, axes): 3 + 7 * at + 5 * n
        for at, kind in enumerate(CollectiveKind)
        for n, axes in enumerate(GROUPS)
    },
)


@pytest.fixture(scope="module")
def problem() -> SearchProblem:
    return make_problem(small_model(3, t=16, h=8, f=64), MESH, COSTS, TIMES)


PLAIN = [
    "DP",
    "FSDP",
    "HSDP x",
    "HSDP y",
    "TP",
    "TP x x DP y",
    "TP y x DP x",
    "TP x x FSDP y",
    "TP y x FSDP x",
]
CONTEXT = ["CP", "CP x x DP y", "CP y x DP x", "CP x x FSDP y", "CP y x FSDP x"]
EXPERTS = [
    *("EP", "EP x x DP y", "EP y x DP x", "EP x x FSDP y", "EP y x FSDP x", "EP x x TP y", "EP y x TP x")
]  # fmt: skip


def test_named_plans_of_two_axes_each_computes_nothing_some_or_all_again(problem: SearchProblem) -> None:
    again = ("", ", selective recompute", ", full recompute")
    assert list(problem.named()) == [f"{name}{word}" for name in (*PLAIN, *CONTEXT) for word in again]


def with_experts(sizes: dict[str, int]) -> list[str]:
    draft = Drafted(e=4, t=8)
    draft.placeholder("x", "te", Source.INPUT)
    draft.operator("sent", "et", OperatorKind.DISPATCH, "x")
    part = ModelPart("part", draft.graph({}, {}, "sent"), 1, None, None)
    model = SimpleNamespace(batch="t", sequence="s")
    table: Any = SimpleNamespace(sizes=sizes, model=model, values=[values_of(part)], variables=[])
    return [name for name in preset_domains(table) if "recompute" not in name]


def test_experts_have_plans_of_their_own_beside_tensors() -> None:
    assert with_experts({"x": 2, "y": 3}) == [*PLAIN, *CONTEXT, *EXPERTS]
    assert with_experts({"z": 4}) == ["DP", "FSDP", "TP", "CP", "EP"]
    three = with_experts({"x": 2, "y": 3, "z": 4})
    assert {"HSDP y", "CP y x FSDP x,z", "EP x x TP z x FSDP y", "EP z x TP x x FSDP y"} < set(three)
    assert len(three) == len(set(three)) == 2 + 3 + 3 * 7 + 6


def shown(variable: Variable, state: int) -> str:
    """A state in words: ``f.t`` for the letters that axes cut (``-``: none), ``e`` for early."""
    if isinstance(variable, StateVariable):
        return str(variable.states[state]) + " early" * bool(variable.is_early and variable.is_early[state])
    keep, loop = variable.policy(state), variable.loop(state)
    words = ".".join(choice.atom or "-" for choice in variable.strategy(state).choices)
    return words + (f" {keep.value}" if keep else "") + (f" /{loop.n_chunks}" if loop else "")


def allowed(problem: SearchProblem, name: str) -> dict[str, list[str]]:
    return {
        variable.name: [shown(variable, state) for state in states.tolist()]
        for variable, states in zip(problem.table.variables, problem.named()[name], strict=True)
    }


def looped(*words: str, keep: str = "") -> list[str]:
    return [f"{word}{keep}{loop}" for word in words for loop in ("", " /8", " /64")]


SAVED, AGAIN, UNUSED = (
    f" {keep.value}"
    for keep in (ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED, ActivationPolicy.UNUSED)
)
TOKENS = ["- | -", "y | -", "x | -", "x,y | -"]


def test_states_of_tensors_cut_along_one_axis_and_shards_along_the_other(problem: SearchProblem) -> None:
    """x cuts f, which parameters have and what enters has not; y cuts tokens t, and shards parameters."""
    found = allowed(problem, "TP x x FSDP y")
    assert found["block/u"] == [f"f.t{SAVED}"]
    assert found["block/d"] == looped("f.t", keep=UNUSED)
    assert found["block/y"] == [f"-.t{UNUSED}", f"+.t{UNUSED}"]  # nothing of it is cut by x, or summands stay
    assert found["block/du"] == looped("f.t", "+.t")
    assert found["head/z..loss"] == [f"-.t{SAVED}"]
    assert found["boundary/activation"] == found["boundary/gradient"] == ["y | -"]
    assert found["block/up"] == ["y | x", "- | x,y", "- | y,x"]
    assert found["block/down"] == ["x,y | -", "y,x | -", "x | y"]
    assert found["head/w"] == ["x,y", "y,x"]  # it has no f: sharded over both
    assert found["block/u kept"] == [*TOKENS, "- | x", "y | x"]
    assert found["block/du shared backward"] == [*TOKENS, "- | x", "y | x"]
    assert found["block/up shared backward"] == ["- | x early", "- | x"]
    assert found["head/z kept"] == TOKENS
    assert found["head/w shared backward"] == ["- early", "-"]


def test_states_of_replicas_that_compute_everything_again(problem: SearchProblem) -> None:
    found = allowed(problem, "CP x x DP y, full recompute")
    assert found["block/u"] == looped("-.t", keep=AGAIN)
    assert found["block/d"] == looped("-.t", keep=UNUSED)
    assert found["head/z..loss"] == [f"-.t{AGAIN}"]
    assert found["block/down"] == ["x | -", "- | x"]
    assert found["block/down"] == found["block/up"]
    assert found["head/w"] == ["x"]
    assert found["boundary/activation"] == ["x,y | -"]
    assert found["block/a kept"] == TOKENS
    assert found["block/up shared backward"] == ["- | - early", "- | -"]
    assert "- | y partial x" not in found["head/x shared backward"]


def test_states_of_replicas_that_compute_pointwise_operators_again(problem: SearchProblem) -> None:
    found = allowed(problem, "DP, selective recompute")
    assert found["block/u"] == [f"t.t{SAVED}"]
    assert found["block/a"] == looped("t.t", keep=AGAIN)
    assert found["head/z..loss"] == [f"t.t{AGAIN}"]
    assert found["block/up"] == found["block/down"] == ["- | -"]
    assert found["head/w"] == ["-"]
    assert allowed(problem, "HSDP y")["head/w"] == ["y"]
    assert allowed(problem, "FSDP, selective recompute")["block/dx"] == ["t.t"]


def test_a_sum_of_products_may_be_saved_where_pointwise_operators_are_computed_again() -> None:
    """s = x + x w, and q of s: the backward pass reads s."""
    draft = Drafted(t=8, h=4)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("w", "h", Source.PARAMETER)
    draft.operator("d", "th", OperatorKind.EINSUM, "x", "w", linear=((0,), (1,)))
    draft.operator("s", "th", OperatorKind.ELEMENTWISE, "x", "d", linear=((0, 1),))
    draft.operator("q", "th", OperatorKind.ELEMENTWISE, "s")
    draft.placeholder("dq", "th", Source.TANGENT)
    draft.operator("dx", "th", OperatorKind.ELEMENTWISE, "dq", "s", backward=True, linear=((0,),))
    draft.operator("dv", "th", OperatorKind.ELEMENTWISE, "dx", "q", backward=True, linear=((0,),))
    draft.operator("dw", "h", OperatorKind.REDUCTION, "dv", backward=True, linear=((0,),))
    part = ModelPart(
        "part", draft.graph({"x": "dx", "w": "dw"}, {"q": "dq"}, "q"), 2, TensorRef(0), TensorRef(4)
    )
    table = VariableTable(ModelGraph("m", (part,), "t", tokens=8), {"x": 2})
    found, names = {}, ("DP", "DP, selective recompute", "DP, full recompute")
    for name in names:
        for variable, states in zip(table.variables, preset_domains(table)[name], strict=True):
            if isinstance(variable, OperatorVariable):
                found[variable.name, name] = {variable.policy(state) for state in states.tolist()}
    assert [found["part/s", name] for name in names] == [
        {ActivationPolicy.SAVED},
        {ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED},
        {ActivationPolicy.RECOMPUTED},
    ]
    assert [found["part/q", name] for name in names] == [
        {ActivationPolicy.SAVED},
        {ActivationPolicy.RECOMPUTED},
        {ActivationPolicy.RECOMPUTED},
    ]


@pytest.mark.parametrize(
    ("t", "h", "f", "is_offered"),
    [(16, 8, 33, True), (16, 8, 32, False), (8, 8, 64, True), (7, 8, 64, False)],
)
def test_loops_are_offered_for_tensors_of_more_than_four_ends_over_eight_tokens(
    t: int, h: int, f: int, is_offered: bool
) -> None:
    """Tensors of t x f elements, ends of t x h; chunks of one token or more, and 8 of them at least."""
    values = values_of(small_model(3, t=t, h=h, f=f).part("block"))
    regions = regions_of(values)
    assert len(regions) == is_offered
    for region in regions:
        graph = values.graph
        assert {graph.spelled(tensor) for tensor in region.tensors} == {"u", "a", "da", "du"}
        inside = {"u", "a", "d", "da", "ddown", "du", "dup", "dxu"}
        assert {graph.nodes[node].name for node in region.nodes} == inside
        (letter,) = region.letters
        assert {graph.atoms[role.atom].name for role in letter.values()} == {"t"}


@pytest.mark.parametrize(
    ("b", "s", "t", "letters"), [(8, 16, 32, "ts"), (64, 16, 32, "bt"), (8, 7, 9, "tb"), (7, 7, 7, "")]
)
def test_loops_run_over_one_of_the_two_largest_letters_of_tokens(
    b: int, s: int, t: int, letters: str
) -> None:
    """Products of x with up and down, and what lies between; a part by itself ends in its inputs."""
    draft = Drafted(b=b, s=s, t=t, h=2, f=16)
    draft.placeholder("x", "bsth", Source.INPUT)
    draft.placeholder("up", "hf", Source.PARAMETER)
    draft.placeholder("down", "fh", Source.PARAMETER)
    draft.operator("u", "bstf", OperatorKind.EINSUM, "x", "up")
    draft.operator("a", "bstf", OperatorKind.ELEMENTWISE, "u")
    draft.operator("d", "bsth", OperatorKind.EINSUM, "a", "down")
    graph = draft.graph({}, {}, "d")
    regions = regions_of(values_of(ModelPart("part", graph, 1, None, None)))
    assert len(regions) == bool(letters)
    for region in regions:
        assert region.number == 0
        assert {graph.nodes[node].name for node in region.nodes} == {"u", "a", "d"}
        found = [{graph.atoms[role.atom].name for role in one.values()} for one in region.letters]
        assert found == [{letter} for letter in letters]


@pytest.mark.parametrize("t", [24, 64])
def test_operators_of_a_loop_run_in_it_together_cut_alike_in_chunks_that_divide(t: int) -> None:
    table = VariableTable(small_model(3, t=t, h=2, f=32), SIZES)
    (region,) = table.regions[0]
    graph = table.values[0].graph
    rules = dict(loop_rules(table))
    owners = {m: at for at, one in enumerate(table.values[0].clusters) for m in one.members}

    def key(variable: OperatorVariable, state: int) -> object:
        """The loop and the axes that cut tokens."""
        if variable.loop(state) is None:
            return None
        axes = [
            axis for axis, one in zip(SIZES, variable.strategy(state).choices, strict=True) if one.atom == "t"
        ]
        return variable.loop(state), tuple(axes)

    def is_whole(variable: OperatorVariable, state: int) -> bool:
        found = key(variable, state)
        return found is None or t % (2 ** len(found[1]) * found[0].n_chunks) == 0  # type: ignore[index]

    n_pairs = 0
    for node in region.nodes:
        number = table.operators[0, owners[node]]
        variable = table.operator(0, owners[node])
        assert rules[number,].tolist() == [not is_whole(variable, state) for state in range(variable.size)]
        for operand in graph.nodes[node].operands:
            if operand.tensor not in region.tensors:
                continue
            n_pairs += 1
            maker = table.operator(0, owners[operand.tensor.node])
            clash = rules[table.operators[0, owners[operand.tensor.node]], number]
            is_late = maker.cluster.phase is not variable.cluster.phase
            for mine in range(maker.size):
                for theirs in range(variable.size):
                    if is_whole(maker, mine) and is_whole(variable, theirs):
                        differs = key(maker, mine) != key(variable, theirs)
                        is_free = is_late and maker.policy(mine) is ActivationPolicy.SAVED
                        assert clash[mine, theirs] == (differs and not is_free)
    assert n_pairs == 7
    assert len(rules) == len(region.nodes) + n_pairs


def test_a_cluster_in_a_loop_is_saved_only_if_it_makes_nothing_of_the_loop() -> None:
    table = VariableTable(small_model(3, t=64, h=2, f=32), SIZES)
    chunks = [LoopChoice(0, 0, 8), LoopChoice(0, 0, 64)]
    flags = {one.name: (one.keeps, one.loops) for one in table.variables if isinstance(one, OperatorVariable)}
    both = (ActivationPolicy.SAVED, *[ActivationPolicy.RECOMPUTED] * 3), (None, None, *chunks)
    assert flags["block/u"] == flags["block/a"] == both
    assert flags["block/d"] == ((ActivationPolicy.UNUSED,) * 3, (None, *chunks))
    assert flags["block/y"] == ((ActivationPolicy.UNUSED,), (None,))
    assert flags["block/dup"] == ((None,) * 3, (None, *chunks))
    assert flags["head/z..loss"] == ((ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED), (None, None))


def test_what_cannot_be_laid_out_is_refused_by_name() -> None:
    table = VariableTable(small_model(), {"x": 2})
    with pytest.raises(ScheduleError) as caught:
        table.add(
            StateVariable("block/none", table.state(table.boundary["activation"]).wait, 0, TensorRef(0), ())
        )
    assert str(caught.value) == "block/none cannot be laid out on the mesh"


def test_moments_that_never_hold_more_than_another_are_left_out() -> None:
    first, second, pair = np.array([1.0, 5.0]), np.array([2.0, 5.0]), np.array([[3.0, 0.0], [0.0, 4.0]])
    low: Moment = {(0,): first}
    high: Moment = {(0,): second}
    assert without_dominated([low, high]) == [high]
    assert without_dominated([high, low]) == [high]
    # of two that hold the same the first stays
    same: Moment = {(0,): first.copy()}
    kept = without_dominated([low, same])
    assert len(kept) == 1
    assert kept[0] is low
    # neither holds as much as the other whatever the plan
    other: Moment = {(0,): np.array([3.0, 4.0])}
    assert without_dominated([low, other]) == [low, other]
    # more in one scope makes up for less in another: 1 less at least against 1 more at most
    wide: Moment = {(0,): second, (1,): np.array([0.0, 1.0])}
    narrow: Moment = {(0,): second + 1.0}
    assert without_dominated([wide, narrow]) == [narrow]
    assert len(without_dominated([wide, {(0,): second + 0.5}])) == 2
    # a scope that only one of them has counts with its largest
    assert len(without_dominated([{(0, 1): pair, (0,): first}, {(0,): first + 4.0}])) == 1
    assert len(without_dominated([{(0, 1): pair, (0,): first}, {(0,): first + 3.5}])) == 2
    assert without_dominated([{}, low]) == [low]


def test_a_part_that_runs_twice_is_layers_and_one_that_runs_once_is_none() -> None:
    assert layering_of(make_problem(small_model(1), MESH, COSTS, TIMES), COSTS) is None
    problem = make_problem(small_model(2, t=16, h=1, f=8), MESH, COSTS, TIMES)
    layering = layering_of(problem, COSTS)
    assert layering is not None
    table = problem.table
    boundary = table.boundary["activation"], table.boundary["gradient"]
    assert (layering.section, layering.boundary, layering.n_layers) == (0, boundary, 2)
    names = {table.variables[number].name for number in layering.block}
    assert all(name.startswith("block/") for name in names)
    assert len(names) == sum(one.name.startswith("block/") for one in table.variables)
    # states of t alone, as h is of one element; a gradient goes the other way
    states = table.state(boundary[0]).states
    assert [str(state) for state in states] == ["-", "y", "x", "x,y"]
    expected = seconds_between(states, states, shape=(16,), element_bytes=2, sizes=SIZES, costs=COSTS)
    assert layering.switches[0] == pytest.approx(expected)
    assert layering.switches[1] == pytest.approx(expected.T)
    assert not np.allclose(expected, expected.T)


def test_a_parameter_of_two_parts_is_stored_once_over_the_factors_of_each() -> None:
    """w is o x h in the first part, o of one element, and h in the head; both cut it alike."""
    draft = Drafted(t=16, h=8, o=1)
    draft.placeholder("x", "t", Source.INPUT)
    draft.placeholder("w", "oh", Source.PARAMETER)
    draft.operator("y", "th", OperatorKind.EINSUM, "x", "w")
    draft.placeholder("dy", "th", Source.TANGENT)
    draft.operator("dw", "oh", OperatorKind.EINSUM, "x", "dy", backward=True)
    first = ModelPart("first", draft.graph({"w": "dw"}, {"y": "dy"}, "y"), 1, None, TensorRef(2))
    head = ModelPart("head", square_loss(16, 8), 1, TensorRef(0), None)
    tie = Tie(("first", "w"), ("head", "w"))
    model = ModelGraph("tied", (first, head), "t", tokens=16, ties=(tie,))
    table = VariableTable(model, {"x": 2})
    number = table.stored[0, TensorRef(1)]
    assert table.stored == {(0, TensorRef(1)): number, (1, TensorRef(1)): number}
    variable = table.state(number)
    assert (variable.name, [str(state) for state in variable.states]) == ("first/w", ["- | -", "- | x"])
    assert table.stored_view(0, TensorRef(1)).states == variable.states
    view = table.stored_view(1, TensorRef(1))
    assert ([str(state) for state in view.states], view.index.tolist()) == (["-", "x"], [0, 1])


def test_a_gradient_is_wanted_as_its_parameter_lies_whatever_the_order_of_its_factors() -> None:
    draft = Drafted(t=16, h=8, f=4)
    draft.placeholder("x", "th", Source.INPUT)
    draft.placeholder("w", "hf", Source.PARAMETER)
    draft.operator("y", "tf", OperatorKind.EINSUM, "x", "w")
    draft.placeholder("dy", "tf", Source.TANGENT)
    draft.operator("dw", "fh", OperatorKind.EINSUM, "dy", "x", backward=True)
    part = ModelPart("part", draft.graph({"w": "dw"}, {"y": "dy"}, "y"), 1, None, None)
    table = VariableTable(ModelGraph("m", (part,), "t", tokens=16), {"x": 2, "y": 2})
    owner, gradient = TensorRef(1), TensorRef(4)
    stored = [str(state) for state in table.stored_view(0, owner).states]
    wanted = table.as_gradient(0, owner, gradient)
    assert [str(state) for state in wanted.states] == [" | ".join(one.split(" | ")[::-1]) for one in stored]
    assert "x,y | -" in stored
    assert len(set(stored)) == 11
    ((number, view),) = table.targets(0, gradient)
    assert number == table.stored[0, owner]
    assert view.states == wanted.states
    assert table.as_gradient(0, owner, owner) is not wanted
    assert [str(state) for state in table.as_gradient(0, owner, owner).states] == stored


def test_tensors_that_operators_join_are_a_set_each() -> None:
    """Node 9 reads those of 1 and 4, node 4 that of 2; that of 3 has no reader."""
    one, two, three, four = (TensorRef(node) for node in (1, 2, 3, 4))
    found = list(_connected({four, three, two, one}, {one: [9], four: [9], two: [4]}))
    assert found == [[one, two, four], [three]]
