"""Registration against a stand-in written from MSCCL++'s Python sources (1f5f065d); no GPU ever saw it."""

from __future__ import annotations

import itertools
import json
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference.runtime_selection import POWERS, Call, call_of, serves_mscclpp
from treadle import planning
from treadle.errors import FormatError, MissingDependencyError, ScheduleError
from treadle.mscclpp import register


class Constraint:
    """Algorithm.Constraint of python/mscclpp/_core/algorithm.py."""

    def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
        self.worldSize, self.nRanksPerNode = world_size, n_ranks_per_node


class ExecutionPlan:
    """CppExecutionPlan of python/csrc/executor_py.cpp; its constructor reads the file's heading."""

    def __init__(self, planPath: str, rank: int) -> None:
        heading = json.loads(Path(planPath).read_text(encoding="utf-8"))
        self.path, self.rank = planPath, rank
        self.name, self.collective = heading["name"], heading["collective"]


class Algorithm:
    """Algorithm of python/mscclpp/_core/algorithm.py, of the DSL's kind."""

    Constraint = Constraint

    def __init__(
        self,
        id: str | None = None,
        execution_plan: ExecutionPlan | None = None,
        native_handle: Any = None,
        tags: dict[str, int] | None = None,
        constraint: Constraint | None = None,
    ) -> None:
        assert isinstance(id, str)
        assert execution_plan is not None
        self.plan, self.constraint = execution_plan, constraint or Constraint()

    def is_dsl_algorithm(self) -> bool:
        return True


@dataclass
class Builder:
    """AlgorithmCollectionBuilder of python/mscclpp/ext: one for a process."""

    algorithms: list[Algorithm] = field(default_factory=list)
    selectors: list[Any] = field(default_factory=list)

    def add_algorithm_builder(self, algorithm_builder: Algorithm) -> None:
        self.algorithms.append(algorithm_builder)

    def set_algorithm_selector(self, selector: Any) -> None:
        self.selectors.append(selector)

    def chosen(self, call: SimpleNamespace) -> str | None:
        """AlgorithmCollectionBuilder::build and the first half of selectAlgorithm."""
        collection: dict[str, dict[str, Algorithm]] = {}
        for one in self.algorithms:
            collection.setdefault(one.plan.collective, {})[one.plan.name] = one
        found = self.selectors[-1](collection, call)
        return None if found is None else found.plan.name


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()
    module, extension = types.ModuleType("mscclpp"), types.ModuleType("mscclpp.ext")
    names = ("int32", "uint32", "float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint8")
    parts = {"DataType": SimpleNamespace(**{name: f"DataType.{name}" for name in names}), "ext": extension}
    for name, value in (parts | {"ExecutionPlan": ExecutionPlan, "Algorithm": Algorithm}).items():
        setattr(module, name, value)
    extension.AlgorithmCollectionBuilder = lambda: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mscclpp", module)
    monkeypatch.setitem(sys.modules, "mscclpp.ext", extension)
    monkeypatch.setenv("RANK", "3")
    return made


def lowered(folder: Path, fabric: str, collective: str, name: str = "plan.json", **asked: Any) -> Path:
    root = {"root": 1, "accept_any_root": True} if collective == "broadcast" else {}
    plan = planning.solve(fabric, collective, **{key: root[key] for key in root if key == "root"}).plan
    accepted = {key: value for key, value in root.items() if key != "root"}
    result = planning.lower(plan, to="mscclpp-json", path=name, **asked, **accepted)
    (folder / name).write_text(result.text, encoding="utf-8")
    return folder / name


def request(call: Call, rank: int = 0, per_node: int = 0, **other: Any) -> SimpleNamespace:
    """What src/ext/nccl/nccl.cc makes of a call."""
    part = call.count * call.element
    given, made = 10**6, 10**6 if call.in_place else 10**12
    if call.collective == "allgather":
        given += rank * part * call.in_place
    elif call.collective == "reducescatter":
        made += rank * part * call.in_place
    values: dict[str, Any] = {
        "world_size": call.n_ranks,
        "n_ranks_per_node": per_node or call.n_ranks,
        "rank": rank,
        "input_buffer": given,
        "output_buffer": made,
        "message_size": part * (call.n_ranks if call.collective == "reducescatter" else 1),
        "collective": call.collective,
        "dtype": "DataType.float32",
        "hints": {"root": [1]} if call.collective == "broadcast" else {},
    }
    return SimpleNamespace(**values | other)


