"""Memory at every moment, against a rank that gets and frees buffers one by one; loops and mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import Drafted, small_model
from reference.parallelism.legality import violations
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, Source
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Chunk, PartPlan
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

T, H, F, LAYERS = 16, 8, 32, 3
MODEL = small_model(LAYERS, T, H, F)
MESH = Mesh((2,), ("x",))
COSTS = AlphaBetaCosts(1, {(kind, ("x",)): 1 for kind in CollectiveKind})
NUMBERS = DeviceNumbers(1.0, 1.0)


def contents(plan: ParallelPlan) -> dict[tuple[str, Phase, str], int]:
    found = evaluate(plan, MODEL, COSTS, NUMBERS)
    return {(one.part, one.phase, one.node): one.n_bytes for one in found.moments}


def with_block(plan: ParallelPlan, change: Callable[[PartPlan], PartPlan]) -> ParallelPlan:
    return replace(plan, parts={**plan.parts, "block": (change(plan.parts["block"][0]),)})


def looped(plan: ParallelPlan, *names: str, letter: str = "t", n_chunks: int = 4) -> ParallelPlan:
    def change(one: PartPlan) -> PartPlan:
        chunk = Chunk(letter, n_chunks)
        return replace(
            one,
            operators={**one.operators, **{n: replace(one.operators[n], chunk=chunk) for n in names}},
        )

    return with_block(plan, change)


def again(plan: ParallelPlan) -> ParallelPlan:
    """`u` and `a` run once more in the backward pass."""

    def change(one: PartPlan) -> PartPlan:
        operators = dict(one.operators)
        for name in ("u", "a"):
            operators[name] = replace(operators[name], keep=ActivationPolicy.RECOMPUTED)
        return replace(one, operators=operators, tensors={})

    return with_block(plan, change)


def test_between_operators_of_a_loop_one_chunk_is_there() -> None:
    plain = again(plain_plan(MODEL, MESH))
    loop = looped(plain, "u", "a", "d", "da", "ddown", "du", "dup", "dxu")
    assert not violations(loop, MODEL)
    wide = 2 * T * F
    before, after = contents(plain), contents(loop)
    key = ("block", Phase.FORWARD, "a")
    # u and a whole; or a quarter of each, and d whole, which the loop gives
    assert before[key] - after[key] == 2 * wide - (2 * wide // 4 + 2 * T * H)
    peak = {k: n for k, n in after.items() if k[:2] == ("block", Phase.BACKWARD)}
    assert max(peak.values()) < max(n for k, n in before.items() if k[:2] == ("block", Phase.BACKWARD))
    moments = {(m.part, m.phase, m.node): m for m in evaluate(loop, MODEL, COSTS, NUMBERS).moments}
    held = {(h.why, h.tensor): h.n_bytes for h in moments["block", Phase.BACKWARD, "du"].contents}
    assert held["chunk", "u"] == held["chunk", "da"] == held["chunk", "du"] == wide // 4
    # sums over chunks are whole from the loop's beginning
    assert held["result", "dup"] == held["result", "ddown"] == 2 * H * F


def test_a_sum_over_chunks_cannot_be_read_within_its_loop() -> None:
    """b = x * (sum of x over f): the sum is there when the loop ends."""
    draft = Drafted(t=8, f=8)
    draft.placeholder("x", "tf", Source.PARAMETER)
    draft.operator("s", "t", OperatorKind.REDUCTION, "x", linear=((0,),))
    draft.operator("b", "tf", OperatorKind.ELEMENTWISE, "x", "s", linear=((0,), (1,)))
    model = ModelGraph("sums", (ModelPart("p", draft.graph({}, {}, "b"), 1, None, None),))
    plan = plain_plan(model, MESH)
    own = plan.parts["p"][0]
    for letter, words in (
        ("t", []),
        ("f", ["p: b: takes s within its loop, of which no chunk is there alone"]),
    ):
        operators = {name: replace(one, chunk=Chunk(letter, 2)) for name, one in own.operators.items()}
        mutant = replace(plan, parts={"p": (replace(own, operators=operators),)})
        assert [str(one) for one in violations(mutant, model)] == words
