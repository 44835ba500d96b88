"""Values of plans at their limits and one beyond, and what plans say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from samples.training.parsed_values import plan_from_json
from treadle.errors import FormatError, ScheduleError
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.fit import boundary_state, check_fit, stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline, PlanClaim
from treadle.parallelism.plan.part_plan import (
    ActivationPolicy,
    Boundary,
    Chunk,
    OperatorPlan,
    PartPlan,
    TensorPlan,
)
from treadle.parallelism.plan.plan_json import plan_to_json
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.mesh import Mesh

MODEL = small_model()
PLAN = plain_plan(MODEL, Mesh((2, 3, 1), ("a", "b", "idle")))
WHOLE = replicated(2)


def refused(make: Callable[[], object], words: str, error: type[Exception] = ScheduleError) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == words


def test_parts_of_an_operator_have_a_range() -> None:
    for parts in (1, 2**31):
        assert OperatorPlan("u", (), (), parts).parts == parts
    for parts in (0, 2**31 + 1):
        refused(
            partial(OperatorPlan, "u", (), (), parts),
            f"plan of u: {parts} parts; expected 1 to 2147483648",
        )
    assert OperatorPlan("u", (), ()) == OperatorPlan("u", (), (), 1, None, None)


@pytest.mark.parametrize("chunk", [Chunk("s", 2), Chunk("s", 2**20, 2**20), Chunk("s", 3, 0)])
def test_chunks_within_their_range(chunk: Chunk) -> None:
    made = OperatorPlan("u", (), (), chunk=tuple(chunk))  # type: ignore[arg-type]
    assert made.chunk == chunk
    assert made.chunk.of_loop == (chunk.n_chunks, chunk.loop)


@pytest.mark.parametrize(
    "chunk", [Chunk("", 2), Chunk("s", 1), Chunk("s", 2**20 + 1), Chunk("s", 2, -1), Chunk("s", 2, 2**20 + 1)]
)
def test_chunks_beyond_their_range(chunk: Chunk) -> None:
    letter, n_chunks, loop = chunk
    refused(
        lambda: OperatorPlan("u", (), (), chunk=chunk),
        f"plan of u: chunks {letter!r}, {n_chunks}, {loop}; expected a dimension, 2 chunks or more, and the "
        "number of a loop",
    )


def test_entries_of_tensors_say_something_that_can_be() -> None:
    refused(
        lambda: TensorPlan("u", Phase.BACKWARD, saved=WHOLE),
        "plan of u: saved in the backward phase, not the forward one",
    )
    refused(
        lambda: TensorPlan("u", Phase.FORWARD),
        "plan of u: neither shared nor saved; expected no entry for it",
    )
    refused(
        lambda: Boundary(replicated(2), replicated(1)),
        "plan: activation and gradient differ in their number of factors",
    )


def test_what_is_stored_is_whole_or_in_shards() -> None:
    summands = Sharding(((),), frozenset(("a",)))
    words = "plan: w is stored as partial sums; store it replicated or sharded"
    refused(lambda: PartPlan({}, parameters={"w": summands}), words)
    refused(lambda: PartPlan({}, inputs={"w": summands}), words)


def test_what_a_part_plan_tells() -> None:
    one = OperatorPlan("u", (WHOLE,), (Sharding((("a",), ())), WHOLE), keep=ActivationPolicy.RECOMPUTED)
    two = OperatorPlan("v", (), (), keep=ActivationPolicy.RECOMPUTED, chunk=Chunk("t", 2))
    three = OperatorPlan("w", (), (), keep=ActivationPolicy.SAVED)
    shared, saved = Sharding((("a",),)), Sharding((("b",),))
    part = PartPlan(
        {"u": one, "v": two, "w": three},
        {
            ("x", Phase.FORWARD): TensorPlan("x", Phase.FORWARD, shared, saved),
            ("x", Phase.BACKWARD): TensorPlan("x", Phase.BACKWARD, saved),
        },
    )
    assert (part.n_recomputed, part.n_chunked) == (2, 1)
    assert (part.shared("x", Phase.FORWARD), part.shared("x", Phase.BACKWARD)) == (shared, saved)
    assert (part.saved("x"), part.saved("y"), part.shared("y", Phase.FORWARD)) == (saved, None, None)
    assert one.states == "- | - -> a | -; - | -"
    assert isinstance(part.operators, MappingProxyType)


@pytest.mark.parametrize(
    ("axis", "layers", "micro_batches", "words"),
    [
        ("pp", (1, 1), 1, ""),
        ("pp", (2**15, 2**15), 2**16, ""),
        ("pp", (2,), 1, "pipeline along pp: expected 2 stages or more, each with layers"),
        ("pp", (2, 0), 1, "pipeline along pp: expected 2 stages or more, each with layers"),
        ("pp", (2**15, 2**15 + 1), 1, "pipeline along pp: expected 2 stages or more, each with layers"),
        ("pp", (1, 1), 0, "pipeline along pp: 0 micro-batches"),
        ("pp", (1, 1), 2**16 + 1, "pipeline along pp: 65537 micro-batches"),
    ],
)
def test_pipelines_have_ranges(axis: str, layers: tuple[int, ...], micro_batches: int, words: str) -> None:
    if words:
        refused(lambda: Pipeline(axis, layers, micro_batches), words)
    else:
        assert Pipeline(axis, layers, micro_batches).layers == layers


def test_claims_are_numbers_of_no_less_than_nothing() -> None:
    assert PlanClaim(0, 0, 0).overlap == "layer"
    for numbers in ((-1, 0, 0), (0, -1, 0), (0, 0, -1)):
        refused(
            partial(PlanClaim, *numbers),
            "claim of a plan: -1; expected seconds and bytes, 0 or more",
        )
    refused(
        lambda: PlanClaim(0, float("inf"), 0), "claim of a plan: inf; expected seconds and bytes, 0 or more"
    )
    refused(
        lambda: PlanClaim(0, 0, 0, "all"),
        "claim of a plan: overlap 'all'; expected none, layer, model",
    )


def test_plans_that_do_not_hold_together_are_refused() -> None:
    block, head = PLAN.parts["block"], PLAN.parts["head"]
    for digest in ("0" * 63, "0" * 65, "G" * 64):
        refused(
            partial(replace, PLAN, digest=digest),
            "plan: the model's digest: expected 64 hexadecimal digits",
        )
    for parts in ({}, {"block": block, "head": ()}):
        refused(partial(replace, PLAN, parts=parts), "plan: expected parts, each with a plan")
    two = {"block": (*block, *block), "head": head}
    refused(
        lambda: replace(PLAN, parts=two),
        "plan: part 'block' has 2 plans; expected layers that take them",
    )
    refused(
        lambda: replace(PLAN, parts=two, layers={"block": (0, 0, 0)}),
        "plan: layers of 'block' do not take each of its plans",
    )
    refused(lambda: replace(PLAN, layers={"tail": (0,)}), "plan: layers of a part 'tail' that is not there")
    longest = (0,) * 2**16
    assert replace(PLAN, layers={"block": longest}).layers["block"] == longest
    refused(
        lambda: replace(PLAN, layers={"block": (*longest, 0)}),
        "plan: layers of 'block' do not take each of its plans",
    )
    for axis in ("a", "c"):
        refused(
            partial(replace, PLAN, pipeline=Pipeline(axis, (1, 1, 2), 1)),
            f"plan: 3 stages along {axis!r} of a mesh a=2,b=3,idle=1; expected one for each rank of an axis",
        )


AXIS_A, SUM_B = Sharding((("a",), ())), Sharding(((), ()), frozenset(("b",)))


def with_block(plan: ParallelPlan, part: PartPlan) -> ParallelPlan:
    return replace(plan, parts={**plan.parts, "block": (part,)})


def with_operator(plan: ParallelPlan, **values: object) -> ParallelPlan:
    part = plan.parts["block"][0]
    operators = {**part.operators, "u": replace(part.operators["u"], **values)}  # type: ignore[arg-type]
    return with_block(plan, replace(part, operators=operators))


@pytest.mark.parametrize("axis", ["a", "idle", "z"])
def test_states_name_axes_of_several_ranks_that_no_stage_runs_along(axis: str) -> None:
    """Wherever the state stands: taken, made, shared, saved, stored, or at a boundary."""
    plan = replace(PLAN, pipeline=Pipeline("a", (2, 2), 1))
    assert (plan.sizes, plan.n_ranks_of_stage) == ({"b": 3}, 3)
    assert (PLAN.sizes, PLAN.n_ranks_of_stage) == ({"a": 2, "b": 3}, 6)
    state = Sharding(((axis,), ()))
    part = plan.parts["block"][0]
    entries = (
        TensorPlan("u", Phase.FORWARD, shared=state),
        TensorPlan("u", Phase.FORWARD, saved=state),
    )
    changes: list[Callable[[], ParallelPlan]] = [
        lambda: with_operator(plan, inputs=(WHOLE, state)),
        lambda: with_operator(plan, outputs=(state,)),
        lambda: with_operator(plan, outputs=(Sharding(((), ()), frozenset((axis,))),)),
        *(
            partial(with_block, plan, replace(part, tensors={("u", Phase.FORWARD): entry}))
            for entry in entries
        ),
        lambda: with_block(plan, replace(part, parameters={"up": state})),
        lambda: with_block(plan, replace(part, inputs={"up": state})),
        lambda: replace(plan, boundary=Boundary(state, WHOLE)),
        lambda: replace(plan, boundary=Boundary(WHOLE, state)),
        lambda: with_block(plan, replace(part, boundary=Boundary(WHOLE, state))),
    ]
    for change in changes:
        with pytest.raises(ScheduleError) as caught:
            change()
        told = str(caught.value)
        assert told.startswith("plan: state ")
        assert told.endswith(f"names the axis {axis!r}; expected some of b (mesh a=2,b=3,idle=1)")


def test_where_no_axis_is_left_none_is_named() -> None:
    plan = plain_plan(MODEL, Mesh((2,), ("a",)))
    refused(
        lambda: replace(plan, pipeline=Pipeline("a", (2, 2), 1), boundary=Boundary(AXIS_A, WHOLE)),
        "plan: state a | - names the axis 'a'; expected some of none (mesh a=2)",
    )


def test_layers_take_their_plans_and_boundaries() -> None:
    part = PLAN.parts["block"][0]
    other = replace(part, boundary=Boundary(AXIS_A, WHOLE))
    plan = replace(
        PLAN,
        parts={**PLAN.parts, "block": (part, other)},
        layers={"block": (1, 0, 1)},
        pipeline=Pipeline("b", (1, 2, 1), 5),
    )
    assert [plan.plan_of("block", run) is other for run in range(3)] == [True, False, True]
    assert plan.plan_of("block") is other
    assert plan.plan_of("head", 7) is PLAN.parts["head"][0]
    assert [plan.boundary_of("block", run).activation for run in range(3)] == [AXIS_A, WHOLE, AXIS_A]
    assert plan.boundary_of("head") == PLAN.boundary
    assert (plan.pipeline_summary, PLAN.pipeline_summary) == ("3 stages, 5 micro-batches", "")
    recomputed = with_operator(PLAN, keep=ActivationPolicy.RECOMPUTED, chunk=Chunk("f", 2))
    both = {**PLAN.parts, "block": recomputed.parts["block"] * 2}
    twice = replace(recomputed, parts=both, layers={"block": (1, 0, 1)})
    assert (twice.n_recomputed, twice.n_chunked, PLAN.n_recomputed) == (2, 2, 0)


def test_what_does_not_fit_a_model_is_told_in_full() -> None:
    digest, other = MODEL.digest[:12], "0" * 12
    refused(
        lambda: check_fit(replace(PLAN, digest="0" * 64, model="old"), MODEL),
        f"plan of model old, graph {other}; expected that of small, {digest}: it was made for another size, "
        "batch or version of the model",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, inputs=(WHOLE,)), MODEL),
        "plan of block: u: 1 inputs, 1 outputs; expected 2 and 1",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, outputs=(WHOLE, WHOLE)), MODEL),
        "plan of block: u: 2 inputs, 2 outputs; expected 2 and 1",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, outputs=(Sharding(((), ("a", "b"))),)), MODEL),
        "plan of block: u makes: f=16 over 6 ranks (a, b); expected equal shards",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, inputs=(WHOLE, Sharding((("b",), ())))), MODEL),
        "plan of block: u takes up: h=8 over 3 ranks (b); expected equal shards",
    )
    refused(
        lambda: check_fit(with_operator(PLAN, keep=None), MODEL),
        "plan of block: u: keep is None; expected one in the forward pass, and there only",
    )
    refused(
        lambda: check_fit(replace(PLAN, boundary=Boundary(WHOLE, Sharding((("b",), ())))), MODEL),
        "plan: boundary at block: t=16 over 3 ranks (b); expected equal shards",
    )
    refused(
        lambda: check_fit(replace(PLAN, boundary=Boundary(replicated(3), replicated(3))), MODEL),
        "plan: boundary - | - | - has 3 factors; expected the 2 of block's x",
    )
    refused(
        lambda: check_fit(replace(PLAN, layers={"block": (0, 0)}), MODEL),
        "plan: 2 layers of block; expected 3, as in the model",
    )
    refused(
        lambda: check_fit(replace(PLAN, pipeline=Pipeline("a", (2, 1), 1)), MODEL),
        "plan: stages of 3 layers; expected 4, as in the model",
    )
    check_fit(replace(PLAN, layers={"block": (0, 0, 0)}, pipeline=Pipeline("a", (2, 2), 1)), MODEL)


def test_inputs_that_lie_somewhere() -> None:
    """Not parameters, not what enters, not the tangent of what leaves; a loss's own tangent does."""
    block, head = MODEL.parts
    assert stored_inputs(block) == {}
    assert list(stored_inputs(head)) == ["dloss"]
    assert block.enters is not None
    assert boundary_state(block, block.enters, AXIS_A) == AXIS_A


