"""What `solve` was asked for beyond its defaults, kept in a plan's provenance and read back from there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from treadle.errors import FormatError
from treadle.options.keywords import OptionKeywords
from treadle.schedules.plan import Plan, Scalar
from treadle.synthesis.scheduler_options import SchedulerOptions, SizeRequest

_PREFIX = "asked_"
_ROUNDS = re.compile(r"\d{1,9}(,\d{1,9}){0,999}")


def _whole(value: Scalar) -> int:
    if type(value) is not int:
        raise FormatError("expected an integer")
    return value


def _flag(value: Scalar) -> bool:
    if value != 1 or type(value) is not int:
        raise FormatError("expected 1")
    return True


def _word(value: Scalar) -> str:
    if not isinstance(value, str):
        raise FormatError("expected a word")
    return value


def _number(value: Scalar) -> float:
    if isinstance(value, str):
        raise FormatError("expected a number")
    return float(value)


def _integers(value: Scalar) -> tuple[int, ...]:
    if not isinstance(value, str) or not _ROUNDS.fullmatch(value):
        raise FormatError("expected integers with commas between")
    return tuple(int(part) for part in value.split(","))


_READERS: Mapping[str, Callable[[Scalar], object]] = MappingProxyType(
    {
        **dict.fromkeys(("trees", "max_trees", "chunks", "parts", "steps", "max_steps", "seed"), _whole),
        **dict.fromkeys(("max_layers", "max_routes", "max_hops", "max_flows"), _whole),
        **dict.fromkeys(("size_bytes", "height"), _whole),
        **dict.fromkeys(("exact", "trim", "multicast", "symmetric", "layer_changes"), _flag),
        **dict.fromkeys(("packer", "form"), _word),
        **dict.fromkeys(("factors", "exchanged", "rounds"), _integers),
        "alpha_s": _number,
    }
)


_ORDER = (
    *("trees", "max_trees", "exact", "packer", "form", "trim", "multicast", "factors", "exchanged"),
    *("chunks", "rounds", "steps", "max_steps", "symmetric", "seed", "max_layers", "layer_changes"),
    *("max_routes", "max_hops", "max_flows", "size", "height", "parts"),
)
"""As plans have always had them, whatever the form."""


def record_given(options: SchedulerOptions) -> dict[str, Scalar]:
    """Provenance of what was asked for; nothing of what was left at its default."""
    asked, values = options.given(), dict[str, Scalar]()
    for name in sorted(asked, key=_ORDER.index):
        value = asked[name]
        if isinstance(value, SizeRequest):
            values["size_bytes"] = value.size_bytes
            if value.alpha_s is not None:
                values["alpha_s"] = value.alpha_s
        elif isinstance(value, str):
            values[name] = str(value)
        elif isinstance(value, Sequence):
            values[name] = ",".join(map(str, value))
        elif isinstance(value, int):
            values[name] = int(value)
    return {_PREFIX + name: value for name, value in values.items()}


def given_options(plan: Plan) -> OptionKeywords:
    """What a plan's provenance says that `solve` was asked for.

    Raises
    ------
    FormatError
        If an entry is unknown or malformed.
    """
    read: dict[str, object] = {}
    for key, value in plan.provenance.items():
        if not key.startswith(_PREFIX):
            continue
        name = key.removeprefix(_PREFIX)
        if name not in _READERS:
            raise FormatError(f"plan: provenance {key[:60]!r} is no option of solve that this version knows")
        try:
            read[name] = _READERS[name](value)
        except FormatError as error:
            raise FormatError(f"plan: provenance {key!r} is {str(value)[:60]!r}, {error}") from None
    size_bytes, alpha_s = read.pop("size_bytes", None), read.pop("alpha_s", None)
    if isinstance(size_bytes, int) and isinstance(alpha_s, float | None):
        read["size"] = SizeRequest(size_bytes, alpha_s)
    return cast(OptionKeywords, read)  # the readers are of these types
