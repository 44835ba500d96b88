"""What annotations allow, how refusals show a value, key figures of values, and names like others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Unpack

import numpy as np
import pytest

from treadle.brief import MOST_CHARACTERS, brief, format_field
from treadle.checking import checked, describe_type, is_of, left_alone, unexpected
from treadle.errors import TreadleError
from treadle.spelling import close_names, counted, did_you_mean, folded, similarly_spelt, unknown


class Colour(StrEnum):
    """Text that is none, for a parameter of text."""

    RED = "red"


Kind = TypeVar("Kind")


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (int, [3, np.int32(3)], [True, 3.0, "3", None, np.float64(3)]),
        (float, [3, 3.5, Fraction(1, 2), np.int64(1), np.float32(1)], [True, "1", None, 1j]),
        (bool, [True, np.bool_(False)], [0, 1, None]),
        (str, ["x", ""], [b"x", 1, Colour.RED]),
        (Colour, [Colour.RED], ["red"]),
        (None, [None], [0, ""]),
        (type(None), [None], [0, ""]),
        (Any, [None, 1], []),
        (object, [None, 1], []),
        (Kind, [None, 1], []),
        (int | None, [3, None], ["x", 3.5]),
        (Annotated[int, "words"], [3], ["x"]),
        (Literal["a", 3], ["a", 3], ["b", 4, None]),
        (tuple[int, str], [(1, "x")], [(1,), (1, 2), ("x", 1), [1, "x"], (1, "x", 2)]),
        (tuple[int, ...], [(), (1, 2, 3), [1]], [("x",), (1, "x"), "ab", 3]),
        (Sequence[int], [[], [1], (1, 2), np.array([1, 2])], ["1", b"1", ["x"], [1, "x"], 3, iter([1])]),
        (Iterable[int], [[1], iter(["not looked at"])], ["1", ["x"], 3]),
        (AbstractSet[int], [{1}, frozenset()], [{"x"}, 3]),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, {"a": 1, "b": None}, [("a", 1)], 3]),
        (Callable[[int], int], [len, int], [3, "len"]),
        (type[int], [int], [3]),
    ],
)
def test_what_annotations_allow(hint: Any, fitting: list[Any], others: list[Any]) -> None:
    assert [value for value in fitting if not is_of(value, hint)] == []
    assert [value for value in others if is_of(value, hint)] == []


def test_only_the_first_thousand_elements_are_looked_at() -> None:
    assert not is_of([*range(999), "x"], Sequence[int])
    assert is_of([*range(1000), "x"], Sequence[int])
    rows: dict[int, Any] = dict.fromkeys(range(1000), 1)
    assert is_of(rows | {-1: "x"}, Mapping[int, int])
    assert not is_of(dict.fromkeys(range(999), 1) | {-1: "x"}, Mapping[int, int])


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "an integer"),
        (float, "a number"),
        (bool, "True or False"),
        (str, "a text"),
        (bytes, "bytes"),
        (None, "None"),
        (int | None, "an integer"),
        (int | str, "an integer or a text"),
        (int | str | bytes | None, "an integer, a text or bytes"),
        (Literal["a", 3], "'a' or 3"),
        (Callable[[int], int], "a function"),
        (Callable, "a function"),
        (Mapping[str, int], "a mapping"),
        (Sequence[int | str], "a sequence, of each an integer or a text"),
        (Path, "a Path"),
        (Exception, "an Exception"),
    ],
)
def test_annotations_are_told_in_words(hint: Any, words: str) -> None:
    assert describe_type(hint) == words


class Apple:
    """A type whose name begins with a vowel."""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3 of type int"),
        (2.5, "2.5 of type float"),
        ("x" * 48, f"'{'x' * 48}' of type str"),
        ("x" * 49, f"'{'x' * 49}... of type str"),
        ("x" * 60, f"'{'x' * 49}... of type str"),
        (b"ab", "b'ab' of type bytes"),
        (10**60, f"1{'0' * 49}... of type int"),
        (10**49, f"1{'0' * 49} of type int"),
        (Apple(), "an Apple"),
        ([1], "a list"),
    ],
)
def test_values_as_refusals_show_them(value: object, shown: str) -> None:
    assert str(unexpected("f: x", "a y", value)) == f"f: x: expected a y, found {shown}"


class More(TypedDict, total=False):
    """Options of `public`."""

    count: int
    limit_s: float


@checked(size=lambda value, place: f"{place}={value}", free=left_alone)
def public(
    number: int,
    *,
    size: Any = 0,
    free: int = 0,
    wait_s: float | None = None,
    **options: Unpack[More],
) -> tuple[Any, ...]:
    """A function of the kind that users call."""
    return number, size, free, wait_s, options


def test_arguments_are_held_against_annotations() -> None:
    assert public(1) == (1, 0, 0, None, {})
    assert public(2, size="x", free="y", wait_s=0, count=3) == (2, "public: size=x", "y", 0, {"count": 3})  # type: ignore[arg-type]
    for arguments, said in (
        ({"number": "x"}, "public: number: expected an integer, found 'x' of type str"),
        ({"number": 1, "count": None}, "public: count: expected an integer, found None"),
        ({"number": 1, "wait_s": -0.5}, "public: wait_s: expected 0 or more seconds, found -0.5"),
        ({"number": 1, "limit_s": float("nan")}, "public: limit_s: expected 0 or more seconds, found nan"),
        ({"number": 1, "cuont": 1}, "public: unknown option 'cuont'; did you mean count?"),
        ({"number": 1, "sise": 1}, "public: unknown option 'sise'; did you mean size?"),
        ({"number": 1, "z" * 50: 1}, f"public: unknown option '{'z' * 40}'"),
    ):
        with pytest.raises(TreadleError) as caught:
            public(**arguments)  # type: ignore[arg-type]
        assert str(caught.value) == said
    with pytest.raises(TypeError):
        public()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("is_optimal", True, "optimal"),
        ("is_optimal", np.bool_(False), "not optimal"),
        ("is_late", False, ""),
        ("is_late", True, "late"),
        ("is_embedded", False, ""),
        ("colour", Colour.RED, "red"),
        ("text", "  a \n b ", "a b"),
        ("text", "x" * 40, "x" * 40),
        ("text", "x" * 41, "x" * 40 + "..."),
        ("algbw", Fraction(25 * 10**9, 3), "8.33 GB/s algbw"),
        ("link_bytes_per_s", 3 * 10**9, "3 GB/s link"),
        ("rate", 1000, "1 kB/s rate"),
        ("upper", 1000.0, "1 kB/s upper"),
        ("n_ranks", 1, "1 rank"),
        ("n_ranks", 2, "2 ranks"),
        ("n_entries", 1, "1 entry"),
        ("n_ranks", 0, ""),
        ("peak_bytes", 1536, "1.5KB peak"),
        ("loss", 0.125, "12.5% loss"),
        ("seconds", 1.23456, "1.23 s"),
        ("wait_time_s", 1.23456, "1.23 s wait time"),
        ("gap", 0.123456, "gap 0.1235"),
        ("gap", Fraction(1, 3), "gap 1/3"),
        ("some_count", np.int64(7), "some count 7"),
        ("gap", float("inf"), "gap inf"),
        ("seconds", {"total": 1.23456, "x": 1.0}, "1.23 CPU s"),
        ("seconds", {"x": 1.0}, ""),
        ("table", np.zeros((2, 3)), "table (2, 3)"),
        ("rows", np.zeros(1), "1 row"),
        ("rows", np.zeros(0), "0 rows"),
        ("rows", [1, 2], "2 rows"),
        ("rows", [], ""),
        ("other", None, ""),
        ("other", len, ""),
        ("other", object(), "object"),
    ],
)
def test_key_figures(name: str, value: Any, words: str) -> None:
    assert format_field(name, value) == words


def test_lines_of_key_figures_end_where_they_get_too_long() -> None:
    @brief("first", "second", "inner.n_things")
    @dataclass
    class Long:
        first: str
        second: str
        inner: Any = None

    assert repr(Long("a", "")) == "<Long a>"
    holder = type("Holder", (), {"n_things": 3})()
    assert repr(Long("a", "b", holder)) == "<Long a, b, 3 things>"

    names = [f"f{number}" for number in range(6)]
    kind = brief(*names)(type("Wide", (), {}))
    one = kind()
    for number, name in enumerate(names):
        setattr(one, name, chr(ord("a") + number) * 37)
    # "<Wide " and words of 37 letters with ", " between: five have 6 + 5 * 37 + 4 * 2 = 199, four 160
    assert repr(one) == f"<Wide {', '.join(letter * 37 for letter in 'abcd')}, ...>"
    one.f4 = "e" * 33  # 195 characters
    assert repr(one) == f"<Wide {', '.join(letter * 37 for letter in 'abcd')}, {'e' * 33}, ...>"
    one.f4 = "e" * 34
    assert repr(one) == f"<Wide {', '.join(letter * 37 for letter in 'abcd')}, ...>"
    assert MOST_CHARACTERS == 200


def test_names_that_are_spelt_otherwise() -> None:
    assert folded("DGX-A100 (x)") == "dgxa100x"
    known = ["msccl-xml", "cpu-xml", "MSCCL_XML"]
    assert similarly_spelt("MSCCL_XML", known) == "MSCCL_XML"
    assert similarly_spelt("mscclxml", known) is None  # two are meant
    assert similarly_spelt("CPU xml", known) == "cpu-xml"
    assert similarly_spelt("--", [*known, ""]) is None
    assert similarly_spelt("a" * 45, ["a" * 40]) == "a" * 40


def test_the_likest_names_first() -> None:
    names = ["ring", "ring_flat", "rings", "string", "torus", "dgx_ring"]
    assert close_names("ring", names) == ["ring", "rings"]
    assert close_names("ring", names, most=4) == ["ring", "rings", "string", "dgx_ring"]
    assert close_names("rin", names, most=1) == ["ring"]
    assert close_names("to", ["ato", "xyz"]) == ["ato"]
    assert close_names("zz", ["azzzzzz"]) == []  # two letters are no part
    assert close_names("zzz", ["azzzzzzbbb", "zzz-b-c-d-e-f-g"]) == [
        "zzz-b-c-d-e-f-g",  # the shorter one, but for its hyphens
        "azzzzzzbbb",
    ]
    assert did_you_mean("rin", names) == "; did you mean ring or rings?"


def test_complaints_about_unknown_names() -> None:
    assert unknown("form", "zz", []) == "unknown form 'zz'; expected one of "
    assert unknown("form", "zz", ["a"], fix="see y") == "unknown form 'zz'; see y"
    assert [counted(number, "box") for number in (0, 1, 2)] == ["0 boxes", "1 box", "2 boxes"]
    assert [counted(2, noun) for noun in ("switch", "pass", "path")] == ["2 switches", "2 passes", "2 paths"]
