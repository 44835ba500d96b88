"""Different collectives at once: rates against a program over flows, plans judged together, mutants found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.groups.jobs_lp import max_min
from treadle import planning
from treadle.errors import FormatError, InfeasibleError, ScheduleError, TopologyError
from treadle.schedulers.jobs import jobs_folder
from treadle.schedulers.jobs.job_plans import read_jobs
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.jobs import Job, JobLevel, proved_rates
from treadle.synthesis.jobs import job_schedules
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology
from treadle.verification.jobs_check import verify_jobs

KINDS = tuple(CollectiveKind)


def random_fabric(rng: np.random.Generator) -> Topology:
    """Ranks and switches, strongly connected by a cycle, with random links besides."""
    builder = TopologyBuilder("random")
    n, switches = int(rng.integers(3, 6)), int(rng.integers(0, 3))
    names = [f"r{i}" for i in range(n)] + [f"s{i}" for i in range(switches)]
    for name in names:
        (builder.compute if name[0] == "r" else builder.switch)(name)
    order = rng.permutation(len(names))
    ends = [(names[a], names[b]) for a, b in zip(order, np.roll(order, -1), strict=True)]
    ends += [(names[b], names[a]) for a, b in zip(order, np.roll(order, -1), strict=True)]
    for _ in range(int(rng.integers(2, 8))):
        one, other = rng.choice(len(names), 2, replace=False)
        ends.append((names[one], names[other]))
    for one, other in ends:
        builder.link(one, other, int(rng.integers(1, 5)) * 10**9)
    return builder.build()


def random_jobs(rng: np.random.Generator, fabric: Topology) -> tuple[Job, ...]:
    nodes = fabric.compute_nodes.tolist()
    jobs = []
    for number in range(int(rng.integers(1, 4))):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        size = int(rng.integers(2, len(nodes) + 1))
        ranks = tuple(int(node) for node in rng.permutation(nodes)[:size])
        others = tuple(node for node in nodes if node not in ranks)
        root = int(rng.integers(size)) if kind.is_rooted else None
        weights = None
        if kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER) and rng.random() < 0.3:
            weights = tuple(int(w) for w in rng.integers(1, 4, size))
        collective = Collective(kind, ranks, root, weights, forwarders=others)
        jobs.append(Job(f"{number}", collective, Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 4)))))
    return tuple(jobs)


@pytest.mark.parametrize("seed", range(25))
def test_rates_are_those_of_a_program_over_flows(seed: int) -> None:
    rng = np.random.default_rng([seed, 77])
    fabric = random_fabric(rng)
    jobs = random_jobs(rng, fabric)
    found = planning.solve_jobs(fabric, jobs, exact=True)
    assert np.allclose([float(rate) for rate in found.together], max_min(fabric, jobs), rtol=1e-6)
    assert found.report is not None
    assert found.report.is_max_min
    for job, alone, together, plan in zip(found.jobs, found.alone, found.together, found.plans, strict=True):
        assert together <= alone
        assert plan.algbw >= together
        assert plan.collective.kind is job.collective.kind


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_few_trees_are_as_fast_as_their_links_allow(seed: int) -> None:
    """The judge takes the rates of a coarse grid, and none above them where a link is full."""
    rng = np.random.default_rng([seed, 78])
    fabric = random_fabric(rng)
    jobs = random_jobs(rng, fabric)
    optimum = planning.bound_jobs(fabric, jobs).together
    for most in (1, 3):
        found = planning.solve_jobs(fabric, jobs, max_trees=most)
        assert found.together == optimum
        assert all(grid <= most for grid in found.grids)
        assert found.report is not None
        assert found.report.report.is_ok
        losses = [1 - rate / best for rate, best in zip(found.reached, optimum, strict=True)]
        assert min(losses) >= 0
        assert max(losses) == found.loss == found.report.loss
        assert found.report.is_max_min == (found.loss == 0)
        for number, loss in enumerate(losses):
            faster = list(found.reached)
            faster[number] *= 1 + Fraction(1, 10**12)
            claims = (fabric, jobs, found.plans, faster, found.levels)
            # a job below its optimum is on a full link, one at its optimum has no more to claim
            assert not verify_jobs(*claims).report.is_ok, loss


MIX = ("allreduce", "alltoall", "allgather")


def mix(fabric: Topology) -> list[Job]:
    return [Job(kind, planning.make_problem(fabric, kind).collective, Fraction(1)) for kind in MIX]


def test_a_mix_whose_optimum_takes_too_many_trees_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = parse("torus:3,3")
    found = planning.solve_jobs(fabric, mix(fabric))
    assert min(found.exact_grids) > 2**12
    assert 0 < found.loss <= Fraction(1, 1000)
    assert max(found.grids) <= 2**12
    assert found.report is not None
    assert found.report.report.is_ok
    assert not found.report.is_max_min
    fewer = planning.solve_jobs(fabric, mix(fabric), max_trees=8)
    assert found.loss < fewer.loss < Fraction(1, 10)
    assert max(fewer.grids) <= 8
    exact = planning.solve_jobs(fabric, mix(fabric), exact=True)
    assert exact.reached == found.together
    assert exact.grids == found.exact_grids
    monkeypatch.setattr(job_schedules, "MAX_UNITS", 1000)
    with pytest.raises(InfeasibleError, match="schedules have up to 1000; without --exact they are rounded"):
        planning.solve_jobs(fabric, mix(fabric), exact=True)


def test_one_job_alone_has_the_optimum_of_its_collective() -> None:
    for expression, kind in (("dgx_a100:2", "allgather"), ("mesh:3,4", "allreduce"), ("ring:6", "broadcast")):
        fabric = parse(expression)
        posed = planning.make_problem(fabric, kind).collective
        (rate,) = planning.bound_jobs(fabric, [Job("only", posed, Fraction(1))]).together
        assert rate == planning.bound(fabric, kind).algbw


FILE = """
[[job]]
name = "gradients"
kind = "allreduce"
mesh = "dp=2,tp=2"
axes = "dp"
size = "8MB"

