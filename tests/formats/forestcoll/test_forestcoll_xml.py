"""ForestColl's tree XML: written, read back and judged, with the real sample."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import places
from treadle import planning
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.formats.forestcoll import writer
from treadle.formats.forestcoll.interpreter import interpret
from treadle.formats.forestcoll.reader import parse_forestcoll_xml
from treadle.formats.forestcoll.traffic import trees
from treadle.formats.verdict import Planned, Terms
from treadle.inputs.problem import make_problem
from treadle.schedulers.third_party.placed_schedules import route_schedule
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify


def lowered(fabric: str, **options: object) -> tuple[Plan, bytes]:
    plan = planning.solve(fabric, "allgather", **options).plan  # type: ignore[arg-type]
    made = planning.lower(plan, to="forestcoll-xml")
    assert made.faults == ()
    return plan, made.files[0][1]


def planned(plan: Plan) -> Terms:
    entry = plan.entries[-1]
    return Terms(planned=Planned(plan.topology, plan.collective, entry.schedule, tuple))


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


def sample() -> str:
    path = places.FOREIGN_SAMPLES / "forestcoll_trees_a100_1box.xml"
    if not path.is_file():
        pytest.skip(f"no samples of others in {places.FOREIGN_SAMPLES}")
    return path.read_text()


def test_the_sample_is_read_and_judged() -> None:
    text = sample()
    file = parse_forestcoll_xml(text, "sample")
    assert file.chunks_per_node == 1
    assert file.nodes() == tuple(f"(0, 'GPU', {rank})" for rank in range(8))
    assert {send.between for tree in file.trees for send in tree.sends} == {("(0, 'NVSwitch', 0)",)}
    found = interpret([text.encode()], Terms())
    assert (found.violations, found.n_ranks, found.collective) == ((), 8, "allgather")


def test_the_sample_comes_back_from_our_writer() -> None:
    """Read, put on the fabric, planned and written again: the same trees, with ranks as numbers."""
    text = sample()
    path = places.FOREIGN_SAMPLES / "forestcoll_trees_a100_1box.xml"
    problem = make_problem("dgx_a100(1)", "allgather")
    placed = route_schedule(path, problem)
    mine = planning.solve("dgx_a100(1)", "allgather", trees=1).plan
    assert placed.schedule is not None
    plan = Plan(
        mine.topology,
        mine.collective,
        (type(mine.entries[0])(0, None, placed.schedule),),
        "theirs",
        placed.algbw,
        mine.optimal_algbw,
        mine.certificate,
    )
    made = planning.lower(plan, to="forestcoll-xml")
    assert made.faults == ()
    numbered = re.sub(r"\(0, 'GPU', (\d)\)", r"\1", text).replace("(0, 'NVSwitch', 0)", "box0.nvswitch")
    ours, theirs = (parse_forestcoll_xml(one, "") for one in (made.files[0][1].decode(), numbered))
    assert ours.chunks_per_node == theirs.chunks_per_node
    for one, other in zip(ours.trees, theirs.trees, strict=True):
        assert (one.root, one.index, one.chunks, one.height) == (
            other.root,
            other.index,
            other.chunks,
            other.height,
        )
        assert set(one.sends) == set(other.sends)


def test_a_tree_that_is_not_the_plans_is_found() -> None:
    plan, data = lowered("dgx_a100(1)")
    assert interpret([data], planned(plan)).violations == ()
    other, _ = lowered("dgx_a100(1)", algorithm="ring")
    assert "not those of the plan" in interpret([data], planned(other)).violations[0]


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


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb">]><Algo nchunkspernode="1">&b;</Algo>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<Algo", "not well-formed"),
        (BOMB, "a DTD, entity or CDATA section is not accepted"),
        ("<Algo/>", "nchunkspernode: expected 1 to 200 characters"),
        ('<Algo nchunkspernode="99999999999999999"/>', "expected an integer from 1"),
        ('<Algo nchunkspernode="1"/>', "no trees"),
        ('<Algo nchunkspernode="1"><bush/></Algo>', "expected <tree>"),
        ('<Algo nchunkspernode="1"><tree root="0"/></Algo>', "index"),
        (
            '<Algo nchunkspernode="1"><tree root="0" index="0" nchunks="1" height="1">'
            '<send src="0" dst="1" path="0,2"/></tree></Algo>',
            "expected nodes from 0 to 1",
        ),
        ("<algo/>", "expected <Algo>"),
        ("<Algo nchunkspernode='1'>" + "<tree>" * 300, "not well-formed"),
    ],
)
def test_malformed_ones_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        interpret([text.encode()], Terms(source="t.xml"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


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


def hub(name: str = "w", rank: str = "a") -> Topology:
    """Ranks around a switch, by two links each way."""
    builder = TopologyBuilder("hub")
    for one in (rank, "b", "c"):
        builder.compute(one)
    builder.switch(name)
    for one in (rank, "b", "c"):
        for _ in range(2):
            builder.duplex(one, name, 2)
    return builder.build()


def two_ways(topology: Topology) -> Plan:
    """Five trees of each root straight to both others; of each path the last two over the second link."""
    specs = []
    for root in range(3):
        paths = {
            rank: [
                ((4 * root + 2 * lane, 4 * rank + 2 * lane + 1), units) for lane, units in ((0, 3), (1, 2))
            ]
            for rank in range(3)
            if rank != root
        }
        specs.append(TreeSpec(root, 5, [-1 if rank == root else root for rank in range(3)], paths))
    forest = forest_from_trees(Direction.BROADCAST, 3, specs)
    schedule = ForestSchedule(CollectiveKind.ALLGATHER, broadcast=forest)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw)


def test_units_that_take_other_paths_are_trees_of_their_own() -> None:
    """All paths go by the same nodes, so the judge does not mind which link it is."""
    plan = two_ways(hub())
    made = planning.lower(plan, to="forestcoll-xml")
    assert made.faults == ()
    (data,) = (content for _, content in made.files)
    assert data.decode().splitlines()[:9] == [
        '<Algo nchunkspernode="5">',
        '  <tree root="0" index="0" nchunks="3" height="1">',
        *(f'    <send src="0" dst="{rank}" path="0,w,{rank}"/>' for rank in (1, 2)),
        "  </tree>",
        '  <tree root="0" index="1" nchunks="2" height="1">',
        *(f'    <send src="0" dst="{rank}" path="0,w,{rank}"/>' for rank in (1, 2)),
        "  </tree>",
    ]


def test_names_that_fall_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (
        ("s,t", "node 's,t': paths are lists of names with commas between; rename it"),
        ("s(", "node 's(': paths are lists of names with commas between; rename it"),
        ("2", "a switch has a number of a rank for its name; rename it"),
    ):
        with pytest.raises(InfeasibleError) as caught:
            planning.lower(two_ways(hub(name)), to="forestcoll-xml")
        assert str(caught.value) == f"forestcoll-xml: {said}"
    assert planning.lower(two_ways(hub("3", "x,y")), to="forestcoll-xml").faults == ()
    for most, is_refused in ((6, False), (5, True)):
        monkeypatch.setattr(writer, "_MOST_TREES", most)
        if is_refused:
            with pytest.raises(InfeasibleError, match=r"^forestcoll-xml: more than 5 trees$"):
                planning.lower(two_ways(hub()), to="forestcoll-xml")
        else:
            assert planning.lower(two_ways(hub()), to="forestcoll-xml").faults == ()


def test_files_are_compared_with_trees_of_ranks_alone() -> None:
    plan, data = lowered("ring(4)", algorithm="ring")
    steps = planning.solve("ring(4)", "allgather", algorithm="bfb").plan
    assert interpret([data], planned(steps)).violations == ("the plan is not an allgather of trees",)
    text = data.decode()
    sends = text.replace('<send src="0"', '<send src="9"', 1).replace('path="0,', 'path="9,', 1)
    for changed in (text.replace('root="0"', 'root="9"', 1), sends):
        found = interpret([changed.encode()], planned(plan)).violations
        assert found[-1] == "line 2: its nodes are not ranks of the plan"
    with pytest.raises(FormatError, match=r"not valid text \(lone surrogate\)$"):
        parse_forestcoll_xml("<Algo>\ud800</Algo>", "x")
