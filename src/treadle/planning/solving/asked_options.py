"""What `solve` was asked for beyond its defaults, kept in a plan's provenance and read back from there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict, cast

from treadle.errors import FormatError
from treadle.planning.solving.candidate import Form, Options, SizeRequest
from treadle.schedules.plan import Plan, Scalar
from treadle.synthesis.trees import Packer

_PREFIX = "asked_"
_ROUNDS = re.compile(r"\d{1,9}(,\d{1,9}){0,999}")


class SolveOptions(TypedDict, total=False):
    """Keyword arguments of `solve` that say how, not what."""

    trees: int | None
    max_trees: int | None
    exact: bool
    packer: Packer | str | None
    form: Form | str
    trim: bool
    multicast: bool
    chunks: int | None
    rounds: Sequence[int] | None
    steps: int | None
    symmetric: bool
    seed: int
    max_layers: int | None
    max_routes: int | None
    max_flows: int | None
    size: SizeRequest | None


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
        **dict.fromkeys(("trees", "max_trees", "chunks", "steps", "seed"), _whole),
        **dict.fromkeys(("max_layers", "max_routes", "max_flows", "size_bytes"), _whole),
        **dict.fromkeys(("exact", "trim", "multicast", "symmetric"), _flag),
        **dict.fromkeys(("packer", "form"), _word),
        "rounds": _integers,
        "alpha_s": _number,
    }
)


def record_asked(options: Options, *, multicast: bool) -> dict[str, Scalar]:
    """Provenance of what was asked for; nothing of what was left at its default.

    Parameters
    ----------
    options : Options
    multicast : bool
        Whether trees were pruned at switches.
    """
    budget, exact, routes, size = options.budget, options.exact, options.routes, options.size
    values: dict[str, Scalar | None] = {
        "trees": budget.trees,
        "max_trees": budget.max_trees,
        "exact": int(budget.exact),
        "packer": None if options.packer is None else options.packer.value,
        "form": None if options.form is Form.AUTO else options.form.value,
        "trim": int(options.trim),
        "multicast": int(multicast),
        "chunks": options.chunks,
        "rounds": None if exact.rounds is None else ",".join(map(str, exact.rounds)),
        "steps": exact.steps,
        "symmetric": int(exact.symmetric),
        "seed": exact.seed or None,
        "max_layers": routes.max_layers,
        "max_routes": routes.max_routes,
        "max_flows": routes.max_flows,
        "size_bytes": None if size is None else size.size_bytes,
        "alpha_s": None if size is None else size.alpha_s,
    }
    flags = ("exact", "trim", "multicast", "symmetric")
    return {
        _PREFIX + name: value
        for name, value in values.items()
        if value is not None and not (name in flags and not value)
    }


def asked_options(plan: Plan) -> SolveOptions:
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
    return cast(SolveOptions, read)  # the readers are of these types
