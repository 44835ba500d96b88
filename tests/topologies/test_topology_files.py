import copy
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.topologies import (
    Topology,
    dgx_a100,
    dgx_h100,
    dump_topology,
    files,
    load_topology,
    ring,
    save_topology,
    topology_from_json,
    topology_hash,
    with_failed_nodes,
)
from treadle.topologies.files import parse_topology_file

EXAMPLE = """{"treadle": "topology", "version": 1, "name": "example",
 "nodes": [{"name": "gpu0", "kind": "compute", "injection_bytes_per_s": 5},
           {"name": "sw0", "kind": "switch", "multicast": true, "aggregation": false,
            "extensions": {"rack": 3}}],
 "links": [{"tail": "gpu0", "head": "sw0", "bandwidth_bytes_per_s": 25000000000, "latency_ns": 0},
           {"tail": "gpu0", "head": "sw0", "bandwidth_bytes_per_s": 1, "latency_ns": 700, "extensions": {}}],
 "extensions": {"site": {"row": [1, 2]}}}
"""


@st.composite
def topologies(draw):
    n = draw(st.integers(1, 6))
    letters = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])
    names = draw(st.lists(st.text(letters, min_size=1), min_size=n, max_size=n, unique=True))
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    tails, heads = [e[0] for e in ends], [e[1] for e in ends]
    linked = set(tails) | set(heads)
    compute = [v not in linked or draw(st.booleans()) for v in range(n)]
    capable = [not c and draw(st.booleans()) for c in compute]
    sums = [not c and draw(st.booleans()) for c in compute]
    m = len(ends)
    return Topology(
        name=draw(st.text(letters)),
        node_names=tuple(names),
        is_compute=np.array(compute),
        tails=np.array(tails),
        heads=np.array(heads),
        bandwidths=np.array(draw(st.lists(st.integers(1, 2**50), min_size=m, max_size=m))),
        latencies_ns=np.array(draw(st.lists(st.integers(0, 2**62), min_size=m, max_size=m))),
        multicast=np.array(capable),
        aggregation=np.array(sums),
        turns_round=np.array([(a or b) and draw(st.booleans()) for a, b in zip(capable, sums, strict=True)]),
        injection_bytes_per_s=np.array([draw(st.integers(0, 2**50)) if c else 0 for c in compute]),
    )


@settings(derandomize=True, deadline=None, max_examples=28)
@given(topologies())
def test_text_round_trip(topology):
    text = dump_topology(topology)
    back = topology_from_json(parse_json(text))
    assert back == topology
    assert back.name == topology.name
    assert dump_topology(back) == text
    assert parse_topology_file(text) == topology


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bandwidth_bytes_per_s": 1}', '"bandwidth_bytes_per_s": 01}'),
        ('"bandwidth_bytes_per_s": 1}', '"bandwidth_bytes_per_s": 0}'),
        ('"bandwidth_bytes_per_s": 1}', '"bandwidth_bytes_per_s": 1, "latency_ns": 9223372036854775808}'),
        ('"tail": "n0"', '"tail": "n9"'),
        ('"name": "n1"', '"name": "n0"'),
        ('"name": "n1"', '"name": ""'),
        ('"name": "n1"', '"name": "n\u20281"'),
        ('{"tail": "n0"', '{"tail": "n0", "tail": "n0"'),
        ("},\n", "}\n"),
        ("]}\n", "]}}\n"),
        ("]}\n", "\n"),
        ('"version": 1', '"version": 2'),
    ],
)
def test_nearly_canonical_texts_are_refused(old, new):
    text = dump_topology(ring(3))
    assert old in text
    with pytest.raises(FormatError):
        parse_topology_file(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bandwidth_bytes_per_s": 1}', '"bandwidth_bytes_per_s": 1, "latency_ns": 0}'),
        ("},\n  ", "}, "),
        ('"name": "n1"', '"name": "n\\u0031"'),
        ('{"name": "n1", "kind": "compute"}', '{"kind": "compute", "name": "n1"}'),
        ("]}\n", "]} \n"),
    ],
)
def test_other_spellings_are_the_same_fabric(old, new):
    text = dump_topology(ring(3))
    assert old in text
    assert parse_topology_file(text.replace(old, new, 1)) == ring(3)


def test_optional_keys_and_extensions():
    topology = topology_from_json(parse_json(EXAMPLE))
    assert topology.injection_bytes_per_s.tolist() == [5, 0]
    assert topology.multicast.tolist() == [False, True]
    # a switch works for the ranks that ask unless its file says more
    assert topology.turns_round.tolist() == [False, False]
    assert topology.latencies_ns.tolist() == [0, 700]
    assert topology.n_links == 2
    assert "extensions" not in dump_topology(topology)


