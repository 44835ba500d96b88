"""Typed files: places, words, known keys, repeated keys and what no reader may let pass."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from treadle.errors import FormatError
from treadle.typed_files import Table, read_json, read_toml, read_value


class Row(Table, frozen=True):
    name: str
    kind: Literal["a", "b", "c"] = "a"
    size: Annotated[int, Meta(ge=1, le=9)] | None = None
    share: Annotated[float, Meta(description="a share")] = 0.5


class File(Table, frozen=True):
    rows: list[Row]
    named: Annotated[dict[str, tuple[Row, ...]], Meta(max_length=2)] | None = None

    def __post_init__(self) -> None:
        if len(self.rows) > 2:
            raise FormatError("rows: at most 2 fit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rows": [{"name": 3}]}', "f: rows[0].name: expected a string, found 3"),
        ('{"rows": {}}', "f: rows: expected a list, found an object"),
        ('{"rows": [{}]}', "f: rows[0]: key 'name' is missing"),
        ('{"rows": [{"name": "x", "nam": 1}]}', 'f: rows[0]: unknown key "nam"; known are kind, name, share, '
         "size"),
        ('{"rows": [{"name": "x", "kind": "d"}]}', 'f: rows[0].kind: expected "a", "b" or "c", found "d"'),
        ('{"rows": [{"name": "x", "size": 10}]}', "f: rows[0].size: expected 1 to 9, found 10"),
        ('{"rows": [{"name": "x", "size": true}]}', "f: rows[0].size: expected an integer, found true"),
        ('{"rows": [{"name": "x", "share": []}]}', "f: rows[0].share: expected a share, found a list"),
        ('{"rows": [], "named": {"u v": [], "w": [{"name": 1}]}}', 'f: named["w"][0].name: expected a'),
        (
            '{"rows": [], "named": {"a": [], "b": [], "c": []}}',
            "f: named: expected an object of length at most 2, found 3",
        ),
        ('{"rows": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}', "f: rows: at most 2 fit"),
        ('{"rows": [],\n "rows": []}', 'f: key "rows" appears twice in one object'),
        ('{"rows": [{"name": "x", "name": "x"}]}', 'f: key "name" appears twice in one object'),
        ('{"rows": [\n{"name": "x",}]}', "f:2:14: malformed JSON"),
        ('{"rows": [{"name": "\\ud800"}]}', "f: a lone surrogate is not text"),
        ('{"rows": [{"name": "x", "share": NaN}]}', "f: NaN is not a JSON number"),
        ("[" * 10**5, "f: malformed JSON: nested too deeply"),
        ("[]", "f: expected an object, found a list"),
    ],
)  # fmt: skip
def test_json_that_does_not_fit_its_type(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_json(text, File, source="f")
    assert str(caught.value).startswith(message)


def test_json_that_fits_its_type() -> None:
    plain = read_json('{"rows": [{"name": "x", "size": 3, "share": 1}]}', File)
    assert plain == File([Row("x", "a", 3, 1.0)])
    assert read_json('{"rows": [{"name": "\\u0078", "size": 3, "kind": "a", "share": 1e0}]}', File) == plain
    assert read_value(json.loads('{"rows": [], "named": {"é": [{"name": "\\""}]}}'), File).named == {
        "é": (Row('"'),)
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = []\nrows = []", "f: not TOML: Cannot overwrite a value"),
        ("rows = 1979-05-27", 'f: rows: expected a list, found "1979-05-27"'),
        ("rows = [3]", "f: rows[0]: expected a table, found 3"),
        ("a = " + "[" * 900, "f: not TOML"),
        ("#\n#" + "x" * 1000, "f: line 2 is longer than 1000 characters"),
    ],
)
def test_toml_that_does_not_fit_its_type(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_toml(text, File, source="f")
    assert str(caught.value).startswith(message)
