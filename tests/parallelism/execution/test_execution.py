"""Plans on 4 and 8 ranks against the step on one device: outputs, gradients, collectives, memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.execution.drawn_plans import draw_plan, may_cut, replaced, uneven_costs  # noqa: E402
from parallelism.execution.modules import (  # noqa: E402
    LANGUAGE_MODEL,
    language_model,
    make_block,
    make_grouped_block,
    make_single,
    make_tied,
    make_wordy,
    one_part,
)
from parallelism.execution.searched_plans import chunked_loss, searched  # noqa: E402
from parallelism.exporting.small_model import make as make_small  # noqa: E402
from parallelism.problem.settings import TIMES  # noqa: E402
from parallelism.rediscovery.plain_attention import make_short  # noqa: E402
from treadle.errors import ScheduleError, TreadleError  # noqa: E402
from treadle.parallelism.execution.execute import RankExecutions, execute  # noqa: E402
from treadle.parallelism.execution.prediction import disagreements, predicted  # noqa: E402
from treadle.parallelism.execution.rank_step import RankTask  # noqa: E402
from treadle.parallelism.execution.reference import reference_step  # noqa: E402
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase  # noqa: E402
from treadle.parallelism.plan.part_plan import ActivationPolicy, Chunk  # noqa: E402
from treadle.parallelism.problem.search_problem import make_problem  # noqa: E402
from treadle.parallelism.search.branching import Incumbent, SearchEffort  # noqa: E402
from treadle.parallelism.search.one_plan import fastest_plan  # noqa: E402
from treadle.parallelism.state.sharding import Sharding  # noqa: E402
from treadle.schedules.mesh import Mesh  # noqa: E402

SQUARE = Mesh((2, 2), ("dp", "tp"))
TURNED = Mesh((2, 2), ("dp", "tp"), (2, 0, 3, 1))
CUBE = Mesh((2, 2, 2), ("pod", "dp", "tp"))
SEARCHED = {"searched": float("inf"), "searched, less memory": 0.7}
"""Shares of the memory that the fastest plan of all takes."""
LOSS = (
    "mm",
    "amax",
    "sub",
    "exp",
    "sum_2",
    "log",
    "sub_1",
    "gather",
    "zeros_like",
    "scatter",
    "mul_2",
    "exp_1",
)
LOSS += ("sum_5", "mul_3", "sub_2", "mm_1", "mm_2")


def task(name: str, make, mesh: Mesh, seed: int, **how) -> RankTask:
    model = one_part(name, make)
    return RankTask(model, draw_plan(model, mesh, seed, **how), {name: make}, uneven_costs(mesh))


def by_tokens(graph, node):
    """Batch along dp, sequence along tp."""
    letters = {"dp": "c", "tp": "d"}
    return {
        role: (axis,)
        for axis, letter in letters.items()
        for role in may_cut(node)
        if graph.atoms[role.atom].name == letter and not role.prime
    }


def in_chunks(node):
    return Chunk("d", 8) if node.name in LOSS else None


def tied(**how) -> RankTask:
    return task("tied", make_tied, SQUARE, 3, chosen=by_tokens, **how)


def without_any_sum(one: RankTask) -> RankTask:
    """The first product of the block of which ranks have summands is taken for whole."""
    (block,) = one.plan.parts["block"]
    plan = next(
        plan
        for node in one.model.part("block").graph.nodes
        if node.kind is OperatorKind.EINSUM and (plan := block.operators[node.name]).outputs[0].partial
    )
    whole = replace(plan, outputs=(Sharding(plan.outputs[0].dims),))
    return replace(one, plan=replaced(one.plan, "block", whole))


def without_a_sum(one: RankTask) -> RankTask:
    """One product, of which ranks have summands, is taken for whole: its collective is dropped."""
    plan = one.plan.parts["tied"][0].operators["mm_1"]
    assert plan.outputs[0].partial == {"dp", "tp"}
    whole = replace(plan, outputs=(Sharding(plan.outputs[0].dims),))
    return replace(one, plan=replaced(one.plan, "tied", whole))


def scores_in_chunks() -> RankTask:
    """Attention that is written out, by a plan of the search: whole scores take 525 KB a rank."""
    model, costs = one_part("plain", make_short), uneven_costs(SQUARE)
    problem = make_problem(model, SQUARE, costs, TIMES)
    found = fastest_plan(problem.graph, memory_bytes=350e3, effort=SearchEffort(gap=0.05, n_parts=20))
    assert isinstance(found, Incumbent)
    assert found.plan is not None
    plan = problem.decode(problem.tidied(found.plan))
    letters = {one.chunk.letter for one in plan.plan_of("plain").operators.values() if one.chunk}
    assert letters == {"j", "j'"}
    return RankTask(model, plan, {"plain": make_short}, costs)


@pytest.fixture(scope="module")
def tasks() -> dict[str, RankTask]:
    model = language_model(2)
    found = searched(make_small, SQUARE, SEARCHED)
    return {
        **found,
        "searched, 128K words": chunked_loss(SQUARE),
        "searched, without a sum": without_any_sum(found["searched, less memory"]),
        "grouped": task("grouped", make_grouped_block, TURNED, 1),
        "single": task("single", make_single, SQUARE, 2),
        "language model": RankTask(model, draw_plan(model, SQUARE, 4), LANGUAGE_MODEL, uneven_costs(SQUARE)),
        "by tokens": tied(),
        "whole logits": task("tied", make_wordy, SQUARE, 3, chosen=by_tokens),
        "in chunks": task("tied", make_wordy, SQUARE, 3, chosen=by_tokens, chunks=in_chunks),
        "without a sum": without_a_sum(tied()),
        "scores in chunks": scores_in_chunks(),
    }


@pytest.fixture(scope="module")
def found(tasks: dict[str, RankTask]) -> dict[str, RankExecutions]:
    return dict(zip(tasks, execute(list(tasks.values())), strict=True))


@pytest.fixture(scope="module")
def cube() -> list[tuple[RankTask, RankExecutions]]:
    both = [task("tied", make_tied, CUBE, 0), *searched(make_tied, CUBE, {"searched": 0.8}).values()]
    return list(zip(both, execute(both), strict=True))


@pytest.mark.parametrize(
    "name", ["grouped", "language model", "whole logits", "in chunks", "scores in chunks"]
)
def test_outputs_and_all_gradients_are_those_of_one_device(
    found: dict[str, RankExecutions], name: str
) -> None:
    execution = found[name]
    assert execution.largest_error < 1e-13
    assert execution.n_collectives > 5
    gradients = [one for one in execution.errors if ": output" not in one]
    assert len(gradients) == {"language model": 1 + 2 * 10 + 3, "grouped": 10, "scores in chunks": 9}.get(
        name, 2
    )


def test_single_precision_keeps_its_digits(found: dict[str, RankExecutions]) -> None:
    assert 1e-9 < found["single"].largest_error < 2e-6


def test_a_dropped_collective_shows(found: dict[str, RankExecutions]) -> None:
    errors = found["without a sum"].errors
    assert errors["0 tied: embedding.weight"] > 0.1
    assert errors["0 tied: norm.weight"] < 1e-13


def test_a_loop_over_chunks_never_holds_whole_logits(found: dict[str, RankExecutions]) -> None:
    logits = 4 * 64 * 256 * 8 // 4  # batch x sequence x words in double precision, a rank's part
    assert found["whole logits"].peak_bytes > 3 * logits
    assert found["in chunks"].peak_bytes < 2 * logits, found["in chunks"].peak_at


@pytest.mark.parametrize(
    "name", ["grouped", "single", "language model", "whole logits", "in chunks", "scores in chunks"]
)
def test_collectives_are_those_that_the_evaluator_predicts(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions], name: str
) -> None:
    prediction = predicted(tasks[name])
    assert prediction.n_collectives >= 10
    assert found[name].collectives == prediction.collectives


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("grouped", 0.04),
        ("single", 0.04),
        ("language model", 0.04),
        ("whole logits", 0.01),
        ("in chunks", 0.01),
        ("scores in chunks", 0.16),
    ],
)
def test_memory_is_that_which_the_evaluator_predicts(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions], name: str, over: float
) -> None:
    peak = predicted(tasks[name]).peak_bytes
    assert abs(found[name].peak_bytes - peak) <= over * peak


def test_eight_ranks(cube: list[tuple[RankTask, RankExecutions]]) -> None:
    """A plan that is drawn, and one that the search finds."""
    for one, execution in cube:
        assert execution.n_ranks == 8
        assert execution.largest_error < 1e-13
        assert any(len(axes) > 1 for _, axes, _ in execution.collectives)
        assert not list(disagreements(execution, predicted(one)))


@pytest.mark.parametrize("name", [*SEARCHED, "searched, 128K words"])
def test_a_plan_of_the_search_does_what_was_predicted(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions], name: str
) -> None:
    execution, prediction = found[name], predicted(tasks[name])
    assert execution.largest_error < 1e-12
    assert prediction.n_collectives > 50
    assert execution.collectives == prediction.collectives
    assert abs(execution.peak_bytes / prediction.peak_bytes - 1) < 0.1


def test_a_searched_loss_of_128k_words_never_holds_whole_logits(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions]
) -> None:
    """The limit is below what any plan without loops takes (`searched_plans.chunked_loss`)."""
    head = tasks["searched, 128K words"].model.part("head").graph
    logits = max(head.nbytes(tensor) for tensor in head.tensors()) // 4
    execution, prediction = found["searched, 128K words"], predicted(tasks["searched, 128K words"])
    assert execution.peak_bytes - execution.parameter_bytes < logits
    assert prediction.peak_bytes == pytest.approx(execution.peak_bytes, rel=1e-3)


def test_a_falsified_plan_of_the_search_is_found_out(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions]
) -> None:
    """By the evaluator, by its numbers, and by its collectives."""
    with pytest.raises(ScheduleError, match="plan of"):
        predicted(tasks["searched, without a sum"])
    execution = found["searched, without a sum"]
    assert execution.largest_error > 1e-3
    faults = list(map(str, disagreements(execution, predicted(tasks["searched, less memory"]))))
    assert any("of its largest number" in one for one in faults)
    assert any("predicted" in one for one in faults)


def test_disagreements_name_what_went_wrong(
    tasks: dict[str, RankTask], found: dict[str, RankExecutions]
) -> None:
    """The collectives of the right plan, and numbers without one of them."""
    faults = [str(one) for one in disagreements(found["without a sum"], predicted(tasks["by tokens"]))]
    assert any("embedding.weight" in one and "of its largest number" in one for one in faults)
    assert any("allreduce of 8192 bytes along dp,tp: called 1 times; predicted 2" in one for one in faults), (
        faults
    )
    with pytest.raises(ScheduleError, match="mm_1"):
        predicted(tasks["without a sum"])


def test_the_backend_treadle_calls_the_same_collectives(found: dict[str, RankExecutions]) -> None:
    (again,) = execute([tied()], backend="treadle")
    assert again.backend == "treadle"
    assert again.largest_error < 1e-13
    assert again.collectives == found["by tokens"].collectives


def test_a_role_cut_in_two_orders_is_refused() -> None:
    one = tied()
    plan = one.plan.parts["tied"][0].operators["mul_1"]
    (c, d, b) = plan.outputs[0].dims
    assert (c, d) == (("dp",), ("tp",))
    turned = replace(
        plan,
        inputs=(Sharding((("dp", "tp"), (), b)), *plan.inputs[1:]),
        outputs=(Sharding((("tp", "dp"), (), b)),),
    )
    with pytest.raises(ScheduleError, match=r"mul_1: one role is cut by dp,tp and by tp,dp"):
        execute([replace(one, plan=replaced(one.plan, "tied", turned))])


def test_what_is_neither_saved_nor_recomputed_is_missed() -> None:
    one = tied()
    (part,) = one.plan.parts["tied"]
    operators = {
        name: replace(plan, keep=ActivationPolicy.UNUSED) if plan.keep is not None else plan
        for name, plan in part.operators.items()
    }
    tensors = {key: entry for key, entry in part.tensors.items() if key[1] is Phase.BACKWARD}
    plan = replace(one.plan, parts={"tied": (replace(part, operators=operators, tensors=tensors),)})
    with pytest.raises(ScheduleError, match="neither saved nor recomputed"):
        execute([replace(one, plan=plan)])


def test_a_loop_that_others_run_between_is_refused() -> None:
    one = tied(chunks=lambda node: Chunk("d", 4) if node.name in ("mm", "sub") else None)
    with pytest.raises(TreadleError, match="an operator outside of it stands between"):
        execute([one])


def test_a_plan_of_another_module_is_refused() -> None:
    with pytest.raises(TreadleError, match="is not what make\\(\\) gives now"):
        reference_step(one_part("block", make_block), {"block": make_tied}, seed=0)


def test_parameters_are_stored_in_parts(found: dict[str, RankExecutions]) -> None:
    (part,) = one_part("grouped", make_grouped_block).parts
    whole = sum(part.graph.nbytes(tensor) for tensor in part.parameters.values())
    assert found["grouped"].parameter_bytes < whole / 2
