"""Times by size of groups, files of jobs at their limits, and what folders of plans are called."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from treadle import planning
from treadle.api import group_costs as group_module
from treadle.api.group_costs import CURVE_BYTES, GroupCosts, group_costs
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.schedulers.jobs.job_plans import read_jobs
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.jobs import Job
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder

GATHER = CollectiveKind.ALLGATHER


@pytest.fixture
def ring() -> GroupCosts:
    """Four ranks with 2 GB/s in: 8/3 GB/s; a curve of 1, 2, 3 seconds and so on at the sizes."""
    costs = group_costs("ring(4, bandwidth='1GB/s')", "r=4")
    costs._curves[GATHER, ("r",)] = tuple(float(n + 1) for n in range(len(CURVE_BYTES)))
    return costs


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (1, 1.0),
        (2**10, 1.0),
        (2**10 + 768, 1.25),
        (2**12, 2.0),
        (2**28, 10.0),
        (2**28 + 3 * 2**26, 10.25),
        (2**30, 11.0),
        (2**30 + 8 * 10**9, 14.0),
    ],
)
def test_times_lie_on_the_curve(ring: GroupCosts, size: float, seconds: float) -> None:
    assert ring.time_s("allgather", "r", size) == pytest.approx(seconds)


def test_curves_are_of_sizes_from_a_kilobyte_on(ring: GroupCosts) -> None:
    assert CURVE_BYTES == (1024, 4096, 16384, 65536, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28, 2**30)
    assert ring.curve("allgather", "r")[:2] == ((1024, 1.0), (4096, 2.0))
    for size in (0, -1):
        with pytest.raises(ScheduleError, match=f"^size {size} bytes, expected more than 0$"):
            ring.time_s("allgather", "r", size)


def test_rates_that_were_asked_for_are_listed(ring: GroupCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "_KNOWN", {})
    assert ring.records() == []
    ring.cost("allgather", "r")
    group_costs("ring(5, bandwidth='1GB/s')", "r=5").cost("allgather", "r")
    (row,) = ring.records()
    assert row["axes"] == "r"
    assert (row["groups"], row["ranks"], row["is_exact"]) == (1, 4, True)
    assert row["algbw_bytes_per_s"] == pytest.approx(8e9 / 3)
    assert str(row["collective"]) == "allgather"
    forwarding = group_costs("ring(4, bandwidth='1GB/s')", "r=4", forward=True)
    assert (ring.records(), forwarding.records()) == ([row], [])
    assert repr(ring) == '<GroupCosts ring(4, bandwidth="1GB/s"), r=4>'
    assert repr(forwarding) == '<GroupCosts ring(4, bandwidth="1GB/s"), r=4, forwarding>'


def read(folder: Path, text: str, fabric: str = "complete(4)") -> tuple[Job, ...]:
    path = folder / "jobs.toml"
    path.write_text(text, encoding="utf-8")
    return read_jobs(path, parse(fabric))


@pytest.mark.parametrize("weight", ["9e-7", "1099511627777", "-1", "'1'", "inf"])
def test_weights_out_of_range(weight: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"expected a number from 1e-6 to 2\*\*40, found"):
        read(tmp_path, f"[[job]]\nkind = 'allgather'\nweight = {weight}\n")


def capped() -> Topology:
    draft = TopologyBuilder("capped")
    draft.compute("a")
    draft.compute("b", injection_bytes_per_s=5)
    draft.duplex("a", "b", 10)
    return draft.build()


def test_the_first_host_with_a_cap_is_named() -> None:
    job = Job("x", Collective(GATHER, (0, 1)), Fraction(1))
    with pytest.raises(InfeasibleError, match=r"^compute node 'b' has an injection cap"):
        planning.bound_jobs(capped(), [job])


def test_files_are_named_after_their_jobs(tmp_path: Path) -> None:
    fabric = parse("complete(3)")
    posed = planning.make_problem(fabric, "allgather").collective
    names = ["a/b  c", "x" * 70, "d.e_f-1"]
    found = planning.solve_jobs(fabric, [Job(name, posed, Fraction(1)) for name in names])
    written = planning.save_jobs(tmp_path / "plans", found)
    assert [path.name for path in written] == [
        "0000-a-b-c.plan",
        f"0001-{'x' * 60}.plan",
        "0002-d.e_f-1.plan",
        "fabric.json",
        "jobs.json",
    ]
    listed = json.loads(written[-1].read_text())
    assert list(listed) == ["treadle", "version", "fabric", "jobs", "levels"]
    assert [row["name"] for row in listed["jobs"]] == names
    stored = planning.load_jobs(tmp_path / "plans")
    assert [job.name for job in stored.jobs] == names
    for name, is_fine in (
        (f"{'x' * 80}.plan", True),
        (f"{'x' * 81}.plan", False),
        (".plan", False),
        ("..plan", False),
    ):
        rows = [{**listed["jobs"][0], "plan": name}, *listed["jobs"][1:]]
        written[-1].write_text(json.dumps({**listed, "jobs": rows}))
        with pytest.raises(FormatError) as error:
            planning.load_jobs(tmp_path / "plans")
        assert ("is not a file in this folder" in str(error.value)) != is_fine
    levels = [{**listed["levels"][0], "lengths": [1]}]
    written[-1].write_text(json.dumps({**listed, "levels": levels}))
    with pytest.raises(FormatError, match=r"jobs.json: levels\[0\]\.lengths: expected an object$"):
        planning.load_jobs(tmp_path / "plans")


def test_a_plan_on_another_fabric_is_no_job_of_this_one(tmp_path: Path) -> None:
    fabric = parse("complete(3)")
    job = Job("x", planning.make_problem(fabric, "allgather").collective, Fraction(1))
    found = planning.solve_jobs(fabric, [job])
    draft = TopologyBuilder("other")
    for name in ("n0", "n1", "m2"):
        draft.compute(name)
    for one, other in (("n0", "n1"), ("n1", "m2"), ("m2", "n0")):
        draft.duplex(one, other, 1)
    planning.save_jobs(tmp_path / "plans", replace(found, topology=draft.build()))
    with pytest.raises(FormatError, match=r"jobs\[0\]: node 'n2' of its plan is not in fabric.json$"):
        planning.load_jobs(tmp_path / "plans")
