"""What was asked of solve, written into plans and read back, word by word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.errors import FormatError
from treadle.schedulers.given_options import given_options, record_given
from treadle.schedules.plan import Plan
from treadle.synthesis.scheduler_options import RouteOptions, SizeRequest, StepOptions, TreeOptions


def plan(**provenance: Any) -> Plan:
    return cast(Plan, SimpleNamespace(provenance=provenance))


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (TreeOptions(), {}),
        (
            TreeOptions(trees=3, exact=True, packer="growth", trim=True, multicast=True, seed=5, height=2),
            {"trees": 3, "exact": 1, "packer": "growth", "trim": 1, "multicast": 1, "seed": 5, "height": 2},
        ),
        (TreeOptions(max_trees=7, factors=(2, 3)), {"max_trees": 7, "factors": "2,3"}),
        (
            StepOptions(chunks=2, rounds=(1, 2), steps=4, symmetric=True, parts=3),
            {"chunks": 2, "rounds": "1,2", "steps": 4, "symmetric": 1, "parts": 3},
        ),
        (
            StepOptions(factors=(4, 2), exchanged=(2,), size=SizeRequest(4096, 2e-6)),
            {"factors": "4,2", "exchanged": "2", "size_bytes": 4096, "alpha_s": 2e-6},
        ),
        (StepOptions(size=SizeRequest(4096)), {"size_bytes": 4096}),
        (
            RouteOptions(max_layers=3, layer_changes=True, max_routes=2, max_hops=5),
            {"max_layers": 3, "layer_changes": 1, "max_routes": 2, "max_hops": 5},
        ),
        (RouteOptions(max_flows=2), {"max_flows": 2}),
    ],
)
def test_what_is_written_is_read_back(options: Any, written: dict[str, Any]) -> None:
    found = record_given(options)
    assert found == {f"asked_{name}": value for name, value in written.items()}
    assert list(found) == [f"asked_{name}" for name in written]
    assert not [value for value in found.values() if isinstance(value, bool)]
    read = given_options(plan(**found, version="1", trees_per_root=9))
    assert type(options)(**cast(Any, read)).asked() == options.asked()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("asked_moon", 3, "plan: provenance 'asked_moon' is no option of solve that this version knows"),
        (
            f"asked_{'x' * 60}",
            3,
            f"plan: provenance 'asked_{'x' * 54}' is no option of solve that this version knows",
        ),
        ("asked_trees", "3", "plan: provenance 'asked_trees' is '3', expected an integer"),
        ("asked_height", True, "plan: provenance 'asked_height' is 'True', expected an integer"),
        ("asked_max_hops", 1.5, "plan: provenance 'asked_max_hops' is '1.5', expected an integer"),
        ("asked_exact", 2, "plan: provenance 'asked_exact' is '2', expected 1"),
        ("asked_trim", True, "plan: provenance 'asked_trim' is 'True', expected 1"),
        ("asked_packer", 1, "plan: provenance 'asked_packer' is '1', expected a word"),
        ("asked_alpha_s", "1", "plan: provenance 'asked_alpha_s' is '1', expected a number"),
        (
            "asked_rounds",
            "1,x",
            "plan: provenance 'asked_rounds' is '1,x', expected integers with commas between",
        ),
        (
            "asked_factors",
            "1234567890",
            "plan: provenance 'asked_factors' is '1234567890', expected integers with commas between",
        ),
        (
            "asked_exchanged",
            ",".join("1" * 1001),
            f"plan: provenance 'asked_exchanged' is {('1,' * 30)!r}, expected integers with commas between",
        ),
    ],
)
def test_what_plans_must_not_say(key: str, value: Any, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        given_options(plan(**{key: value}))
    assert str(caught.value) == said


def test_numbers_at_their_limits() -> None:
    found = cast(Any, given_options(plan(asked_rounds=",".join("1" * 1000), asked_factors="123456789")))
    assert found["rounds"] == (1,) * 1000
    assert found["factors"] == (123_456_789,)
    assert given_options(plan(asked_size_bytes=8, asked_alpha_s=1)) == {"size": SizeRequest(8, 1.0)}
    assert given_options(plan(asked_alpha_s=0.5)) == {}
