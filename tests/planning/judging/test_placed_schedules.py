"""Schedules of others on fabrics: as fast as the plans that texts were written from, and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import places
from samples.foreign import foreign_files
from treadle import planning
from treadle.api.simulate import simulate
from treadle.errors import FormatError, TreadleError
from treadle.inputs.problem import make_problem
from treadle.program.program import Buffer, OperationKind
from treadle.schedulers.third_party.placed_schedules import (
    PlacedSchedule,
    format_violations,
    route_file,
    route_schedule,
)
from treadle.schedules.plan_files.archive import save_plan
from treadle.simulation.congestion import congestion, link_loads
from treadle.topologies import TopologyBuilder

CASES = [
    ("dgx_a100(1)", "allgather", "forestcoll"),
    ("dgx_a100(1)", "reduce-scatter", "ring"),
    ("mi300x(1)", "allreduce", "forestcoll"),
    ("hypercube(3)", "allgather", "bfb"),
    ("torus(3, 3)", "alltoall", "pipelined"),
    ("ring(4)", "broadcast", "ring"),
]


def written(
    tmp_path: Path, fabric: str, kind: str, algorithm: str, to: str
) -> tuple[planning.SolveResult, Path]:
    found = planning.solve(fabric, kind, algorithm=algorithm)
    options = {"chunks": "plan"} if to != "forestcoll-xml" else {}
    options |= {"accept_any_root": True} if kind == "broadcast" else {}
    lowered = planning.lower(found.plan, to=to, **options)
    path = tmp_path / "text"
    path.write_bytes(lowered.files[0][1])
    return found, path


@pytest.mark.parametrize(("fabric", "kind", "algorithm"), CASES)
@pytest.mark.parametrize("to", ["msccl-xml", "mscclpp-json"])
def test_a_text_is_as_fast_as_the_plan_that_it_was_written_from(
    tmp_path: Path, fabric: str, kind: str, algorithm: str, to: str
) -> None:
    """Where ranks have one way to each other the loads of the links are the plan's, so the algbw is."""
    found, path = written(tmp_path, fabric, kind, algorithm, to)
    placed = route_file(path, fabric)
    assert placed.report.violations == ()
    assert placed.form == to
    loads = link_loads(placed.topology, placed.program)
    own = planning.program_of(found.plan, 2**20)
    expected = link_loads(placed.topology, own)
    assert (loads * own.n_chunks).tolist() == (expected * placed.program.n_chunks).tolist()
    if kind != "alltoall" and algorithm != "bfb":  # of steps the plan's algbw counts the steps
        assert placed.algbw == found.algbw
    assert placed.algbw <= (placed.optimal_algbw or 0)


@pytest.mark.parametrize("to", ["msccl-xml", "mscclpp-json"])
def test_a_text_takes_about_the_time_of_its_plan(tmp_path: Path, to: str) -> None:
    """At a large size bandwidth is all; thread blocks and signals order messages a little otherwise."""
    found, path = written(tmp_path, "dgx_a100(1)", "allreduce", "forestcoll", to)
    size = 2**30
    text = simulate(route_file(path, "dgx_a100(1)"), [size]).rows[0]
    plan = simulate(found.plan, [size]).rows[0]
    assert text.alpha_beta is None
    assert 0.9 < float(plan.time / text.time) < 1.1


