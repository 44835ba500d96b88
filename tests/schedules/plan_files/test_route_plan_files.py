"""Plan files of routes: round trips, hostile members, and edits that the verifier finds."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samples import route_samples as samples
from treadle.errors import FormatError, MemoryLimitError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import SPANNING_KINDS
from treadle.schedules.plan import PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.verification.schedules import verify_plan
from treadle.verification.violations import ViolationKind

Content = dict[str, Any]


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


def npy(values: object) -> bytes:
    buffer = io.BytesIO()
    array = np.array(values)
    np.lib.format.write_array(buffer, array.astype("<i8"), version=(1, 0))
    return buffer.getvalue()


@pytest.mark.parametrize("demands", [None, samples.random_demands(10, 4)])
def test_round_trip(tmp_path: Path, demands: Demands | None) -> None:
    plan, path = samples.plan_of(demands=demands), tmp_path / "plan"
    routes = plan.entries[-1].schedule
    third = PlanEntry(2**21, None, plan.entries[0].schedule)
    plan = replace(plan, entries=(plan.entries[0], replace(plan.entries[1], max_bytes=2**21 - 1), third))
    algbw = samples.slow_algbw(plan.topology, plan.collective, third.schedule)
    plan = replace(plan, algbw=algbw)
    save_plan(path, plan)
    loaded = load_plan(path)
    assert loaded == plan
    assert [report.is_ok for report in verify_plan(loaded)] == [True] * 3
    assert [report.n_layers for report in verify_plan(loaded)] == [routes.n_layers] * 3
    save_plan(tmp_path / "again", loaded)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    names = set(zipfile.ZipFile(path).namelist())
    assert {"routes/0/units.npy", "rounds/0/round_count.npy"} <= names
    assert not names & {"routes/1/units.npy", "rounds/1/path.npy"}  # shared parts are stored once
    assert loaded.schedule_for(10) is loaded.schedule_for(2**22)


def test_other_plans_have_not_changed(tmp_path: Path) -> None:
    """A program that knows no routes still reads plans without them."""
    plan, path = samples.plan_of(), tmp_path / "plan"
    save_plan(path, plan)
    manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
    assert (manifest["version"], manifest["rounds"], manifest["routes"]) == (2, 1, [{"n_chunks": 4}])
    once = replace(plan, entries=(PlanEntry(0, None, plan.entries[-1].schedule),))
    save_plan(path, once)
    assert "rounds" not in json.loads(zipfile.ZipFile(path).read("manifest.json"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m, _: m["entries"][1].update(routes=1), "routes 1 do not exist"),
        (lambda m, _: m["entries"][1].update(routes=-1), "routes -1 do not exist"),
        (lambda m, _: m["entries"][1].update(routes="0"), "entries: routes: expected an integer"),
        (lambda m, _: m["entries"][0].update(rounds=1), "rounds 1 do not exist"),
        (lambda m, _: m["entries"][0].update(rounds=None), "entries: rounds: expected an integer"),
        (lambda m, _: m["entries"][0].pop("rounds"), "rounds: some are used by no entry"),
        (lambda m, _: m["entries"][0].update(layers=1), "'layers' is unknown"),
        (lambda m, _: m["entries"][0].pop("routes"), "'routes' is missing"),
        (lambda m, _: m["entries"][0].update(type="steps"), "an all-to-all has entries of|used by no entry"),
        (lambda m, _: m["entries"][0].update(type=["routes"]), 'expected "type"'),
        (lambda m, _: m.update(routes=m["routes"] * 2), "routes/1/.*is missing"),
        (lambda m, _: m.update(routes=[]), "does not belong in a plan"),
        (lambda m, _: m.update(routes=3), "routes: expected a list"),
        (lambda m, _: m.update(routes=m["routes"] * 1001), "routes: 1001, expected 0 to 1000"),
        (lambda m, _: m["routes"][0].update(n_chunks=0), "1 to 2\\*\\*24 chunks"),
        (lambda m, _: m["routes"][0].update(n_chunks=2**25), "1 to 2\\*\\*24 chunks"),
        (lambda m, _: m["routes"][0].update(n_chunks=1.5), "routes: n_chunks: expected an integer"),
        (lambda m, _: m["routes"][0].update(more=1), "'more' is unknown"),
        (lambda m, _: m.update(rounds=-1), "rounds: -1, expected 0 to 1000"),
        (lambda m, _: m.update(rounds=10**6), "rounds: 1000000, expected 0 to 1000"),
        (lambda m, _: m.update(version=1), "key '(routes|rounds|steps)' is unknown"),
        (lambda _, c: c.pop("routes/0/layer.npy"), "layer.npy is missing"),
        (lambda _, c: c.update({"routes/0/more.npy": b""}), "'routes/0/more.npy' does not belong"),
        (lambda _, c: c.update({"routes/0/layer.npy": npy([1, 2])}), "layer has 2 rows, expected"),
        (lambda _, c: c.update({"routes/0/layer.npy": npy([[1, 2]])}), "wrong number of dimensions"),
        (lambda _, c: c.update({"routes/0/units.npy": npy([0] * 9)}), "units has"),
        (lambda _, c: c.update({"routes/0/path_length.npy": npy([-1, 1])}), "path_length has a value"),
        (lambda _, c: c.update({"routes/0/path_length.npy": npy([1, 1])}), "path_offset must rise"),
        (lambda _, c: c.update({"routes/0/path_links.npy": npy([2**40])}), "a value out of range"),
        (lambda _, c: c.update({"rounds/0/path.npy": npy([0])}), "round_offset must rise"),
        (
            lambda _, c: c.update({"rounds/0/round_count.npy": npy([1] * (2**20 + 1))}),
            "expected at most 1048576",
        ),
        (
            lambda _, c: c.update({"rounds/0/path.npy": npy([10**6]), "rounds/0/round_count.npy": npy([1])}),
            "path: found",
        ),
        (lambda m, _: m["collective"].update(ranks=[0, 1]), "expected 0 to 1"),
    ],
)
def test_hostile_files_are_refused_in_a_line(
    tmp_path: Path, change: Callable[[dict[str, Any], Content], object], said: str
) -> None:
    path = tmp_path / "plan"
    save_plan(path, samples.plan_of())
    edited(path, change)
    with pytest.raises(FormatError, match=said) as refusal:
        load_plan(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_routes_serve_all_to_all_only(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "plan"
    save_plan(path, samples.plan_of())
    root = 0 if kind in ("broadcast", "reduce") else None
    edited(path, lambda m, _: m["collective"].update(kind=kind, root=root))
    with pytest.raises(FormatError, match=f'{kind} has no entries of "type": "routes"'):
        load_plan(path)


def test_arrays_keep_to_the_memory_limit(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    plan = samples.plan_of()
    save_plan(path, plan)
    with pytest.raises(MemoryLimitError, match="--max-memory"):
        load_plan(path, max_memory_bytes=2**25)
    assert load_plan(path, max_memory_bytes=2**26) == plan


def judged(tmp_path: Path, key: str, change: Callable[[Any], Any], *, folder: str = "routes") -> set[str]:
    """Kinds of violations of a plan whose column was edited in the file."""
    path = tmp_path / "plan"
    plan = samples.plan_of()
    save_plan(path, plan)
    routes = plan.entries[-1].schedule
    timed = plan.entries[0].schedule
    column = {
        "path_length": routes.hops,
        "round_count": np.diff(timed.round_offset),
    }.get(key, getattr(timed if folder == "rounds" else routes, key, None))
    values = change(column.copy())
    edited(path, lambda _, content: content.update({f"{folder}/0/{key}.npy": npy(values)}))
    return {str(v.kind) for report in verify_plan(load_plan(path)) for v in report.violations}


def put(place: int, value: int) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values[place] = value
        return values

    return change


def test_edited_columns_are_found(tmp_path: Path) -> None:
    assert judged(tmp_path, "units", lambda values: values) == set()
    assert judged(tmp_path, "units", put(0, 40)) == {"units"}
    assert judged(tmp_path, "units", put(3, 2**44)) == {"units"}
    assert "path" in judged(tmp_path, "path_links", lambda values: values[::-1])
    assert judged(tmp_path, "path_links", put(0, 2**30)) == {"link"}
    assert judged(tmp_path, "path_links", lambda values: np.roll(values, 1)) & {"path", "ends"}
    assert judged(tmp_path, "target", put(0, 0)) == {"ends", "units"}
    assert judged(tmp_path, "layer", np.zeros_like) == {"deadlock"}
    timed = {"folder": "rounds"}
    assert judged(tmp_path, "path", put(0, 5), **timed) == {"delivery"}
    # another order of the same chunks serves as well, but no claim is about it here
    assert judged(tmp_path, "path", lambda values: values[::-1], **timed) == set()


def test_a_missing_pair_and_one_served_twice_are_found(tmp_path: Path) -> None:
    plan = samples.plan_of()
    routes = plan.entries[-1].schedule
    rows = [
        (
            int(routes.source[p]),
            int(routes.target[p]),
            int(routes.units[p]),
            int(routes.layer[p]),
            routes.path(p),
        )
        for p in range(routes.n_paths)
    ]
    pair = rows[0][:2]
    for changed in (
        [row for row in rows if row[:2] != pair],
        [row for row in rows if row[:2] == pair] + rows,
    ):
        path = tmp_path / "plan"
        schedule = routes_from_paths(routes.n_ranks, routes.n_chunks, changed)
        save_plan(path, replace(plan, entries=(PlanEntry(0, None, schedule),)))
        (report,) = verify_plan(load_plan(path))
        assert [v.kind for v in report.violations] == [ViolationKind.UNITS]
        assert f"rank {pair[0]} to rank {pair[1]}" in report.violations[0].message


def test_units_that_wrap_around_do_not_add_up(tmp_path: Path) -> None:
    """2**20 paths of 2**44 units are 2**64, which is 0 in 64 bits."""
    plan = samples.plan_of("complete(2)")
    routes = plan.entries[-1].schedule
    n_more = 2**20
    pair = int(routes.target[0] == 1)  # put them beside the pair's own path, so that order is kept
    assert pair == 1
    flooded = replace(
        routes,
        source=np.concatenate([np.zeros(n_more, int), routes.source]),
        target=np.concatenate([np.ones(n_more, int), routes.target]),
        units=np.concatenate([np.full(n_more, 2**44), routes.units]),
        layer=np.zeros(n_more + routes.n_paths, int),
        path_offset=np.arange(n_more + routes.n_paths + 1),
        path_links=np.concatenate([np.full(n_more, routes.path_links[0]), routes.path_links]),
    )
    path = tmp_path / "plan"
    save_plan(path, replace(plan, entries=(PlanEntry(0, None, flooded),)))
    (report,) = verify_plan(load_plan(path))
    assert [v.kind for v in report.violations] == [ViolationKind.UNITS]


def test_false_claims_are_found(tmp_path: Path) -> None:
    plan = samples.plan_of()
    path = tmp_path / "plan"
    save_plan(path, plan)
    more = Fraction(plan.algbw) * 2
    edited(path, lambda m, _: m.update(algbw=f"{more.numerator}/{more.denominator}"))
    assert [v.kind for v in verify_plan(load_plan(path))[-1].violations] == [ViolationKind.CLAIM]
    slow = timed_routes(plan.topology, plan.entries[-1].schedule, max_flows=1)  # slower than claimed
    save_plan(path, replace(plan, entries=(PlanEntry(0, None, slow),)))
    assert [v.kind for v in verify_plan(load_plan(path))[-1].violations] == [ViolationKind.CLAIM]


@pytest.mark.parametrize("seed", range(16))
def test_mutants_are_refused_or_equivalent(seed: int, tmp_path: Path) -> None:
    """One value of one column changed: the reader or the verifier objects, or a slow checker agrees."""
    rng = np.random.default_rng(seed)
    plan, path = samples.plan_of("generalized_kautz:2,5"), tmp_path / "plan"
    save_plan(path, plan)
    timed, routes = (entry.schedule for entry in plan.entries)
    columns = {
        "rounds/0/path": timed.path,
        "rounds/0/round_count": np.diff(timed.round_offset),
        "routes/0/path_length": routes.hops,
        **{
            f"routes/0/{key}": getattr(routes, key)
            for key in ("source", "target", "units", "layer", "path_links")
        },
    }
    name = sorted(columns)[seed % len(columns)]
    values = columns[name].copy()
    place = int(rng.integers(len(values)))
    values[place] = max(0, values[place] + int(rng.choice([-1, 1, 2])))
    edited(path, lambda _, content: content.update({f"{name}.npy": npy(values)}))
    try:
        found = load_plan(path)
    except FormatError:
        return
    for entry, report in zip(found.entries, verify_plan(found), strict=True):
        good = samples.is_correct(found.topology, found.collective, entry.schedule)
        algbw = samples.slow_algbw(found.topology, found.collective, entry.schedule) if good else None
        is_last = entry is found.entries[-1]
        assert report.is_ok == (good and (not is_last or algbw == found.algbw))
        if report.is_ok:
            assert report.algbw == algbw
