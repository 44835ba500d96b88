"""Kept plan files: what version N of the format allows is read by programs that write version N + 1.

``golden/plans/v1-*`` were written by the last program that knew version 1 only, ``v2-first-*`` by the first
that wrote version 2, the others as their forms came. They are never written anew: what cannot be read any
more is a promise broken (SECURITY.md). What a new form writes is kept here too, and the tests below say so.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

import pytest

import places
from treadle import planning
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import dump_plan, load_plan, parse_plan
from treadle.schedules.plan_files.manifest import VERSION
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