@pytest.mark.parametrize(
    ("fabric", "ranks", "per_box", "collective"),
    [
        ("dgx_h100:2", 16, 8, "allgather"),
        ("hypercube:2", 4, 4, "reduce-scatter"),
        ("hypercube:2", 4, 4, "allreduce"),
        ("hypercube:2", 4, 4, "broadcast"),
    ],
)
def test_every_plan_has_the_calls_that_it_serves_and_no_others(
    fabric: str, ranks: int, per_box: int, collective: str, builder: Builder, tmp_path: Path
) -> None:
    """By the executor's own rules; a call that it would throw at is left aside, in place or not."""
    paths = [
        lowered(tmp_path, fabric, collective, "apart.json"),
        lowered(tmp_path, fabric, collective, "within.json", in_place=True),
    ]
    root = 1 if collective == "broadcast" else None
    rows = register(paths, root=root, accept_any_reduction=collective in ("reduce-scatter", "allreduce"))
    assert [row.in_place for row in rows] == [False, True]
    assert [one.plan.rank for one in builder.algorithms] == [3, 3]
    # the interface's own selector asks for the world's size, and would throw at what ours leaves aside
    assert {one.constraint.worldSize for one in builder.algorithms} == {0}
    assert all(Path(one.plan.path).is_absolute() for one in builder.algorithms)
    texts = {row.name: path.read_text(encoding="utf-8") for row, path in zip(rows, paths, strict=True)}
    spelt, taken = collective.replace("-", ""), 0
    for size, mode, rank in itertools.product(
        [*POWERS, 48, 2**20 + 64, 2**32], (False, True), (0, 1, ranks - 1)
    ):
        call = call_of(spelt, ranks, size, in_place=mode)
        served = [name for name, text in texts.items() if serves_mscclpp(text, call)]
        assert [builder.chosen(request(call, rank, per_box))] == (served or [None])
        taken += bool(served)
    assert taken >= 17 * 6
    call = call_of(spelt, ranks, 2**20)
    assert builder.chosen(request(call, per_node=per_box))
    assert builder.chosen(request(call, per_node=ranks))
    refused: list[dict[str, Any]] = [{"dtype": f"DataType.{name}"} for name in ("float8_e4m3fn", "uint8")]
    refused += [{"world_size": 2 * ranks}, {"collective": "reduce"}]
    refused += [{"n_ranks_per_node": per_box // 2}, {"n_ranks_per_node": 0}]
    refused += [{"hints": {"root": [0]}}, {"hints": {}}] if root else []
    for other in refused:
        assert builder.chosen(request(call, **{"per_node": per_box, **other})) is None, other


def test_sums_are_asked_for(builder: Builder, tmp_path: Path) -> None:
    path = lowered(tmp_path, "ring:4", "allreduce")
    with pytest.raises(ScheduleError, match=r"always sums.*accept_any_reduction=True"):
        register([path])
    assert not builder.algorithms
    assert not builder.selectors


def test_what_cannot_be_served_is_refused_before_anything_is_registered(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather, send = (
        lowered(tmp_path, "ring:4", "allgather"),
        lowered(tmp_path, "ring:4", "broadcast", "b.json"),
    )
    exchange = lowered(tmp_path, "ring:4", "alltoall", "x.json")
    text = json.loads(gather.read_text(encoding="utf-8"))
    block = text["gpus"][0]["threadblocks"][0]
    block["ops"] += [{"name": "nop"}] * 64
    long = tmp_path / "long.json"
    long.write_text(json.dumps(text), encoding="utf-8")
    none = tmp_path / "none.json"
    none.write_text("{}", encoding="utf-8")
    for paths, root, said in (
        ([send], None, "a broadcast; use root="),
        ([gather], 0, "not a broadcast; omit root=0"),
        ([exchange], None, "uses no plans for alltoall"),
        ([gather, gather], None, "two plans are named"),
        ([long], None, "operations, the limit is 64"),
    ):
        with pytest.raises(ScheduleError, match=said):
            register(paths, root=root)
    with pytest.raises(FormatError, match=r"none\.json"):
        register([none])
    monkeypatch.delenv("RANK")
    with pytest.raises(ScheduleError, match="no RANK in the environment"):
        register([gather])
    assert not builder.algorithms
    assert register([gather], rank=0)[0].n_ranks == 4


def test_its_module_is_missing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mscclpp", None)
    with pytest.raises(MissingDependencyError, match="build it from the sources of microsoft/mscclpp"):
        register([lowered(tmp_path, "ring:4", "allgather")], rank=0)
