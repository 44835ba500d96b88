"""YAML of others: plain values as written, and nothing that refers, repeats or builds objects."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.imported import SourceFile
from treadle.topologies.readers.yaml_source import MAX_DEPTH, parse_yaml


def parsed(text: str) -> Any:
    return parse_yaml(SourceFile(text, "x.yml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: [1, 2.50]\nb: {c: no, d: 1:30}\n", {"a": ["1", "2.50"], "b": {"c": "no", "d": "1:30"}}),
        ("- \"a: b\"\n- 'x'\n-\n", ["a: b", "x", ""]),
        ("---\na: 0o17 # octal\n...\n", {"a": "0o17"}),
        ("text", "text"),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("a: !!str 5\n", {"a": "5"}),
    ],
)
def test_scalars_stay_as_they_are_written(text: str, value: Any) -> None:
    assert parsed(text) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yml:3:1: key 'a' appears twice in one mapping"),
        ("a: {b: 1, b: 2}\n", "x.yml:1:11: key 'b' appears twice in one mapping"),
        ("a: &x [1]\nb: 2\n", "x.yml:1:4: anchors and aliases are not read; write the value out"),
        ("a: &x 1\nb: *x\n", "x.yml:1:4: anchors and aliases are not read; write the value out"),
        ("b: *x\n", "x.yml:1:4: anchors and aliases are not read; write the value out"),
        ("<<: *x\n", "x.yml:1:5: anchors and aliases are not read; write the value out"),
        ("a: !mine 5\n", "x.yml:1:4: the tag '!mine' is not read"),
        ("a: 1\n---\nb: 2\n", "x.yml: expected one YAML document, found 2"),
        ("", "x.yml: expected one YAML document, found 0"),
        ("[a]: 1\n", "x.yml:1:1: expected a plain key"),
        ("a: \0\n", "x.yml: a null character is not text"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(text)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: !!python/object:os.system {}\n", "x.yml:1:4: the tag .*python.* is not read"),
        ("a: [1\n", r"x.yml:\d+:\d+: malformed YAML: "),
        ("a: 'x\n", r"x.yml:\d+:\d+: malformed YAML: "),
        ("a:\n\t- b\n", r"x.yml:\d+:\d+: malformed YAML: "),
    ],
)
def test_what_others_find_wrong_is_said_in_one_line(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("x.yml") == 1


def test_depth_is_bounded() -> None:
    assert parsed("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(FormatError, match=f"nested more than {MAX_DEPTH} deep"):
        parsed("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert parsed("\n".join(f"{' ' * k}a{k}:" for k in range(MAX_DEPTH)) + " 1\n")
