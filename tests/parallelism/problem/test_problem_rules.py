"""Names and states of named plans, loops and their limits, moments, layers: on small models by hand."""

from __future__ import annotations

import numpy as np
import pytest

from parallelism.plan.small_models import Drafted, small_model
from parallelism.problem.settings import TIMES
from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import OperatorKind, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.assembly import loop_rules
from treadle.parallelism.problem.loops import regions_of
from treadle.parallelism.problem.mixing import layering_of
from treadle.parallelism.problem.prices import seconds_between
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.problem.values import values_of
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, StateVariable
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


def test_named_plans_of_two_axes_each_computes_nothing_some_or_all_again(problem: SearchProblem) -> None:
    again = ("", ", selective recompute", ", full recompute")
    assert list(problem.named()) == [f"{name}{word}" for name in (*PLAIN, *CONTEXT) for word in again]


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


def test_what_cannot_be_laid_out_is_refused_by_name() -> None:
    table = VariableTable(small_model(), {"x": 2})
    with pytest.raises(ScheduleError) as caught:
        table.add(
            StateVariable("block/none", table.state(table.boundary["activation"]).wait, 0, TensorRef(0), ())
        )
    assert str(caught.value) == "block/none cannot be laid out on the mesh"


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