def test_hash_follows_content_not_name():
    one = dgx_a100(2)
    assert topology_hash(one) == topology_hash(with_failed_nodes(one))
    assert topology_hash(one) != topology_hash(dgx_a100(2, nic_bandwidth=24 * 10**9))
    assert topology_hash(dgx_h100(1)) != topology_hash(dgx_h100(1, nvls=True))
    by_itself = dgx_h100(2, sharp=True)
    for_askers = replace(by_itself, turns_round=by_itself.turns_round & False)
    assert topology_hash(by_itself) != topology_hash(for_askers)
    assert by_itself != for_askers
    assert len(topology_hash(one)) == 64


def test_canonical_text_of_a_small_fabric():
    assert dump_topology(ring(2)) == (
        '{"treadle": "topology", "version": 1, "name": "ring(2)",\n'
        ' "nodes": [\n  {"name": "n0", "kind": "compute"},\n  {"name": "n1", "kind": "compute"}\n ],\n'
        ' "links": [\n  {"tail": "n0", "head": "n1", "bandwidth_bytes_per_s": 1},\n'
        '  {"tail": "n1", "head": "n0", "bandwidth_bytes_per_s": 1}\n ]}\n'
    )


def _changed(path, value):
    document = copy.deepcopy(json.loads(EXAMPLE))
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is _changed:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["colour"], 1, 'unknown key "colour"; known are extensions, links, name, nodes, treadle, version'),
        (["nodes", 0, "port"], 1, r'nodes\[0\]: unknown key "port"'),
        (["links", 1, "speed"], 1, r'links\[1\]: unknown key "speed"'),
        (["treadle"], "plan", 'expected "topology", found "plan"'),
        (["version"], 3, "version: expected 1, found 3"),
        (["version"], True, "version: expected an integer, found true"),
        (["version"], 1.0, "version: expected an integer, found 1.0"),
        (["version"], _changed, "key 'version' is missing"),
        (["name"], 7, "name: expected a string, found 7"),
        (["nodes"], {}, "nodes: expected a list, found an object"),
        (["nodes", 0], [], r"nodes\[0\]: expected an object, found a list"),
        (["nodes", 0, "name"], "\ud800", "lone surrogate"),
        (["name"], "two\u2028lines", r"name 'two\\u2028lines': expected one line"),
        (["nodes", 0, "kind"], "gpu", 'expected "compute" or "switch", found "gpu"'),
        (["nodes", 0, "kind"], ["compute"], "found a list"),
        (["nodes", 0, "multicast"], True, "only switches multicast"),
        (["nodes", 1, "turns_round"], "yes", r"nodes\[1\].turns_round: expected true or false, found .yes"),
        (["nodes", 0, "turns_round"], True, "'gpu0': turns_round needs multicast or aggregation"),
        (["nodes", 1, "multicast"], 1, r"nodes\[1\].multicast: expected true or false, found 1"),
        (["nodes", 1, "injection_bytes_per_s"], 4, "is a switch"),
        (["nodes", 0, "injection_bytes_per_s"], 2**63, "expected 1 to"),
        (["nodes", 0, "extensions"], 3, "extensions: expected an object, found 3"),
        (["links"], [], "has no link"),
        (["links", 0, "tail"], "gpu9", r'links\[0\].tail: no node is called "gpu9"'),
        (["links", 0, "head"], 0, r"links\[0\].head: expected a string"),
        (["links", 0, "bandwidth_bytes_per_s"], 0, "expected 1 to 1125899906842624, found 0"),
        (["links", 0, "bandwidth_bytes_per_s"], -5, "found -5"),
        (["links", 0, "bandwidth_bytes_per_s"], 2**63, "expected 1 to"),
        (["links", 0, "bandwidth_bytes_per_s"], 2.5e10, "expected an integer, found 25000000000.0"),
        (["links", 0, "bandwidth_bytes_per_s"], "25GB/s", "expected an integer, found .25GB/s"),
        (["links", 0, "bandwidth_bytes_per_s"], True, "expected an integer, found true"),
        (["links", 0, "bandwidth_bytes_per_s"], None, "expected an integer, found null"),
        (["links", 0, "bandwidth_bytes_per_s"], _changed, "'bandwidth_bytes_per_s' is missing"),
        (["links", 1, "latency_ns"], -1, "latency_ns: expected 0 to"),
        (["links", 1, "latency_ns"], 0.5, "expected an integer"),
    ],
)
def test_wrong_values_name_their_place(path, value, message, tmp_path):
    file = tmp_path / "f.json"
    file.write_text(_changed(path, value))
    with pytest.raises(FormatError, match=message) as caught:
        load_topology(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "node name '': expected a non-empty string"),
        ("sw0", "node 'sw0' is named twice"),
        ("two\nlines", "expected one line without control"),
        ("\x1b[31mred", "expected one line without control"),
    ],
)
def test_names_of_nodes_are_distinct_lines(name, message):
    with pytest.raises(FormatError, match=message):
        parse_topology_file(EXAMPLE.replace('"gpu0"', json.dumps(name)))


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"", "malformed JSON", 1),
        (EXAMPLE.encode()[:200], "malformed JSON", 3),
        (EXAMPLE.encode()[:-3], "malformed JSON", 7),
        (EXAMPLE.replace("5}", "5,}").encode(), "malformed JSON", 2),
        (EXAMPLE.encode() + b"{}", "malformed JSON: Extra data", 8),
        (EXAMPLE.replace("sw0", "sw\xff").encode("latin-1"), "byte 0xff is not valid UTF-8", 3),
        (b"[" * 200000, "nested too deeply|malformed JSON", None),
        (b'{"a":' * 200000, "nested too deeply|malformed JSON", None),
        (EXAMPLE.replace("700", "NaN").encode(), "NaN is not a JSON number", None),
        (EXAMPLE.replace("700", "-Infinity").encode(), "-Infinity is not a JSON number", None),
        (EXAMPLE.replace("700", "1e999").encode(), "latency_ns: expected an integer", None),
        (EXAMPLE.replace("700", "9" * 5000).encode(), "integer of 5000 digits", None),
        (EXAMPLE.replace("latency_ns", "tail").encode(), "appears twice", None),
        (b"[]", "expected an object, found a list", None),
        (b"null", "expected an object, found null", None),
        (b'"\\ud800"', "a lone surrogate is not text", None),
    ],
)
def test_malformed_files(data, message, line, tmp_path):
    file = tmp_path / "f.json"
    file.write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        load_topology(file)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_every_truncation_is_refused(tmp_path):
    file = tmp_path / "f.json"
    whole = dump_topology(ring(3)).encode()
    for length in range(len(whole) - 1):  # the last byte is a newline
        file.write_bytes(whole[:length])
        with pytest.raises(FormatError, match="malformed JSON"):
            load_topology(file)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    for path in (tmp_path, tmp_path / "absent", "x" * 5000, "a\0b", "/dev/zero"):
        with pytest.raises(FormatError, match=r"not a file that exists|cannot be read"):
            load_topology(path)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100)
    save_topology(tmp_path / "large.json", ring(9))
    with pytest.raises(FormatError, match="larger than 100 bytes"):
        load_topology(tmp_path / "large.json")


