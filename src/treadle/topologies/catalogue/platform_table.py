"""The table of platforms: a function that makes one says in one place its source and its samples.

Ours are decorated in `platforms`; an installed package names its own as entry points of the group
`treadle.platforms`, which are loaded when such a name is first typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from treadle.errors import TopologyError
from treadle.plug_ins import find_plug_ins, load_plug_in
from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from treadle.topologies.topology import Topology

GROUP = "treadle.platforms"
"""Of entry points: the name is the function's, the value the decorated function."""
_Function = TypeVar("_Function", bound="Callable[..., Topology]")


@dataclass(frozen=True)
class Platform:
    """A function that makes a platform.

    Parameters
    ----------
    function : callable
        Its name is the name in expressions.
    source : str
        Where its figures come from.
    samples : tuple of str
        Expressions of small ones, for the tests.
    """

    function: Callable[..., Topology]
    source: str
    samples: tuple[str, ...]


_platforms: dict[str, Platform] = {}


def platform(*, source: str, samples: tuple[str, ...]) -> Callable[[_Function], _Function]:
    """Add the decorated function to the catalogue.

    Parameters
    ----------
    source : str
        Where the figures come from: a document and its section.
    samples : tuple of str
        Expressions of small fabrics that it makes, at least one.

    Raises
    ------
    TopologyError
        If it has no source or sample, or there is a platform of that name.
    """

    def add(function: _Function) -> _Function:
        name = function.__name__
        if not source or not samples:
            raise TopologyError(f"platform {name}: expected a source of its figures and a sample")
        known = _platforms.get(name)
        if known is not None and known.function is not function:
            raise TopologyError(f"platform {name}: there is one of that name already")
        _platforms[name] = Platform(function, source, samples)
        return function

    return add


def platforms() -> Mapping[str, Platform]:
    """Those that have been declared so far; plug-ins only once they were asked for."""
    return MappingProxyType(_platforms)


@cache
def plug_ins() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Names that installed packages bring, not yet loaded."""
    return find_plug_ins(GROUP)


def plugged(name: str) -> Platform:
    """A platform that an installed package brings; TopologyError, in one line, if that is broken."""
    entry, *others = plug_ins()[name]
    loaded = load_plug_in(entry, *others)
    if isinstance(loaded, Unsupported):
        raise TopologyError(f"platform {name}: {loaded}")
    if name not in _platforms:
        raise TopologyError(f"platform {name}: its plug-in {entry.value} declares no platform of that name")
    return _platforms[name]


class Catalogue(Mapping[str, "Callable[..., Topology]"]):
    """Functions by name: those of Treadle, platforms declared since, and plug-ins, which load when asked for.

    Parameters
    ----------
    own : mapping of str to callable
        No plug-in takes one of these names.
    """

    def __init__(self, own: Mapping[str, Callable[..., Topology]]) -> None:
        self._own = own

    def __getitem__(self, name: str) -> Callable[..., Topology]:
        if name in self._own:
            return self._own[name]
        if name in _platforms:
            return _platforms[name].function
        if name in plug_ins():
            return plugged(name).function
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in _platforms or name in plug_ins()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *_platforms, *plug_ins())))

    def __len__(self) -> int:
        return sum(1 for _ in self)
