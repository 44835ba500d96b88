"""Bandwidths and latencies as people write them, for Python's users of the catalogue.

The functions themselves take bytes/s and nanoseconds. The functions of `treadle.topologies` accept strings
with a unit as well, as expressions do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from treadle.checking import unexpected
from treadle.errors import TopologyError
from treadle.units import parse_bandwidth, parse_time_ns


def takes_quantities(function: object) -> bool:
    """Whether a function has a bandwidth or a latency among its keywords."""
    return inspect.isfunction(function) and any(map(quantity_parser, inspect.signature(function).parameters))


def with_units(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that bandwidths and latencies may be strings such as ``25GB/s`` and ``5us``.

    Numbers are bytes/s and nanoseconds; ``25e9`` is one too, as it is whole.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> with_units(ring)(4, bandwidth="25GB/s") == ring(4, bandwidth=25 * 10**9)
    True
    """
    signature = inspect.signature(function)
    named = [name for name in signature.parameters if quantity_parser(name)]

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        bound = signature.bind(*arguments, **keywords)  # TypeError, as of any function, for a wrong call
        for name in named:
            default = signature.parameters[name].default
            value = bound.arguments.get(name, default)
            if value is not default:
                bound.arguments[name] = _quantity(f"{function.__name__}: {name}", name, value)
        return function(*bound.args, **bound.kwargs)

    call.__module__ = "treadle.topologies"  # where it is found by its name
    return call


def quantity_parser(name: str) -> Callable[[str], int] | None:
    """Return the parser of a parameter's strings; None for parameters that are not quantities."""
    if name == "bandwidth" or name.endswith("_bandwidth"):
        return parse_bandwidth
    return parse_time_ns if name == "latency" else None


def bandwidth_of(value: object, place: str) -> int:
    """Return bytes/s of a bandwidth as Python's callers say it; `place` begins the error message.

    Examples
    --------
    >>> bandwidth_of("25GB/s", "link") == bandwidth_of(25e9, "link") == bandwidth_of(25 * 10**9, "link")
    True
    """
    return _quantity(place, "bandwidth", value)


def _quantity(place: str, name: str, value: object) -> int:
    parse = quantity_parser(name)
    if isinstance(value, str) and parse is not None:
        return parse(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():  # 25e9 is meant as 25 * 10**9
        return int(value)
    example, unit = ("5us", "nanoseconds") if name == "latency" else ("25GB/s", "bytes/s")
    expected = f"a text such as {example}, or an integer number of {unit}"
    raise TopologyError(str(unexpected(place, expected, value)))
