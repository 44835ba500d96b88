"""Plan files of groups at once: round trips, hostile members and manifests, flipped bits."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples.groups.group_samples import GROUPED, grouped, random_groups
from treadle.errors import FormatError, MemoryLimitError, TreadleError
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, parse_plan, save_plan
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.verification.schedules import verify, verify_plan

Content = dict[str, Any]
ALLGATHER = CollectiveKind.ALLGATHER


def group_plan(kind: CollectiveKind = ALLGATHER, case: int = 0) -> Plan:
    """Random trees; the first group's data is cut into other units than the second's."""
    topology, collective = grouped(kind, *GROUPED[case])
    schedule = random_groups(topology, collective, seed=1)
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    entries = (PlanEntry(0, 99, schedule), PlanEntry(100, None, schedule))
    return Plan(topology, collective, entries, "by hand", algbw)


def npy(values: object, dtype: str = "<i8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(values).astype(dtype), version=(1, 0))
    return buffer.getvalue()


def column(content: Content, key: str) -> np.ndarray:
    return np.load(io.BytesIO(content[f"groups/0/{key}.npy"])).astype(np.int64)


def edited(path: Path, change: Callable[[dict[str, Any], Content], object]) -> None:
    """Write the file anew with a changed manifest or members."""
    with zipfile.ZipFile(path) as archive:
        content: Content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    change(manifest, content)
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def put(**members: object) -> Callable[[dict[str, Any], Content], object]:
    """Replace members; a function is given the old values."""

    def change(_: dict[str, Any], content: Content) -> None:
        for key, values in members.items():
            new = values(column(content, key)) if callable(values) else values
            content[f"groups/0/{key}.npy"] = npy(new)

    return change


def posed(**fields: object) -> Callable[[dict[str, Any], Content], object]:
    return lambda manifest, _: manifest["collective"].update(fields)


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for i, kind in enumerate(SPANNING_KINDS) for case in range(i % 2, len(GROUPED), 2)],
)
def test_round_trip(kind: CollectiveKind, case: int, tmp_path: Path) -> None:
    plan = group_plan(kind, case)
    save_plan(tmp_path / "a", plan)
    loaded = load_plan(tmp_path / "a")
    assert loaded == plan
    save_plan(tmp_path / "b", loaded)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert all(report.is_ok for report in verify_plan(loaded))


def test_entries_that_share_a_schedule_store_it_once(tmp_path: Path) -> None:
    one = group_plan(CollectiveKind.ALLREDUCE)
    other = random_groups(one.topology, one.collective, seed=2)
    algbw = verify(one.topology, one.collective, other).algbw
    assert algbw is not None
    plan = replace(one, entries=(one.entries[0], PlanEntry(100, None, other)), algbw=algbw)
    sizes = []
    for which in (one, plan):
        save_plan(tmp_path / "plan", which)
        assert load_plan(tmp_path / "plan") == which
        with zipfile.ZipFile(tmp_path / "plan") as archive:
            sizes.append(json.loads(archive.read("manifest.json"))["groups"])
    assert sizes == [2, 4]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (posed(groups=[[0, 4], [1, 5], [2, 6]]), "each rank from 0 to 7"),
        (posed(groups=[[0, 4], [1, 5], [2, 6], [3, 3]]), "each rank from 0 to 7"),
        (posed(groups=[[0, 4, 1], [5, 2], [6, 3, 7]]), "equally many"),
        (posed(groups=[[0, 4], [1, 5], [2, 6], [3, 2**63]]), "expected an integer"),
        (posed(groups=[[0, 4], [1, 5], [2, 6], [3, 7.0]]), "expected an integer"),
        (posed(groups=[[0, 4], [1, 5], [2, 6], [True, 7]]), "expected an integer"),
        (posed(groups=[]), "equally many"),
        (posed(groups=7), "groups: expected a list"),
        (posed(groups=[1, 2]), "groups: expected a list"),
        (posed(groups=None), "groups: expected a list"),
        (posed(ranks_forward=1), "expected true or false"),
        (posed(ranks_forward="true"), "expected true or false"),
        (posed(groups=[list(range(8))]), "do not fit 1 groups|values, expected at most 1"),
        (lambda m, _: m["collective"].pop("ranks_forward"), "expected both or neither"),
        (lambda m, _: m["collective"].pop("groups"), "expected both or neither"),
        (
            lambda m, _: (m["collective"].pop("groups"), m["collective"].pop("ranks_forward")),
            "groups: forests of several groups; the collective has one",
        ),
        (lambda m, _: m["entries"][0].update(broadcast=1), "groups 1 .*does not exist"),
        (lambda m, _: m["entries"][0].update(reduce=0), "two directions"),
        (lambda m, _: m["entries"][0].update(type="forests"), "has two directions or does not exist"),
        (lambda m, _: m["entries"][0].update(type="group"), 'expected "type": "forests", "groups"'),
        (lambda m, _: m.update(groups=0), "does not belong in a plan"),
        (lambda m, _: m.update(groups=2), "is missing"),
        (lambda m, _: m.update(groups=-1), "groups: -1, expected 0 to 1000"),
        (lambda m, _: m.update(groups=10**9), "expected 0 to 1000"),
        (lambda m, _: m.update(groups=[1]), "groups: expected an integer"),
        (lambda m, _: m.update(version=1), "is unknown"),
        (lambda _, c: c.pop("groups/0/tree_count.npy"), "tree_count.npy is missing"),
        (lambda _, c: c.update({"groups/0/more.npy": b""}), "does not belong"),
        (put(tree_count=lambda old: old[:-1]), "do not fit 4 groups"),
        (put(tree_count=lambda old: np.append(old, 0)), "5 values, expected at most 4"),
        (put(path_count=lambda old: np.append(old, 0)), "5 values, expected at most 4"),
        (put(tree_count=lambda old: old + 1), "do not fit"),
        (put(tree_count=lambda old: -old), "tree_count has a value out of range"),
        (put(tree_count=lambda old: old + 2**31), "tree_count has a value out of range"),
        (put(path_count=lambda old: old * 2**20), "do not fit"),
        (put(path_count=lambda old: old - [0, 0, 0, 1]), "do not fit"),
        (put(path_length=lambda old: -old), "path_length has a value out of range"),
        (put(path_length=lambda old: old[1:]), "do not fit"),
        (put(entry_count=lambda old: old[1:]), "do not fit"),
        (put(entry_count=lambda old: old + 1), "do not fit"),
        (put(entry_units=lambda old: old[1:]), "do not fit"),
        (put(entry_units=lambda old: old * 0), "units must be positive"),
        (put(entry_path=lambda old: old - 1), "entry_path: found"),
        (put(parent=lambda old: old[:, :1]), "do not fit"),
        (put(parent=lambda old: old.ravel()), "wrong number of dimensions"),
        (put(parent=lambda old: old + 2), "parent: found"),
        (put(root_multiplicity=lambda old: old[:4]), "do not fit"),
        (put(root_multiplicity=lambda old: np.tile(old, 2)), "16 values, expected at most 8"),
        (put(tree_root=lambda old: old + 1), "tree_root: found"),
        (put(tree_root=lambda old: old[::-1]), "sorted by root"),
        (put(tree_multiplicity=lambda old: old * 0), "positive multiplicity"),
        (put(path_links=lambda old: old + 2**31), "a value out of range"),
    ],
)
def test_malformed_files(
    change: Callable[[dict[str, Any], Content], object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan"
    save_plan(path, group_plan())
    edited(path, change)
    with pytest.raises(FormatError, match=said) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_program_of_one_group_only_refuses_by_name(tmp_path: Path) -> None:
    """What programs before groups do: the collective's key is unknown, and so no version was needed."""
    path = tmp_path / "plan"
    save_plan(path, group_plan())
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert {"groups", "ranks_forward"} <= set(manifest["collective"])
    assert {entry["type"] for entry in manifest["entries"]} == {"groups"}


