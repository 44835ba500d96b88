"""Plan files of factored schedules: round trips, hostile members, flipped bits and bombs."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samples import forest_samples as samples
from samples.factored.factored_samples import two_boxes
from samples.factored.whole_pieces import as_one_piece, trees_on_star
from treadle.errors import FormatError, MemoryLimitError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.plan_files.factored import MAX_KINDS, MAX_LAYERS
from treadle.verification.schedules import verify, verify_plan

Content = dict[str, Any]
FOLDER = "factored/0/0"


def table_plan(name: str) -> Plan:
    """A hand-made forest as one piece with a table of its trees."""
    topology, collective, schedule = samples.SAMPLES[name]()
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    entry = PlanEntry(0, None, as_one_piece(schedule, topology))
    return Plan(topology, collective, (entry,), "by hand", algbw)


def exchange_plan() -> Plan:
    """Four GPUs around a switch of 12 bytes/s a link: each link carries 3 of 4 units."""
    topology = samples.star()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    schedule = trees_on_star(topology)
    entries = (PlanEntry(0, 99, schedule), PlanEntry(100, None, schedule))
    return Plan(topology, collective, entries, "by hand", Fraction(16))


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


def npy(values: object, dtype: str = "<i8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(values).astype(dtype), version=(1, 0))
    return buffer.getvalue()


def put(**members: object) -> Callable[[dict[str, Any], Content], object]:
    """Replace members of the first layer; ``__`` stands for the dot in a name."""
    return lambda _, content: content.update(
        {f"{FOLDER}/{key.replace('__', '.')}.npy": npy(values) for key, values in members.items()}
    )


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_tables_round_trip(name: str, tmp_path: Path) -> None:
    plan = table_plan(name)
    save_plan(tmp_path / "a", plan)
    loaded = load_plan(tmp_path / "a")
    assert loaded == plan
    save_plan(tmp_path / "b", loaded)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_exchanges_round_trip(tmp_path: Path) -> None:
    plan, path = exchange_plan(), tmp_path / "plan"
    save_plan(path, plan)
    loaded = load_plan(path)
    assert loaded == plan
    assert [report.is_ok for report in verify_plan(loaded)] == [True, True]
    first, last = (entry.schedule for entry in loaded.entries)
    assert first.forests[0] is last.forests[0]  # stored once
    manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
    assert (manifest["version"], manifest["forests"], manifest["factored"]) == (2, 0, [{"layers": 1}])


def test_other_plans_have_not_changed(tmp_path: Path) -> None:
    topology, collective, schedule = samples.ring_allgather()
    save_plan(
        tmp_path / "p", Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(8))
    )
    assert "factored" not in json.loads(zipfile.ZipFile(tmp_path / "p").read("manifest.json"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m, _: m["entries"][0].update(broadcast=1), "factored 1 .*does not exist"),
        (lambda m, _: m["entries"][0].update(broadcast="0"), "expected an integer"),
        (lambda m, _: m["entries"][0].update(reduce=0), "two directions"),
        (lambda m, _: m["entries"][0].update(type="forests"), "has two directions or does not exist"),
        (lambda m, _: m["entries"][0].update(layers=1), "'layers' is unknown"),
        (lambda m, _: m.update(factored=[]), "does not belong in a plan"),
        (lambda m, _: m.update(factored=7), "factored: expected a list"),
        (lambda m, _: m.update(factored=m["factored"] * 2), "is missing"),
        (lambda m, _: m.update(factored=m["factored"] * 1001), "factored: 1001, expected 0 to 1000"),
        (lambda m, _: m.update(factored=[{"layers": 0}]), f"layers must be 1 to {MAX_LAYERS}"),
        (lambda m, _: m.update(factored=[{"layers": 10**9}]), f"layers must be 1 to {MAX_LAYERS}"),
        (lambda m, _: m.update(factored=[{"layers": 1.0}]), "expected an integer"),
        (lambda m, _: m.update(factored=[{"pieces": 1}]), "'layers' is missing|'pieces' is unknown"),
        (lambda m, _: m.update(version=1), "is unknown"),
        (lambda _, c: c.pop(f"{FOLDER}/kind.npy"), "kind.npy is missing"),
        (lambda _, c: c.update({f"{FOLDER}/more.npy": b""}), "does not belong"),
        (lambda _, c: c.update({"factored/0/root_multiplicity.npy": npy([1, 1, 1])}), "ranks 0 to 2"),
        (lambda _, c: c.update({"factored/0/root_multiplicity.npy": npy([1, 1, 1, 2])}), "rank 3 has 1"),
        (put(form=[5]), "expected 0 .table., 1 .circulant., 2"),
        (put(form=[]), "values, expected"),
        (put(form=[1, 1]), "values, expected 2"),
        (put(form=[0] * (MAX_KINDS + 1)), f"expected at most {MAX_KINDS}"),
        (put(form=[0]), "values, expected"),
        (put(kind=[1]), "kind: found 1"),
        (put(outer=[0]), "outer must be -1"),
        (put(children=[0, 1, 2, 2]), "child of two subproblems"),
        (put(child_count=[3]), "child_offset must rise"),
        (put(child_count=[-1]), "child_count: a value out of range"),
        (put(link_count=[2**40]), "link_count: a value out of range"),
        (put(links=[0, 2, 1, 3, 4, 5, 6, 7]), "must rise"),
        (put(capacity=[3] * 7), "capacity: 7 values, expected 8"),
        (put(capacity_count=[-8]), "out of range"),
        (put(native=[2**62] * 4), "native: found"),
        (put(native_count=[2**31]), "out of range"),
        (put(circulant__width=[0]), "values, expected 0"),
        (put(circulant__width=[2**30]), f"values, expected {2**32}"),
        (put(circulant__width=[2**40]), "out of range"),
        (put(circulant__block=[2]), "make no such trees"),
        (put(circulant__native_units=[2**61]), "make no such trees"),
        (put(circulant__native_units=[]), "0 values, expected 1"),
        (put(circulant__out_links=[0, 1, 2, 8]), "local link 8 of 8"),
        (put(circulant__in_first=[0, 3] * 3), "6 values, expected 8"),
        (put(form=[2]), "1 values, expected 0|0 values, expected 1"),
        (put(exchange__block=[1]), "1 values, expected 0"),
        (put(relay__count=[0]), "1 values, expected 0"),
        (put(plane__planes=[2**40]), "1 values, expected 0"),
        (put(shared__planes=[2**40]), "1 values, expected 0"),
        (put(entrances__count=[1]), "0 values, expected 1"),
        (put(exits__path_count=[1]), "0 values, expected 1"),
        (put(exits__path_count=[1], exits__path_length=[-1]), "out of range"),
        (put(table__count=[1]), "1 values, expected 0"),
        (put(table__root=[0]), "1 values, expected 0"),
        (put(links=[2**40] * 8), "a value out of range"),
        (put(links=[[0, 1], [2, 3]]), "wrong number of dimensions"),
    ],
)
def test_malformed_members(
    change: Callable[[dict[str, Any], Content], object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan"
    save_plan(path, exchange_plan())
    edited(path, change)
    with pytest.raises(FormatError, match=said) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(table__count=[5]), "values, expected"),
        (put(table__path_count=[2]), "values, expected 2"),
        (put(table__units=[1, 1, 1, 0]), "units: found 0"),
        (put(table__parent=[0] * 16), "-1 at the root"),
        (put(circulant__block=[1]), "1 values, expected 0"),
    ],
)
def test_malformed_tables(
    change: Callable[[dict[str, Any], Content], object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan"
    save_plan(path, table_plan("ring_allgather"))
    edited(path, change)
    with pytest.raises(FormatError, match=said):
        load_plan(path)


def test_flipped_bits(tmp_path: Path) -> None:
    """No flipped bit goes through unseen: the file is refused, the same, or fails verification."""
    path = tmp_path / "plan"
    plan = exchange_plan()
    save_plan(path, plan)
    data, refusals = path.read_bytes(), []
    for position in range(0, len(data), 199):
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        path.write_bytes(changed)
        try:
            found = load_plan(path)
        except FormatError as error:
            refusals.append(str(error))
            continue
        assert found == plan or not all(report.is_ok for report in verify_plan(found))
    assert len(refusals) > 35
    assert not any("\n" in refusal for refusal in refusals)


def test_bombs_are_refused_before_they_unfold(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    save_plan(path, exchange_plan())
    edited(path, put(circulant__out_links=np.zeros(10**7, dtype=np.int8)))
    with pytest.raises(MemoryLimitError, match="--max-memory"):
        load_plan(path, max_memory_bytes=10**8)


def test_trees_of_a_type_of_ones_own_are_not_written_nor_proved(tmp_path: Path) -> None:
    topology, collective, schedule = two_boxes()
    entry = PlanEntry(0, None, schedule)
    plan = Plan(topology, collective, (entry,), "by hand", Fraction(6))
    assert schedule.broadcast is not None
    (layer,) = schedule.broadcast.layers
    trees: Any = SimpleNamespace(root_units=layer.pieces[1].trees.root_units, link_bound=12)
    pieces = (layer.pieces[0], replace(layer.pieces[1], trees=trees))
    forest = replace(schedule.broadcast, layers=(replace(layer, pieces=pieces),))
    odd = replace(plan, entries=(replace(entry, schedule=replace(schedule, broadcast=forest)),))
    with pytest.raises(FormatError) as caught:
        save_plan(tmp_path / "plan", odd)
    assert str(caught.value).endswith("plan: trees of type SimpleNamespace, unsupported in files")
    assert not (tmp_path / "plan").exists()
    report = verify(plan.topology, plan.collective, odd.entries[0].schedule)
    assert [str(one) for one in report.violations] == [
        "shape: broadcast layer 0, kind 1: no proof is known for trees of type SimpleNamespace"
    ]
