"""What was asked of solve, written into plans and read back, word by word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from treadle.schedulers.given_options import given_options
from treadle.schedules.plan import Plan
from treadle.synthesis.scheduler_options import SizeRequest


def plan(**provenance: Any) -> Plan:
    return cast(Plan, SimpleNamespace(provenance=provenance))


def test_numbers_at_their_limits() -> None:
    found = cast(Any, given_options(plan(asked_rounds=",".join("1" * 1000), asked_factors="123456789")))
    assert found["rounds"] == (1,) * 1000
    assert found["factors"] == (123_456_789,)
    assert given_options(plan(asked_size_bytes=8, asked_alpha_s=1)) == {"size": SizeRequest(8, 1.0)}
    assert given_options(plan(asked_alpha_s=0.5)) == {}
