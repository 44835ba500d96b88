"""The lines of Python that put a plan into MSCCL++, executed against a stand-in for it."""

from __future__ import annotations

import itertools
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference.runtime_selection import POWERS, Call, call_of, serves_mscclpp
from treadle import planning


class _Buffers:
    """Addresses of a call's memory: apart, or one within the other as the collective has it in place."""

    def __init__(self, call: Call, rank: int) -> None:
        part = call.count * call.element
        self.input, self.output = 10**6, 10**6
        if call.collective == "allgather":
            self.input += rank * part
        elif call.collective == "reducescatter":
            self.output += rank * part
        if not call.in_place:
            self.output += 10**12


def run_recipe(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Execute printed lines against a stand-in that has the names and signatures of mscclpp's Python."""
    seen = SimpleNamespace(plans=[], algorithms=[], selector=None)
    module, extension = types.ModuleType("mscclpp"), types.ModuleType("mscclpp.ext")

    class ExecutionPlan:
        def __init__(self, planPath: str, rank: int) -> None:
            seen.plans.append((planPath, rank))
            self.values = json.loads(Path(planPath).read_text(encoding="utf-8"))

    class Algorithm:
        class Constraint:
            def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
                self.world_size = world_size

        def __init__(self, id: str, execution_plan: Any, *, constraint: Any) -> None:
            # the interface's own selector takes a plan of these many ranks by everything but root and chunks
            assert constraint.world_size == 0
            self.name = execution_plan.values["name"]
            self.collective = execution_plan.values["collective"]

    class AlgorithmCollectionBuilder:
        def add_algorithm_builder(self, algorithm_builder: Algorithm) -> None:
            seen.algorithms.append(algorithm_builder)

        def set_algorithm_selector(self, selector: Callable[..., Any]) -> None:
            seen.selector = selector

    names = ("float16", "bfloat16", "float32", "int32", "uint32", "uint8", "float8_e4m3fn", "float8_e5m2")
    module.DataType = SimpleNamespace(**{name: name for name in names})  # type: ignore[attr-defined]
    module.ExecutionPlan, module.Algorithm = ExecutionPlan, Algorithm  # type: ignore[attr-defined]
    module.ext = extension  # type: ignore[attr-defined]
    extension.AlgorithmCollectionBuilder = AlgorithmCollectionBuilder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mscclpp", module)
    monkeypatch.setitem(sys.modules, "mscclpp.ext", extension)
    monkeypatch.setenv("RANK", "2")
    exec(compile("\n".join(lines), "recipe", "exec"), {})
    return seen


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce", "broadcast"])
def test_the_recipe_gives_a_plan_the_calls_that_it_serves(
    collective: str, in_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every rank alike, and no others: of other sizes, modes, roots, types and numbers of ranks."""
    path = tmp_path / "a plan.json"
    root = {"root": 1} if collective == "broadcast" else {}
    plan = planning.solve("hypercube(2)", collective, **root).plan
    accepted = {"accept_any_root": True} if root else {}
    result = planning.lower(plan, to="mscclpp-json", in_place=in_place, path=str(path), **accepted)
    path.write_text(result.text, encoding="utf-8")
    seen = run_recipe(list(result.loading.code), monkeypatch)
    (algorithm,) = seen.algorithms
    assert seen.plans == [(str(path), 2)]
    algorithms = {algorithm.collective: {algorithm.name: algorithm}}
    spelt = collective.replace("-", "")

    def chosen(call: Call, rank: int = 2, *, dtype: str = "float32", at: int = 1) -> bool:
        part = call.count * call.element
        buffers = _Buffers(call, rank)
        request = SimpleNamespace(
            collective=call.collective,
            world_size=call.n_ranks,
            rank=rank,
            message_size=part * (call.n_ranks if call.collective == "reducescatter" else 1),
            input_buffer=buffers.input,
            output_buffer=buffers.output,
            dtype=dtype,
            hints={"root": [at]} if root else {},
        )
        found = seen.selector(algorithms, request)
        assert found in (None, algorithm)
        return found is algorithm

    taken = 0
    sizes = [*POWERS, 16, 48, 4096 + 16, 3 * 2**20, 2**20 + 4, 2**32]
    for size, mode, rank in itertools.product(sizes, (False, True), range(4)):
        call = call_of(spelt, 4, size, in_place=mode)
        assert chosen(call, rank) == serves_mscclpp(result.text, call)
        taken += chosen(call, rank)
    assert taken >= 17 * 4
    call = call_of(spelt, 4, 2**20, in_place=in_place)
    assert chosen(call)
    assert not chosen(call, dtype="uint8")
    assert not chosen(call, dtype="float8_e4m3fn")
    assert not chosen(Call(spelt, 8, call.count, in_place=in_place))
    assert not chosen(Call("other", 4, call.count, in_place=in_place))
    if root:
        assert not chosen(call, at=0)


@pytest.mark.parametrize("collective", ["reduce", "alltoall"])
def test_what_the_nccl_interface_hands_to_no_plan(collective: str) -> None:
    accepted = {"accept_any_root": True} if collective == "reduce" else {}
    plan = planning.solve("hypercube(2)", collective, **({"root": 0} if accepted else {})).plan
    loading = planning.lower(plan, to="mscclpp-json", path="x.json", **accepted).loading
    assert f"hands no {collective} to plans" in loading.runtime
    assert "AlgorithmCollectionBuilder" not in " ".join(loading.code)
    assert "MSCCLPP_EXECUTION_PLAN_DIR" not in str(loading)