def test_trees_of_one_group_for_several_are_no_plan(tmp_path: Path) -> None:
    """A plan whose entries forget the groups is read, and judged wrong."""
    topology, collective = grouped(ALLGATHER, *GROUPED[0])
    alone = replace(collective, groups=None)
    whole = replace(alone, groups=(tuple(range(8)),))
    schedule = random_groups(topology, whole, seed=1).groups[0]
    algbw = verify(topology, alone, schedule).algbw
    assert algbw is not None
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw)
    save_plan(tmp_path / "plan", plan)
    (report,) = verify_plan(load_plan(tmp_path / "plan"))
    assert [str(violation) for violation in report.violations] == [
        "shape: the schedule is for one group, found 4"
    ]


def test_memory_is_asked_for_before_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    save_plan(path, group_plan())
    edited(path, put(entry_units=lambda old: np.ones(4 * 10**7, dtype=np.int8)))
    with pytest.raises(MemoryLimitError, match="granted"):
        load_plan(path)


def test_flipped_bits(tmp_path: Path) -> None:
    """No flipped bit goes through unseen: the file is refused, the same, or fails verification."""
    plan = group_plan()
    path = tmp_path / "plan"
    save_plan(path, plan)
    data, refused = path.read_bytes(), 0
    for position in range(0, len(data), 41):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        try:
            found = parse_plan(bytes(changed), source="plan")
            assert found == plan or not all(report.is_ok for report in verify_plan(found))
        except TreadleError:
            refused += 1
    assert refused > 20


def test_groups_are_told_apart_after_reading(tmp_path: Path) -> None:
    plan = group_plan(CollectiveKind.ALLREDUCE, case=2)
    save_plan(tmp_path / "plan", plan)
    loaded = load_plan(tmp_path / "plan").entries[0].schedule
    assert isinstance(loaded, GroupSchedule)
    assert loaded.groups[0] != loaded.groups[1]
    assert len({one.total_units for one in loaded.groups}) > 1