def test_written_files_appear_whole(tmp_path, monkeypatch):
    target = tmp_path / "f.json"
    save_topology(target, ring(3))
    assert load_topology(target) == ring(3)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FormatError, match="cannot be written: No space left"):
        save_topology(target, ring(4))
    assert load_topology(target) == ring(3)
    assert os.listdir(tmp_path) == ["f.json"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(derandomize=True, deadline=None, max_examples=52)
@given(JSON, st.sampled_from([*json.loads(EXAMPLE), "nodes.0", "nodes.1.kind", "links.0", "links.1.tail"]))
def test_any_json_in_any_place_is_a_fabric_or_a_one_line_error(value, where):
    document = json.loads(EXAMPLE)
    place = document
    *parents, last = (int(key) if key.isdigit() else key for key in where.split("."))
    for key in parents:
        place = place[key]
    place[last] = value
    try:
        message = topology_from_json(document).name
    except FormatError as error:
        message = str(error)
        assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"\xff", (1, 1)), (b"\n\xff", (2, 1)), (b"{\n\n  \xff\xff", (3, 3)), (b"ab\xff\n", (1, 3))],
)
def test_bytes_that_are_no_text_have_a_place(data: bytes, place: tuple[int, int], tmp_path) -> None:
    file = tmp_path / "f.json"
    file.write_bytes(data)
    with pytest.raises(FormatError, match="byte 0xff is not valid UTF-8") as caught:
        load_topology(file)
    assert (caught.value.line, caught.value.column) == place