def test_a_plan_of_a_file_has_its_figures() -> None:
    claim = PlanClaim(3.0, 2.0, 5.0, "model")
    plan = replace(PLAN, claim=claim, pipeline=Pipeline("b", (1, 2, 1), 5))
    told: Any = plan_to_json(plan)
    assert told["claim"] == {"seconds": 3.0, "bound_s": 2.0, "memory_bytes": 5.0, "overlap": "model"}
    assert told["pipeline"] == {"axis": "b", "layers": [1, 2, 1], "micro_batches": 5}
    assert told["mesh"] == {"axes": [["a", 2], ["b", 3], ["idle", 1]]}
    assert not {"layers", "made_for"} & set(told)
    assert plan_from_json(told) == plan
    assert plan_from_json(told).claim == claim


def file_of(change: Callable[[Any], None]) -> Any:
    told: Any = plan_to_json(replace(PLAN, claim=PlanClaim(3.0, 2.0, 5.0)))
    change(told)
    return told


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ([["a", 2**12], ["b", 2**12]], ""),
        ([["a", 2**12], ["b", 2**12], ["c", 2]], "mesh: expected at most 16777216 ranks"),
        ([["a" * 1000, 2], ["b", 3]], ""),
        ([["a" * 1001, 2]], "mesh.axes[0][0]: expected a string of length at most 1000, found 1001"),
        ([["", 2]], "mesh.axes[0][0]: expected a string of length at least 1, found 0"),
        ([[f"x{at}", 1] for at in range(65)], "mesh.axes: expected a list of length at most 64, found 65"),
        ([["a", 2, 2]], "mesh.axes[0]: expected a list of length 2, found 3"),
    ],
)
def test_meshes_of_files_have_limits(axes: list[Any], words: str) -> None:
    data = file_of(lambda told: told["mesh"].update(axes=axes))
    if words:
        refused(lambda: plan_from_json(data), words, FormatError)
    else:
        assert plan_from_json(data).mesh.axis_names == tuple(name for name, _ in axes)


@pytest.mark.parametrize("key", ["seconds", "bound_s", "memory_bytes"])
def test_claims_of_files_are_numbers(key: str) -> None:
    data: Any = plan_to_json(replace(PLAN, claim=PlanClaim(3.0, 2.0, 5.0)))
    for value in (True, "1", 1e300, -1e300):
        data["claim"][key] = value
        with pytest.raises(FormatError, match=rf"^claim\.{key}: expected a number"):
            plan_from_json(data)
    data["claim"][key] = 7
    assert getattr(plan_from_json(data).claim, key) == 7.0


def test_what_stands_twice_in_a_file_is_refused() -> None:
    def doubled(told: Any) -> None:
        rows = told["parts"]["block"][0]["tensors"]
        rows.append(rows[0])

    refused(
        lambda: plan_from_json(file_of(doubled)),
        'parts["block"][0]: a tensor appears twice for one phase',
        FormatError,
    )

    def summed(told: Any) -> None:
        told["parts"]["block"][0]["operators"]["u"]["outputs"][0]["partial"] = ["a", "a"]

    refused(
        lambda: plan_from_json(file_of(summed)),
        'parts["block"][0].operators["u"].outputs[0]: an axis appears twice',
        FormatError,
    )
