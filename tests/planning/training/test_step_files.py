"""What is written of a step: read back by others' schemas, and by our own readers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from treadle.errors import ScheduleError, TreadleError
from treadle.finder.workload import parse_workload
from treadle.formats.chakra.schema import schema
from treadle.formats.chakra.step_traces import StepNode, emit_step_trace
from treadle.planning import (
    TrainResult,
    draw_step,
    step_workload_of,
    train,
    write_step_chakra,
)
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh


@pytest.fixture(scope="module")
def piped() -> TrainResult:
    return train(
        "gpt2",
        "dgx_h100:1",
        mesh="pp=2,fsdp=2,tp=2",
        gpu="h100",
        schedules="bound",
        sequence=256,
        efficiency=0.5,
        micro_batches=4,
    )


def test_pictures(piped: TrainResult) -> None:
    assert draw_step(piped, piped.rows[0]).startswith(b"\x89PNG")
    assert b"<svg" in draw_step(piped, piped.rows[0], file_format="svg")
    with pytest.raises(ScheduleError, match="expected png, svg or pdf"):
        draw_step(piped, piped.rows[0], file_format="bmp")


def test_a_workload_says_what_it_leaves_out(piped: TrainResult) -> None:
    text = step_workload_of(piped, piped.rows[0])
    sends = sum(
        1
        for task in piped.rows[0].outcome.timeline.tasks
        if task.traffic is not None and task.traffic[0] is None
    )
    assert f"# and {sends} sends" in text
    parse_workload(text)


def test_groups_that_are_not_evenly_apart_are_refused() -> None:
    found = train(
        "gpt2",
        "complete:8",
        mesh=Mesh((2, 2, 2), ("dp", "tp", "cp")),
        gpu="h100",
        schedules="bound",
        sequence=256,
        efficiency=0.5,
        simulates=False,
    )
    with pytest.raises(ScheduleError, match=r"groups over dp,cp .* next to each other"):
        step_workload_of(found, found.rows[0])


def messages(data: bytes) -> list[object]:
    """Length-delimited messages: metadata, then nodes."""
    classes, found, at = schema(), [], 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        kind = "Node" if found else "GlobalMetadata"
        found.append(classes[kind].FromString(data[at : at + size]))
        at += size
    return found


def attributes(node: object) -> dict[str, object]:
    found = {}
    for one in node.attr:  # type: ignore[attr-defined]
        found[one.name] = one.string_val or one.int64_val or one.int32_val
    return found


def test_chakra_traces_of_all_ranks_fit_each_other(piped: TrainResult, tmp_path: Path) -> None:
    written = write_step_chakra(tmp_path / "et", piped, piped.rows[0])
    groups = json.loads((tmp_path / "et" / "groups.json").read_text(encoding="utf-8"))
    assert sorted(path.name for path in written) == sorted(
        [*(f"step.{n}.et" for n in range(8)), "groups.json"]
    )
    sent: Counter[tuple[object, ...]] = Counter()
    received: Counter[tuple[object, ...]] = Counter()
    joined: dict[str, list[list[tuple[object, object]]]] = {}
    for rank in range(8):
        nodes = messages((tmp_path / "et" / f"step.{rank}.et").read_bytes())[1:]
        own: dict[str, list[tuple[object, object]]] = {}
        for number, node in enumerate(nodes):
            assert node.id == number  # type: ignore[attr-defined]
            assert all(wait < number for wait in node.data_deps)  # type: ignore[attr-defined]
            values = attributes(node)
            if node.type in (5, 6):  # type: ignore[attr-defined]
                key = tuple(values[name] for name in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                (sent if node.type == 5 else received)[key] += 1  # type: ignore[attr-defined]
                assert values["comm_src" if node.type == 5 else "comm_dst"] == rank  # type: ignore[attr-defined]
            if node.type == 7:  # type: ignore[attr-defined]
                assert rank in groups[values["pg_name"]]
                own.setdefault(str(values["pg_name"]), []).append((values["comm_type"], values["comm_size"]))
        for name, calls in own.items():
            joined.setdefault(name, []).append(calls)
    assert sent
    assert sent == received
    for name, lists in joined.items():  # all ranks of a group do the same in the same order
        assert len(lists) == len(groups[name])
        assert all(calls == lists[0] for calls in lists)


def test_chakra_nodes() -> None:
    data = emit_step_trace(
        1,
        [
            StepNode("a", 1.5e-6, ()),
            StepNode("b", 0, (0,), kind=CollectiveKind.ALLTOALL, size_bytes=64, group="0"),
        ],
    )
    metadata, compute, exchange = messages(data)
    assert metadata.version == "0.0.4"  # type: ignore[attr-defined]
    assert (compute.type, compute.duration_micros) == (4, 2)  # type: ignore[attr-defined]
    assert (exchange.type, list(exchange.data_deps)) == (7, [0])  # type: ignore[attr-defined]
    assert attributes(exchange)["comm_type"] == 6
    with pytest.raises(ScheduleError, match="waits for a later one"):
        emit_step_trace(0, [StepNode("a", 0, (0,))])


def test_a_file_in_the_place_of_the_folder(piped: TrainResult, tmp_path: Path) -> None:
    (tmp_path / "et").write_text("x", encoding="utf-8")
    with pytest.raises(TreadleError, match="is a file"):
        write_step_chakra(tmp_path / "et", piped, piped.rows[0])
