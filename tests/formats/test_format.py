"""The table of formats: what a record may say, names that are taken, and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from treadle import register_format
from treadle.errors import ScheduleError
from treadle.formats import format as table
from treadle.formats.format import Format, all_formats, find_format, format_names
from treadle.formats.loading import Loading
from treadle.formats.request import Written
from treadle.formats.verdict import Check, Verdict

NOTHING = Format(
    name="nothing",
    title="Nothing",
    extension=".none",
    begins="nothing",
    check=Check.PARSED,
    options=frozenset({"name"}),
    write=lambda request: Written((("", f"nothing of {request.name}".encode()),)),
    read=lambda data, terms: data,
    judge=lambda files, terms: Verdict(Check.PARSED, (), (("byte", len(files[0])),), 1),
    load=lambda request, written, verdict: Loading("nobody", (), "look", "all"),
)


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(table, "_registered", {})
    table._plug_ins.cache_clear()
    yield
    table._plug_ins.cache_clear()


def test_a_name_twice_is_refused() -> None:
    register_format(NOTHING)
    for other in (replace(NOTHING, title="Other"), replace(NOTHING, name="cpu-xml")):
        with pytest.raises(ScheduleError, match=f"format {other.name}: there is one of that name already"):
            register_format(other)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes names of entry points with what they name."""

    def plug(*rows: tuple[str, str]) -> None:
        entries = [EntryPoint(name, value, table.GROUP) for name, value in rows]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
        table._plug_ins.cache_clear()

    return plug


def test_plug_ins_are_loaded_when_they_are_asked_for(plugged: Callable[..., None]) -> None:
    plugged(("nothing", f"{__name__}:NOTHING"), ("broken", "no.such.module:FORMAT"), ("cpu-xml", "no:way"))
    assert format_names()[-2:] == ("nothing", "broken")
    assert "nothing" not in table._registered
    assert find_format("nothing").title == "Nothing"
    assert find_format("cpu-xml").title == "CPU XML"  # ours, whatever a plug-in calls itself
    with pytest.raises(
        ScheduleError, match=r"format broken: its plug-in no.such.module:FORMAT cannot be loaded"
    ):
        find_format("broken")
    assert [record.name for record in all_formats()][-1] == "nothing"
    plugged(("twice", "one:FORMAT"), ("twice", "two:FORMAT"))
    with pytest.raises(ScheduleError, match=r"several plug-ins have that name \(one:FORMAT, two:FORMAT\)"):
        find_format("twice")
