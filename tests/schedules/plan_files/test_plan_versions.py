"""Kept plan files: what version N of the format allows is read by programs that write version N + 1.

``golden/plans/v1-*`` were written by the last program that knew version 1 only, ``v2-first-*`` by the first
that wrote version 2, the others as their forms came. They are never written anew: what cannot be read any
more is a promise broken (SECURITY.md). What a new form writes is kept here too, and the tests below say so.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import places
from treadle import planning
from treadle.errors import FormatError
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.certificate import CERTIFICATE_READERS
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import FactoredForest, FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files import factored, plan_reader
from treadle.schedules.plan_files.archive import dump_plan, load_plan, parse_plan
from treadle.schedules.plan_files.manifest import VERSION
from treadle.schedules.schedule import Schedule
from treadle.schedules.trees.forest import Direction
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.verification.violations import ViolationKind

KEPT = sorted((places.GOLDEN / "plans").glob("*.plan"))
LARGEST = 2**16
CORRECTED = {
    "v1-trees-broadcast-multicast": ViolationKind.SUPPLY,
    "v1-trees-reduce-aggregation": ViolationKind.SUPPLY,
}
"""Read as ever, and judged otherwise: then any switch with a capability was taken to work by itself."""


@cache
def plan_of(path: Path) -> Plan:
    return load_plan(path)


def manifest_of(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, Any] = json.loads(archive.read("manifest.json"))
        return found


def schedules(kind: type[Schedule] | None = None) -> Iterator[tuple[int, Schedule]]:
    """The version and each schedule of all kept files."""
    for path in KEPT:
        for entry in plan_of(path).entries:
            if kind is None or isinstance(entry.schedule, kind):
                yield manifest_of(path)["version"], entry.schedule


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_files_are_read_and_verified(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    plan = plan_of(path)
    result = planning.verify(plan)
    if path.stem in CORRECTED:
        found = [violation for report in result.reports for violation in report.violations]
        assert {violation.kind for violation in found} == {CORRECTED[path.stem]}
    else:
        assert result.is_ok
        assert plan.algbw == result.report.algbw
    assert parse_plan(dump_plan(plan), source="again") == plan


@pytest.mark.parametrize(
    "path", [path for path in KEPT if path.stem[:2] == f"v{VERSION}"], ids=lambda path: path.stem
)
def test_what_is_written_today_is_what_was_kept(path: Path) -> None:
    """To the member; so a change of the format without a new version is noticed."""
    with zipfile.ZipFile(path) as kept, zipfile.ZipFile(io.BytesIO(dump_plan(plan_of(path)))) as made:
        assert kept.namelist() == made.namelist()
        for name in kept.namelist():
            assert kept.read(name) == made.read(name), name


def test_every_version_is_kept() -> None:
    assert {manifest_of(path)["version"] for path in KEPT} == set(range(1, VERSION + 1))
    assert all(path.stem.startswith(f"v{manifest_of(path)['version']}-") for path in KEPT)


def test_versions_that_are_not_known_are_refused(tmp_path: Path) -> None:
    for version in (0, VERSION + 1):
        path = tmp_path / "plan"
        with zipfile.ZipFile(KEPT[0]) as kept, zipfile.ZipFile(path, "w") as made:
            for name in kept.namelist():
                data = kept.read(name)
                if name == "manifest.json":
                    data = json.dumps({**json.loads(data), "version": version}).encode()
                made.writestr(name, data)
        with pytest.raises(FormatError, match=f"version {version}, expected 1 or 2"):
            load_plan(path)


def test_every_kind_of_entry_is_kept() -> None:
    """All types of schedules, by the roles that they may have."""
    found = {(type(schedule).__name__, str(schedule.kind), _roles(schedule)) for _, schedule in schedules()}
    one, other, both = (Direction.BROADCAST,), (Direction.REDUCE,), (Direction.REDUCE, Direction.BROADCAST)
    wanted = {(name, "allgather", one) for name in ("ForestSchedule", "FactoredSchedule", "StepSchedule")}
    wanted |= {(name, "allreduce", both) for name in ("ForestSchedule", "FactoredSchedule", "StepSchedule")}
    wanted |= {(name, "reduce-scatter", other) for name in ("ForestSchedule", "StepSchedule")}
    wanted |= {("ForestSchedule", "broadcast", one), ("ForestSchedule", "reduce", other)}
    wanted |= {("GroupSchedule", "allgather", one), ("GroupSchedule", "allreduce", both)}
    wanted |= {(name, "alltoall", ()) for name in ("ExchangeSchedule", "RouteSchedule", "TimedRoutes")}
    assert wanted <= found
    assert {name for name, _, _ in found} == {form.__name__ for form in Schedule.__args__}
    assert {kind for _, kind, _ in found} == set(CollectiveKind)


def _roles(schedule: Schedule) -> tuple[Direction, ...]:
    if isinstance(schedule, GroupSchedule):
        return _roles(schedule.groups[0])
    parts = getattr(schedule, "forests", None) or getattr(schedule, "phases", ())
    return tuple(part.direction for part in parts)


def test_every_member_of_the_format_is_kept() -> None:
    """A column that the writer has, and no kept file has, would be a form without a file."""
    found = set()
    for path in KEPT:
        with zipfile.ZipFile(path) as archive:
            found |= {_column(name) for name in archive.namelist() if name.endswith(".npy")}
    wanted = {
        f"{folder}/{key}"
        for folder, columns in plan_reader.COLUMNS.items()
        for keys in columns
        for key in keys
    }
    wanted |= {_column(name) for name in factored.factored_members(0, 1)} | {"demands", "steps/targets"}
    assert found == wanted


def _column(name: str) -> str:
    folder, _, rest = name.removesuffix(".npy").partition("/")
    return f"{folder}/{rest.rpartition('/')[2]}" if rest else folder


def test_every_form_of_factored_trees_is_kept() -> None:
    forests = [
        forest
        for _, schedule in schedules(FactoredSchedule)
        if isinstance(schedule, FactoredSchedule)
        for forest in schedule.forests
    ]
    assert all(isinstance(forest, FactoredForest) for forest in forests)
    trees = {type(piece.trees) for forest in forests for layer in forest.layers for piece in layer.pieces}
    assert trees == set(factored._TREES.values())


def test_every_witness_and_option_is_kept() -> None:
    plans = [plan_of(path) for path in KEPT]
    kinds = {None if plan.certificate is None else plan.certificate.kind for plan in plans}
    assert kinds == {None, *CERTIFICATE_READERS}
    assert any(plan.collective.forwarders for plan in plans)
    assert any(plan.collective.weights for plan in plans)
    assert any(plan.collective.demands is not None for plan in plans)
    assert any(len(plan.entries) > 1 for plan in plans)
    assert {plan.collective.ranks_forward for plan in plans if plan.collective.groups} == {False, True}
    assert any(isinstance(schedule, TimedRoutes) for _, schedule in schedules())
    assert any("hosts" in (manifest_of(path)["witness"] or {}) for path in KEPT)
