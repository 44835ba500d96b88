"""Packages that load their modules when they are first used."""

from __future__ import annotations

from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def read_only(mapping: dict[object, object]) -> MappingProxyType[object, object]:
    """Return a read-only view: `MappingProxyType` under a name that pickle finds."""
    return MappingProxyType(mapping)


def load_lazily(
    package: str, file: str
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` (PEP 562) of a package whose names live in its modules.

    Reading a plan need not load the solvers, nor a command what other commands need. The names are those that
    the package imports for type checkers, a line each: ``from module import name as name``. ``dir`` returns
    these names and the subpackages that were imported, and nothing that a package needs itself.

    Parameters
    ----------
    package, file : str
        Its ``__name__`` and ``__file__``. None of the names may be that of a module of the package: importing
        that module would put it in the name's place.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("names.py").write_text("    from fractions import Fraction as Fraction\\n")
    >>> names, find, listed = load_lazily("math", "names.py")
    >>> names, find("Fraction"), "Fraction" in listed()
    (['Fraction'], <class 'fractions.Fraction'>, True)
    """
    with open(file, encoding="utf-8") as text:
        statements = [statement.split() for statement in f"\n{text.read()}".split("\n    from ")[1:]]
    home_of = {words[words.index("as") + 1].strip(",)"): words[0] for words in statements}

    def find(name: str) -> object:
        from importlib import import_module  # here, because the command line starts with this module

        if name not in home_of:
            from importlib.util import find_spec

            if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")  # a module of the package, as if it were imported
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    def list_names() -> list[str]:
        from sys import modules

        inside = {f"{package}.{name}" for name in vars(modules[package])} & modules.keys()
        own = {name for name in vars(modules[package]) if name.startswith("__")}
        return sorted({*home_of, *own, *(name.rpartition(".")[2] for name in inside)})

    return sorted(home_of), find, list_names
