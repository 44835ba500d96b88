"""NCCL graph files of ring plans: read back and joined as NCCL joins boxes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

import places
from samples.forest_samples import star
from treadle import planning
from treadle.cli.main import main
from treadle.errors import FormatError, InfeasibleError, ScheduleError
from treadle.formats.nccl.loading import nccl_graph_loading
from treadle.formats.nccl.reader import NcclGraph, joined_rings, parse_nccl_graph
from treadle.formats.nccl.writer import emit_nccl_graph, find_rings
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.topologies.topology import TopologyBuilder

GOLDEN = places.GOLDEN / "ring_dgx_a100x2.nccl.box1.xml"
RINGS = {"dgx_a100(1)": 1, "dgx_a100(2)": 8, "dgx_h100(4)": 8, "mi250(1)": 4, "dgx1_v100()": 6, "ring(5)": 2}


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("fabric", RINGS)
def test_nccl_would_run_the_plans_rings(fabric: str, collective: str) -> None:
    plan = planning.solve(fabric, collective, algorithm="ring").plan
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule)
    boxes = find_boxes(plan.topology, plan.collective)
    graphs = [parse_nccl_graph(text) for text in emit_nccl_graph(schedule, boxes, plan.algbw)]
    assert len(graphs) in (1, len(boxes))
    rings = joined_rings(graphs if len(graphs) > 1 else graphs * len(boxes))
    assert set(rings) == set(find_rings(schedule))
    assert len(set(rings)) == RINGS[fabric]
    assert planning.lower(plan, to="nccl-graph").faults == ()


def test_golden_file() -> None:
    plan = planning.solve("dgx_a100(2)", "allgather", algorithm="ring").plan
    files = dict(planning.lower(plan, to="nccl-graph").files)
    assert files[".box1"] == GOLDEN.read_bytes()


def test_other_trees_are_refused() -> None:
    branching = planning.solve("dgx_a100(1)", "allgather").plan
    with pytest.raises(InfeasibleError, match="branches"):
        planning.lower(branching, to="nccl-graph")
    rooted = planning.solve("ring(4)", "broadcast", root=0).plan
    with pytest.raises(InfeasibleError, match="solve with --algorithm ring"):
        planning.lower(rooted, to="nccl-graph")
    steps = planning.solve("ring(4)", "allgather", algorithm="bfb").plan
    with pytest.raises(InfeasibleError, match="solve with --algorithm ring"):
        planning.lower(steps, to="nccl-graph")


def test_boxes_out_of_order_are_refused() -> None:
    plan = planning.solve("ring(6)", "allgather", algorithm="ring").plan
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule)
    with pytest.raises(ScheduleError, match="box by box"):
        emit_nccl_graph(schedule, [[0, 2, 4], [1, 3, 5]], plan.algbw)


def test_boxes_with_other_files_are_other_rings() -> None:
    plan = planning.solve("dgx_a100(2)", "allgather", algorithm="ring").plan
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule)
    boxes = find_boxes(plan.topology, plan.collective)
    first, second = (parse_nccl_graph(text) for text in emit_nccl_graph(schedule, boxes, plan.algbw))
    assert set(joined_rings([first, second])) == set(find_rings(schedule))
    for others in ([first, first], [second, first]):
        assert set(joined_rings(others)) != set(find_rings(schedule))
    with pytest.raises(FormatError, match="numbers of channels"):
        joined_rings([first, replace(second, channels=second.channels[1:])])


def test_a_ring_may_leave_by_another_card_than_it_enters_the_next_box_by() -> None:
    """One ring alone: a GPU, and behind a switch a box of three, left by its last and not by its first."""
    builder = TopologyBuilder("one ring")
    for name in ("g0", "g1", "g2", "g3"):
        builder.compute(name)
    for name in ("in", "out"):
        builder.switch(name)
    for tail, head in pairwise(("g0", "in", "g1", "g2", "g3", "out", "g0")):
        builder.link(tail, head, 1)
    topology = builder.build()
    plan = planning.solve(topology, "allgather").plan
    assert find_boxes(topology, plan.collective) == ((0,), (1, 2, 3))
    made = planning.lower(plan, to="nccl-graph")
    assert made.faults == ()
    graphs = [parse_nccl_graph(text.decode()) for _, text in made.files]
    assert [graph.channels for graph in graphs] == [((0,),), ((0, 1, 2),)]
    assert [graph.cards for graph in graphs] == [((0, 0),), ((0, 2),)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<graphs", "<graph"),
        ('id="0"', 'id="1"'),
        ('pattern="4"', 'pattern="1"'),
        ('nchannels="2"', 'nchannels="3"'),
        ('<gpu dev="1"/>', '<gpu dev="0"/>'),
        ('<gpu dev="1"/>', '<gpu dev="x"/>'),
        ('<gpu dev="1"/>', ""),
        ('<gpu dev="1"/>', '<net dev="1"/>'),
        ("<channel>", "<!ENTITY a 'b'><channel>"),
    ],
)
def test_malformed_files_are_refused(old: str, new: str) -> None:
    plan = planning.solve("ring(5)", "allgather", algorithm="ring").plan
    text = planning.lower(plan, to="nccl-graph").text
    assert old in text
    with pytest.raises(FormatError):
        parse_nccl_graph(text.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "<a", "<graphs/>", "\ud800", "x" * (2**20 + 1)])
def test_hostile_files_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_nccl_graph(text)


def test_a_file_for_each_box_where_they_differ(tmp_path: Path) -> None:
    plan = str(tmp_path / "two.plan")
    assert main(["solve", "dgx_a100(2)", "allgather", "--algorithm", "ring", "-o", plan, "-q"]) == 0
    assert main(["lower", plan, "--to", "nccl-graph", "-o", str(tmp_path / "ring.xml"), "-q"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.xml")) == ["ring.box0.xml", "ring.box1.xml"]
    assert main(["lower", plan, "--to", "chakra", "-o", str(tmp_path / "t"), "--size", "1MB", "-q"]) == 0
    assert len(list(tmp_path.glob("t.*.et"))) == 16


def test_a_star_is_no_ring() -> None:
    plan = planning.solve(star(4), "allgather").plan
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule)
    with pytest.raises(ScheduleError):
        find_rings(schedule)


Rings = dict[tuple[int, ...], int]


def rings_schedule(rings: Rings, others: Rings) -> ForestSchedule:
    """An allgather of units along rings, of the last root along others."""
    n = len(next(iter(rings)))
    trees = []
    for root in range(n):
        for ring, units in (others if root == n - 1 else rings).items():
            place = ring.index(root)
            order = [*ring[place:], *ring[:place]]
            parent = [-1 if rank == root else order[order.index(rank) - 1] for rank in range(n)]
            paths: dict[int, list[tuple[tuple[int, ...], int]]] = {
                rank: [((0,), units)] for rank in range(n) if rank != root
            }
            trees.append(TreeSpec(root, units, parent, paths))
    forest = forest_from_trees(Direction.BROADCAST, n, trees)
    return ForestSchedule(CollectiveKind.ALLGATHER, broadcast=forest)


def test_channels_share_what_the_rings_carry_over_boxes_of_three_sizes() -> None:
    """Two thirds go by the second ring, so of three channels two are its; eleven devices end with a."""
    boxes = [range(11), [11], [12, 13]]
    rings: Rings = {tuple(range(14)): 2, (0, 11, 13, 12, *range(10, 0, -1)): 4}
    texts = emit_nccl_graph(rings_schedule(rings, rings), boxes, Fraction(14 * 9, 13) * 1_234_567_000)
    wanted = [[[*range(11)], [*range(10, -1, -1)]], [[0], [0]], [[0, 1], [1, 0]]]
    for text, (first, second) in zip(texts, wanted, strict=True):
        lines = [
            '<graphs version="1">',
            '  <graph id="0" pattern="4" crossnic="1" nchannels="3" speedintra="3.7037" speedinter="3.7037" '
            'latencyinter="0" typeintra="NVL" typeinter="PXB" samechannels="0">',
        ]
        for devices in (first, second, second):
            lines += ["    <channel>", f'      <net dev="{devices[0]:x}"/>']
            lines += [f'      <gpu dev="{device:x}"/>' for device in devices]
            lines += [f'      <net dev="{devices[-1]:x}"/>', "    </channel>"]
        assert text.splitlines() == [*lines, "  </graph>", "</graphs>"]


def test_there_are_at_most_thirty_two_channels() -> None:
    for units in (31, 32):
        rings: Rings = {(0, 1, 2): 2, (0, 2, 1): 2 * units}
        schedule = rings_schedule(rings, rings)
        assert find_rings(schedule) == rings
        if units == 31:
            (text,) = emit_nccl_graph(schedule, [[0, 1, 2]], Fraction(1))
            assert parse_nccl_graph(text) == NcclGraph(((0, 1, 2), *[(0, 2, 1)] * 31), ())
        else:
            with pytest.raises(ScheduleError, match=r"^NCCL graph: 33 channels, NCCL has at most 32$"):
                emit_nccl_graph(schedule, [[0, 1, 2]], Fraction(1))


def test_all_roots_use_the_same_rings_alike() -> None:
    rings: Rings = {(0, 1, 2): 1, (0, 2, 1): 2}
    more: tuple[Rings, ...] = ({(0, 1, 2): 2, (0, 2, 1): 1}, {(0, 1, 2): 3})
    for others in more:
        with pytest.raises(ScheduleError) as caught:
            find_rings(rings_schedule(rings, others))
        assert str(caught.value) == (
            "NCCL graph: the roots' trees follow different rings; solve with --algorithm ring"
        )


def test_how_nccl_is_told_of_its_files() -> None:
    assert nccl_graph_loading("a.xml", 3, 2).environment[0] == (
        "NCCL_GRAPH_FILE",
        "a.xml with .boxN before its ending, N the number of the host",
    )
    assert nccl_graph_loading("a.xml", 3, 1).environment[0] == ("NCCL_GRAPH_FILE", "a.xml")
    assert "'Search 0 : 3 channels loaded" in nccl_graph_loading("a.xml", 3, 1).check
