"""Plug-ins of formats and platforms: whatever is wrong with a stranger's package is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from treadle.errors import ScheduleError, TopologyError, TreadleError
from treadle.formats import format as formats
from treadle.topologies import parse
from treadle.topologies.catalogue import platform_table as platforms

PATHS = {
    formats.GROUP: (formats.find_format, "format", ScheduleError),
    platforms.GROUP: (lambda name: parse(f"{name}()"), "platform", TopologyError),
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Entry points (name, module) in every group; a module ends the process when it is imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(*named: tuple[str, str]) -> None:
        for _, module in named:
            (tmp_path / f"{module}.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
        monkeypatch.setattr(
            "importlib.metadata.entry_points",
            lambda group: [EntryPoint(name, f"{module}:X", group) for name, module in named],
        )

    caches = (formats._plug_ins, platforms.plug_ins)
    for cached in caches:
        cached.cache_clear()
    yield install
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("group", PATHS)
def test_a_plug_in_that_ends_the_process_is_one_line(group: str, installed: Callable[..., None]) -> None:
    installed(("quitter", "ends_at_once"))
    find, what, error = PATHS[group]
    with pytest.raises(error, match=rf"{what} quitter: its plug-in ends_at_once:X .*SystemExit: 7") as caught:
        find("quitter")
    assert isinstance(caught.value, TreadleError)


@pytest.mark.parametrize("group", PATHS)
def test_two_plug_ins_of_one_name_are_both_named(group: str, installed: Callable[..., None]) -> None:
    installed(("twice", "one"), ("twice", "two"))
    find, what, error = PATHS[group]
    with pytest.raises(error, match=rf"{what} twice: several plug-ins have that name \(one:X, two:X\)"):
        find("twice")
