import inspect

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.topologies import (
    catalogue,
    catalogue_entries,
    dgx1_v100,
    dgx_a100,
    mi250,
    parse,
    ring,
    save_topology,
    subset,
    torus,
    trimmed,
    with_failed_links,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dgx_a100(2)", dgx_a100(2)),
        ("dgx_a100:2", dgx_a100(2)),
        ("dgx-a100:2", dgx_a100(2)),
        (" dgx-a100 ( 2 ) ", dgx_a100(2)),
        ("dgx_a100(boxes=2, pcie=True)", dgx_a100(2, pcie=True)),
        ("dgx_a100:2,pcie=True", dgx_a100(2, pcie=True)),
        ("torus(3,3,2)", torus(3, 3, 2)),
        ("torus:3,3,2", torus(3, 3, 2)),
        ("mi250(2, gpus_per_box=8)", mi250(2, 8)),
        ("dgx1_v100", dgx1_v100()),
        ("dgx1-v100()", dgx1_v100()),
        ('ring(4, bandwidth="25GB/s", latency="1.5us")', ring(4, bandwidth=25 * 10**9, latency=1500)),
        ("ring(4, bandwidth='2B/s')", ring(4, bandwidth=2)),
        (
            'with_failed_links(dgx-a100(2), "box0.nic1--ib1")',
            with_failed_links(dgx_a100(2), "box0.nic1--ib1"),
        ),
        ('trimmed:subset(mi250(2), "0-7", 20)', trimmed(subset(mi250(2), "0-7", 20))),
    ],
)
def test_good_expressions(text, expected):
    assert parse(text) == expected


def test_the_name_is_the_expression_in_one_spelling():
    assert parse(" torus( 3,3 ,2)").name == "torus(3, 3, 2)"
    assert parse("dgx-a100:2").name == "dgx_a100(2)"
    assert parse("dgx_h100:1,nvls=true").name == "dgx_h100(1, nvls=True)"
    assert parse("dgx_h100(2, sharp=false)").name == "dgx_h100(2, sharp=False)"
    nested = parse('subset( mi250:2 ,"0-7")'.replace("mi250:2", "mi250(2)"))
    assert parse(nested.name) == nested


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("__import__('os')", 1, "no catalogue function is called '__import__'"),
        ("eval('1')", 1, "no catalogue function"),
        ("ring(4).__class__", 1, "expected a catalogue call"),
        ("ring(__import__('os').system('x'))", 6, "expected a catalogue call"),
        ("ring(open('x'))", 6, "no catalogue function is called 'open'"),
        ("ring(lambda: 4)", 6, "expected an integer"),
        ("ring([4][0])", 6, "expected an integer"),
        ("torus(10**9)", 7, "expected an integer"),
        ("torus(*[3, 3])", 7, "expected an integer"),
        ("ring(**{'n': 4})", 8, "is not allowed"),
        ("ring(4, n=5)", 1, "multiple values"),
        ("ring(n=4, n=5)", 13, "given twice"),
        ("ring(2.5)", 6, "expected an integer"),
        ("ring(None)", 6, "expected an integer"),
        ("ring(b'4')", 6, "expected an integer"),
        ("ring(f'4')", 6, "expected an integer"),
        ("ring(True)", 1, "n must be an integer, found True"),
        ("ring('4')", 1, "n must be an integer, found a quoted string"),
        ("dgx_a100(2, pcie=1)", 1, "pcie must be True or False"),
        ("subset(4)", 1, "topology must be a fabric"),
        ("ring(ring(4))", 1, "n must be an integer, found a fabric"),
        ("torus:4x", 7, r"'4x' lacks a number beside its x; expected one on both sides, as in 4x4"),
        ("torus:4x4x", 7, "'4x4x' lacks a number"),
        ("torus:4q", 7, "a number and a word run together"),
        ("mi300x", 1, r"mi300x lacks boxes, as in mi300x:2; expected mi300x\(boxes"),
        ("kautz:2", 1, r"kautz lacks n; expected kautz\(d, n"),
        ("ring()", 1, r"ring lacks n, as in ring:2; expected ring\(n"),
        ("ring:", 1, "ring lacks n"),
        ("dgx_a10(2)", 1, "did you mean dgx_a100"),
        ("subset(dgx-a10(2), 0)", 8, "did you mean dgx_a100"),
        ("mi250(2, gpus=8)", 15, r"no keyword 'gpus'; expected mi250\(boxes, gpus_per_box=16"),
        ("torus(3, dims=3)", 15, "no keyword 'dims'"),
        ("ring(4, bandwidth=3)", 19, 'write for instance bandwidth="25GB/s"'),
        ("ring(4, latency=3)", 17, 'write for instance latency="10us"'),
        ("ring(4, bandwidth='3')", 19, "has no unit"),
        ("ring(4, bandwidth='3 parsecs')", 19, "unknown unit 'parsecs'"),
        ("ring(4, latency='9999999999999h')", 17, "too large"),
        ("ring(0x" + "f" * 2000 + ")", 6, "integer is too large"),
        ("ring(" + "9" * 4050 + ")", 6, "integer is too large"),
        ("ring(", 5, "was never closed"),
        ("ring(4", 5, "was never closed"),
        ("ring(4))", 8, "unmatched"),
        ("  ring(4, %)", 11, "invalid syntax"),
        ("ring(4) ring(4)", 9, "invalid syntax"),
        ("subset(" * 15 + "ring(4)" + ")" * 15 + "+1", 1, "expected a catalogue call"),
        ("subset('ключ', oops(4))", 16, "no catalogue function is called 'oops'"),
    ],
)
def test_bad_expressions_point_at_the_column(text, column, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse(text)
    assert caught.value.column == column
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ring(" * 600 + "4" + ")" * 600, "nested more than 16 deep"),
        ("ring(" + "(" * 4000, "nested more than 16 deep"),
        ("ring(" * 5000, "at most 4096"),
        ("torus:" + "2," * 5000, "at most 4096"),
        ("", "found nothing"),
        ("   ", "found nothing"),
        ("(" * 5000, "neither a file nor a catalogue name"),
        ("x" * 100000, "neither a file nor a catalogue name"),
        ("dgx_a10:2", "did you mean dgx_a100"),
        ("no/such/file.json", "neither a file"),
        ("\0", "neither a file"),
        ("ring\0(4)", "neither a file"),
        ("ring(4\0)", "not an expression|null bytes"),
        (".", "this is a folder"),
    ],
)
def test_other_bad_texts_are_one_line_errors(text, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "hypercube(60)",
        "hypercube:9223372036854775807",
        "torus(1000000000)",
        "torus(1000, 1000, 1000)",
        "ring(-4)",
    ],
)
def test_huge_fabrics_are_refused_before_they_are_built(text):
    with pytest.raises(TopologyError, match=r"at most|at least"):
        parse(text)


