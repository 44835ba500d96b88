"""Times by size of groups, files of jobs at their limits, and what folders of plans are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle import planning
from treadle.api import group_costs as group_module
from treadle.api.group_costs import CURVE_BYTES, GroupCosts, group_costs
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.schedulers import shared_rates
from treadle.schedulers.alone_rates import equivalent_groups
from treadle.schedulers.jobs.job_plans import JobsResult, alone_problem, read_jobs
from treadle.schedulers.shared_rates import SharedRates, bottleneck
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


def test_what_is_known_has_a_limit(ring: GroupCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Any, Any] = {}
    monkeypatch.setattr(group_module, "_KNOWN", known)
    monkeypatch.setattr(group_module, "_MOST_KNOWN", 2)
    sizes = []
    for kind in ("allgather", "reduce-scatter", "allreduce", "allgather"):
        ring.cost(kind, "r")
        sizes.append(len(known))
    assert sizes == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("lengths", "links"),
    [
        ((), ()),
        ((0, 3, 0, 3), (1, 3)),
        ((Fraction(1), Fraction(1, 10**6), Fraction(2, 10**6)), (0, 2)),
        ((5,), (0,)),
    ],
)
def test_links_of_some_length_are_the_bottleneck(lengths: tuple[Any, ...], links: tuple[int, ...]) -> None:
    assert bottleneck(cast(Any, SimpleNamespace(lengths=lengths))) == links
    assert bottleneck(cast(Any, SimpleNamespace())) == ()


def test_groups_that_a_map_of_the_fabric_takes_to_each_other() -> None:
    """On a path of six the pairs at the ends are alike; on a ring all pairs are."""
    for fabric, found in (("mesh(6)", [0, 1, 0]), ("ring(6)", [0, 0, 0])):
        posed = planning.make_problem(parse(fabric), "allgather", mesh="3,2", axes="1")
        assert equivalent_groups(posed.topology, posed.collective) == found


def test_both_sides_of_a_rate_may_meet() -> None:
    assert SharedRates(Fraction(1), Fraction(1), (), ()).is_exact
    assert not SharedRates(Fraction(1), Fraction(2), (), ()).is_exact
    assert shared_rates.shared_rates(planning.bound("ring(4)", "allgather")) is None
    shared = shared_rates.shared_rates(planning.bound("ring(4)", "allgather", mesh="2,2", axes="1"))
    assert shared is not None
    assert shared.lower == shared.upper == planning.bound("ring(4)", "allgather", mesh="2,2", axes="1").algbw


def read(folder: Path, text: str, fabric: str = "complete(4)") -> tuple[Job, ...]:
    path = folder / "jobs.toml"
    path.write_text(text, encoding="utf-8")
    return read_jobs(path, parse(fabric))


@pytest.mark.parametrize(
    ("words", "weight"),
    [
        ("", Fraction(1)),
        ("weight = 0.1", Fraction(1, 10)),
        ("weight = 1e-6", Fraction(1, 10**6)),
        ("weight = 1099511627776", Fraction(2**40)),
        ("weight = 3\nsize = '2KB'", Fraction(3 * 2048)),
        ("size = '1B'", Fraction(1)),
    ],
)
def test_weights_of_jobs(words: str, weight: Fraction, tmp_path: Path) -> None:
    (job,) = read(tmp_path, f"[[job]]\nkind = 'allgather'\n{words}\n")
    assert (job.name, job.weight) == ("1:allgather", weight)


@pytest.mark.parametrize("weight", ["9e-7", "1099511627777", "-1", "'1'", "inf"])
def test_weights_out_of_range(weight: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"expected a number from 1e-6 to 2\*\*40, found"):
        read(tmp_path, f"[[job]]\nkind = 'allgather'\nweight = {weight}\n")


def test_lines_and_jobs_have_a_limit(tmp_path: Path) -> None:
    job = "[[job]]\nkind = 'allgather'\n"
    assert len(read(tmp_path, f"#{'x' * 999}\n{job}")) == 1
    with pytest.raises(FormatError, match="line 1 is longer than 1000 characters"):
        read(tmp_path, f"#{'x' * 1000}\n{job}")
    with pytest.raises(FormatError, match=r"jobs.toml: job: .*at most 4096, found 4097$"):
        read(tmp_path, 4097 * job)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[job]]\nkind = 3", "job[0].kind: expected a string, found 3"),
        ("[[job]]\nkind = ''", "job[0].kind: expected a string of length at least 1, found 0"),
        ("[[job]]\nkind = 'allgather'\nname = 7", "job[0].name: expected a string, found 7"),
        (
            "[[job]]\nkind = 'allgather'\nbeta = 1\nalpha = 1",
            'job[0]: unknown key "beta"; known are axes, forward, kind, mesh, name, '
            "ranks, root, size, weight",
        ),
        (
            "[[job]]\nkind = 'allgather'\n[[job]]\nkind = 'allgather'\nranks = 1.5",
            "job[1].ranks: expected text such as '0-7' or a list of integers, found 1.5",
        ),
        ("other = 1\nmore = 2", 'unknown key "other"; known are job'),
        ("job = []", "job: expected a list of length at least 1, found 0"),
    ],
)
def test_files_of_jobs_say_where_they_are_wrong(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"jobs.toml: {re.escape(message)}$"):
        read(tmp_path, text)


def test_ranks_and_roots_of_jobs(tmp_path: Path) -> None:
    text = "[[job]]\nkind = 'broadcast'\nranks = [1, 3]\nroot = 1\n[[job]]\nkind = 'reduce'\nroot = 'n2'\n"
    first, second = read(tmp_path, text)
    assert first.collective.ranks == (1, 3)
    assert first.collective.root == 1
    assert (second.collective.ranks, second.collective.root) == ((0, 1, 2, 3), 2)
    assert (first.collective.forwarders, second.collective.forwarders) == ((), ())


def result(reached: tuple[int, ...], together: tuple[int, ...], *, planned: bool = True) -> JobsResult:
    rates = tuple(map(Fraction, together))
    plans = cast(Any, ("plan",) * len(reached)) if planned else ()
    return JobsResult(
        parse("ring(4)"), (), rates, rates, (), {}, plans=plans, reached=tuple(map(Fraction, reached))
    )


def test_the_loss_is_that_of_the_job_that_loses_most() -> None:
    assert result((3, 4, 10), (4, 5, 10)).loss == Fraction(1, 4)
    assert result((4,), (4,)).loss == 0
    assert result((3,), (4,), planned=False).loss == 0


def test_a_job_has_the_part_of_the_fabric_that_is_there_for_it() -> None:
    fabric = parse("complete(4)")
    everyone = Job("all", Collective(GATHER, (2, 0), forwarders=(1, 3)), Fraction(1))
    assert alone_problem(fabric, everyone) == (fabric, everyone.collective)
    some = Job("some", Collective(GATHER, (3, 1)), Fraction(1))
    part, own = alone_problem(fabric, some)
    assert part.node_names == ("n1", "n3")
    assert own.ranks == (1, 0)


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
        assert ("is no file of this folder" in str(error.value)) != is_fine
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
