"""Plan files: what is written is read, and hostile files are refused in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import small_model
from samples.training.parsed_values import plan_from_json
from treadle.errors import FormatError, ScheduleError
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline, PlanClaim
from treadle.parallelism.plan.part_plan import ActivationPolicy, Boundary, Chunk, TensorPlan
from treadle.parallelism.plan.plan_json import plan_to_json
from treadle.parallelism.plan.plan_setting import PlanSetting
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.training.devices import read_accelerator

BY_TOKENS = Sharding((("dp",), ()))


def rich_plan() -> ParallelPlan:
    """One of everything that a file can say."""
    plan = plain_plan(small_model(), Mesh((2, 2, 2), ("pp", "dp", "tp"), (1, 0, 2, 3, 4, 5, 6, 7)))
    block = plan.parts["block"][0]
    operators = dict(block.operators)
    operators["a"] = replace(
        operators["a"], keep=ActivationPolicy.RECOMPUTED, chunk=Chunk("f", 4, 1), parts=2
    )
    operators["u"] = replace(operators["u"], outputs=(Sharding((("dp",), ()), frozenset(("tp",))),))
    tensors = {**block.tensors, ("dy", Phase.BACKWARD): TensorPlan("dy", Phase.BACKWARD, shared=BY_TOKENS)}
    other = replace(block, operators=operators, tensors=tensors, boundary=Boundary(BY_TOKENS, BY_TOKENS))
    return replace(
        plan,
        parts={**plan.parts, "block": (block, other)},
        layers={"block": (0, 1, 0)},
        pipeline=Pipeline("pp", (2, 2), 4),
        claim=PlanClaim(0.5, 0.25, 1e9),
        setting=PlanSetting(rewired(), read_accelerator(OWN_GPU), 2**16, 1024),
    )


OWN_GPU = 'name = "own"\nmemory = "96GB"\nmemory_bandwidth = "4TB/s"\ntflops = {bf16 = 500}'


def rewired() -> Topology:
    """A fabric that no expression makes."""
    return replace(parse("ring:8"), name="ring(8)", latencies_ns=np.arange(16))


def test_reprs_are_one_short_line() -> None:
    plan = rich_plan()
    assert repr(plan) == (
        "<ParallelPlan small, pp=2,dp=2,tp=2, 1 recomputed, 1 chunked, 2 stages, 4 micro-batches, 2 parts>"
    )
    assert repr(plan.parts["block"][1]) == (
        "<PartPlan 10 operators, 3 tensors, 2 parameters, 1 recomputed, 1 chunked>"
    )
    assert repr(plan.parts["block"][1].operators["a"]) == "<OperatorPlan a, recomputed, - | - -> - | ->"


def changed(value: Any, path: tuple[Any, ...], change: Any) -> Any:
    """A value of JSON in which one place is another, or is gone."""
    if not path:
        return change
    copy = list(value) if isinstance(value, list) else dict(value)
    if change is None and len(path) == 1:
        del copy[path[0]]
    elif len(path) == 1 and isinstance(copy, dict):
        copy[path[0]] = change
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], change)
    return copy


OPERATOR = ("parts", "block", 1, "operators", "a")


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ((), [], "expected an object, found a list"),
        ((), {"treadle": "plan"}, 'treadle: expected "parallel plan", found "plan"'),
        (("version",), 2, "version: expected 1, found 2"),
        (("version",), True, "version: expected an integer, found true"),
        (("more",), 1, 'unknown key "more"; known are boundary, claim, digest, layers, made_for'),
        (("digest",), None, "key 'digest' is missing"),
        (("digest",), "zz", "64 hexadecimal digits"),
        (("model",), "a\nb", "expected a name of one line"),
        (("mesh", "axes"), [["dp", 0]], "at least one axis, of at least 1 rank each"),
        (("mesh", "axes"), [["dp", 2**40]], "at most 16777216 ranks"),
        (("mesh", "axes"), [["dp", 2, 3]], r"mesh.axes\[0\]: expected a list of length 2, found 3"),
        (("mesh", "axes"), [["dp"]], "expected a list of length 2"),
        (("mesh", "axes"), [["dp", -3], ["tp", -5]], "at least 1 rank each"),
        (("mesh", "ranks"), [0] * 8, "expected a permutation"),
        (("boundary", "activation"), {"dims": [["no"], []]}, "names the axis 'no'"),
        (("boundary", "activation"), {"dims": [["pp"], []]}, "names the axis 'pp'"),
        (("boundary", "activation"), {"dims": [["dp", "dp"], []]}, "'dp' appears twice"),
        (("boundary", "activation"), {"dims": [[]]}, "differ in their number of factors"),
        (
            ("boundary", "activation"),
            {"dims": [[]] * 70},
            "boundary.activation.dims: expected a list of length at most 64, found 70",
        ),
        (("boundary", "activation", "dims"), [[["dp"]], []], "expected a string"),
        (
            ("boundary", "activation", "more"),
            1,
            'boundary.activation: unknown key "more"; known are dims, partial',
        ),
        (
            (*OPERATOR, "keep"),
            "sometimes",
            r'keep: expected "saved", "recomputed" or "unused", found "sometimes"',
        ),
        ((*OPERATOR, "parts"), 0, "0 parts; expected 1"),
        ((*OPERATOR, "parts"), 2**63, "expected -9223372036854775808 to 9223372036854775807"),
        ((*OPERATOR, "parts"), 2.0, "expected an integer"),
        ((*OPERATOR, "chunk"), {"letter": "f", "chunks": 1, "loop": 0}, "2 chunks or more"),
        (
            (*OPERATOR, "chunk"),
            {"letter": "", "chunks": 2, "loop": 0},
            r"chunk.letter: expected a string of length at least 1, found 0",
        ),
        ((*OPERATOR, "inputs"), {}, "expected a list"),
        (("parts", "block", 0, "parameters", "up"), {"dims": [[], []], "partial": ["dp"]}, "as partial sums"),
        (
            ("parts", "block", 0, "tensors", 0, "phase"),
            "sideways",
            r'parts\["block"\]\[0\].tensors\[0\].phase: expected "forward" or "backward", found "sideways"',
        ),
        (("parts", "block", 0, "tensors", 0, "saved"), None, "neither shared nor saved"),
        (("parts", "block", 0, "tensors", 0, "phase"), "backward", "saved in the backward phase"),
        (("parts", "block"), [], "each with a plan"),
        (("layers", "block"), [0, 0, 0], "do not take each of its plans"),
        (("layers", "block"), [0, 1, 2], "do not take each of its plans"),
        (("layers",), None, "has 2 plans; expected layers"),
        (("layers", "none"), [0], "a part 'none' that is not there"),
        (("pipeline", "axis"), "dp2", "one for each rank of an axis"),
        (("pipeline", "layers"), [4], "2 stages or more"),
        (("pipeline", "layers"), [4, 0], "2 stages or more"),
        (("pipeline", "micro_batches"), 0, "0 micro-batches"),
        (("claim", "seconds"), "1", "expected a number"),
        (("claim", "seconds"), -1, "expected seconds and bytes"),
        (("claim", "seconds"), 10**400, "an integer of 401 digits"),
        (("claim", "overlap"), "all", "expected none, layer, model"),
        (("made_for", "fabric"), "fabric.json", "expected a call of the catalogue"),
        (("made_for", "fabric"), "open('/etc/passwd')", "expected a call of the catalogue"),
        (("made_for", "fabric", "nodes"), [], "made_for, fabric: "),
        (("made_for", "gpu"), "gpu.toml", "none of v100, "),
        (("made_for", "gpu", "memory_bytes"), -1, "expected 1 to"),
        (("made_for", "gpu", "peak_flops"), {"bf16": 10**400}, "expected a number above 0"),
        (("made_for", "tokens"), 0, "made_for: tokens: expected 1 to 1125899906842623, found 0"),
    ],
)
def test_malformed_files_are_refused_in_one_line(path: tuple[Any, ...], change: Any, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        plan_from_json(changed(plan_to_json(rich_plan()), path, change), source="p.json")
    assert str(caught.value).startswith("p.json: ")
    assert "\n" not in str(caught.value)


_PLACES: list[tuple[Any, ...]] = []


def _walk(value: Any, path: tuple[Any, ...]) -> None:
    _PLACES.append(path)
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _walk(item, (*path, key))


_walk(plan_to_json(rich_plan()), ())


def test_entries_under_a_wrong_name_are_refused() -> None:
    block = rich_plan().parts["block"][0]
    with pytest.raises(ScheduleError, match="'u' is the plan of 'a'"):
        replace(block, operators={**block.operators, "u": block.operators["a"]})
    with pytest.raises(ScheduleError, match="'y' is the plan of 'a'"):
        replace(block, tensors={("y", Phase.FORWARD): block.tensors["a", Phase.FORWARD]})
