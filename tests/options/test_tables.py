"""Tables of options: what they say of themselves, what they read, and the stub that is made of them."""

from __future__ import annotations

import pytest
from tools.keywords import STUB, stub

from treadle.errors import FormatError
from treadle.options import keywords
from treadle.options.rows import Options, arg, opt, reject
from treadle.options.rows import keywords as keywords_of
from treadle.options.verbs import ALIASES, VERBS, table


class Table(Options):
    """A few rows."""

    plan: str = arg("PLAN", "A plan.")
    trees: int | None = opt("Use exactly K trees.", metavar="K", least=1)
    kind: str = opt("A kind.", "a", choices=("a", "bc"), flag="--of", short="-k")
    trim: bool = opt("Trim.", False)
    keep: bool | None = opt("Keep.")
    many: list[float] = opt("Numbers.", ())


def test_the_stub_is_that_of_the_tables() -> None:
    """Written by ``python -m tools.keywords``."""
    assert STUB.read_text(encoding="utf-8") == stub()


@pytest.mark.parametrize("name", keywords.TABLES)
def test_types_of_keywords_exist(name: str) -> None:
    found = getattr(keywords, name)
    assert found.types().keys() == found.__annotations__.keys()
    assert found.__doc__


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_short_and_imperative_or_a_noun(verb: str) -> None:
    rows = [row for row in table(verb).rows.values() if not row.in_python]
    assert [row.name for row in rows if not row.help or len(row.help) > 70] == []
    assert [row.name for row in rows if row.help.split()[0] in ("Of", "Just", "So", "Which", "What")] == []
    flags = [flag for row in rows if not row.is_argument for flag in (row.flag, row.off, row.short) if flag]
    assert len(set(flags)) == len(flags)
    assert all(set(row.replaces.split()) <= table(verb).rows.keys() for row in rows)


def test_former_commands_are_commands() -> None:
    assert {alias.verb for alias in ALIASES.values()} <= VERBS.keys()
    for alias in ALIASES.values():
        assert {*alias.words, *filter(None, [alias.first])} <= table(alias.verb).rows.keys()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("trees", "3", 3),
        ("kind", "bc", "bc"),
        ("many", "1.5", 1.5),
        ("trees", "0", "--trees '0': expected at least 1"),
        ("trees", "1_0", "--trees '1_0': expected an integer"),
        ("many", "x", "--many 'x': expected a number"),
        ("kind", "c", "-k/--of 'c'; did you mean bc? Expected a or bc"),
        ("kind", "x", "-k/--of 'x'; expected a or bc"),
    ],
)
def test_values_are_read(name: str, text: str, value: object) -> None:
    row = Table.rows[name]
    if isinstance(value, str) and value != text:
        with pytest.raises(FormatError) as caught:
            row.read(text)
        assert str(caught.value) == value
    else:
        assert row.read(text) == value


def test_only_what_was_typed_is_refused() -> None:
    asked = Table({"plan": "x", "trees": 2, "trim": False, "kind": "a"}, ["plan", "trim", "trees"])
    reject(asked, ("kind", "trim"), "never")
    with pytest.raises(FormatError, match=r"^PLAN and --trees: leave them out$"):
        reject(asked, ("plan", "trees", "kind"), "leave them out")
    assert keywords_of(asked, Table, but=("plan",)) == {"trees": 2}
    assert (Table.rows["keep"].off, Table.rows["trim"].off) == ("--no-keep", "")
