"""ForestColl's tree XML: written, read back and judged, with the real sample."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.forestcoll.interpreter import interpret
from treadle.formats.forestcoll.reader import parse_forestcoll_xml
from treadle.formats.forestcoll.traffic import trees
from treadle.formats.verdict import Terms
from treadle.inputs.problem import make_problem
from treadle.schedulers.third_party.placed_schedules import route_schedule
from treadle.schedules.plan import Plan


def lowered(fabric: str, **options: object) -> tuple[Plan, bytes]:
    plan = planning.solve(fabric, "allgather", **options).plan  # type: ignore[arg-type]
    made = planning.lower(plan, to="forestcoll-xml")
    assert made.faults == ()
    return plan, made.files[0][1]


@pytest.mark.parametrize("fabric", ["dgx_a100(2)", "mi250(1)", "torus(3, 3)", "fat_tree(4)"])
def test_round_trip_keeps_every_tree(fabric: str, tmp_path: Path) -> None:
    plan, data = lowered(fabric)
    file = parse_forestcoll_xml(data.decode(), "text")
    per_root = plan.entries[0].schedule.root_multiplicity.tolist()[0]
    assert per_root % file.chunks_per_node == 0
    assert all(tree.chunks > 0 for tree in file.trees)
    path = tmp_path / "trees.xml"
    path.write_bytes(data)
    placed = route_schedule(path, make_problem(fabric, "allgather"))
    assert placed.report.violations == ()
    assert placed.algbw == plan.algbw  # the switches are named, so paths are the plan's


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: re.sub(r"    <send[^>]*/>\n", "", text, count=1), "never reaches 1 nodes"),
        (lambda text: re.sub(r"(    <send[^>]*/>\n)", r"\1\1", text, count=1), "there already"),
        (lambda text: re.sub(r'height="\d+"', 'height="40"', text, count=1), "height 40, found"),
        (lambda text: re.sub(r'nchunks="\d+"', 'nchunks="99"', text, count=1), "carry"),
        (lambda text: text.replace("nchunkspernode", 'x="1" nchunkspernode'), ""),
    ],
)
def test_changed_files_are_found_wrong(change: object, words: str) -> None:
    _, data = lowered("dgx_a100(1)")
    changed = change(data.decode())  # type: ignore[operator]
    faults = interpret([changed.encode()], Terms()).violations
    assert any(words in fault for fault in faults) if words else not faults


def test_what_is_no_allgather_of_trees_is_refused() -> None:
    for fabric, kind, options, words in (
        ("dgx_a100(1)", "allreduce", {}, "solve for allgather"),
        ("torus(3, 3)", "allgather", {"algorithm": "bfb"}, "expected trees"),
        ("dgx_a100(1)", "allgather", {"weights": (1, 2, 1, 1, 1, 1, 1, 1)}, "shards differ"),
    ):
        plan = planning.solve(fabric, kind, **options).plan  # type: ignore[arg-type]
        with pytest.raises(InfeasibleError, match=words):
            planning.lower(plan, to="forestcoll-xml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("box0.nvswitch", "box0.ghost", 1), "passes box0.ghost, which dgx_a100(2) does not have"),
        (("ib0", "box0.nic1", 1), "does not have all of its links"),
    ],
)
def test_a_path_over_what_the_fabric_has_not_is_a_fault(
    tmp_path: Path, change: tuple[str, str, int], words: str
) -> None:
    _, data = lowered("dgx_a100(2)")
    path = tmp_path / "trees.xml"
    path.write_text(data.decode().replace(*change))
    line = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if change[1] in text)
    problem = make_problem("dgx_a100(2)", "allgather")
    (violation,) = route_schedule(path, problem).report.violations[:1]
    assert words in violation.message
    tree = int(violation.message.split("line ")[1].split(":")[0])
    assert tree < line <= tree + 15
    path.write_bytes(data)
    assert route_schedule(path, problem).report.is_ok


@pytest.mark.parametrize("path", ["0,2,1", "0,3,2,1", "0,2,3,0,1"])
def test_a_path_through_a_rank_is_no_path(path: str) -> None:
    _, data = lowered("ring(4)", algorithm="ring")
    assert b'path="0,1"' in data
    text = data.replace(b'path="0,1"', f'path="{path}"'.encode())
    with pytest.raises(ScheduleError, match="which is a rank; only switches lie between"):
        trees(text, Terms())
    assert len(trees(data, Terms()).trees) > 0
