import inspect

import pytest

from treadle.errors import FormatError, TreadleError
from treadle.topologies import (
    catalogue,
    catalogue_entries,
    parse,
)


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
