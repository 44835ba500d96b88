"""Rates and plans on disk: what is believed of a file, and what makes room."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from treadle import __version__
from treadle.finder.designing import design_flow, store
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.design_flow import FLOW_GAP, with_flow
from treadle.finder.measure import Option
from treadle.planning import solve
from treadle.schedules.plan import Plan

OLD = 1_000_000_000


@pytest.fixture(scope="module")
def torus() -> Option:
    return named_option("torus(3, 3)", 9, 4)


def kept(torus: Option, folder: Path) -> Path:
    with_flow(torus, directory=folder)
    (path,) = folder.glob("*.rate")
    return path


def is_believed(torus: Option, path: Path, text: bytes) -> bool:
    """A file that is believed is touched; one that is not is written anew."""
    path.write_bytes(text)
    os.utime(path, (OLD, OLD))
    found = with_flow(torus, directory=path.parent)
    assert found.flow is not None
    value = json.loads(text) if text[:1] == b"{" else {}
    believed = path.read_bytes() == text and path.stat().st_mtime > OLD
    assert not believed or found.flow.rate == value["rate"]
    return believed


def test_a_rate_is_believed_within_the_gap(torus: Option, tmp_path: Path) -> None:
    """Each pair's share of 36 links, whose distances add up to 108."""
    path = kept(torus, tmp_path)
    value = json.loads(path.read_bytes())
    assert value["topology"] == "torus(3, 3)"
    assert value["rate"] == pytest.approx(36 / 108, rel=FLOW_GAP)
    exact = 36 / 108
    for rate, is_near in (
        (exact, True),
        (exact * (1 - FLOW_GAP / 2), True),
        (exact * (1 - FLOW_GAP * 1.01), False),
        (exact * (1 + 1e-9), False),
        (exact * 2, False),
    ):
        text = json.dumps({**value, "rate": rate}).encode()
        assert is_believed(torus, path, text) == is_near, rate


def test_the_gap_of_a_rate_is_what_its_witness_proves(torus: Option, tmp_path: Path) -> None:
    path = kept(torus, tmp_path)
    value = json.loads(path.read_bytes())
    for share, gap in ((1.0, 0.0), (1 - 4e-4, 4e-4)):
        path.write_text(json.dumps({**value, "rate": share / 3}))
        found = with_flow(torus, directory=tmp_path).flow
        assert found is not None
        assert found.rate == share / 3
        assert found.gap == pytest.approx(gap, abs=1e-9)
        assert (found.gap == 0) == (gap == 0)


@pytest.mark.parametrize(
    "change",
    [
        {"topology": "torus(9)"},
        {"rate": 1},
        {"rate": "1/3"},
        {"rate": None},
        {"witness": {}},
        {"witness": None},
    ],
)
def test_other_values_are_made_anew(torus: Option, tmp_path: Path, change: dict[str, object]) -> None:
    path = kept(torus, tmp_path)
    value = json.loads(path.read_bytes())
    assert not is_believed(torus, path, json.dumps({**value, **change}).encode())
    assert not is_believed(torus, path, b"[]")
    assert is_believed(torus, path, json.dumps(value).encode())


def test_files_of_rates_have_a_size(torus: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(torus, tmp_path)
    text = path.read_bytes()
    monkeypatch.setattr(design_flow, "_MAX_FILE_BYTES", len(text))
    assert is_believed(torus, path, text)
    assert not is_believed(torus, path, text + b" ")
    assert design_flow._MAX_FILE_BYTES < 2**22


def test_flows_are_computed_up_to_a_size(torus: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_flow, "_MOST_WORK", 9 * 9 * 4)
    assert with_flow(torus).flow is not None
    monkeypatch.setattr(design_flow, "_MOST_WORK", 9 * 9 * 4 - 1)
    assert with_flow(torus) is torus


def test_without_a_folder_nothing_is_kept(
    torus: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_flow(torus).flow is not None
    assert list(tmp_path.iterdir()) == []


def sized(folder: Path, name: str, size: int, used: int) -> Path:
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (OLD + used, OLD + used))
    return path


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (150, "abcd"),
        (149, "bcd"),
        (110, "bcd"),
        (109, "cd"),
        (80, "cd"),
        (79, "d"),
        (30, "d"),
        (10, "d"),
    ],
)
def test_what_was_used_least_recently_makes_room(
    most: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40, 30 and 50 bytes beside the 30 that stay in any case; another file is nobody's."""
    monkeypatch.setattr(store, "MAX_BYTES", most)
    sized(tmp_path, "c.graphs", 50, 3)
    sized(tmp_path, "a.plan", 40, 1)
    sized(tmp_path, "b.rate", 30, 2)
    other = sized(tmp_path, "z.txt", 1000, 0)
    own = sized(tmp_path, "d.rate", 30, 0)
    store.prune(tmp_path, keep=own)
    assert "".join(sorted(path.stem for path in tmp_path.iterdir() if path != other)) == left
    assert other.exists()


def test_where_plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", "/some/where")
    assert store.default_directory() == Path("/some/where")
    monkeypatch.setenv("TREADLE_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert store.default_directory() == Path("/cache/treadle/plans")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert store.default_directory() == Path("/home/someone/.cache/treadle/plans")


def test_keys_are_of_all_that_is_asked_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    key = store.key_of({"a": "1", "b": "2"})
    assert key == store.key_of({"b": "2", "a": "1"})
    others = [{"a": "1"}, {"a": "2", "b": "1"}, {"a": "1", "b": "3"}, {"a": "1", "c": "2"}]
    assert len({key, *map(store.key_of, others)}) == 5
    assert len(key) == 64
    monkeypatch.setattr(store, "__version__", f"{__version__}.1")
    assert store.key_of({"a": "1", "b": "2"}) != key


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solve("ring(3)", "allgather").plan


def test_a_plan_is_made_once(plan: Plan, tmp_path: Path) -> None:
    question = {"topology": plan.topology.name, "collective": "allgather"}
    made = []

    def make() -> Plan:
        made.append(1)
        return plan

    assert store.cached_plan(question, make, directory=None) == (plan, False)
    assert list(tmp_path.iterdir()) == []
    first, is_found = store.cached_plan(question, make, directory=tmp_path / "deep")
    assert (first is plan, is_found) == (True, False)
    again, is_found = store.cached_plan(question, make, directory=tmp_path / "deep")
    assert is_found
    assert again.algbw == plan.algbw
    assert len(made) == 2
    (path,) = (tmp_path / "deep").iterdir()
    assert path.name == f"{store.key_of(question)}.plan"
    path.write_bytes(b"damaged")
    assert store.cached_plan(question, make, directory=tmp_path / "deep")[1] is False


def test_a_plan_of_another_question_is_not_taken(plan: Plan, tmp_path: Path) -> None:
    right = {"topology": plan.topology.name, "collective": "allgather"}
    for change in ({"topology": "ring(4)"}, {"collective": "allreduce"}):
        question = {**right, **change}
        store.cached_plan(question, lambda: plan, directory=tmp_path)
        assert store.cached_plan(question, lambda: plan, directory=tmp_path)[1] is False
    dearer = {**right, "construction": "other"}
    store.cached_plan(dearer, lambda: plan, directory=tmp_path)
    assert store.cached_plan(dearer, lambda: replace(plan), directory=tmp_path)[1] is True


def test_a_folder_that_cannot_be_written_costs_time_only(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    question = {"topology": plan.topology.name, "collective": "allgather"}
    for _ in range(2):
        assert store.cached_plan(question, lambda: plan, directory=file) == (plan, False)
    store.store_value(file / "x.rate", {"rate": 1})
    assert file.read_text() == "x"
