"""Values of manifests, members of archives and counts of bytes: at each limit, and one beyond."""

from __future__ import annotations

import io
import json
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins

import treadle
from treadle.errors import FormatError, MemoryLimitError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files import budget
from treadle.schedules.plan_files.archive import dump_plan
from treadle.schedules.plan_files.budget import MemoryBudget
from treadle.schedules.plan_files.manifest import read_manifest
from treadle.schedules.plan_files.manifest_values import (
    format_fraction,
    indented,
    read_fraction,
    read_integer,
    read_list,
    read_object,
    read_optional,
    read_string,
    read_wholes,
)
from treadle.schedules.plan_files.members import MemberReader, to_npy, write_member
from treadle.schedules.plan_files.optional_members import optional_names
from treadle.schedules.plan_files.plan_reader import read_plan

PLAN = treadle.solve("ring:4", "allgather").plan


def said(call: Any, kind: type[Exception] = FormatError) -> str:
    """The whole text of a refusal."""
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        *([], {}, [1, 2, 3], [1, True, "x"], [[1], [], {}], (1, 2), 1.5, None, "x\n", "é"),
        {"a": {"b": [1, {"c": None}], "d": []}, "e": {}, "f": [2.5, 3]},
    ],
)
def test_manifests_are_written_as_json_writes_them(value: object) -> None:
    assert indented(value) == json.dumps(value, indent=1, allow_nan=False)


@pytest.mark.parametrize(
    ("read", "good", "bad", "text"),
    [
        (read_list, [[], [1]], [(), "x", None, {}], "expected a list"),
        (
            read_integer,
            [0, -(2**63), 2**63 - 1],
            [True, 1.0, "1", None, 2**63, -(2**63) - 1],
            "expected an integer",
        ),
        (read_string, ["", "x"], [b"x", 1, None], "expected a string"),
        (
            read_fraction,
            [],
            ["1", "1/0", "-1/2", "1/2 ", "1/" + "1" * 1001, "1" * 1001 + "/1", "١/2", 0.5, None],
            'expected a fraction "p/q"',
        ),
        (
            read_wholes,
            [],
            [[1, True], [2**63], [-(2**63) - 1], [1, 2.0], [2**63, 1]],
            "expected an integer",
        ),
    ],
)
def test_values_of_manifests(read: Any, good: list[Any], bad: list[Any], text: str) -> None:
    for value in good:
        assert read(value, "here") is value
    for value in bad:
        assert said(lambda value=value: read(value, "here")) == f"here: {text}"


def test_values_that_are_read_into_others() -> None:
    assert read_wholes([], "x") == ()
    assert read_wholes([-(2**63), 2**63 - 1], "x") == (-(2**63), 2**63 - 1)
    assert read_fraction("6/4", "x") == Fraction(3, 2)
    assert read_fraction("1" * 1000 + "/3", "x") == Fraction(int("1" * 1000), 3)
    assert format_fraction(Fraction(-6, 4)) == "-3/2"
    assert read_optional(None, read_integer, "x") is None
    assert said(lambda: read_optional("1", read_integer, "x")) == "x: expected an integer"


def test_objects_have_their_keys() -> None:
    value = {"a": 1, "b": 2}
    assert read_object(value, "x", {"a"}, {"b", "c"}) is value
    assert said(lambda: read_object([], "x", set())) == "x: expected an object"
    assert said(lambda: read_object(value, "x", {"a", "b", "d"})) == "x: key 'd' is missing"
    assert said(lambda: read_object(value, "x", {"b"})) == "x: key 'a' is unknown"
    assert said(lambda: read_object({"z" * 120: 1}, "x", set())) == f"x: key {'z' * 100!r} is unknown"
    assert said(lambda: read_object({"z": 1}, "x", {"b", "y"})) == "x: key 'b' is missing"


def manifest(**changes: Any) -> str:
    """The text of a manifest of two entries of routes."""
    entries = [entry(), {**entry(), "min_bytes": 9}]
    collective = {"kind": "alltoall", "ranks": [0, 1], "root": None, "weights": None, "forwarders": []}
    values = {"treadle": "plan", "version": 2, "topology_sha256": "", "collective": collective}
    values |= {"algorithm": "a", "algbw": "1/1", "optimal_algbw": None, "witness": None, "provenance": {}}
    return json.dumps(
        values | {"entries": entries, "forests": 0, "steps": [], "routes": [{"n_chunks": 1}]} | changes
    )


def entry(**changes: Any) -> dict[str, Any]:
    return {"min_bytes": 3, "max_bytes": None, "type": "routes", "routes": 0} | changes


