"""What judges say: of schedules on other fabrics, of nodes that are absent, of texts at their limits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle import planning
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.inputs import runtime_files
from treadle.inputs.runtime_files import read_runtime_file, report_name, verify_runtime_file
from treadle.inputs.verification import _notes, part_that_is_known
from treadle.planning import UnverifiedPlanError, make_problem, program_of, route_schedule, solve, verify
from treadle.program.program import OperationKind
from treadle.schedulers.third_party.placed_schedules import (
    _has_equal_parts,
    _refused,
    _told_apart,
    format_violations,
    route_schedules,
)
from treadle.schedules.alltoall.demands import Demands
from treadle.simulation.point_to_point import PointToPointGap, _loads, point_to_point_gap
from treadle.topologies import TopologyBuilder, parse, topology_hash
from treadle.verification.violations import ViolationKind


@pytest.mark.parametrize(
    ("path", "others", "name"),
    [
        ("a/b/x", [], "x"),
        ("a/b/x", ["a/b/y"], "x"),
        ("a/b/x", ["a/c/x"], "b/x"),
        ("a/b/x", ["c/b/x", "c/d/x"], "a/b/x"),
        ("b/x", ["a/b/x"], "b/x"),
        ("a/b/x", ["a/b/x"], "x"),
        ("a/b/x", ["a/b/x", "a/c/x"], "b/x"),
    ],
)
def test_names_that_tell_files_apart(path: str, others: list[str], name: str) -> None:
    assert _told_apart(Path(path), [Path(one) for one in others]) == name


def test_schedules_of_one_name_are_numbered() -> None:
    ring = solve("ring:4", "allgather", algorithm="ring")
    problem = make_problem("ring:4", "allgather")
    other = solve("ring:4", "allgather")
    placed = route_schedules([ring, ring.plan, other, ring], problem)
    assert [one.name for one in placed] == ["ring", "ring (2)", other.plan.algorithm, "ring (3)"]
    assert [one.form for one in placed] == ["plan"] * 4
    assert all(one.report.is_ok for one in placed)
    assert route_schedule(ring, problem, name="mine").name == "mine"


def faults(placed: planning.PlacedSchedule) -> list[str]:
    return [format_violations(one) for one in placed.report.violations]


def test_what_is_refused_says_why() -> None:
    problem = make_problem("ring:4", "allgather")
    found = _refused("a", "f", problem, "one", "two")
    assert (found.name, found.form, found.problem) == ("a", "f", problem)
    assert faults(found) == ["one", "two"]
    assert {one.kind for one in found.report.violations} == {ViolationKind.TEXT}
    assert found.trees is None
    ring = solve("ring:4", "allgather")
    assert faults(route_schedule(ring, make_problem("ring:4", "reduce-scatter"))) == [
        "it is for allgather, asked for is reduce-scatter"
    ]
    assert faults(route_schedule(ring, make_problem("ring:4", "allgather", weights=[1, 2, 3, 4]))) == [
        "the plan is for other ranks, groups, weights or demands"
    ]
    moved = route_schedule(ring, make_problem("complete:4", "allgather"))
    assert moved.notes == ("the plan was made for ring(4); its claims are left aside",)
    assert moved.trees == route_schedule(ring, problem).trees
    assert route_schedule(ring, problem).notes == ()


GROUPED = "it is for one group of ranks; a plan of all groups can stand here"


@pytest.mark.parametrize(
    ("asked", "words", "said"),
    [
        ("allgather", {"mesh": "2,2", "axes": "1"}, [GROUPED]),
        ("allreduce", {}, ["it is for allgather, asked for is allreduce"]),
        ("allgather", {"weights": [1, 2, 1, 1]}, ["are of one size, the collective's differ"]),
        ("allgather", {"ranks": "0-2"}, [" has 3"]),
        ("allgather", {}, []),
    ],
)
def test_programs_and_texts_keep_their_names_where_they_are_refused(
    asked: str, words: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    plan, problem = solve("ring:4", "allgather").plan, make_problem("ring:4", asked, **words)
    path = tmp_path / "ring.xml"
    path.write_text(planning.lower(plan).text)
    placed = route_schedule(path, problem)
    assert (placed.name, placed.form, placed.problem) == ("ring.xml", "msccl-xml", problem)
    assert [one.endswith(two) for one, two in zip(faults(placed), said, strict=True)] == [True] * len(said)
    if words.get("axes") or not words:
        found = route_schedule(program_of(plan, 2**20), problem, name="own")
        assert (found.name, found.form, found.problem, faults(found)) == ("own", "Program", problem, said)


def test_programs_for_something_else() -> None:
    program = program_of(solve("ring:4", "allgather").plan, 2**20)

    def told(fabric: str, kind: str, **words: Any) -> list[str]:
        return faults(route_schedule(program, make_problem(fabric, kind, **words)))

    assert told("ring:4", "reduce-scatter") == ["it is for allgather, asked for is reduce-scatter"]
    assert told("ring:5", "allgather") == ["it has 4 ranks, the collective 5"]
    assert told("ring:4", "allgather", weights=[1, 1, 1, 2]) == ["programs are interpreted for equal shards"]
    assert told("ring:4", "allgather", weights=[3, 3, 3, 3]) == []
    rooted = program_of(solve("ring:4", "broadcast", root=1).plan, 2**20)
    assert faults(route_schedule(rooted, make_problem("ring:4", "broadcast", root=2))) == [
        "it is for broadcast, asked for is broadcast"
    ]
    good = route_schedule(program, make_problem("ring:4", "allgather"))
    assert (good.name, good.form, good.report.algbw) == ("Program", "Program", Fraction(8, 3))


def test_shards_of_one_size() -> None:
    assert _has_equal_parts(make_problem("ring:4", "allgather"))
    assert _has_equal_parts(make_problem("ring:4", "allgather", weights=[2, 2, 2, 2]))
    assert not _has_equal_parts(make_problem("ring:4", "allgather", weights=[2, 2, 2, 1]))
    assert not _has_equal_parts(
        make_problem("ring:4", "alltoall", demands=Demands([[0, 1, 1, 1]] + [[0] * 4] * 3))
    )


def test_false_plans_name_their_first_fault() -> None:
    violations = ("late", "lost")
    result: Any = SimpleNamespace(
        reports=(SimpleNamespace(violations=()), SimpleNamespace(violations=violations))
    )
    assert str(UnverifiedPlanError(result)) == (
        "the plan fails verification, so it is not used (first: late); treadle verify lists every violation"
    )
    result.reports = result.reports[:1]
    assert str(UnverifiedPlanError(result)) == (
        "the plan fails verification, so it is not used; treadle verify lists every violation"
    )
    assert UnverifiedPlanError(result).result is result


@pytest.mark.parametrize(
    ("fabric", "told"),
    [
        ("path:5", "n4, which it lacks, counts as absent"),
        ("path:7", "n4, n5, n6, which it lacks, count as absent"),
        ("path:8", "n4, n5, n6 and 1 more, which it lacks, count as absent"),
    ],
)
def test_nodes_that_a_plan_does_not_know(fabric: str, told: str) -> None:
    own, whole = parse("path:4"), parse(fabric)
    part = part_that_is_known(own, whole)
    assert part.node_names == own.node_names
    assert _notes(own, whole, part) == (f"the plan is for path(4), not for {whole.name}: {told}",)
    assert _notes(part, whole, part) == (), "it was made for this part"
    found = verify(solve("path:4", "allgather"), fabric)
    assert (found.n_absent, found.is_ok, found.is_embedded) == (whole.n_nodes - 4, True, False)
    assert found.topology_hash == topology_hash(whole)


def test_fabrics_that_share_all_nodes_or_none() -> None:
    ring = parse("ring:4")
    assert part_that_is_known(ring, parse("complete:4")) == parse("complete:4")
    assert _notes(ring, parse("complete:4"), parse("complete:4")) == ()
    boxes = parse("dgx_a100:1")
    assert part_that_is_known(ring, boxes) is boxes
    assert not verify(solve("ring:4", "allgather"), boxes).is_ok
    embedded = verify(solve("ring:4", "allgather"))
    assert (embedded.is_embedded, embedded.n_absent, embedded.notes) == (True, 0, ())


def test_witnesses_of_links_prove_nothing_elsewhere() -> None:
    plan = solve("ring:4", "allreduce").plan
    found = verify(plan, "complete:4")
    assert not found.is_ok
    assert found.report.violations[0].kind is ViolationKind.BOUND
    assert found.report.n_violations == 1
    assert str(found.report.violations[0]) == (
        "bound: the plan's optimum is claimed for ring(4); nodes or links of complete(4) differ, so the "
        f"{plan.certificate.kind} certificate proves nothing there"  # type: ignore[union-attr]
    )
    assert found.report.algbw == plan.algbw, "the schedule is judged though its claim is not"
    assert found.is_sound


def test_words_that_are_for_texts(tmp_path: Path) -> None:
    plan = solve("ring:4", "allgather").plan
    for words in ({"root": 0}, {"profile": "azure"}):
        with pytest.raises(ScheduleError) as caught:
            verify(plan, **words)  # type: ignore[call-overload]
        assert str(caught.value) == "verify: root and profile are only for runtime files; a plan has both"
    path = tmp_path / "text"
    path.write_text(planning.lower(plan).text)
    with pytest.raises(ScheduleError) as caught:
        verify(path, "ring:4", profile="azure")  # type: ignore[call-overload]
    assert str(caught.value) == "verify: profile: only for a runtime file without a fabric"
    found = verify(path, "ring:4")
    assert found.placed is not None
    assert (found.is_ok, found.placed.form) == (True, "msccl-xml")
    alone = verify(path)
    assert (alone.format, alone.collective, alone.n_ranks) == ("msccl-xml (azure)", "allgather", 4)  # type: ignore[union-attr]
    assert (alone.is_ok, alone.is_part) == (True, False)  # type: ignore[union-attr]
    nouns = [noun for noun, _ in alone.counts]  # type: ignore[union-attr]
    assert "rank" not in nouns
    assert nouns[-1] == "chunk"
    assert dict(alone.counts)["chunk"] == planning.lower(plan).n_chunks  # type: ignore[union-attr]


def test_texts_of_the_most_bytes_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    text = planning.lower(solve("ring:4", "allgather")).text
    path.write_text(text)
    assert runtime_files.MAX_TEXT == 256 * 2**20
    monkeypatch.setattr(runtime_files, "_HEAD", 64)
    assert report_name(path) == "msccl-xml"
    monkeypatch.setattr(runtime_files, "MAX_TEXT", len(text))
    assert read_runtime_file(path) == text
    monkeypatch.setattr(runtime_files, "MAX_TEXT", len(text) - 1)
    with pytest.raises(FormatError) as caught:
        read_runtime_file(path)
    assert str(caught.value) == f"{path}: is larger than {len(text) - 1} bytes, the most that is read"
    monkeypatch.undo()
    path.write_bytes(text.encode() + b"\xff")
    with pytest.raises(FormatError) as caught:
        read_runtime_file(path)
    assert str(caught.value) == f"{path}:87:1: byte 0xff is not valid UTF-8"


def test_files_that_are_no_texts(tmp_path: Path) -> None:
    assert (report_name(tmp_path), read_runtime_file(tmp_path)) == ("", None)
    (tmp_path / "other").write_text("no text of ours")
    assert (report_name(tmp_path / "other"), read_runtime_file(tmp_path / "other")) == ("", None)
    for kind in (str, Path):
        with pytest.raises(FormatError) as caught:
            route_schedule(kind(tmp_path / "none"), make_problem("ring:4", "allgather"))
        assert str(caught.value) == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    with pytest.raises(FormatError) as caught:
        verify_runtime_file("no text of ours", source="here")
    assert str(caught.value) == "here: neither a plan nor a runtime file of a known format"
    with pytest.raises(TreadleError, match="neither a plan nor a schedule of a known format"):
        route_schedule(tmp_path / "other", make_problem("ring:4", "allgather"))


def test_nothing_is_lacking_where_ranks_do_all() -> None:
    plan = solve("ring:4", "allreduce").plan
    assert point_to_point_gap(plan.topology, plan.collective, program_of(plan, 2**20)) is None


def test_what_switches_did_is_done_by_ranks() -> None:
    """A star of three whose switch copies: the rank that is served first hands on, over links of its own."""
    builder = TopologyBuilder("star")
    switch = builder.switch("s")
    for name in "abc":
        builder.duplex(builder.compute(name), switch, 6)
    plain = builder.build()
    able = ~plain.is_compute
    star = replace(plain, multicast=able, aggregation=able, turns_round=able)
    plan = solve(star, "broadcast", multicast=True).plan
    program = program_of(plan, 2**20)
    found = point_to_point_gap(plan.topology, plan.collective, program)
    assert plan.algbw == 6, "once over every link"
    assert found == PointToPointGap(1, Fraction(6))
    caps = np.where(star.is_compute, 100, 0)
    capped = replace(star, injection_bytes_per_s=caps)
    assert point_to_point_gap(capped, plan.collective, program) == PointToPointGap(found.n_sends, None)


def test_paths_are_completed_along_fewest_links() -> None:
    """A path between switches: before it the way from the sender, behind it that to the receiver."""
    builder = TopologyBuilder("line")
    a, b = builder.compute("a"), builder.compute("b")
    s, t, u = (builder.switch(name) for name in "stu")
    for one, other in ((a, s), (s, t), (t, b), (s, u), (u, t)):
        builder.duplex(one, other, 1)
    fabric = builder.build()
    link = {fabric.link_name(place): place for place in range(fabric.n_links)}

    def program(*path: str) -> Any:
        return SimpleNamespace(
            nodes=fabric.compute_nodes,
            operation_rank=np.array([0, 1]),
            peer=np.array([1, 0]),
            operation_kind=np.array([int(OperationKind.SEND), -1]),
            path=np.array([0, -1]),
            links=lambda _: np.array([link[one] for one in path]),
            count=np.array([5, 7]),
        )

    collective = make_problem(fabric, "allgather").collective
    wanted = np.zeros(fabric.n_links, dtype=np.int64)
    wanted[[link["a->s"], link["s->t"], link["t->b"]]] = 5
    for path in (("s->t",), ("a->s", "s->t"), ("s->t", "t->b"), ("a->s", "s->t", "t->b"), ("t->b",)):
        found = _loads(fabric, collective, program(*path), set())
        assert found is not None
        assert found.tolist() == wanted.tolist(), path
    back = _loads(fabric, collective, program("b->t"), set())
    assert back is None or back[link["b->t"]] == 5
