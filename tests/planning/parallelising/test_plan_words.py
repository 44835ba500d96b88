"""Results of searches in words and tables, stages of meshes, and what else a tensor could have been."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle import planning
from treadle.api import capture
from treadle.errors import FormatError, InfeasibleError
from treadle.parallelism.explaining import explain_plan
from treadle.parallelism.plan.plan_json import read_plan
from treadle.parallelism.searching.parallel_result import ParallelizeResult
from treadle.parallelism.searching.pipeline_run import inner_mesh, stages_of
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.schedules.mesh import Mesh

MODEL = small_model(t=48, h=24, f=36)
FABRICS = ["complete(6, bandwidth='25GB/s')", "complete(6, bandwidth='1GB/s')"]


@pytest.fixture(scope="module")
def found() -> ParallelizeResult:
    return planning.parallelize(MODEL, FABRICS, gpu="a100", mesh="6", gap=0.2)


def test_a_row_for_each_fabric_and_plan(found: ParallelizeResult) -> None:
    rows = found.records()
    assert list(rows[0]) == [
        "fabric",
        "mesh",
        "plan",
        "step_s",
        "compute_s",
        "exposed_s",
        "idle_s",
        "communication_s",
        "memory_bytes",
        "fits",
    ]
    told = [(search.fabric, row) for search in found.searches for row in search.rows]
    assert len(rows) == len(told) > 10
    for one, (fabric, row) in zip(rows, told, strict=True):
        assert (one["fabric"], one["mesh"], one["plan"]) == (fabric, "6", row.name)
        assert (one["step_s"], one["compute_s"], one["exposed_s"]) == (
            row.seconds,
            row.compute_s,
            row.exposed_s,
        )
        assert (one["communication_s"], one["memory_bytes"]) == (row.communication_s, row.memory_bytes)
        assert one["fits"] == row.fits
        assert row.compute_s + row.exposed_s == pytest.approx(row.seconds)
        assert sum(row.by_axes.values()) == pytest.approx(row.communication_s)


@pytest.mark.parametrize("name", ["up", "u", "block/x", "w"])
def test_other_states_of_a_tensor(found: ParallelizeResult, name: str) -> None:
    told = planning.explain_tensor(found, name)
    assert told
    for one in told:
        seconds = [other.seconds for other in one.alternatives]
        assert seconds == sorted(seconds)
        assert 0 < len(seconds) <= 8
        now = {round(other.seconds / (1 + other.more), 12) for other in one.alternatives}
        assert len(now) == 1, "shares are of the plan's own time"
        assert all(other.memory_bytes <= found.request.memory_bytes for other in one.alternatives)
        assert {other.what for other in one.alternatives} <= {
            "stored",
            "kept",
            "shared",
            "made",
            "boundary",
            "input",
        }


def test_stored_states_that_a_plan_could_have_had(
    found: ParallelizeResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but its own; pinned to one of them no plan is quicker than what is proven of that."""
    monkeypatch.setattr(explain_plan, "_MOST_ALTERNATIVES", 1000)
    (told,) = planning.explain_tensor(found, "w")
    own = next(leg.state for leg in told.story.legs if leg.what == "stored")
    states = [other.state for other in told.alternatives if other.what == "stored"]
    assert own not in states
    assert len(set(states)) == len(states)
    assert {*states, own} == {"whole", "h:0"}
    other = next(one for one in told.alternatives if one.what == "stored")
    search = found.searches[0]
    pinned = replace(found.request, constraints={"w": other.state})
    plans = PlanSearch(MODEL, pinned)
    assert plans.look(
        plans.make_problem(search.mesh, search.costs_on(search.mesh))
    ).bound_s <= other.seconds * (1 + 1e-9)


def test_a_plan_s_file_says_what_it_was_made_for(found: ParallelizeResult, tmp_path: Any) -> None:
    path = tmp_path / "plan.json"
    path.write_text(planning.explain_parallel_plan(found))
    again = read_plan(str(path))
    assert again == found.plan
    assert again.setting is not None
    assert (again.setting.tokens, again.setting.sequence) == (None, None)
    changes = planning.plan_changes(found, path)
    assert changes.changes == ()
    assert changes.ours is found.searches[0].best
    assert changes.theirs.name == str(path)
    assert changes.theirs.seconds == pytest.approx(changes.ours.seconds)
    text, _ = planning.exported_plan(found, ".py")
    assert text.startswith('"""Layout of small.')


def test_meshes_of_a_stage() -> None:
    assert inner_mesh(Mesh((2, 4, 3), ("a", "pp", "b"))) == Mesh((2, 3), ("a", "b"))
    assert inner_mesh(Mesh((2, 3), ("a", "b"))) == Mesh((2, 3), ("a", "b"))
    assert [stages_of(Mesh((2, 4), names)) for names in (("a", "pp"), ("pp", "a"), ("a", "b"))] == [4, 2, 1]
    with pytest.raises(FormatError, match=r"^mesh pp=4: stages only; expected another axis, as pp=4,0=1$"):
        inner_mesh(Mesh((4,), ("pp",)))


def test_whatever_a_function_raises_is_one_line() -> None:
    def wrong() -> None:
        raise ValueError("one\n two  " + "x" * 300)

    def missing() -> None:
        raise ModuleNotFoundError("no module", name="elsewhere")

    with pytest.raises(FormatError) as error:
        capture._guarded(wrong, "place")()
    text = str(error.value)
    assert re.match(r"place: ValueError at .*test_plan_words\.py:\d+: one two xxx", text)
    assert text.endswith("x" * (200 - len("one two ")))
    with pytest.raises(FormatError, match=r"^place: ModuleNotFoundError at .*: no module$"):
        capture._guarded(missing, "place")()
    with pytest.raises(InfeasibleError, match=r"^as it is$"):
        capture._guarded(lambda: (_ for _ in ()).throw(InfeasibleError("as it is")), "place")()
    assert capture._guarded(lambda: 7, "place")() == 7


@pytest.mark.parametrize("repeats", [0, 10**6 + 1])
def test_blocks_run_once_to_a_million_times(repeats: int) -> None:
    with pytest.raises(FormatError, match=f"^repeats {repeats}; expected from 1 to 1000000$"):
        planning.capture(lambda: None, repeats=repeats)
