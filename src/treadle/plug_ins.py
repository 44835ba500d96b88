"""What installed packages bring by entry points: found by name, loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_plug_ins(group: str, *, taken: Container[str] = ()) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points of a group by name, not yet loaded; none that has a name that is `taken`."""
    from importlib.metadata import entry_points  # here, because it takes longer to load than tables do

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        if entry.name not in taken:
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return MappingProxyType(found)


def load_plug_in(entry: EntryPoint, *others: EntryPoint) -> object | Unsupported:
    """What an entry point names, or why not, in one line; it must be the only one of its name."""
    if others:
        values = ", ".join(one.value for one in (entry, *others))
        return Unsupported(f"several plug-ins have that name ({values})")
    try:
        loaded: object = entry.load()
    except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is loaded
        what = " ".join(str(error).split())[:200]
        return Unsupported(f"its plug-in {entry.value} cannot be loaded ({type(error).__name__}: {what})")
    return loaded
