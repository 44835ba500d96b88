"""Damaged and hostile files of every format that is read: refused in one line or read, in little memory."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import places
from samples.strategies import damaged, damages
from treadle.errors import FormatError, TreadleError
from treadle.formats.cpu.interpreter import interpret_cpu_xml
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json
from treadle.formats.nccl.reader import parse_nccl_graph
from treadle.input_files import parse_json
from treadle.schedules.plan_files.archive import parse_plan
from treadle.topologies.expressions import parse
from treadle.topologies.files import dump_topology, topology_from_json

GOLDEN = places.GOLDEN

READERS: dict[str, Callable[[str], object]] = {
    "msccl-xml": lambda text: interpret_msccl_xml(text, fifo_depth=1),
    "mscclpp-json": interpret_mscclpp_json,
    "cpu-xml": interpret_cpu_xml,
    "nccl-graph": parse_nccl_graph,
    "topology": lambda text: topology_from_json(parse_json(text)),
    "manifest": lambda text: parse_plan(_packed(text), source="fuzzed"),
}


def refusal(reader: Callable[[Any], object], content: object) -> str:
    """What a reader says against a file; any error but TreadleError fails the test."""
    try:
        reader(content)
    except TreadleError as error:
        return str(error)
    return ""


def _packed(manifest: str) -> bytes:
    """The golden plan with another manifest."""
    kept = io.BytesIO()
    with zipfile.ZipFile(GOLDEN / "ring_version1.plan") as plan, zipfile.ZipFile(kept, "w") as made:
        for name in plan.namelist():
            content = plan.read(name)
            made.writestr(name, manifest.encode("utf-8", "replace") if name == "manifest.json" else content)
    return kept.getvalue()


def _manifest() -> str:
    with zipfile.ZipFile(GOLDEN / "ring_version1.plan") as plan:
        return plan.read("manifest.json").decode()


def sound(name: str) -> str:
    """A text that the reader accepts."""
    match name:
        case "msccl-xml":
            return (GOLDEN / "allreduce_chain3.xml").read_text(encoding="utf-8")
        case "mscclpp-json":
            return (GOLDEN / "allreduce_star3.mscclpp.json").read_text(encoding="utf-8")
        case "cpu-xml":
            return (GOLDEN / "allreduce_ring3.cpu.xml").read_text(encoding="utf-8")
        case "nccl-graph":
            return (GOLDEN / "ring_dgx_a100x2.nccl.box1.xml").read_text(encoding="utf-8")
        case "topology":
            return dump_topology(parse("torus(3, 2)"))
        case _:
            return _manifest()


@pytest.mark.parametrize("name", READERS)
@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(steps=damages())
def test_damaged_texts_are_read_or_refused_in_one_line(
    name: str, steps: tuple[tuple[str, float, float, str], ...]
) -> None:
    message = refusal(READERS[name], damaged(sound(name), steps))
    assert "\n" not in message
    assert len(message) < 1000


@pytest.mark.parametrize("name", READERS)
def test_samples_are_sound_and_damage_is_seen(name: str) -> None:
    READERS[name](sound(name))
    with pytest.raises(TreadleError):
        READERS[name](damaged(sound(name), (("cut", 0.0, 0.0, ""), ("insert", 0.5, 0.5, "\0"))))


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255), st.booleans()), min_size=1, max_size=4))
def test_damaged_traces(steps: list[tuple[float, int, bool]]) -> None:
    pytest.importorskip("google.protobuf", reason="Chakra: protobuf is not installed")
    from treadle.formats.chakra.interpreter import interpret_chakra

    data = (GOLDEN / "allreduce_rank0.et").read_bytes()
    for where, value, keeps in steps:
        at = int(where * (len(data) - 1))
        data = data[:at] + bytes([value]) + data[at + keeps :]
    assert len(refusal(interpret_chakra, [data, data])) < 1000


def _xml_bombs(root: str) -> dict[str, str]:
    levels = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(12))
    return {
        "billion laughs": f'<!DOCTYPE x [<!ENTITY a0 "ha">{levels}]><{root}>&a12;</{root}>',
        "external": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><{root}>&e;</{root}>',
        "deep": f"<{root}>" * 100_000,
        "wide": f"<{root}>" + "<b/>" * 100_000 + f"</{root}>",
        "attributes": f"<{root} " + " ".join(f'a{i}="1"' for i in range(50_000)) + "/>",
        "twice": f'<{root} ranks="1" ranks="1"/>',
        "long": f'<{root} ranks="{"1" * 10**6}"/>',
        "surrogate": f"<{root}>\udfff</{root}>",
        "null": f"<{root}>\0</{root}>",
        "instruction": f"<?xml-stylesheet x?><{root}/>",
    }


def _json_bombs() -> dict[str, str]:
    return {
        "deep list": "[" * 200_000,
        "deep object": '{"a":' * 200_000,
        "long number": '{"ranks": ' + "1" * 10**6 + "}",
        "infinite": '{"ranks": 1e999, "gpus": NaN}',
        "twice": '{"gpus": 1, "gpus": 1}',
        "surrogate": '{"name": "\ud800"}',
        "null": '{"na\0me": 1}',
        "wide": "[" + "0," * 100_000 + "0]",
    }


def bombs() -> list[tuple[str, str]]:
    roots = {"msccl-xml": "algo", "cpu-xml": "cpu", "nccl-graph": "graphs"}
    return [(name, text) for name, root in roots.items() for text in _xml_bombs(root).values()] + [
        (name, text) for name in READERS if name not in roots for text in _json_bombs().values()
    ]


@pytest.mark.parametrize("number", range(len(bombs())))
def test_bombs_are_refused_in_little_memory(number: int) -> None:
    name, text = bombs()[number]
    tracemalloc.start()
    try:
        with pytest.raises(TreadleError) as caught:
            READERS[name](text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * 2**20
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


EXECUTED = {
    "msccl-xml": interpret_msccl_xml,
    "cpu-xml": interpret_cpu_xml,
    "mscclpp-json": interpret_mscclpp_json,
}
HUGE = {
    "msccl-xml": '<algo proto="Simple" nchannels="1" nchunksperloop="{n}" ngpus="1" coll="allreduce" '
    'inplace="0" outofplace="1" minBytes="0" maxBytes="0">'
    '<gpu id="0" i_chunks="{n}" o_chunks="{n}" s_chunks="{n}"/></algo>',
    "cpu-xml": '<cpu ranks="1" chunks="{n}" minBytes="0" maxBytes="0" collective="allreduce" root="-1" '
    'inplace="0"><rank id="0" i="0-{m}" o="0-{m}" slots="{n}"/></cpu>',
    "mscclpp-json": '{{"name": "x", "protocol": "Simple", "collective": "allreduce", "inplace": false, '
    '"gpus": [{{"id": 0, "input_chunks": {n}, "output_chunks": {n}, "scratch_chunks": {n}, '
    '"channels": [], "remote_buffers": [], "threadblocks": []}}]}}',
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("count", [30_000, 10**9, 10**18])
def test_declared_counts_take_no_memory(name: str, count: int) -> None:
    """What a text only declares is neither allocated nor listed chunk by chunk."""
    text = HUGE[name].format(n=count, m=count - 1)
    tracemalloc.start()
    try:
        try:
            violations = EXECUTED[name](text).violations
            assert violations
            assert sum(map(len, violations)) < 10**6
        except FormatError:
            assert count > 10**6
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 2**20