def needs_arguments(name):
    parameters = inspect.signature(catalogue()[name]).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL or (p.default is p.empty) for p in parameters)


@pytest.mark.parametrize("name", [name for name in catalogue() if needs_arguments(name)])
def test_a_bare_name_without_its_arguments_is_an_error_with_the_signature(name):
    with pytest.raises(TreadleError, match=rf"{name}(:| lacks) .*(expected {name}\(|must be at least [12])"):
        parse(name)


def test_entries_describe_the_catalogue():
    entries = catalogue_entries()
    assert [entry.name for entry in entries] == list(catalogue())
    by_name = {entry.name: entry for entry in entries}
    assert by_name["ring"].signature == 'ring(n, *, bidirectional=True, bandwidth="1B/s", latency="0ns")'
    assert by_name["torus"].signature == 'torus(*dims, bandwidth="1B/s", latency="0ns")'
    assert by_name["mi250"].group == "platforms"
    assert all(entry.summary.endswith(".") for entry in entries)


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        catalogue()["ring"] = torus


def test_paths_are_read_and_catalogue_names_win(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_topology("fabric.json", ring(5))
    save_topology("ring", ring(6))
    save_topology("torus(2).json", ring(7))
    assert parse("fabric.json") == ring(5)
    assert parse("./ring") == ring(6)
    assert parse("ring:4") == ring(4)
    assert parse("./torus(2).json") == ring(7)
    assert parse("ring", format="json") == ring(6)
    with pytest.raises(FormatError, match=r"Expected one of .*json"):
        parse("ring", format="yaml")


WORDS = [
    "ring",
    "torus",
    "subset",
    "dgx-a100",
    "trimmed",
    "bandwidth=",
    "n=",
    "True",
    "None",
    "__import__",
    "lambda",
]
MARKS = [
    *"()[]{}:;,.*=-+'\"\\ \n\t#@\0é9",
    "1if 0",
    "**",
    "->",
    "--",
    "0x1",
    "1e9",
    "'25GB/s'",
    "f''",
    "\ud800",
]


@settings(derandomize=True, deadline=None, max_examples=140)
@given(st.lists(st.sampled_from(WORDS + MARKS), max_size=12).map("".join))
@example("ring(4 if 1else 5)")
@example("ring('\\d')")
@example("ring('\\N{oops}')")
@example("subset(ring(4),\n1,\n oops)")
@example("ring(4,\r bandwidth='é')")
def test_no_text_does_anything_but_a_fabric_or_a_one_line_error(text):
    try:
        result = parse(text)
    except TreadleError as error:
        message = str(error)
    else:
        message = result.name
    assert "\n" not in message
