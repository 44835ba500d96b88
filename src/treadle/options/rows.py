"""Rows and tables of options; the command line, keywords, help, completion, settings and pages read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from treadle.errors import FormatError
from treadle.spelling import did_you_mean

REQUIRED = object()
"""Default of an option that must be given."""
_LONGEST = 60
_PLACES = {"Path": "FILE", "int": "N", "float": "X", "str": "NAME"}
_NUMBERS: Mapping[str, tuple[type[int] | type[float], str]] = {
    "int": (int, "expected an integer"),
    "float": (float, "expected a number"),
}


@dataclass(eq=False)
class Row:
    """One option or argument: meaning, spelling and parser.

    Parameters
    ----------
    help : str
    default : object
        `REQUIRED` if it must be given.
    metavar : str
        Placeholder of the value in help.
    flag, off, short : str
        Spellings on the command line; by default the name without its unit, and ``--no-`` for a flag that is
        not off by default.
    parse : callable, optional
        Function from a string and the option's label to the value; default by the unit of the name, or the
        type.
    choices : tuple of str, or str
        All values; ``module:Enum`` for the members of an enumeration.
    least, most : int, optional
        Limits of a number.
    words : str
        Source of the words that complete it (`cli.completion`).
    rare : bool
        Whether only ``--help-all`` lists it.
    writes : bool
        Whether it names a file that is written.
    is_argument : bool
        Whether it is an argument, without a flag.
    config : str
        Key in treadle.toml.
    takes : str
        Type of the keyword in Python, if that is wider than the value typed here.
    in_python : bool
        Whether only the Python API has it.
    replaces : str
        Arguments, separated by blanks, that may be left out if it is given.
    """

    help: str
    default: Any = None
    metavar: str = ""
    flag: str = ""
    off: str = ""
    short: str = ""
    parse: Callable[[str, str], Any] | None = None
    choices: tuple[str, ...] | str = ()
    least: int | None = None
    most: int | None = None
    words: str = ""
    rare: bool = False
    writes: bool = False
    is_argument: bool = False
    config: str = ""
    takes: str = ""
    in_python: bool = False
    replaces: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        if "name" in vars(self):  # a row of another table
            return
        self.name, self.type = name, str(owner.__annotations__[name])
        unit = next((one for one in _UNITS if name.endswith(one)), "")
        self.flag = self.flag or f"--{name.removesuffix(unit).replace('_', '-')}"
        if unit:
            metavar, parser = _UNITS[unit]
            self.metavar, self.parse = self.metavar or metavar, self.parse or parser
        if not self.choices:
            self.metavar = self.metavar or _PLACES.get(self.value_type, "")
        if self.is_flag and self.default is not False:
            self.off = f"--no-{self.flag[2:]}"

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.type in ("bool", "bool | None") and not self.is_argument

    @property
    def is_list(self) -> bool:
        """Whether it may be given several times."""
        return self.type.startswith("list[")

    @property
    def value_type(self) -> str:
        """Type of one value."""
        return self.type.removeprefix("list[").partition(" |")[0].rstrip("]")

    @property
    def label(self) -> str:
        """Name in error messages."""
        return self.placeholder if self.is_argument else f"{self.short and f'{self.short}/'}{self.flag}"

    @property
    def placeholder(self) -> str:
        """Placeholder of its value."""
        return (self.metavar or self.name.upper()).strip("[]")

    def known(self) -> tuple[Any, ...]:
        """Return all values, if `choices` lists them."""
        if isinstance(self.choices, tuple):
            return self.choices
        module, _, name = self.choices.partition(":")
        return tuple(getattr(import_module(module), name))

    def read(self, text: str, label: str = "") -> Any:
        """Parse a value; FormatError, which begins with the label, for a malformed one."""
        label = label or self.label
        if self.parse is not None:
            return self.parse(text, label)
        if self.choices:
            found = {str(one): one for one in self.known()}
            if text not in found:
                known, hint = list(found), did_you_mean(text, found)
                expected = " or ".join(known) if len(known) < 3 else f"one of {', '.join(known)}"
                rest = f" Expected {expected}" if hint else f"; expected {expected}"
                raise FormatError(f"{label} {_shown(text)}{hint}{rest}")
            return found[text]
        if self.value_type == "Path":
            from pathlib import Path  # here, because most options are none

            return Path(text)
        kind = _NUMBERS.get(self.value_type)
        return text if kind is None else self._number(text, label, *kind)

    def _number(self, text: str, label: str, kind: type[int] | type[float], expected: str) -> int | float:
        said = f"{label} {_shown(text)}: "
        if not text.isascii() or "_" in text:
            raise FormatError(f"{said}{expected}")
        try:
            value = kind(text)
        except ValueError:
            raise FormatError(f"{said}{expected}") from None
        if self.least is not None and value < self.least:
            raise FormatError(f"{said}expected at least {self.least}")
        if self.most is not None and value > self.most:
            raise FormatError(f"{said}expected at most {self.most}")
        return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def opt(help: str, default: Any = None, **facts: Any) -> Any:
    """Return a row; see `Row` for its fields."""
    return Row(help, default, **facts)


def rare(help: str, default: Any = None, **facts: Any) -> Any:
    """Return the row of an option that few users need."""
    return Row(help, default, rare=True, **facts)


def arg(metavar: str, help: str, default: Any = REQUIRED, **facts: Any) -> Any:
    """Return the row of an argument; its metavar is in brackets if it may be left out."""
    return Row(help, default, metavar=metavar, is_argument=True, **facts)


def written(help: str, **facts: Any) -> Any:
    """Return the row of an output file."""
    return Row(help, metavar="FILE", writes=True, **facts)


def keyword(default: Any = None, takes: str = "") -> Any:
    """Return the row of a keyword that only the Python API has."""
    return Row("", default, takes=takes, in_python=True)


class Options:
    """A table of options (the class) and the given values (its instances).

    A class has rows of its own and those of its bases, in this order.
    """

    rows: ClassVar[Mapping[str, Row]] = {}
    typed: frozenset[str]
    """Names of the options that were typed, without defaults and settings."""

    def __init_subclass__(cls) -> None:
        rows = {name: value for name, value in vars(cls).items() if isinstance(value, Row)}
        for base in cls.__bases__:
            for name, row in getattr(base, "rows", {}).items():
                rows.setdefault(name, row)
        cls.rows = rows

    def __init__(self, values: Mapping[str, Any], typed: Iterable[str] = ()) -> None:
        self.typed = frozenset(typed)
        vars(self).update({name: values.get(name, row.default) for name, row in self.rows.items()})


def keywords(options: Options, *tables: type[Options], but: Iterable[str] = ()) -> Any:
    """Return the given options of these tables as keywords of the Python API."""
    rows = [row for table in tables for row in table.rows.values() if row.name not in but]
    return {row.name: value for row in rows if (value := getattr(options, row.name)) != row.default}


def given(options: Options, names: Iterable[str]) -> list[str]:
    """Return the flags and placeholders of those options that were typed."""
    return [
        row.placeholder if row.is_argument else row.flag
        for name in names
        if (row := options.rows[name]) and name in options.typed and getattr(options, name) is not False
    ]


def reject(options: Options, names: Iterable[str], reason: str) -> None:
    """Raise FormatError if one of these options was typed; `reason` ends the message."""
    if wrong := given(options, names):
        raise FormatError(f"{' and '.join(wrong)}: {reason}")


def seconds(text: str, label: str) -> float:
    """Parse a duration of more than 0, such as ``30s`` or ``5min``, into seconds."""
    found = delay(text, label)
    if not found:
        raise FormatError(f"{label} {text!r}: expected more than 0")
    return found


def delay(text: str, label: str) -> float:
    """Parse a duration into seconds."""
    from treadle.units import parse_time_ns

    del label
    return parse_time_ns(text) / 10**9


def quantity(parser: str, *, named: bool = False) -> Callable[[str, str], int]:
    """Return the parser of that name in `treadle.units`; its errors begin with the label if `named`."""

    def parse(text: str, label: str) -> int:
        from treadle import units

        try:
            return int(getattr(units, parser)(text))
        except FormatError as error:
            raise (FormatError(f"{label}: {error}") if named else error) from None

    return parse


size, rate, nanoseconds = map(quantity, ("parse_size", "parse_bandwidth", "parse_time_ns"))
_UNITS = {
    "_bytes_per_s": ("RATE", rate),
    "_bytes": ("SIZE", size),
    "_ns": ("TIME", nanoseconds),
    "_s": ("TIME", delay),
}
"""Placeholder and parser of an option by the end of its name."""


def either(word: str, value: Any, parser: Callable[[str, str], Any]) -> Callable[[str, str], Any]:
    """Return the parser that gives this value for a word, and reads anything else by another parser."""
    return lambda text, label: value if text == word else parser(text, label)


def positive(text: str, label: str) -> int:
    """Parse a size of at least one byte."""
    value = size(text, label)
    if value < 1:
        raise FormatError(f"{label} {text}: expected at least 1 byte")
    return value


def integers(text: str, label: str) -> tuple[int, ...]:
    """Parse integers such as ``2,1,1``."""
    try:
        return tuple(int(part) for part in text.split(",", 2**16))
    except ValueError:
        raise FormatError("expected integers with commas between, as in 2,1,1", source=label) from None


def names(text: str, label: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    del label
    return tuple(text.split(","))