@pytest.mark.parametrize("to", ["msccl-xml", "mscclpp-json"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_what_waits_in_a_text_waits_in_its_simulation(tmp_path: Path, to: str, kind: str) -> None:
    """A ring of eight passes data on seven times, and each message takes 10 us whatever its size."""
    _, path = written(tmp_path, "dgx_a100(1)", kind, "ring", to)
    options = planning.SimulationOptions(alpha_ns=10_000)
    (row,) = simulate(route_file(path, "dgx_a100(1)"), [2**10], options=options, auto_slices=False).rows
    assert 70e-6 < float(row.time) < 71e-6


@pytest.mark.parametrize(
    ("name", "fabric", "algbw"),
    [
        ("forestcoll_trees_a100_1box.xml", "dgx_a100(1)", Fraction(2400 * 10**9, 7)),
        ("msccl_rccl_alltoall_8n_ll.xml", "mi300x(1)", Fraction(512 * 10**9)),
        ("msccl_rccl_allreduce_allpairs_8n_simple.xml", "mi300x(1)", Fraction(256 * 10**9)),
        ("msccl_rccl_allreduce_ring_simple.xml", "mi250(1)", None),
        ("msccl_teccl_amd_32.xml", "mi250(2)", None),
    ],
)
def test_samples(name: str, fabric: str, algbw: Fraction | None) -> None:
    """All-pairs schedules of a box whose GPUs are all joined are optimal, and so are ForestColl's trees."""
    path = places.FOREIGN_SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no samples of others in {places.FOREIGN_SAMPLES}")
    placed = route_file(path, fabric)
    assert placed.report.violations == ()
    assert placed.optimal_algbw is not None
    assert placed.algbw == (placed.optimal_algbw if algbw else placed.algbw) <= placed.optimal_algbw
    assert algbw is None or placed.algbw == algbw


def text(tmp_path: Path, value: foreign_files.Json) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("made", "kind", "algbw"),
    [
        (foreign_files.taccl_ring_allgather(4), "allgather", Fraction(4, 3)),
        (foreign_files.taccl_ring_reduce_scatter(4), "reduce-scatter", Fraction(4, 3)),
        (foreign_files.taccl_ring_allreduce(4), "allreduce", Fraction(2, 3)),
        (foreign_files.taccl_relayed_alltoall(4), "alltoall", Fraction(2, 3)),
        (foreign_files.teccl_ring_alltoall(), "alltoall", Fraction(2)),
    ],
)
def test_small_files_by_hand(tmp_path: Path, made: foreign_files.Json, kind: str, algbw: Fraction) -> None:
    """On a ring with links of 1 B/s both ways; the all-to-all over both ways is optimal."""
    placed = route_file(text(tmp_path, made), "ring(4)")
    assert placed.report.violations == ()
    assert placed.collective.kind == kind
    assert placed.algbw == algbw
    assert (placed.algbw == placed.optimal_algbw) == (algbw == 2)


def test_plans_and_values_stand_beside_texts(tmp_path: Path) -> None:
    found = planning.solve("dgx_a100(1)", "allgather")
    path = tmp_path / "mine.plan"
    save_plan(path, found.plan)
    problem = make_problem("dgx_a100(1)", "allgather")
    for source in (found.plan, found.plan.entries[0].schedule, path, str(path)):
        placed = route_schedule(source, problem)
        assert placed.report.violations == ()
        assert placed.algbw == found.algbw
        assert placed.trees == found.plan.entries[0].schedule.total_units
    assert not route_schedule(path, make_problem("dgx_a100(1)", "reduce-scatter")).report.is_ok
    assert not route_schedule(path, make_problem("dgx_a100(2)", "allgather")).report.is_ok
    assert not route_schedule(path, make_problem("ring(8)", "allgather")).report.is_ok


def test_a_plan_is_held_against_the_fabric_that_is_asked_about(tmp_path: Path) -> None:
    """Other bandwidths: what it claims is of its own fabric, the schedule is judged on this one."""
    plan = planning.solve("ring(4)", "allgather").plan
    placed = route_schedule(plan, make_problem('ring(4, bandwidth="500MB/s")', "allgather"))
    assert placed.report.is_ok
    assert placed.algbw == 500 * 10**6 * plan.algbw
    assert placed.notes == ("the plan was made for ring(4); its claims are left aside",)
    assert not route_schedule(plan, make_problem("path(4)", "allgather")).report.is_ok  # which lacks a link


def test_a_plan_with_a_false_claim_about_the_fabric_is_refused() -> None:
    plan = planning.solve("ring(4)", "allgather").plan
    false = replace(plan, algbw=2 * plan.algbw)
    assert not route_schedule(false, make_problem("ring(4)", "allgather")).report.is_ok


def test_congestion_names_the_links_that_bind(tmp_path: Path) -> None:
    placed: PlacedSchedule = route_file(text(tmp_path, foreign_files.taccl_ring_allgather(4)), "ring(4)")
    found = congestion(placed.topology, placed.program, Fraction(8, 3))
    assert (found.n_links, found.times_optimum) == (4, 2)
    assert found.links == ("n0->n1", "n1->n2")


def test_switches_asked_by_ranks_are_refused(tmp_path: Path) -> None:
    found = planning.solve("dgx_h100(1, nvls=True)", "allreduce", multicast=True)
    lowered = planning.lower(found.plan, to="mscclpp-json")
    path = tmp_path / "nvls.json"
    path.write_bytes(lowered.files[0][1])
    placed = route_file(path, "dgx_h100(1)")
    (violation,) = placed.report.violations
    assert "is an in-network operation" in violation.message


def test_python_values_stand_beside_files() -> None:
    problem = make_problem("hypercube(2)", "allgather")
    found = planning.solve("hypercube(2)", "allgather", algorithm="bfb")
    program = planning.program_of(found.plan, 2**20)
    pathless = replace(program, path=np.full(program.n_operations, -1, dtype=np.int32))
    rates = set()
    for value in (found, found.plan, program, pathless):
        placed = route_schedule(value, problem)
        assert placed.report.violations == ()
        rates.add(simulate(placed, [2**20], auto_slices=False).rows[0].time)
    assert len(rates) == 1
    rows = planning.compare("hypercube(2)", "allgather", algorithms=["ring"], beside=[found, program]).rows
    assert {row.form for row in rows} == {"", "plan", "Program"}
    alone = planning.compare("hypercube(2)", "allgather", algorithms=["ring"], beside=found).rows
    assert len(alone) == 2
    with pytest.raises(TreadleError, match="expected a Plan"):
        route_schedule(17, problem)  # type: ignore[arg-type]


def test_programs_are_judged_by_a_run_on_data() -> None:
    problem = make_problem("hypercube(2)", "allgather")
    program = planning.program_of(planning.solve("hypercube(2)", "allgather", algorithm="bfb").plan, 2**20)
    target = program.target.copy()
    target[np.flatnonzero(program.operation_kind == OperationKind.RECEIVE)[-1]] = Buffer.SCRATCH
    for wrong, words in (
        (replace(program, target=target), "elements are wrong after a run on data"),
        (replace(program, path_links=program.path_links[::-1].copy()), "takes a path from|links that follow"),
    ):
        placed = route_schedule(wrong, problem)
        assert not placed.report.is_ok
        assert re.search(words, placed.report.violations[0].message), placed.report.violations[0].message
    for other in (make_problem("hypercube(2)", "allreduce"), make_problem("hypercube(3)", "allgather")):
        assert route_schedule(program, other).report.n_violations == 1


def graph_of(*chains: str, cards: bool = True) -> str:
    """A ring graph as NCCL dumps it: the devices of each channel, in and out by card 0."""
    net = '<net dev="0"/>' if cards else ""
    passed = ["".join(f'<gpu dev="{device}"/>' for device in chain) for chain in chains]
    channels = "".join(f"<channel>{net}{gpus}{net}</channel>" for gpus in passed)
    head = f'<graph id="0" pattern="4" crossnic="0" nchannels="{len(chains)}" typeintra="NVL">'
    tree = '<graph id="1" pattern="1" nchannels="0"></graph>'
    return f'<graphs version="1">{head}{channels}</graph>{tree}</graphs>'


@pytest.mark.parametrize(
    ("fabric", "chains", "kind", "algbw"),
    [
        ("dgx_a100(1, 4)", ("0123", "2301"), "allgather", 400 * 10**9),
        ("dgx_a100(1, 4)", ("0123", "2301"), "allreduce", 200 * 10**9),
        ("dgx_a100(1, 4)", ("0123",), "broadcast", 300 * 10**9),
        ("ring(4)", ("0123", "0321"), "allgather", Fraction(8, 3)),
        ("ring(4)", ("0123",), "allgather", Fraction(4, 3)),
        ("ring(4)", ("0213",), "allgather", None),
        # data of both phases go the way that the file has
        ("ring(4, bidirectional=False)", ("0123",), "reduce-scatter", Fraction(4, 3)),
        ("ring(4, bidirectional=False)", ("0123",), "allreduce", Fraction(2, 3)),
        ("ring(4, bidirectional=False)", ("3210",), "allgather", None),
        ("ring(4)", ("012",), "allgather", None),
        ("ring(4)", ("0123",), "alltoall", None),
    ],
)
def test_rings_of_nccl(
    fabric: str, chains: tuple[str, ...], kind: str, algbw: Fraction | None, tmp_path: Path
) -> None:
    path = tmp_path / "dump.xml"
    path.write_text(graph_of(*chains), encoding="utf-8")
    placed = route_schedule(path, make_problem(fabric, kind))
    assert placed.form == "nccl-graph"
    assert placed.report.algbw == algbw
    assert placed.report.is_ok == (algbw is not None)


def test_rings_of_nccl_in_several_boxes(tmp_path: Path) -> None:
    """Two boxes of two on one switch: each box's chain, then the next box's."""
    builder = TopologyBuilder("boxes")
    for box in (0, 1):
        for number in (0, 1):
            builder.compute(f"box{box}.gpu{number}")
        builder.switch(f"box{box}.nvswitch")
    builder.switch("ib")
    for box in (0, 1):
        for number in (0, 1):
            builder.duplex(f"box{box}.gpu{number}", f"box{box}.nvswitch", 100)
            builder.duplex(f"box{box}.gpu{number}", "ib", 10)
    fabric, path = builder.build(), tmp_path / "dump.xml"
    path.write_text(graph_of("10"), encoding="utf-8")
    placed = route_schedule(path, make_problem(fabric, "allgather"))
    assert placed.algbw == Fraction(40, 3)  # three shards of four pass a card of 10 between boxes
    assert [note.split(":")[0] for note in placed.notes] == [
        "every box is taken to have the file's rings; NCCL joins the 2 boxes in order",
        "network cards of the file are left aside",
    ]
    rails = route_schedule(
        path, make_problem("dgx_a100(2, 2)", "allgather")
    )  # GPU 0 meets GPU 1 of the next box
    assert rails.notes[2] == "ways over another GPU of a box (PXN), which NCCL uses on rails, are not placed"
    assert "no path leads through switches" in format_violations(rails.report.violations[0])
    path.write_text(graph_of("012"), encoding="utf-8")
    (wrong,) = route_schedule(path, make_problem(fabric, "allgather")).report.violations
    assert format_violations(wrong) == "the file is of boxes of 3 GPUs, the fabric has boxes of 2"
    with pytest.raises(FormatError, match="nccl-graph: names no collective; use treadle compare"):
        route_file(path, fabric)
