"""The typed view of the compiled core says what the core takes and returns, down to the fields of tuples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import treadle
from treadle.engine import core
from treadle.synthesis.core_values.integers import Wide, WideArray

STUB = Path(treadle.__file__).with_name("_core.pyi")
MOST_ARGUMENTS = 10
_ARRAY = re.compile(r"(?:numpy\.)?ndarray\[dtype=(\w+)[^\]]*\]")


def stub() -> dict[str, Callable[..., Any]]:
    """The functions of the stub, which is a module in Python too."""
    names: dict[str, Any] = {}
    code = compile(STUB.read_text(encoding="utf-8"), str(STUB), "exec", dont_inherit=True)
    exec(code, names)
    return {name: value for name, value in names.items() if inspect.isfunction(value)}


def compiled() -> list[str]:
    return [
        name
        for name, value in vars(core).items()
        if callable(value) and not name.startswith("_") and not isinstance(value, type)
    ]


def written(hint: Any) -> str:
    """A type as the core writes it: arrays as their numbers, named tuples as tuples."""
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return f"tuple[{', '.join(map(written, get_type_hints(hint).values()))}]"
    if get_origin(hint) is tuple:
        return f"tuple[{', '.join(map(written, get_args(hint)))}]"
    if get_origin(hint) is Sequence:
        return f"collections.abc.Sequence[{', '.join(map(written, get_args(hint)))}]"
    if getattr(get_origin(hint), "__name__", "") == "NDArray":  # a name of its own from Python 3.12 on
        return np.dtype(get_args(hint)[0]).name
    if get_origin(hint) is np.ndarray:
        return np.dtype(get_args(get_args(hint)[1])[0]).name
    return str(hint.__name__)


def test_all_functions_are_typed() -> None:
    assert sorted(stub()) == sorted(compiled())


@pytest.mark.parametrize("name", sorted(stub()))
def test_arguments_and_results_are_those_of_the_core(name: str) -> None:
    function = stub()[name]
    hints = dict(function.__annotations__)
    result = hints.pop("return")
    assert len(hints) <= MOST_ARGUMENTS
    takes = ", ".join(f"{argument}: {written(hint)}" for argument, hint in hints.items())
    signature = str(getattr(core, name).__doc__)
    assert f"{name}({takes}) -> {written(result)}" == _ARRAY.sub(r"\1", signature).strip()


@pytest.mark.parametrize("value", [0, 1, -1, 2**63, 2**64 - 1, 2**64, -(2**64) - 5, 2**127 - 1, -(2**127)])
def test_wide_integers_come_in_halves(value: int) -> None:
    """The core puts them together as (high << 64) | low, high signed and low not."""
    high, low = Wide.of(value)
    assert -(2**63) <= high < 2**63
    assert 0 <= low < 2**64
    assert high * 2**64 + low == value
    many = WideArray.of([value, 7])
    assert (many.high.dtype, many.low.dtype) == (np.int64, np.uint64)
    assert (many.high.tolist(), many.low.tolist()) == ([high, 0], [low, 7])
