"""The table of formats that fabrics are read from: told by content, named, or refused with a remedy."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.planning import import_options, import_topology
from treadle.topologies import dump_topology, parse, ring
from treadle.topologies.readers.imported import ImportOptions
from treadle.topologies.readers.reader import read_topology, topology_formats


@pytest.mark.parametrize("record", topology_formats(), ids=lambda record: record.name)
def test_every_record_has_its_reader_and_knows_its_options(record) -> None:
    module, _, name = record.read.partition(":")
    assert callable(getattr(import_module(module), name))
    assert record.options <= set(ImportOptions.__dataclass_fields__)
    assert record.detect is not None or record.extensions


def test_names_are_told_apart() -> None:
    names = [record.name for record in topology_formats()]
    assert len(names) == len(set(names))


def test_treadles_json_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "fabric.txt"
    path.write_text("\ufeff" + dump_topology(ring(3)))
    found = read_topology(path)
    assert (found.format, found.topology) == ("json", ring(3))
    assert parse(str(path), format="json") == ring(3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("what is this", "is of no known format; name one by --format: "),
        ('{"nodes": []}', "key "),
        ("{", "malformed JSON"),
        ("", "this file is empty"),
        ("PK\x03\x04", "this is a plan, not a topology"),
    ],
)
def test_a_text_of_no_format_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "fabric.dat"
    path.write_text(text)
    with pytest.raises(FormatError, match=says):
        read_topology(path)


def test_an_option_that_means_nothing_to_a_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(dump_topology(ring(3)))
    with pytest.raises(FormatError, match="--gpu means nothing to json"):
        import_topology(path, gpu="h100")
    with pytest.raises(FormatError, match="--boxes is for files; 'ring:3' is of the catalogue"):
        parse("ring:3", options=import_options(boxes=2))


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"links": "fast"}, "--links 'fast': expected nominal or library"),
        ({"boxes": 0}, "--boxes: expected at least 1, found 0"),
        ({"pcie": ""}, "--pcie '': expected near or full"),
    ],
)
def test_options_are_checked(keywords, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        import_options(**keywords)


def test_an_unknown_format_names_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"unknown format .jsn.; did you mean json\? Expected .*json"):
        read_topology(tmp_path / "x", format="jsn")
