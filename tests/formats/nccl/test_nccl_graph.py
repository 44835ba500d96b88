"""NCCL graph files of ring plans: read back and joined as NCCL joins boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

import places
from treadle import planning
from treadle.cli.main import main
from treadle.errors import FormatError, ScheduleError
from treadle.formats.nccl.reader import joined_rings, parse_nccl_graph
from treadle.formats.nccl.writer import emit_nccl_graph, find_rings
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.boxes import find_boxes

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


def test_boxes_out_of_order_are_refused() -> None:
    plan = planning.solve("ring(6)", "allgather", algorithm="ring").plan
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule)
    with pytest.raises(ScheduleError, match="box by box"):
        emit_nccl_graph(schedule, [[0, 2, 4], [1, 3, 5]], plan.algbw)


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