[[job]]
kind = "a2a"
size = "2MB"

[[job]]
name = "pair"
kind = "allgather"
ranks = [0, 1]
forward = true
size = "1MB"
weight = 0.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_file_names_jobs_and_groups_of_a_mesh(file: Path) -> None:
    fabric = parse("complete:4")
    jobs = read_jobs(file, fabric)
    assert [job.name for job in jobs] == ["gradients[0]", "gradients[1]", "2:alltoall", "pair"]
    assert [job.weight for job in jobs] == [8 * 2**20, 8 * 2**20, 2 * 2**20, 2**19]
    assert [job.collective.ranks for job in jobs] == [(0, 2), (1, 3), (0, 1, 2, 3), (0, 1)]
    assert [job.collective.forwarders for job in jobs] == [(), (), (), (2, 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "key 'job' is missing"),
        ("job = 3", "job: expected a list, found 3"),
        ("[[job]]\nkind = 'allgather'\n[other]\nx = 1", 'unknown key "other"; known are job'),
        ("[[job]]\nranks = '0-1'", r"job\[0\]: key 'kind' is missing"),
        ("[[job]]\nkind = 'allgathr'", "job 1: .*allgather"),
        (
            "[[job]]\nkind = 'allgather'\nsise = '1MB'",
            r'job\[0\]: unknown key "sise"; known are axes, forward, kind, mesh',
        ),
        ("[[job]]\nkind = 'allgather'\nsize = '0B'", "at least 1 byte"),
        ("[[job]]\nkind = 'allgather'\nweight = 0", "from 1e-6"),
        ("[[job]]\nkind = 'allgather'\nweight = nan", "from 1e-6"),
        ("[[job]]\nkind = 'allgather'\nweight = true", "from 1e-6"),
        ("[[job]]\nkind = 'allgather'\nweight = 1e-300", "from 1e-6"),
        (
            "[[job]]\nkind = 'allgather'\nsize = '1GB'\n[[job]]\nkind = 'allgather'\nsize = '1B'",
            "smaller ratios",
        ),
        ("[[job]]\nkind = 'allgather'\nforward = 1", "true or false"),
        ("[[job]]\nkind = 'broadcast'\nroot = 1.5", "a rank or a node's name"),
        (
            "[[job]]\nkind = 'allgather'\nranks = [0.5]",
            r"job\[0\].ranks\[0\]: expected an integer, found 0.5",
        ),
        ("[[job]]\nkind = 'allgather'\nranks = [0, 9]", "rank 9"),
        ("[[job]]\nkind = 'allgather'\nsize = '1MB'\n[[job]]\nkind = 'allgather'", "some jobs have a size"),
        ("[[job]]\nkind = 'reduce'\nname = 'a'\n[[job]]\nkind = 'reduce'\nname = 'a'", "two are called"),
        ("[[job]", "not TOML"),
    ],
)
def test_what_is_no_file_of_jobs_is_told_in_a_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        read_jobs(path, parse("complete:4"))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rank_out_of_reach_names_the_job() -> None:
    fabric = parse("ring:4")
    away = Job("away", Collective(CollectiveKind.ALLGATHER, (0, 2)), Fraction(1))
    with pytest.raises(InfeasibleError, match="job 'away': some of its ranks cannot reach others"):
        planning.bound_jobs(fabric, [away])
    there = replace(away, collective=replace(away.collective, forwarders=(1, 3)))
    assert planning.bound_jobs(fabric, [there]).together == (Fraction(4),)


