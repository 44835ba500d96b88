"""Manifests of plans read entry by entry, and ranges of sizes with gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.schedulers import plan_directory
from treadle.schedulers.plan_directory import (
    PlanListing,
    _from_manifest,
    has_gap,
    index_plans,
)
from treadle.schedules.collective import CollectiveKind


@pytest.mark.parametrize(
    ("sizes", "gap"),
    [
        ([], True),
        ([(0, None)], False),
        ([(1, None)], True),
        ([(0, 9)], True),
        ([(10, None), (0, 9)], False),
        ([(10, None), (0, 8)], True),
        ([(11, None), (0, 9)], True),
        ([(0, 5), (0, 9), (3, 4), (10, None)], False),
        ([(0, 9), (2, 4), (6, None)], False),
        ([(0, 9), (2, 4), (10, 12), (13, None)], False),
        ([(0, None), (99, 100)], False),
    ],
)
def test_sizes_in_none_of_the_ranges(sizes: list[tuple[int, int | None]], gap: bool) -> None:
    assert has_gap(sizes) is gap


def manifest(**collective: Any) -> dict[str, Any]:
    return {
        "treadle": "plan",
        "topology_sha256": "ab",
        "collective": {"kind": "reduce", "ranks": [7, 5, 9, 6], "root": 2, **collective},
        "entries": [{"min_bytes": 0, "max_bytes": 3}, {"min_bytes": 4, "max_bytes": None}],
    }


def test_what_a_manifest_says() -> None:
    path = Path("x.plan")
    base = PlanListing(path, "ab", CollectiveKind.REDUCE, (7, 5, 9, 6), 2, ((0, 3), (4, None)))
    assert _from_manifest(path, manifest()) == base
    assert _from_manifest(path, manifest(root=None)).root is None
    groups = _from_manifest(path, manifest(groups=[[3, 0], [1, 2]])).groups
    assert groups == ((6, 7), (5, 9)), "nodes of the ranks"
    assert _from_manifest(path, manifest(groups=None)).groups is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**manifest(), "treadle": "set"}, 'manifest: expected "treadle": "plan"'),
        ({"treadle": "plan"}, "manifest: KeyError 'collective'"),
        ([], "manifest: TypeError "),
        (manifest(groups=[[4]]), "manifest: IndexError "),
        (manifest(ranks=[1.5]), "ranks: expected "),
        (manifest(root="2"), "root: expected an integer"),
        (manifest(groups=3), "groups: expected a list"),
        ({**manifest(), "entries": 3}, "entries: expected a list"),
        ({**manifest(), "entries": [{"min_bytes": "0"}]}, "min_bytes: expected an integer"),
        ({**manifest(), "topology_sha256": 3}, "topology_sha256: expected a string"),
    ],
)
def test_what_a_manifest_must_not_say(value: Any, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        _from_manifest(Path("x.plan"), value)
    assert str(caught.value).startswith(said)


def test_as_many_files_as_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.plan", "a.plan", "c.txt"):
        (tmp_path / name).write_text("no plan")
    (tmp_path / "d.plan").mkdir()
    monkeypatch.setattr(plan_directory, "MAX_FILES", 3)
    found = index_plans(tmp_path)
    assert found.listings == ()
    assert [line.partition(": ")[0] for line in found.problems] == [
        str(tmp_path / name) for name in ("a.plan", "b.plan", "d.plan")
    ]
    assert found.problems[2].endswith(": cannot be read: this is a folder, not a file or pipe")
    assert len(index_plans(tmp_path / "a.plan").problems) == 1
    monkeypatch.setattr(plan_directory, "MAX_FILES", 2)
    with pytest.raises(FormatError) as caught:
        index_plans(tmp_path)
    assert str(caught.value) == (f"{tmp_path}: 3 plan files, at most 2 are looked at; move some elsewhere")
    with pytest.raises(FormatError) as caught:
        index_plans(tmp_path / "nothing")
    assert str(caught.value) == (
        f"{tmp_path / 'nothing'}: no readable directory of plans (No such file or directory); make it, or "
        "name another"
    )
