"""Rows of tuner tables at their limits, and what the judge makes of the arcs of a plan's trees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.errors import FormatError
from treadle.formats.tuner import interpreter as judge_module
from treadle.formats.tuner import reader
from treadle.formats.tuner.interpreter import interpret
from treadle.formats.tuner.reader import TunerRow, parse_tuner_rows
from treadle.formats.verdict import Check, Planned, Terms
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan import PlanEntry
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.topologies import parse

HEADING = "# collective_type,min_bytes,max_bytes,algorithm\n"
MOST = 2**64 - 1


def parsed(text: str) -> tuple[TunerRow, ...]:
    """The rows below the heading."""
    return parse_tuner_rows(HEADING + text, "file")


def test_every_field_is_read() -> None:
    rows = parsed(
        "reduce, 3 ,\t70,collnet_chain,ll128,4,5,6,7,8\n"
        "#a\n\n"
        f"broadcast,0,{MOST},pat,simple,-1,-1,-1\n"
        f"allgather,9,9,nvls_tree,ll,2147483647,1,2147483647,-1\n"
    )
    assert rows == (
        TunerRow("reduce", 3, 70, "collnet_chain", "ll128", 4, 5, 6, 7, 8),
        TunerRow("broadcast", 0, MOST, "pat", "simple", -1, -1, -1, -1, -1),
        TunerRow("allgather", 9, 9, "nvls_tree", "ll", 2**31 - 1, 1, 2**31 - 1, -1, -1),
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("reduce,3,2,pat,ll,1,1,1", "file:2: serves no call"),
        ("reduce,3,3,pat,ll,1,0,1", "file:2: serves no call"),
        ("reduce,3,3,pat,ll,1,1,0", "file:2: serves no call"),
        (f"reduce,3,{MOST + 1},pat,ll,1,1,1", f"'{MOST + 1}': expected 0 to {MOST}"),
        ("reduce,3,3,pat,ll,-2,1,1", "'-2': expected -1 to 2147483647"),
        ("reduce,3,3,pat,ll,1,1,2147483648", "'2147483648': expected -1 to 2147483647"),
        ("reduce,3,3,pat,ll,1,1,1,,", "'': expected -1 to 2147483647"),
        ("reduce,3,3,pat,ll,1,1,--1", "'--1': expected -1 to"),
        ("reduce,3,3,pat,ll,1,1,²", "'²': expected -1 to"),
        (f"reduce,{'0' * 21},3,pat,ll,1,1,1", f"'{'0' * 21}': expected 0 to"),
        ("#\nreduce,3,3,pat,ll,1,1,1,1,1,1", "file:3: 11 fields, expected 8 to 10"),
    ],
)
def test_a_field_beyond_its_limit_is_refused_with_its_line(row: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(row)
    assert message in str(caught.value)
    assert parsed(f"reduce,{'0' * 20},3,pat,ll,1,1,1")[0].min_bytes == 0


def test_lines_and_rows_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "reduce,3,3,pat,ll,1,1,1"
    assert len(parsed(row + " " * (254 - len(row)))) == 1
    with pytest.raises(FormatError, match="file:2: longer than the plugin reads, 254 bytes"):
        parsed(row + " " * (255 - len(row)))
    assert reader._MOST_ROWS == 100000
    monkeypatch.setattr(reader, "_MOST_ROWS", 2)
    assert len(parsed(f"{row}\n{row}")) == 2
    with pytest.raises(FormatError, match="3 rows, expected at most 2"):
        parsed(f"{row}\n{row}\n{row}")
    with pytest.raises(FormatError, match="holds no row"):
        parsed("#\n")
    # only comments can name the columns
    with pytest.raises(FormatError, match="expected a comment that names the columns"):
        parse_tuner_rows(f"{HEADING[2:]}{row}", "file")


@pytest.mark.parametrize(
    ("other", "is_served"),
    [
        ({}, True),
        ({"min_bytes": 50}, True),
        ({"min_bytes": 51}, False),
        ({"max_bytes": 50}, True),
        ({"max_bytes": 49}, False),
        ({"nodes": -1}, True),
        ({"nodes": 3}, False),
        ({"ranks": -1}, True),
        ({"ranks": 2}, False),
        ({"pipe_ops": 1}, False),
        ({"registered": 0}, False),
    ],
)
def test_a_row_serves_within_its_limits(other: dict[str, int], is_served: bool) -> None:
    row = replace(TunerRow("reduce", 10, 90, "ring", "ll", 1, 2, 3), **other)  # type: ignore[arg-type]
    assert row.supports(50, nodes=2, ranks=3) is is_served


RING4 = [[-1, 0, 1, 2], [3, -1, 1, 2], [3, 0, -1, 2], [3, 0, 1, -1]]
STAR4 = [[-1, 0, 0, 0], [1, -1, 1, 1], [2, 2, -1, 2], [3, 3, 3, -1]]
BINARY4 = [[-1, 0, 0, 1], [1, -1, 0, 1], [1, 2, -1, 2], [2, 3, 3, -1]]
BROAD5 = [[-1, 0, 0, 0, 1], [1, -1, 1, 1, 0], [2, 2, -1, 2, 0], [3, 3, 3, -1, 0], [4, 4, 4, 0, -1]]


def schedule_of(kind: CollectiveKind, parents: list[list[int]]) -> ForestSchedule:
    """One tree for each root, over paths that nobody looks at."""
    n = len(parents)

    def forest(way: Direction) -> list[TreeSpec]:
        return [
            TreeSpec(root, 1, own, {v: [((0, 1), 1)] for v in range(n) if v != root})
            for root, own in enumerate(parents)
        ]

    reduce, broadcast = (
        forest_from_trees(way, n, forest(way)) for way in (Direction.REDUCE, Direction.BROADCAST)
    )
    return ForestSchedule(
        kind, reduce=reduce if kind.reduces else None, broadcast=broadcast if kind.broadcasts else None
    )


def entry_of(
    parents: list[list[int]], kind: CollectiveKind = CollectiveKind.ALLREDUCE, algorithm: str | None = None
) -> PlanEntry:
    """A range of sizes that has such trees."""
    return PlanEntry(100, 300, schedule_of(kind, parents), algorithm=algorithm or "")


ONE, TWO, FOUR = ((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))
MIXED = ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("parents", "boxes", "kind", "name"),
    [
        (RING4, ONE, "allreduce", "ring"),
        (RING4, TWO, "allgather", "ring"),
        (RING4, MIXED, "allreduce", None),  # it enters each box twice
        (RING4, FOUR, "allreduce", "ring"),
        (STAR4, ONE, "allreduce", "nvls"),
        (STAR4, ONE, "allgather", "nvls"),
        (STAR4, TWO, "allreduce", None),
        (BINARY4, ONE, "allreduce", "tree"),
        (BINARY4, ONE, "allgather", None),
        (BINARY4, FOUR, "allreduce", "tree"),
        (BINARY4, MIXED, "allreduce", None),
        ([RING4[0], STAR4[1], *RING4[2:]], ONE, "allreduce", None),
        ([STAR4[0], BINARY4[1], *STAR4[2:]], ONE, "allreduce", None),
        (BROAD5, ((0, 1, 2, 3, 4),), "allreduce", None),  # three children
        (BROAD5, ((0,), (1,), (2,), (3,), (4,)), "allreduce", None),
    ],
)
def test_arcs_tell_what_a_schedule_is_to_nccl(
    parents: list[list[int]], boxes: tuple[tuple[int, ...], ...], kind: str, name: str | None
) -> None:
    found = CollectiveKind(kind)
    assert judge_module._meant(entry_of(parents, found), found, boxes) == name


@pytest.mark.parametrize(
    ("arcs", "n_boxes", "is_double"),
    [
        ([(0, 1), (1, 2), (0, 3), (3, 4), (4, 5)], 2, True),
        ([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5)], 2, True),
        ([(0, 1), (0, 2), (0, 3), (3, 4), (4, 5)], 2, False),  # two children in a box
        ([(0, 1), (1, 2), (0, 3), (2, 4), (4, 5)], 2, False),  # joined twice
        ([(0, 1), (1, 2), (1, 3), (1, 4), (4, 5)], 4, True),
        ([(0, 1), (0, 2), (2, 3), (2, 4)], 1, True),
        ([(0, 1), (0, 2), (0, 3), (2, 4)], 1, False),
    ],
)
def test_double_trees_are_chains_in_boxes(arcs: list[tuple[int, int]], n_boxes: int, is_double: bool) -> None:
    boxes = {1: [0] * 6, 2: [0, 0, 0, 1, 1, 1], 4: [0, 0, 0, 1, 2, 3]}[n_boxes]
    assert judge_module._is_double(arcs, dict(enumerate(boxes)), n_boxes) is is_double


def test_two_ranks_of_a_box_lead_to_no_others() -> None:
    """Four boxes: what leaves one box leaves it from one rank, for two others at most."""
    box_of = dict(enumerate([0, 0, 1, 2, 3]))
    assert judge_module._is_double([(0, 1), (0, 2), (0, 3), (2, 4)], box_of, 4)
    assert not judge_module._is_double([(0, 1), (0, 2), (1, 3), (2, 4)], box_of, 4)
    assert not judge_module._is_double([(0, 1), (0, 2), (0, 3), (0, 4)], box_of, 4)


def faults(rows: str, *entries: PlanEntry, boxes: tuple[tuple[int, ...], ...] = ONE) -> tuple[str, ...]:
    """What the judge says of a table beside ranges of a plan of four ranks."""
    topology = parse("complete:4")
    collective: Collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    planned = Planned(topology, collective, entries[-1].schedule, lambda: boxes, ranges=entries)
    found = interpret([(HEADING + rows).encode()], Terms(planned=planned))
    assert (found.check, found.n_ranks) == (Check.COMPARED, 4)
    assert found.counts == (("row", rows.count("\n")),)
    return found.violations


ROW = "allreduce,100,300,ring,ll,-1,-1,4,-1,-1\n"


@pytest.mark.parametrize(
    ("rows", "violations"),
    [
        (ROW, ()),
        (ROW.replace("100", "101"), ("100 bytes: no row serves, and the plan's schedule is ring",)),
        (ROW.replace("300", "299"), ("300 bytes: no row serves, and the plan's schedule is ring",)),
        (ROW.replace("100", "99"), ("99 bytes: a row serves, and no schedule of the plan does",)),
        (ROW.replace("300", "301"), ("301 bytes: a row serves, and no schedule of the plan does",)),
        (
            ROW.replace("100,300", "100,100") + ROW.replace("100,300", "300,300"),
            ("200 bytes: no row serves, and the plan's schedule is ring",),
        ),
        (
            ROW.replace("100,300", "200,200").replace("ring", "tree") + ROW,
            ("200 bytes: tree is taken, and the plan's schedule is ring",),
        ),
        (ROW + ROW.replace(",4,", ",5,"), ("a row serves other communicators than those of 4 ranks",)),
        (ROW.replace("allreduce", "reduce"), ("a row for reduce, the plan is of allreduce",)),
    ],
)
def test_faults_of_rows_are_told(rows: str, violations: tuple[str, ...]) -> None:
    assert faults(rows, entry_of(RING4, algorithm="ring")) == violations


def test_ranges_without_a_name_need_no_row_and_nvls_is_simple() -> None:
    assert faults("allreduce,400,400,ring,ll,-1,-1,4\n", entry_of(RING4, algorithm="other")) == ()
    star = entry_of(STAR4, algorithm="nvls")
    nvls = ROW.replace("ring,ll", "nvls,simple")
    assert faults(nvls, star) == ()
    assert faults(nvls.replace("simple", "ll"), star)[0] == (
        "100 bytes: NVLS has the protocol simple alone, found ll"
    )
    assert len(faults(nvls.replace("simple", "ll"), star)) == 3
    none = entry_of([RING4[0], *STAR4[1:]], algorithm="x")
    assert faults(ROW, none)[0] == "100 bytes: ring is taken, and the plan's schedule is none of NCCL"


def test_a_range_without_end_is_looked_at_far_out() -> None:
    endless = replace(entry_of(RING4, algorithm="ring"), max_bytes=None)
    assert faults(ROW.replace("300", str(2**40)), endless) == ()
    assert faults(ROW.replace("300", str(2**40 - 1)), endless) == (
        f"{2**40} bytes: no row serves, and the plan's schedule is ring",
    )


def test_a_plan_without_ranges_serves_all_sizes() -> None:
    topology = parse("complete:4")
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    planned = Planned(topology, collective, schedule_of(collective.kind, RING4), lambda: ONE)
    for rows, count in ((ROW, 0), (ROW.replace("100,300", f"0,{MOST}"), 0), (ROW.replace("ring", "pat"), 0)):
        assert len(interpret([(HEADING + rows).encode()], Terms(planned=planned)).violations) == count
    wrong = ROW.replace("100,300", f"0,{MOST}").replace("ring", "pat")
    assert interpret([(HEADING + wrong).encode()], Terms(planned=planned)).violations == tuple(
        f"{size} bytes: pat is taken, and the plan's schedule is ring" for size in (0, 2**39, 2**40)
    )


def test_a_table_alone_is_parsed() -> None:
    found = interpret([(HEADING + ROW + ROW.replace(",4,", ",7,")).encode()], Terms())
    assert (found.check, found.counts, found.n_ranks) == (Check.PARSED, (("row", 2),), 7)
    assert interpret([(HEADING + ROW.replace(",4,", ",-1,")).encode()], Terms()).n_ranks == 0
