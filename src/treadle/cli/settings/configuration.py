"""Settings: ``treadle.toml`` and environment variables.

An option that is typed wins over a variable, that over the file in the current folder, that over the user's
own. A file in the current folder may have come with a downloaded archive: what could make this process run
the code of others (a cluster, the folder of compiled programs) is taken from the user's own file and the
environment only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.input_files import is_file, read_input_string
from treadle.options.checking import Lower
from treadle.options.measuring import Simulate
from treadle.options.rows import Row
from treadle.options.shared import Memory, Rated, TimeLimit, Workers
from treadle.spelling import did_you_mean

FILE = "treadle.toml"
MAX_BYTES = 2**16
"""Largest file that is read."""
OTHER_VARIABLES = ("TREADLE_PLANS", "TREADLE_ALGORITHM", "TREADLE_SLICE", "TREADLE_REQUIRED_ENGINES")
"""Variables of Treadle that are not settings of commands: the torch backend's and the tests'."""
_TABLE = "cost-model"


@dataclass(frozen=True)
class Setting:
    """One thing that can be set: its key in the file, its variable, and the option that it stands for."""

    key: str
    variable: str
    meaning: str
    row: Row | None = None

    @property
    def is_private(self) -> bool:
        """Not taken from a file in the current folder."""
        return self.key in ("cluster", "cache")


@dataclass(frozen=True)
class ChosenSetting:
    """A setting that is in force, as it was written, and the variable or file that it comes from."""

    setting: Setting
    value: str
    origin: str

    def read(self) -> Any:
        """The value; FormatError, with the origin, if it is none."""
        row, key = self.setting.row, self.setting.key
        if row is None:
            return self.value
        try:
            return row.read(self.value, key.rpartition(".")[2])
        except FormatError as error:
            is_named = row.parse is None or self.origin == self.setting.variable
            raise FormatError(f"{'' if is_named else f'{key}: '}{error}", source=self.origin) from None


def _settings() -> tuple[Setting, ...]:
    """The keys that options have, and two more."""
    found = [Setting("fabric", "TREADLE_FABRIC", "TOPOLOGY, where a command is given none")]
    cache = Setting("cache", "TREADLE_CACHE_DIR", "folder of cached plans and compiled programs")
    for verb, table in (("", Rated), ("", TimeLimit), ("", Workers), ("", Memory), *_OF_VERBS):
        found += [cache] if table is Lower else []
        for row in table.rows.values():
            if row.config and all(row.config != one.key for one in found):
                variable = f"TREADLE_{row.config.rpartition('.')[2].replace('-', '_').upper()}"
                found.append(Setting(row.config, variable, f"as {verb}{row.flag}", row))
    return tuple(found)


_OF_VERBS = (("lower ", Lower), ("simulate ", Simulate))
SETTINGS = _settings()
_BY_KEY = {one.key: one for one in SETTINGS}


def settings_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Files that are looked for: in the current folder, and in the user's folder of configurations."""
    base, home = environment.get("XDG_CONFIG_HOME"), environment.get("HOME")
    folder = Path(base) if base else Path(home) / ".config" if home else None
    return (Path(FILE), *([folder / "treadle" / FILE] if folder is not None else []))


def chosen_settings(environment: Mapping[str, str] | None = None) -> dict[str, ChosenSetting]:
    """Settings in force, by key.

    Parameters
    ----------
    environment : mapping, optional
        Default that of the process.

    Raises
    ------
    FormatError
        If a file cannot be read, is malformed, has a key that is unknown or a value that is none.

    Notes
    -----
    Values of variables are checked when they are put to use (`ChosenSetting.read`).
    """
    variables = os.environ if environment is None else environment
    found: dict[str, ChosenSetting] = {}
    place, *users = settings_files(variables)
    for path in (*reversed(users), place):
        for key, value in _read(path, is_users=path is not place).items():
            found[key] = ChosenSetting(_BY_KEY[key], value, str(path))
    for one in SETTINGS:
        if said := variables.get(one.variable):
            found[one.key] = ChosenSetting(one, said, one.variable)
    for chosen in found.values():
        if chosen.origin != chosen.setting.variable:
            chosen.read()
    return found


def _read(path: Path, *, is_users: bool) -> dict[str, str]:
    """Return the keys and values of a file; empty if it does not exist."""
    source = str(path)
    if not is_file(path):
        return {}
    text = read_input_string(path, MAX_BYTES)
    import tomllib  # here, because most folders have no such file

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"malformed TOML: {error}", source=source) from None
    return {key: _value(key, value, path, is_users) for key, value in _flat(content)}


def _flat(content: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        name = f"{table}.{key}" if table else key
        if isinstance(value, dict) and name == _TABLE:
            yield from _flat(value, name)
        else:
            yield name, value


def _value(key: str, value: Any, path: Path, is_users: bool) -> str:
    source = str(path)
    setting = _BY_KEY.get(key)
    if setting is None:
        known = [one.key for one in SETTINGS]
        hint = did_you_mean(key, known)
        raise FormatError(
            f"unknown key {key[:40]!r}{hint or ';'} 'treadle config' lists them all", source=source
        )
    if setting.is_private and not is_users:
        raise FormatError(
            f"{key} is taken from the user's own {FILE} and from {setting.variable} only: "
            "a file of another author must not set it",
            source=source,
        )
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise FormatError(
            f"{key}: expected a string such as those that options take, found {value!r}"[:200], source=source
        )
    if key == "fabric" and is_users and (path.parent / str(value)).is_file():
        return str(path.parent / str(value))
    return str(value)


def unknown_variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that look like Treadle's and are none, each with what was probably meant, or ""."""
    known = [*(one.variable for one in SETTINGS), *OTHER_VARIABLES]
    return [
        (name, did_you_mean(name, known))
        for name in sorted(environment)
        if name.startswith("TREADLE_") and name not in known
    ]


@contextmanager
def cache_in(chosen: ChosenSetting | None) -> Iterator[None]:
    """Set the environment variable of the cache folder meanwhile, where it is looked up."""
    if chosen is None or os.environ.get(chosen.setting.variable):
        yield
        return
    os.environ[chosen.setting.variable] = str(Path(chosen.value).expanduser())
    try:
        yield
    finally:
        del os.environ[chosen.setting.variable]
