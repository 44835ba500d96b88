"""Plan files of step schedules: round trips, hostile members, and files of version 1."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import places
from samples import forest_samples
from samples import greedy_steps as samples
from treadle.errors import FormatError, MemoryLimitError, ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.steps.steps import StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify_plan

VERSION_1 = places.GOLDEN / "ring_version1.plan"
"""Written by the program that knew no other version: two entries that share one forest."""


def plan_of(topology: Topology, kind: CollectiveKind, **options: int) -> Plan:
    collective, schedule = samples.greedy_schedule(topology, kind, **options)
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(1))


def mixed_plan() -> Plan:
    """Forests below 1 KB, steps above, and the same steps once more from 1 MB."""
    topology, collective, forests = forest_samples.ring_allgather()
    steps = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(4, Direction.BROADCAST))
    bounds = ((0, 1023, forests), (1024, 2**20 - 1, steps), (2**20, None, steps))
    return Plan(topology, collective, tuple(PlanEntry(*row) for row in bounds), "by hand", Fraction(8))


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    write(path, {**content, "manifest.json": json.dumps(manifest).encode()})


def npy(values: list[int] | np.ndarray, dtype: str = "<i8") -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(values, dtype=dtype))
    return buffer.getvalue()


def refuse(path: Path, match: str | None = None) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "allreduce.plan"
    save_plan(path, plan_of(samples.ring(4, both=True), CollectiveKind.ALLREDUCE))
    return path


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_round_trip(kind: CollectiveKind, tmp_path: Path) -> None:
    plan = plan_of(samples.ring(5, links=2), kind, seed=1)
    save_plan(tmp_path / "a", plan)
    found = load_plan(tmp_path / "a")
    assert found == plan
    assert hash(found) == hash(plan)
    save_plan(tmp_path / "b", found)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_schedules_of_both_types_and_whole_buffers_survive(tmp_path: Path) -> None:
    plan = mixed_plan()
    save_plan(tmp_path / "mixed", plan)
    found = load_plan(tmp_path / "mixed")
    assert found == plan
    one, other = (entry.schedule for entry in found.entries[1:])
    assert isinstance(one, StepSchedule)
    assert isinstance(other, StepSchedule)
    assert one.broadcast is other.broadcast
    topology, collective, schedule = samples.whole_buffer_allreduce(3)
    whole = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(1))
    save_plan(tmp_path / "whole", whole)
    assert load_plan(tmp_path / "whole") == whole


def test_empty_steps_and_large_values_survive(tmp_path: Path) -> None:
    topology = samples.ring(3)
    sends = [(0, 2**31 - 2, 4, 0, 2**24), (2, 5, 7, 2**24 - 1, 2**24)]
    steps = steps_from_sends(Direction.BROADCAST, 3, 2**24, sends, n_steps=9)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(1))
    save_plan(tmp_path / "plan", plan)
    assert load_plan(tmp_path / "plan") == plan


def test_columns_are_stored_narrow(saved: Path) -> None:
    content = members(saved)
    for key in ("homes", "shard", "link", "low", "high", "step_count"):
        assert b"'|i1'" in content[f"steps/0/{key}.npy"]


def test_truncated_and_flipped(saved: Path) -> None:
    data = saved.read_bytes()
    plan = load_plan(saved)
    for size in [*range(0, len(data), 71), len(data) - 1]:
        saved.write_bytes(data[:size])
        refuse(saved)
    refused = 0
    for position in range(0, len(data), 31):
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        saved.write_bytes(changed)
        try:
            found = load_plan(saved)
        except FormatError:
            refused += 1
        else:
            assert found.entries == plan.entries
    assert refused > 35


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=1), "'steps' is unknown"),
        (lambda m: m.pop("steps"), "'steps' is missing"),
        (lambda m: m.update(steps=2), "expected a list"),
        (lambda m: m.update(steps=[]), "does not belong"),
        (lambda m: m.update(steps=[{"n_chunks": 1}] * 2000), "expected 0 to"),
        (lambda m: m["steps"].append({"n_chunks": 1}), "is missing"),
        (lambda m: m["steps"][0].update(n_chunks=0), "2\\*\\*24 chunks"),
        (lambda m: m["steps"][0].update(n_chunks=2**24 + 1), "2\\*\\*24 chunks"),
        (lambda m: m["steps"][0].update(n_chunks=2**70), "integer"),
        (lambda m: m["steps"][0].update(n_chunks=True), "integer"),
        (lambda m: m["steps"][0].update(n_chunks=1), "expected 0 to 0"),
        (lambda m: m["steps"][0].update(direction="reduce"), "unknown"),
        (lambda m: m["steps"].__setitem__(0, 2), "object"),
        (lambda m: m["entries"][0].update(type="routes"), "no entries of .*routes|used by no entry"),
        (lambda m: m["entries"][0].update(type="weaves"), '"exchange" or "routes"'),
        (lambda m: m["entries"][0].update(type=["steps"]), '"exchange" or "routes"'),
        (lambda m: m["entries"][0].pop("type"), '"exchange" or "routes"'),
        (lambda m: m["entries"][0].update(type="forests"), "does not exist"),
        (lambda m: m["entries"][0].update(reduce=1), "two directions"),
        (lambda m: m["entries"][0].update(broadcast=2), "does not exist"),
        (lambda m: m["entries"][0].update(broadcast=-1), "does not exist"),
        (lambda m: m["entries"][0].pop("broadcast"), "used by no entry"),
        (lambda m: m["entries"][0].pop("reduce"), "used by no entry"),
        (lambda m: m["entries"][0].update(scatter=0), "'scatter' is unknown"),
        (lambda m: m["collective"].update(kind="allgather"), "'reduce' is unknown"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2], forwarders=[3]), "expected 0 to 2"),
    ],
)
def test_malformed_manifest(saved: Path, change: Callable[[dict], object], message: str) -> None:
    edit(saved, change)
    refuse(saved, message)


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("homes", [0, 1, 2, 4], "homes: found"),
        ("homes", [0, 1, 2, -1], "homes: found"),
        ("homes", [0, 1, 2], "shard: found|owners of the shards"),
        ("homes", [[0, 1, 2, 3]], "dimensions"),
        ("step_count", [], "step_offset must rise"),
        ("step_count", [-1, 1], "out of range"),
        ("step_count", [2**62], "out of range"),
        ("step_count", [1, 1], "step_offset must rise"),
        ("link", [0], "link has 1 rows"),
        ("link", [2**31], "out of range"),
        ("link", [-(2**63)], "out of range"),
    ],
)
def test_malformed_arrays(saved: Path, key: str, values: list[int], message: str) -> None:
    write(saved, {**members(saved), f"steps/0/{key}.npy": npy(values)})
    refuse(saved, message)


def test_sends_that_carry_nothing_are_refused(saved: Path) -> None:
    content = members(saved)
    write(saved, {**content, "steps/0/low.npy": content["steps/0/high.npy"]})
    refuse(saved, "expected 0 to|carries no chunk")


def test_members_are_just_those_expected(saved: Path) -> None:
    content = members(saved)
    for name in content:
        write(saved, {key: data for key, data in content.items() if key != name})
        refuse(saved, "is missing")
    write(saved, {**content, "steps/0/weights.npy": b""})
    refuse(saved, "does not belong")
    write(saved, {**content, "forests/0/parent.npy": b""})
    refuse(saved, "does not belong")


def test_bombs_are_refused_before_they_unfold(saved: Path) -> None:
    content = members(saved)
    write(saved, {**content, "steps/0/shard.npy": npy(np.zeros(3 * 10**6), "|i1")})
    with pytest.raises(MemoryLimitError, match="--max-memory"):
        load_plan(saved, max_memory_bytes=5 * 10**7)
    write(saved, {**content, "steps/1/step_count.npy": npy(np.zeros(2 * 10**6), "|i1")})
    refuse(saved, "2000000 values, expected at most")


def test_version_1_is_still_read(tmp_path: Path) -> None:
    plan = load_plan(VERSION_1)
    assert plan.provenance["name"] == "ü"
    assert plan.entries[0].schedule == forest_samples.ring_allgather()[2]
    assert all(report.is_ok for report in verify_plan(plan))
    save_plan(tmp_path / "plan", plan)
    assert json.loads(members(tmp_path / "plan")["manifest.json"])["version"] == 2
    assert load_plan(tmp_path / "plan") == plan


def test_version_1_knows_no_types(tmp_path: Path) -> None:
    copy = tmp_path / "plan"
    copy.write_bytes(VERSION_1.read_bytes())
    edit(copy, lambda m: m["entries"][0].update(type="forests"))
    refuse(copy, "'type' is unknown")


def test_plans_refuse_steps_of_another_problem() -> None:
    plan = mixed_plan()
    steps = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(5, Direction.BROADCAST))
    with pytest.raises(ScheduleError, match="a schedule for 5 ranks, the collective has 4"):
        replace(plan, entries=(PlanEntry(0, None, steps),))
    mirror = StepSchedule(CollectiveKind.REDUCE_SCATTER, reduce=samples.ring_steps(4, Direction.REDUCE))
    with pytest.raises(ScheduleError, match="a schedule for reduce-scatter"):
        replace(plan, entries=(PlanEntry(0, None, mirror),))
