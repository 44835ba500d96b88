"""Texts of every format with something changed: the same fabric where that means nothing, else one line."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from samples.readers.reader_texts import TEXTS
from treadle.errors import FormatError
from treadle.planning import import_options
from treadle.topologies import Topology
from treadle.topologies.readers.imported import ImportOptions, SourceFile
from treadle.topologies.readers.reader import HEAD_CHARACTERS, read_topology, topology_formats

MUTANTS = 80
_PIECES = (
    "",
    " ",
    "\n",
    "\t",
    "0",
    "9",
    "-1",
    "1e9",
    "nan",
    "99999999999999999999",
    '"',
    "'",
    "[",
    "]",
    "{",
    "}",
)
_PIECES += ("<", ">", "&a;", ":", ",", "=", "#", "\0", "\x7f", "é", "\u2028", "*", "&x ", "null", "..")
HOSTILE = ("", "\n", "{}", "[]", "---\n", "<a/>", "\0", "\ud800", "a" * 5000, "[" * 3000, "{" * 3000)
HOSTILE += ("- " * 3000, "<a>" * 3000, '{"a": ' * 500, "a: &x [1]\nb: *x\n", "? [a]\n: b\n", "%YAML 9\n---\n")
HOSTILE += ("!!python/object:x {}\n",)
RECORDS = {record.name: record for record in topology_formats()}


def options_of(name: str) -> ImportOptions:
    keywords: Any = dict(TEXTS[name][1])
    return import_options(**keywords)


def read(name: str, text: str) -> Topology:
    return RECORDS[name].imported(SourceFile(text, "fabric"), options_of(name)).topology


def mutant(text: str, draw: random.Random) -> str:
    """A text with one piece put in, left out, exchanged or repeated."""
    kind = draw.randrange(6)
    a, b = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    lines = text.splitlines(keepends=True)
    k = draw.randrange(len(lines))
    if kind == 0:
        return text[:a] + draw.choice(_PIECES) + text[a:]
    if kind == 1:
        return text[:a] + draw.choice(_PIECES) + text[a + draw.randrange(1, 4) :]
    if kind == 2:
        return text[:a] + text[min(b, a + 40) :]
    if kind == 3:
        return "".join(lines[:k] + lines[k : k + 1] * 2 + lines[k + 1 :])
    if kind == 4:
        return "".join(lines[:k] + lines[k + 1 :])
    return text[:a]


@pytest.mark.parametrize("name", TEXTS)
def test_mutants_are_read_or_refused_in_one_line(name: str) -> None:
    text = TEXTS[name][0]
    draw = random.Random(f"mutants of {name}")
    refused = 0
    for _ in range(MUTANTS):
        changed = mutant(text, draw)
        try:
            found = read(name, changed)
        except FormatError as error:
            refused += 1
            message = str(error)
            assert "\n" not in message, changed
            assert len(message) < 400, changed
            assert message.startswith("fabric") or message.startswith("--"), changed
        else:
            assert isinstance(found, Topology)
    assert refused > MUTANTS // 4


@pytest.mark.parametrize("name", TEXTS)
def test_changes_that_mean_nothing(name: str) -> None:
    text = TEXTS[name][0]
    expected = read(name, text)
    for same in (text + "\n", text.replace("\n", "\r\n"), text.rstrip(), text + " \n \n"):
        assert read(name, same) == expected


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_told_by_one_record_only(name: str, tmp_path: Path) -> None:
    text = TEXTS[name][0]
    telling = [
        record.name
        for record in topology_formats()
        if record.detect and record.detect(text[:HEAD_CHARACTERS])
    ]
    assert telling == [name]
    path = tmp_path / "fabric"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_topology(path, options=options_of(name)).format == name


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_refused_in_one_line(name: str, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(name, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_names_with_control_characters_are_refused(name: str) -> None:
    """What a terminal would obey never gets into a fabric; where the text has no free names, it stays."""
    text = TEXTS[name][0]
    for old in ("node-", "xpu", "tux[0-3]", "NDv2_1MB", "n0-0 mlx5_0", "Switch"):
        if old in text:
            with pytest.raises(FormatError):
                read(name, text.replace(old, "\x1b[2J" + old))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slurm", "SwitchName=s Nodes=" + "a," * 100_000 + "b"),
        ("slurm", "SwitchName=s Nodes=" + "a[1-60000]b[1-60000]"),
        ("slurm", "".join(f"SwitchName=s{k} Nodes=n{k}\n" for k in range(40_000))),
        ("edge-list", "a b 1B/s\n" * 270_000),
        ("csv-matrix", "\n".join(["0," * 600] * 3)),
        ("simgrid", "<platform>" + "<cluster/>" * 210_000 + "</platform>"),
        ("astra-sim", "topology: [Ring]\nnpus_count: [99999]\nbandwidth: [1]\nlatency: [1]\n"),
        ("graphml", "<graphml>" + "<key/>" * 210_000 + "</graphml>"),
    ],
)
def test_fabrics_beyond_all_measure_are_refused_before_they_are_made(name: str, text: str) -> None:
    """Whatever a short text names, no more of it is made than is read of any file."""
    with pytest.raises(FormatError, match=r"at most|more than|the most|from 1 to 65536"):
        read(name, text)


def test_every_format_that_is_read_has_a_text_here() -> None:
    rooms = ("clusters", "graphs")
    ours = {record.name for record in topology_formats() if record.read.split(".")[3] in rooms}
    assert ours == set(TEXTS)
