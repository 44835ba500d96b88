"""Memory at every moment, against a rank that gets and frees buffers one by one; loops and mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import Drafted, small_model
from reference.parallelism.legality import violations
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, Chunk, PartPlan, TensorPlan
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

T, H, F, LAYERS = 16, 8, 32, 3
MODEL = small_model(LAYERS, T, H, F)
MESH = Mesh((2,), ("x",))
COSTS = AlphaBetaCosts(1, {(kind, ("x",)): 1 for kind in CollectiveKind})
NUMBERS = DeviceNumbers(1.0, 1.0)
GRAPH = MODEL.part("block").graph


def contents(plan: ParallelPlan) -> dict[tuple[str, Phase, str], int]:
    found = evaluate(plan, MODEL, COSTS, NUMBERS)
    return {(one.part, one.phase, one.node): one.n_bytes for one in found.moments}


def with_block(plan: ParallelPlan, change: Callable[[PartPlan], PartPlan]) -> ParallelPlan:
    return replace(plan, parts={**plan.parts, "block": (change(plan.parts["block"][0]),)})


def random_plan(seed: int) -> ParallelPlan:
    """Everything whole; what the backward pass reads of `u` and `a` saved in halves, whole, or made again."""
    rng = np.random.default_rng(seed)
    plan = plain_plan(MODEL, MESH)

    def change(one: PartPlan) -> PartPlan:
        operators, tensors = dict(one.operators), dict(one.tensors)
        for name in ("u", "a"):
            kind = rng.integers(3)
            if kind == 2:
                operators[name] = replace(operators[name], keep=ActivationPolicy.RECOMPUTED)
                del tensors[name, Phase.FORWARD]
            elif kind == 1:
                half = Sharding((("x",), ()))
                tensors[name, Phase.FORWARD] = TensorPlan(name, Phase.FORWARD, saved=half)
        for name in ("x", "dy", "du", "up", "down"):
            if rng.integers(2):
                phase = Phase.BACKWARD if name.startswith("d") and name != "down" else Phase.FORWARD
                tensors[name, phase] = TensorPlan(name, phase, shared=Sharding(((), ())))
        parameters = {
            path: Sharding((("x",), ())) if rng.integers(2) else state
            for path, state in one.parameters.items()
        }
        return replace(one, operators=operators, tensors=tensors, parameters=parameters)

    return with_block(plan, change)


def simulated(plan: ParallelPlan) -> dict[tuple[str, Phase, str], int]:
    """Bytes while each operator of the last block runs: buffers got and freed as readers come and go."""
    one, found = plan.parts["block"][0], {}
    names = [node.name for node in GRAPH.nodes]
    size = {name: GRAPH.nbytes(TensorRef(at)) for at, name in enumerate(names[:-1])}
    half = {name: n // 2 for name, n in size.items()}
    stored = {p: half[p] if one.parameters[p].axes else size[p] for p in ("up", "down")}
    saved = {n: half[n] if s.axes else size[n] for n in ("u", "a") if (s := one.saved(n))}
    # 8 times what 2 bytes a parameter are; the head's 8 parameters; X before each block and before the head
    fixed = (
        LAYERS * 8 * sum(stored.values()) + 16 * H + (LAYERS + 1) * size["x"] + LAYERS * sum(saved.values())
    )
    again = [name for name in ("u", "a") if one.operators[name].keep is ActivationPolicy.RECOMPUTED]
    forward = ["u", "a", "d", "y"]
    backward = [*again, "da", "ddown", "du", "dup", "dxu", "dx"]
    reads = {n: [names[o.tensor.node] for o in GRAPH.nodes[names.index(n)].operands] for n in names[:-1]}
    for phase, order in ((Phase.FORWARD, forward), (Phase.BACKWARD, backward)):
        held: dict[str, int] = {"dy": size["dy"]} if phase is Phase.BACKWARD else {}
        for at, name in enumerate(order):
            temporary = 0
            for read in dict.fromkeys(reads[name]):
                is_elsewhere = stored.get(read, size[read]) < size[read] or (
                    phase is Phase.BACKWARD and read not in again and saved.get(read, size[read]) < size[read]
                )
                if is_elsewhere and read not in held:
                    if one.shared(read, phase) is not None:
                        held[read] = size[read]  # gathered once, there until its last reader
                    else:
                        temporary += size[read]
            is_saved_so = phase is Phase.FORWARD and saved.get(name) == size[name]
            made = 0 if is_saved_so else size[name]
            found["block", phase, name] = fixed + sum(held.values()) + temporary + made
            later = {read for other in order[at + 1 :] for read in reads[other]}
            if name in later and not is_saved_so:
                held[name] = size[name]
            held = {n: b for n, b in held.items() if n in later}
    return found


def test_every_moment_is_what_a_rank_holds_that_gets_and_frees_buffers() -> None:
    kinds = set()
    for seed in range(40):
        plan = random_plan(seed)
        assert not violations(plan, MODEL)
        found = contents(plan)
        for key, n_bytes in simulated(plan).items():
            assert found[key] == n_bytes, (seed, key)
        kinds.add(tuple(one.keep for one in plan.parts["block"][0].operators.values()))
    assert len(kinds) > 2


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


def test_collectives_within_a_loop_are_paid_once_a_chunk() -> None:
    summed = Sharding(((), ()), frozenset(("x",)))

    def change(one: PartPlan) -> PartPlan:
        operators = dict(one.operators)
        whole, cut = Sharding(((), ())), Sharding((("x",), ()))
        operators["u"] = replace(
            operators["u"], inputs=(Sharding(((), ("x",))), cut), outputs=(summed,), parts=2
        )
        assert operators["a"].inputs == (whole,)
        return replace(one, operators=operators)

    plan = looped(with_block(plain_plan(MODEL, MESH), change), "u", "a")
    found = evaluate(plan, MODEL, COSTS, NUMBERS)
    (one,) = [m for times in found.parts for m in times.movements if m.tensor == "u" and m.why == "a"]
    assert (one.collective.size_bytes, one.count) == (2 * T * F // 4, 4)
    assert one.seconds == 4 * (1 + 2 * T * F // 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: looped(p, "u", "a", letter="h"), "a: runs in a loop over h, which it has not"),
        (lambda p: looped(p, "u", n_chunks=3), "u: 3 chunks of 16 elements at a rank"),
        (lambda p: looped(p, "u", "a", "d", letter="f"), None),
        (lambda p: looped(p, "d", "y", letter="h"), None),
        (lambda p: looped(p, "u", "d"), "u: its loop waits for operators that wait for the loop"),
        (lambda p: looped(p, "ddown", "dup", "dxu", letter="f"), None),
        (lambda p: looped(p, "d", "y", letter="t", n_chunks=2), None),
        (
            lambda p: with_block(p, lambda one: replace(one, tensors={})),
            "u: is read in the backward pass, but no state is saved",
        ),
        (
            lambda p: with_block(
                p,
                lambda one: replace(
                    one,
                    operators={
                        **one.operators,
                        "u": replace(one.operators["u"], keep=ActivationPolicy.UNUSED),
                    },
                ),
            ),
            "u: is saved, though its operator's results are not",
        ),
        (
            lambda p: with_block(
                p,
                lambda one: replace(
                    one,
                    tensors={
                        **one.tensors,
                        ("y", Phase.BACKWARD): TensorPlan("y", Phase.BACKWARD, shared=Sharding(((), ()))),
                    },
                ),
            ),
            "y: is shared in the backward pass, where nobody reads it",
        ),
    ],
)
def test_mutants_of_legal_plans_are_refused_by_name(
    change: Callable[[ParallelPlan], ParallelPlan], words: str | None
) -> None:
    plan = change(plain_plan(MODEL, MESH))
    found = [str(one) for one in violations(plan, MODEL)]
    if words is None:
        assert found == []
        return
    assert f"block: {words}" in found
    with pytest.raises(ScheduleError, match=r"^plan of small: block: "):
        evaluate(plan, MODEL, COSTS, NUMBERS)


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
