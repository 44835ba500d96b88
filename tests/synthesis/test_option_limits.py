"""Options of schedulers: what they are if nothing is said, their limits, and their words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.math.columns import IntegerProgram
from treadle.synthesis.scheduler_options import (
    COMMON_OPTIONS,
    OPTIONS_OF,
    AlltoallOptions,
    Form,
    RouteOptions,
    ScheduleForm,
    SizeRequest,
    StepOptions,
    TreeOptions,
    flag_of,
    given_of,
)

MOST_CHUNKS = 2**24


def test_what_is_not_said() -> None:
    assert vars(TreeOptions()) == {
        "seed": 0,
        "trees": None,
        "max_trees": None,
        "exact": False,
        "packer": None,
        "form": Form.AUTO,
        "trim": False,
        "height": None,
        "multicast": False,
        "factors": None,
    }
    steps = vars(StepOptions())
    assert {name for name, value in steps.items() if value is None} == {
        *("chunks", "parts", "rounds", "steps", "trees", "size", "factors", "exchanged"),
    }
    assert (steps["seed"], steps["symmetric"], steps["multicast"]) == (0, False, False)
    assert steps["symmetric"] is steps["multicast"] is False
    exchange = vars(AlltoallOptions())
    assert exchange.pop("seed") == 0
    assert set(exchange.values()) == {None}
    routes = vars(RouteOptions())
    assert (routes.pop("seed"), routes.pop("layer_changes")) == (0, False)
    assert set(routes.values()) == {None}
    assert SizeRequest(5).alpha_s is None


def test_what_is_asked_for() -> None:
    assert TreeOptions(trees=1, exact=True).given() == {"trees": 1, "exact": True}
    assert StepOptions(symmetric=True, chunks=2, seed=3).given() == {
        "symmetric": True,
        "chunks": 2,
        "seed": 3,
    }
    assert RouteOptions().given() == {}
    assert given_of({"trees": None, "seed": 4, "exact": False, "layer_changes": True}) == {
        "seed": 4,
        "layer_changes": True,
    }


def test_flags_and_forms() -> None:
    named = {name: flag_of(name) for name in ("max_layers", "size", "max_hops", "layer_changes", "seed")}
    assert named == {
        "max_layers": "--layers",
        "size": "--size",
        "max_hops": "--max-hops",
        "layer_changes": "--layer-changes",
        "seed": "--seed",
    }
    assert {str(form): kind for form, kind in OPTIONS_OF.items()} == {
        "trees": TreeOptions,
        "steps": StepOptions,
        "alltoall-steps": AlltoallOptions,
        "routes": RouteOptions,
    }
    assert COMMON_OPTIONS[ScheduleForm.ALLTOALL_STEPS] == ()
    assert COMMON_OPTIONS[ScheduleForm.STEPS] == COMMON_OPTIONS[ScheduleForm.TREES] == ("multicast",)
    assert COMMON_OPTIONS[ScheduleForm.ROUTES] == ("max_layers", "max_routes", "max_hops", "max_flows")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (AlltoallOptions, {"chunks": 1, "max_steps": 1}),
        (AlltoallOptions, {"chunks": MOST_CHUNKS}),
        (RouteOptions, {"chunks": 1, "max_layers": 1, "max_routes": 1, "max_hops": 1, "max_flows": 1}),
        (RouteOptions, {"chunks": MOST_CHUNKS, "max_layers": 256}),
    ],
)
def test_numbers_at_their_limits(kind: type[Any], values: dict[str, int]) -> None:
    assert kind(**values).asked() == values


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (AlltoallOptions, {"chunks": 0}, "chunks: 0 per shard, expected 1 to 2**24"),
        (
            AlltoallOptions,
            {"chunks": MOST_CHUNKS + 1},
            f"chunks: {MOST_CHUNKS + 1} per shard, expected 1 to 2**24",
        ),
        (AlltoallOptions, {"chunks": 10**30}, "chunks: 1" + "0" * 19 + " per shard, expected 1 to 2**24"),
        (AlltoallOptions, {"max_steps": 0}, "steps: at most 0, expected at least 1"),
        (RouteOptions, {"chunks": -1}, "chunks: -1 per shard, expected 1 to 2**24"),
        (RouteOptions, {"max_layers": 0}, "layers: at most 0, expected at least 1"),
        (RouteOptions, {"max_routes": 0}, "routes: at most 0 routes a pair, expected at least 1"),
        (RouteOptions, {"max_hops": 0}, "routes: at most 0 hops, expected at least 1"),
        (RouteOptions, {"max_flows": 0}, "rounds: at most 0 flows per host, expected at least 1"),
        (
            RouteOptions,
            {"max_layers": 257},
            "layers: at most 257, expected 1 to 256; adapters have up to 16",
        ),
    ],
)
def test_numbers_beyond_their_limits(kind: type[Any], values: dict[str, int], words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(words)}$"):
        kind(**values)


def test_an_integer_program_and_its_relaxation() -> None:
    """Most of 3 x + 2 y with 2 x + y <= 5, x - y >= -2 and y <= 2: 3/2 and 2; whole: 2 and 1."""
    program = IntegerProgram()
    x, y = program.column(3), program.column(2, upper=2)
    assert (x, y) == (0, 1)
    assert program.add_row({x: 2, y: 1}, upper=5) == 0
    assert program.add_row({x: 1, y: -1}, lower=-2) == 1
    relaxed = program.relaxed()
    assert relaxed is not None
    assert relaxed[0] == pytest.approx([1.5, 2])
    assert relaxed[1] == pytest.approx([1.5, 0])  # half of 3 for each unit of the first row
    assert program.integers() == [2, 1]
    again = program.relaxed()
    assert again is not None
    assert again[0] == pytest.approx([1.5, 2])
    program.solver.changeColBounds(y, 0, np.inf)
    assert program.integers() == [1, 3]
    program.solver.changeColCost(x, 5)  # 5 each for 2 of the row, 2 for 1
    assert program.integers() == [2, 1]
    program.solver.changeRowBounds(0, -np.inf, 4)
    assert program.integers() == [2, 0]
    program.solver.changeRowBounds(0, 9, 4)
    assert program.integers() is None
    assert program.relaxed() is None
    program.solver.changeRowBounds(0, 1, 3)
    program.solver.changeColBounds(x, 0, 0)
    assert program.integers() == [0, 2]


@pytest.mark.parametrize(("most", "found"), [(2**31 - 1, [2**31 - 1]), (2**31, None)])
def test_numbers_that_floats_do_not_tell_apart_are_no_solution(most: int, found: list[int] | None) -> None:
    program = IntegerProgram()
    program.column(1, upper=most)
    program.add_row({0: 1}, lower=most)
    assert program.integers() == found