def test_caps_of_hosts_are_not_modelled_and_said_so() -> None:
    builder = TopologyBuilder("capped")
    for name in "ab":
        builder.compute(name, injection_bytes_per_s=10**9)
    builder.duplex("a", "b", 10**9)
    fabric = builder.build()
    with pytest.raises(InfeasibleError, match="injection cap"):
        planning.bound_jobs(
            fabric, [Job("x", planning.make_problem(fabric, "reduce").collective, Fraction(1))]
        )


def mutants(found: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Claims that are false, by what is wrong with them."""
    fabric, jobs, plans, rates, levels = found.topology, found.jobs, found.plans, found.together, found.levels
    first = levels[0]
    more = (rates[0] * Fraction(1001, 1000), *rates[1:])
    less = (rates[0] * Fraction(999, 1000), *rates[1:])
    no_levels: tuple[JobLevel, ...] = ()
    lone = (Fraction(1), *(Fraction(0),) * (len(first.lengths) - 1))
    slow = replace(first, rate=first.rate / 2)
    swapped = (plans[1], plans[0], *plans[2:])
    heavier = (replace(jobs[0], weight=jobs[0].weight * 2), *jobs[1:])
    return [
        ("a rate too high", (fabric, jobs, plans, more, levels)),
        ("a rate too low", (fabric, jobs, plans, less, levels)),
        ("plans swapped", (fabric, jobs, swapped, rates, levels)),
        ("a plan missing", (fabric, jobs, plans[1:], rates, levels)),
        ("no level", (fabric, jobs, plans, rates, no_levels)),
        (
            "a level that limits nobody",
            (fabric, jobs, plans, rates, (replace(first, limited=()), *levels[1:])),
        ),
        (
            "one link only",
            (fabric, jobs, plans, rates, (replace(first, lengths=lone), *levels[1:])),
        ),
        ("a level too low", (fabric, jobs, plans, rates, (slow, *levels[1:]))),
        ("another weight", (fabric, heavier, plans, rates, levels)),
        ("the last level left out", (fabric, jobs, plans, rates, levels[:-1])),
        ("a level twice", (fabric, jobs, plans, rates, (first, *levels))),
    ]


def test_false_claims_about_jobs_are_found(file: Path) -> None:
    fabric = parse("complete:4")
    found = planning.solve_jobs(fabric, file)
    right = (fabric, found.jobs, found.plans, found.together, found.levels)
    assert verify_jobs(*right).is_max_min
    accepted = [what for what, claims in mutants(found) if verify_jobs(*claims).is_max_min]
    assert accepted == []


def test_loads_of_all_jobs_add_up() -> None:
    """Two jobs that each fill the ring are refused together at the rates that each has alone."""
    fabric = parse("ring:4")
    jobs = [Job(name, planning.make_problem(fabric, "allgather").collective, Fraction(1)) for name in "ab"]
    found = planning.solve_jobs(fabric, jobs)
    assert found.together == tuple(rate / 2 for rate in found.alone)
    # a plan that fills every link, and no more, by itself: only the sum of both is too much
    (full,) = planning.solve_jobs(fabric, jobs[:1]).plans
    assert full.algbw == found.alone[0]
    report = verify_jobs(fabric, jobs, (full, full), found.alone, found.levels).report
    assert any("of all jobs together" in str(violation) for violation in report.violations)


def test_a_disk_that_fills_up_leaves_no_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object) -> None:
        raise FormatError("cannot be written: No space left on device", source=str(path))

    found = planning.solve_jobs("complete:4", file)
    monkeypatch.setattr(jobs_folder, "save_topology", full)
    with pytest.raises(FormatError, match="No space left"):
        planning.save_jobs(tmp_path / "new" / "plans", found)
    assert not (tmp_path / "new").exists()
    (tmp_path / "kept").mkdir()
    with pytest.raises(FormatError, match="No space left"):
        planning.save_jobs(tmp_path / "kept", found)
    assert (tmp_path / "kept").exists()


def test_plans_come_back_from_their_folder(file: Path, tmp_path: Path) -> None:
    fabric = parse("complete:4")
    found = planning.solve_jobs(fabric, file)
    folder = tmp_path / "plans"
    written = planning.save_jobs(folder, found)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in written)
    stored = planning.load_jobs(folder)
    assert (stored.jobs, stored.rates, stored.levels) == (found.jobs, found.together, found.levels)
    assert stored.verified().is_max_min
    assert stored.verified(fabric).is_max_min
    assert not stored.verified(parse("ring:4")).is_max_min
    text = (folder / "jobs.json").read_text(encoding="utf-8")
    for old, new, message in (
        ('"version": 1', '"version": 2', "version 1"),
        ('"treadle": "jobs"', '"treadle": "job"', "version 1"),
        (written[0].name, "../x.plan", "not a file in this folder"),
        ('"levels"', '"level"', "levels|level"),
        ('"limited"', '"limits"', "limited|limits"),
    ):
        (folder / "jobs.json").write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(FormatError, match=message):
            planning.load_jobs(folder)


def test_a_trusted_fabric_may_number_its_nodes_otherwise_or_lack_some(file: Path, tmp_path: Path) -> None:
    fabric = parse("complete:4")
    planning.save_jobs(tmp_path / "plans", planning.solve_jobs(fabric, file))
    stored = planning.load_jobs(tmp_path / "plans")
    other = TopologyBuilder("other")
    for name in reversed(fabric.node_names):
        other.compute(name)
    for tail, head in zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True):
        other.link(fabric.node_names[tail], fabric.node_names[head], int(fabric.bandwidths[0]))
    assert stored.verified(other.build()).is_max_min
    with pytest.raises(TopologyError):
        stored.verified(parse("complete:3"))


@pytest.mark.parametrize("ratio", [1000, 10**6])
def test_weights_far_apart_are_told_apart(ratio: int) -> None:
    fabric = parse("mesh:2,3")
    kinds = (("allreduce", Fraction(ratio)), ("alltoall", Fraction(1)), ("allgather", Fraction(1)))
    jobs = [Job(kind, planning.make_problem(fabric, kind).collective, weight) for kind, weight in kinds]
    found = planning.solve_jobs(fabric, jobs, exact=True)
    assert found.report is not None
    assert found.report.is_max_min


def test_levels_that_prove_nothing_are_refused() -> None:
    fabric = parse("ring:4")
    jobs = [Job("a", planning.make_problem(fabric, "allgather").collective, Fraction(1))]
    (level,) = planning.bound_jobs(fabric, jobs).levels
    for wrong, message in (
        (replace(level, lengths=level.lengths[1:]), "lengths"),
        (replace(level, lengths=(Fraction(-1), *level.lengths[1:])), "none negative"),
        (replace(level, lengths=(Fraction(0),) * fabric.n_links), "prove none"),
        (replace(level, limited=(1,)), "does not limit job 1"),
    ):
        with pytest.raises(ScheduleError, match=message):
            proved_rates(fabric, jobs, [wrong])


def test_plans_that_do_not_verify_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong rate of a job is a defect, and is told as one."""
    fabric = parse("ring:4")
    jobs = [Job("a", Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3)), Fraction(1))]
    right = planning.solve_jobs(fabric, jobs)
    assert right.report is not None
    wrong = replace(
        right.report, report=replace(right.report.report, violations=("planted",), n_violations=1)
    )
    monkeypatch.setattr("treadle.verification.jobs_check.verify_jobs", lambda *claims: wrong)
    with pytest.raises(planning.RejectedError, match="planted"):
        planning.solve_jobs(fabric, jobs)