def test_entries() -> None:
    (first, second) = read_manifest(manifest()).entries
    assert (first.min_bytes, first.max_bytes, first.pipelining, second.min_bytes) == (3, None, (), 9)
    cuts = [[number, 1, ""] for number in range(1000)]
    (made,) = read_manifest(manifest(entries=[entry(pipelining=cuts, algorithm="a", options="k=2")])).entries
    assert (len(made.pipelining), made.algorithm, made.options) == (1000, "a", "k=2")
    assert to_builtins(first) == entry()
    for changes, text in (
        ({"pipelining": [*cuts, [2000, 1, ""]]}, "entries: pipelining: 1001, expected 0 to 1000"),
        ({"pipelining": [[0, 1]]}, "entries: pipelining: expected bytes, slices and protocol"),
        ({"pipelining": [[0, "1", ""]]}, "entries: pipelining: expected an integer"),
        ({"pipelining": [["0", 1, ""]]}, "entries: pipelining: expected an integer"),
        ({"pipelining": [[0, 1, 2]]}, "entries: pipelining: expected a string"),
        ({"pipelining": 3}, "entries: pipelining: expected a list"),
        ({"algorithm": 3}, "entries: algorithm: expected a string"),
        ({"options": 3}, "entries: options: expected a string"),
        ({"min_bytes": None}, "entries: min_bytes: expected an integer"),
        ({"max_bytes": "9"}, "entries: max_bytes: expected an integer"),
        ({"max_bytes": 2**63}, "entries: max_bytes: expected an integer"),
    ):
        assert said(lambda changes=changes: read_manifest(manifest(entries=[entry(**changes)]))) == text


def test_fractions_of_manifests() -> None:
    for good in ("6/4", "1" * 1000 + "/3", "1/" + "1" * 1000, "0/1", "01/02"):
        assert read_manifest(manifest(algbw=good)).algbw == good
    for bad in ("1", "1/0", "-1/2", "1/2 ", "1/2\n", "1/" + "1" * 1001, "1" * 1001 + "/1", "١/2", 0.5, None):
        text = said(lambda bad=bad: read_manifest(manifest(algbw=bad)))
        assert text == 'algbw: expected a fraction "p/q"'


def test_provenance_is_of_texts_and_numbers() -> None:
    given = {"a": 1, "b": "x", "c": 0.5, "d": 2**70, "e": 3.0}
    found = read_manifest(manifest(provenance=given)).provenance
    assert [(value, type(value)) for value in found.values()] == [(v, type(v)) for v in given.values()]
    for value in ("true", "null", "[1]", "1e999"):
        text = manifest(provenance={"ok": 1, "k" * 120: "?"}).replace('"?"', value)
        assert said(lambda text=text: read_manifest(text)) == (
            f"provenance: {'k' * 100!r} is neither text nor a finite number"
        )
    for other in ([], "x", None):
        assert said(lambda other=other: read_manifest(manifest(provenance=other))) == (
            "provenance: expected an object"
        )


def archive(*members: tuple[str, bytes]) -> zipfile.ZipFile:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        for name, data in members:
            write_member(written, name, data)
    return zipfile.ZipFile(stream)


def reader(*members: tuple[str, bytes], granted: int = 2**30) -> MemberReader:
    return MemberReader(archive(*members), MemoryBudget(granted))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "x" * 120}, f"collective.kind: {'x' * 100!r}, expected one of {', '.join(CollectiveKind)}"),
        ({"kind": 3}, "collective.kind: expected a string"),
        ({"ranks": 3}, "collective.ranks: expected a list"),
        ({"forwarders": ["x"]}, "collective.forwarders: expected an integer"),
        ({"root": "x"}, "collective.root: expected an integer"),
        ({"weights": "x"}, "collective.weights: expected a list"),
        ({"demands": "x"}, "collective.demands: expected 'demands.npy'"),
        ({"groups": [[0, 1]]}, "collective: groups and ranks_forward: expected both or neither"),
        ({"ranks_forward": True}, "collective: groups and ranks_forward: expected both or neither"),
        (
            {"groups": [[0, 1]], "ranks_forward": 1},
            "collective.ranks_forward: expected true or false",
        ),
        ({"groups": 3, "ranks_forward": True}, "collective.groups: expected a list"),
        ({"groups": [3], "ranks_forward": True}, "collective.groups: expected a list"),
        ({"x" * 70: 1}, f"collective: key '{'x' * 59}...' is unknown"),
    ],
)
def test_what_is_no_collective(changes: dict[str, Any], text: str) -> None:
    values = {"kind": "allgather", "ranks": [0, 1], "root": None, "weights": None, "forwarders": []}
    assert said(lambda: read_manifest(manifest(collective=values | changes))) == text


def test_ranks_are_nodes_of_the_fabric(tmp_path: Path) -> None:
    content = dump_plan(PLAN)
    with zipfile.ZipFile(io.BytesIO(content)) as whole:
        members = [(name, whole.read(name)) for name in whole.namelist()]
    values = json.loads(members[0][1])
    values["collective"] |= {"ranks": [0, 1, 2], "forwarders": [3, 4]}
    members[0] = ("manifest.json", json.dumps(values).encode())
    assert said(lambda: read_plan(archive(*members), 2**30)) == (
        "collective: 3 ranks and 2 forwarders, the fabric has 4 nodes"
    )


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([], 1),
        ([-128, 127], 1),
        ([128], 2),
        ([-129], 2),
        ([-(2**15), 2**15 - 1], 2),
        ([2**15], 4),
        ([2**31 - 1, -(2**31)], 4),
        ([2**31], 8),
        ([-(2**31) - 1], 8),
    ],
)
def test_arrays_are_as_narrow_as_they_can_be(values: list[int], width: int) -> None:
    data = to_npy(np.array(values, dtype=np.int64))
    stored = np.load(io.BytesIO(data))
    assert (stored.dtype.str, stored.tolist()) == (f"{'|' if width == 1 else '<'}i{width}", values)
    back = reader(("a.npy", data)).array("a.npy", np.int64)
    assert (back.tolist(), back.dtype, back.flags.writeable) == (values, np.int64, False)


