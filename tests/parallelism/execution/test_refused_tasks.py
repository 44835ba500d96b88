"""What is refused before any rank starts, how collectives are counted, and what disagrees with a forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch.distributed as dist  # noqa: E402

from parallelism.plan.plain_plans import plain_plan  # noqa: E402
from parallelism.plan.small_models import small_model, two_matrices  # noqa: E402
from treadle.errors import ScheduleError, TreadleError  # noqa: E402
from treadle.parallelism.execution.counting import CountedCollective, counted, ranks_of  # noqa: E402
from treadle.parallelism.execution.execute import MOST_RANKS, RankExecutions, execute  # noqa: E402
from treadle.parallelism.execution.local_operators import LocalOperator, cuts_of  # noqa: E402
from treadle.parallelism.execution.part_execution import (  # noqa: E402  # noqa: E402
    PartExecution,
    _narrowed,
    _operator,
)
from treadle.parallelism.execution.prediction import Prediction, disagreements, tolerance  # noqa: E402
from treadle.parallelism.execution.rank_step import RankTask, ReadTensor, _groups  # noqa: E402
from treadle.parallelism.execution.reference import RunValues  # noqa: E402
from treadle.parallelism.execution.run_comparison import common_collectives, errors_of  # noqa: E402
from treadle.parallelism.execution.tensor_blocks import BlockPosition  # noqa: E402
from treadle.parallelism.graph.compute_graph import Index, Operand, TensorRef, pairs  # noqa: E402
from treadle.parallelism.plan.parallel_plan import Pipeline  # noqa: E402
from treadle.parallelism.plan.part_plan import OperatorPlan  # noqa: E402
from treadle.parallelism.state.sharding import Sharding, replicated  # noqa: E402
from treadle.schedules.collective import CollectiveKind  # noqa: E402
from treadle.schedules.mesh import Mesh  # noqa: E402
from treadle.training.costs import AlphaBetaCosts  # noqa: E402

MODEL = small_model()


def task_on(*shape: int) -> RankTask:
    names = tuple("abcdefgh"[: len(shape)])
    return RankTask(MODEL, plain_plan(MODEL, Mesh(shape, names)), {}, AlphaBetaCosts(1, {}))


def test_tasks_have_one_number_of_ranks_that_a_machine_may_run() -> None:
    assert execute([]) == []
    words = "execution: meshes of {} ranks; expected one size of at most 16"
    for tasks, sizes in (([task_on(4), task_on(2)], "2, 4"), ([task_on(17)], "17"), ([task_on(2, 16)], "32")):
        with pytest.raises(TreadleError) as caught:
            execute(tasks)
        assert str(caught.value) == words.format(sizes)
    assert MOST_RANKS == 16
    with pytest.raises(TreadleError, match="was not captured"):
        execute([task_on(16)])
    staged = task_on(2, 2)
    staged = replace(staged, plan=replace(staged.plan, pipeline=Pipeline("a", (2, 2), 1)))
    with pytest.raises(TreadleError) as caught:
        execute([staged])
    assert str(caught.value) == "execution: stages of a pipeline are not run; expected a plan without"


def test_operators_that_cannot_be_run_here_are_refused() -> None:
    graph, place = two_matrices(), BlockPosition(Mesh((2,), ("x",)), 0)
    node = graph.nodes[3]
    assert node.name == "u"
    whole = OperatorPlan("u", (replicated(2), replicated(2)), (replicated(2),))

    def refused(plan: OperatorPlan, **values: Any) -> str:
        with pytest.raises((TreadleError, ScheduleError)) as caught:
            LocalOperator(graph, replace(node, **values), plan, place)
        return str(caught.value)

    assert refused(whole) == ("execution: u was not captured; expected a graph of `treadle capture`")
    random = {"operator": "aten.native_dropout.default", "arguments": {"p": 0.5}}
    assert refused(whole, **random) == (
        "execution: aten.native_dropout.default draws random numbers, which ranks do not share"
    )
    LocalOperator(
        graph, replace(node, operator="aten.native_dropout.default", arguments={"p": 0.0}), whole, place
    )
    LocalOperator(graph, replace(node, operator="aten.mm.default"), whole, place)
    LocalOperator(graph, replace(node, arguments={"is_causal": False}), whole, place)
    mm = {"operator": "aten.mm.default"}
    assert refused(replace(whole, inputs=whole.inputs[:1]), **mm) == (
        "plan of u: expected states of 2 operands"
    )
    assert refused(replace(whole, outputs=()), **mm) == "plan of u: expected states of 2 operands"
    assert refused(replace(whole, outputs=(replicated(3),)), **mm) == "plan of u: - | - | - for 2 factors"
    rows = Sharding((("x",), ()))
    assert refused(replace(whole, outputs=(rows,)), **mm) == (
        "plan of u: one role is cut by nothing and by x"
    )
    assert refused(replace(whole, inputs=(rows, replicated(2))), **mm) == (
        "plan of u: one role is cut by x and by nothing"
    )
    cut = replace(whole, inputs=(rows, replicated(2)), outputs=(rows,))
    assert cuts_of(node, cut) == {Index(0): ("x",), Index(1): (), Index(2): ()}


def execution(**values: Any) -> RankExecutions:
    calls = {(CollectiveKind.ALLREDUCE, ("dp",), 8): 3, (CollectiveKind.ALLGATHER, ("dp", "tp"), 4): 2}
    made = RankExecutions("gloo", 4, {"good": 1e-7, "edge": 1e-6}, calls, 10, "here", 5)
    return replace(made, **values)


def test_what_disagrees_is_named() -> None:
    calls = {(CollectiveKind.ALLREDUCE, ("dp",), 8): 3, (CollectiveKind.ALLTOALL, ("tp",), 16): 1}
    forecast = Prediction(calls, 10, "here")
    assert (execution().n_collectives, forecast.n_collectives) == (5, 4)
    assert [str(one) for one in disagreements(execution(), forecast)] == [
        "allgather of 4 bytes along dp,tp: called 2 times; predicted 0",
        "alltoall of 16 bytes along tp: called 0 times; predicted 1",
    ]
    bad = execution(errors={"worse": 2e-6, "none": float("nan")}, collectives=calls)
    assert [str(one) for one in disagreements(bad, forecast)] == [
        "worse: off by 2.0e-06 of its largest number; expected 1e-06",
        "none: off by nan of its largest number; expected 1e-06",
    ]
    assert tolerance(execution()) == 1e-6
    assert tolerance(execution(precision=1e-3)) == 16e-3
    assert execution().largest_error == 1e-6
    assert np.isnan(bad.largest_error)
    assert execution(errors={}).largest_error == 0
    assert execution().precision == 0


PAIR = Mesh((2, 1, 2), ("dp", "idle", "tp"), (2, 0, 3, 1))


def read(values: dict[str, Any], calls: Counter[CountedCollective] | None = None) -> ReadTensor:
    return ReadTensor(values, calls or Counter(), (1, "x"), 2)


def test_ranks_that_call_differently_are_told_and_groups_are_named_by_axes() -> None:
    """dp joins ranks 2 and 3, and 0 and 1; tp 2 and 0, and 3 and 1."""
    kind = CollectiveKind.ALLGATHER
    along_dp = [Counter({CountedCollective(kind, ranks, 8): 2}) for ranks in ((0, 1), (0, 1), (2, 3), (2, 3))]
    found = common_collectives([read({}, one) for one in along_dp], PAIR)
    assert found == {(kind, ("dp",), 8): 2}
    both = Counter({CountedCollective(kind, (0, 1, 2, 3), 8): 1, CountedCollective(kind, (0, 2), 4): 3})
    other = Counter({CountedCollective(kind, (0, 1, 2, 3), 8): 1, CountedCollective(kind, (1, 3), 4): 3})
    found = common_collectives([read({}, one) for one in (both, other, both, other)], PAIR)
    assert found == {(kind, ("dp", "tp"), 8): 1, (kind, ("tp",), 4): 3}
    with pytest.raises(TreadleError) as caught:
        common_collectives([read({}, one) for one in (both, other, both, along_dp[2])], PAIR)
    assert str(caught.value) == "execution: ranks 0 and 3 called different collectives"


def test_errors_are_the_largest_difference_over_the_largest_number() -> None:
    """`u` of the head: halves along dp, summands along tp; rank 3 is off by a half of 8."""
    model = small_model(1, t=4, h=2, f=2)
    whole = torch.tensor([[1.0, -8.0], [2.0, 0.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    expected = [
        RunValues("block", {}, [whole], {}),
        RunValues("head", {}, [torch.tensor(3.0, dtype=torch.float64)], {1: whole[0]}),
    ]
    state = Sharding((("dp",), ()), frozenset(("tp",)))
    found = []
    for rank in range(4):
        at = BlockPosition(PAIR, rank).at
        half = whole.numpy()[2 * at["dp"] : 2 * at["dp"] + 2]
        part = half - 1 if at["tp"] else np.ones_like(half)
        values = {
            "0 block: output 0": (state, part + (0.5 if rank == 3 else 0)),
            "1 head: output 0": (Sharding(()), np.array(3.0)),
            "1 head: w": (replicated(1), whole[0].numpy() - (0.25 if rank == 2 else 0)),
        }
        found.append(read(values))
    errors = errors_of(model, PAIR, expected, found)
    assert errors == {"0 block: output 0": 0.5 / 8, "1 head: output 0": 0.0, "1 head: w": 0.25 / 8}
    del found[0].values["1 head: w"]
    with pytest.raises(TreadleError) as caught:
        errors_of(model, PAIR, expected, found)
    assert str(caught.value) == "execution: 1 head: w is not on both sides"


@pytest.fixture
def four_ranks() -> Iterator[None]:
    """This process as rank 2 of four, whose collectives do nothing."""
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist.init_process_group("fake", store=fake.FakeStore(), rank=2, world_size=4)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("four_ranks")
def test_collectives_are_counted_by_kind_ranks_and_bytes() -> None:
    some = dist.new_group([0, 2])
    assert ranks_of(some) == ranks_of(some.group_name) == (0, 2)
    functional = torch.ops._c10d_functional
    value = torch.zeros(6)
    with counted() as calls:
        functional.wait_tensor(functional.all_reduce(value, "sum", some.group_name))
        functional.wait_tensor(functional.all_gather_into_tensor(value, 2, some.group_name))
        functional.wait_tensor(functional.reduce_scatter_tensor(value, "avg", 2, some.group_name))
        functional.wait_tensor(functional.all_to_all_single(value, [3, 3], [3, 3], some.group_name))
        dist.all_reduce(value)
        dist.all_reduce(value)
        dist.broadcast(value[:2], 0)
        _ = value + value
    dist.all_reduce(value)
    everybody = (0, 1, 2, 3)
    assert calls == {
        CountedCollective(CollectiveKind.ALLREDUCE, (0, 2), 24): 1,
        CountedCollective(CollectiveKind.ALLGATHER, (0, 2), 48): 1,
        CountedCollective(CollectiveKind.REDUCE_SCATTER, (0, 2), 24): 1,
        CountedCollective(CollectiveKind.ALLTOALL, (0, 2), 24): 1,
        CountedCollective(CollectiveKind.ALLREDUCE, everybody, 24): 2,
        CountedCollective(CollectiveKind.BROADCAST, everybody, 8): 1,
    }


@pytest.mark.usefixtures("four_ranks")
def test_groups_of_a_rank_are_made_once() -> None:
    group = _groups(PAIR, 2)
    assert [ranks_of(group(axes)) for axes in (("dp",), ("tp",), ("dp", "tp"))] == [
        (2, 3),
        (0, 2),
        (0, 1, 2, 3),
    ]
    assert group(("dp",)) is group(("dp",))


def test_gradients_are_turned_to_what_they_are_of_unless_a_letter_stands_twice() -> None:
    """Factors of one element have no place."""
    h, again, f, one = Index(0), Index(0, 1), Index(1), Index(2)

    def turned(owner: list[Index], found: list[Index]) -> list[Index]:
        graph = SimpleNamespace(
            factors=lambda tensor: tuple(owner),
            size=lambda index: (8, 16, 1)[index.atom],
            spelled=lambda tensor: "w",
        )
        execution = SimpleNamespace(graph=graph, part=SimpleNamespace(name="block"))
        dims = tuple((index,) for index in found)
        operand = PartExecution._oriented(execution, TensorRef(3), Operand(TensorRef(5), dims, dims))  # type: ignore[arg-type]
        assert operand.tensor == TensorRef(5)
        assert operand.dims == operand.roles
        return [index for dim in operand.dims for index in dim]

    assert turned([h, one, f], [f, h]) == [h, f]
    assert turned([h, f], [h, one, f]) == [h, f]
    assert turned([h, again, f], [h, again, f]) == [h, again, f]
    with pytest.raises(ScheduleError) as caught:
        turned([h, again, f], [f, h, again])
    assert str(caught.value) == (
        "plan of block: the gradient of w is turned, and a dimension appears in it twice"
    )


def looped(*changes: dict[str, Any]) -> SimpleNamespace:
    """Node u of the two matrices (t and f of t x h and h x f), at rank 0 of two, and those after it."""
    graph = two_matrices()
    nodes = list(graph.nodes)
    for at, change in enumerate(changes, 3):
        nodes[at] = replace(nodes[at], **change)
    plans = {
        node.name: OperatorPlan(
            node.name,
            tuple(replicated(len(one.dims)) for one in node.operands),
            tuple(replicated(len(one.dims)) for one in node.results),
        )
        for node in nodes
    }
    return SimpleNamespace(
        graph=replace(graph, nodes=tuple(nodes)),
        part=SimpleNamespace(name="block"),
        plan=SimpleNamespace(operators=plans),
        place=BlockPosition(Mesh((2,), ("x",)), 0),
    )


def test_operators_that_do_not_run_in_chunks_of_a_letter_are_refused() -> None:
    t, h, f = Index(0), Index(1), Index(2)
    product: dict[str, Any] = {"operator": "aten.mm.default"}
    extreme: dict[str, Any] = {"operator": "aten.amax.default"}
    assert [_operator(looped(product), 3, role, 2).name for role in (t, h, f)] == ["mm"] * 3  # type: ignore[arg-type]
    for change, role in (
        (product, Index(3)),
        (product | {"whole": frozenset([f])}, f),
        (extreme, Index(0, 1)),
    ):
        with pytest.raises(ScheduleError) as caught:
            _operator(looped(change), 3, role, 2)  # type: ignore[arg-type]
        assert str(caught.value) == "plan of block: u cannot run in chunks of that dimension"
    # of what is read along h alone, chunks of products add up, those of maxima do not
    with pytest.raises(ScheduleError) as caught:
        _operator(looped(extreme), 3, h, 2)  # type: ignore[arg-type]
    assert str(caught.value) == "plan of block: chunks of u do not add up"


def test_chunks_are_runs_of_a_dimension() -> None:
    value = torch.arange(24).reshape(4, 6)
    rows, columns = Index(0), Index(1)
    roles = ((rows,), (columns,))
    assert _narrowed(value, roles, columns, 2, 3).tolist() == [[4, 5], [10, 11], [16, 17], [22, 23]]
    assert _narrowed(value, roles, rows, 1, 2).tolist() == value[2:].tolist()
    assert _narrowed(value, roles, Index(2), 1, 2) is value
    merged = Operand(TensorRef(0), ((rows, columns),), ((rows, rows),))
    assert list(pairs(merged)) == [(rows, rows), (columns, rows)]