def test_members() -> None:
    table = to_npy(np.array([[1, 2, 3], [4, 5, 300]]))
    found = reader(("a.npy", table), ("b/c.txt", "é".encode()), ("d.npy", to_npy(np.arange(4))))
    assert found.n_members == 3
    assert found.shapes() == {"a.npy": (2, 3), "d.npy": (4,)}
    assert found.string("b/c.txt") == "é"
    assert found.string("b/c.txt", 2) == "é"
    assert found.array("a.npy", np.int16, n_dimensions=2, most=6).tolist() == [[1, 2, 3], [4, 5, 300]]
    found.check_names({"a.npy", "b/c.txt", "d.npy"})
    for call, text in (
        (lambda: found.string("b/c.txt", 1), "member b/c.txt: 2 bytes, expected at most 1"),
        (lambda: found.string("x"), "member x is missing; expected a plan file"),
        (lambda: found.check_names({"a.npy", "y", "x"}), "member x is missing"),
        (lambda: found.check_names({"a.npy", "d.npy"}), "member 'b/c.txt' does not belong in a plan"),
        (
            lambda: found.array("a.npy", np.int16),
            "member a.npy: shape (2, 3) has the wrong number of dimensions",
        ),
        (
            lambda: found.array("a.npy", np.int16, n_dimensions=2, most=5),
            "member a.npy: 6 values, expected at most 5",
        ),
        (lambda: found.array("a.npy", np.int8, n_dimensions=2), "member a.npy: a value out of range"),
        (lambda: found.array("b/c.txt", np.int8), "member b/c.txt: not an .npy of version 1.0"),
        (
            lambda: reader(("a.npy", table + b"x")).shapes(),
            f"member a.npy: {len(table) + 1} bytes do not hold shape (2, 3) of int16",
        ),
        (
            lambda: reader(("a.npy", table.replace(b"<i2", b"<f2"))).shapes(),
            "member a.npy: header is not of plain little-endian integers",
        ),
    ):
        assert said(call) == text


def test_what_is_charged_for_texts() -> None:
    """2 bytes for each of a text, and 3 more where some character is not ASCII, beside the fixed 2**25."""
    for text, each in (("abcd", 2), ("abé", 5)):
        fitting = reader(("t", text.encode()), granted=2**25 + 4 * each)
        assert fitting.string("t") == text
        short = reader(("t", text.encode()), granted=2**25 + 4 * each - 1)
        said(lambda short=short: short.string("t"), MemoryLimitError)


def test_budgets_are_spent_to_the_last_byte() -> None:
    spent = MemoryBudget(2**30)
    spent.charge(2**30 - 2**25)
    assert said(lambda: spent.charge(1), MemoryLimitError) == (
        "may take 1GB of memory or more to be read and verified, 1GB are granted; if that is what you expect "
        "of it, grant more (--max-memory 2GB; in Python max_memory_bytes=2 * 2**30)"
    )
    assert budget.declares_too_much(1040 * 7 + 2**12 + 1, 7)
    assert not budget.declares_too_much(1040 * 7 + 2**12, 7)


def test_state_of_steps_is_counted_by_the_width_of_masks() -> None:
    """Two masks of a bit for each chunk, in whole bytes up to 32 chunks, for each node and shard."""
    for chunks, width in ((1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (32, 4), (33, 8), (10**6, 8)):
        assert budget.state_bytes(3, 5, chunks, 10**9) == 2 * width * 15
    assert budget.state_bytes(2**13, 2**14, 1, 7) == 2**28
    assert budget.state_bytes(2**13, 2**14 + 1, 1, 7) == 2**28 + 24 * 7
    assert budget.pair_bytes(7) == 110 * 49


def test_rising_routes_and_ways_are_numbered() -> None:
    chunks = [{"n_chunks": 1}]
    numbers: dict[str, Any] = {"ways": [1], "operations": [1], "fresh": [0], "rising": [2, 0]}
    given = read_manifest(manifest(steps=chunks * 2, routes=chunks * 3, **numbers))
    assert optional_names(given) == {
        *(f"routes/{number}/hop_layer.npy" for number in (0, 2)),
        "steps/0/fresh.npy",
        *(f"steps/1/{key}.npy" for key in ("twins", "way_kinds", "way_length", "way_links")),
    }
    for wrong in ([3], [-1], [1, 1]):
        for key in numbers:
            other = {"steps": chunks * 3, "routes": chunks * 3, key: wrong}
            assert said(lambda other=other: read_manifest(manifest(**other))) == (
                f"{key}: expected numbers from 0 to 2, each once"
            )
