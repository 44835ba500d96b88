"""Collectives, plans, meshes and jobs: what they refuse, word for word, at each limit and one beyond."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.plan import Pipelining


def said(call: Any) -> str:
    """The whole text of a refusal."""
    with pytest.raises(ScheduleError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("low", "slices", "protocol", "text"),
    [
        (-1, 1, "", "plan: 1 slices from -1 bytes on, expected 1 to 1048576 from 0 bytes or more on"),
        (0, 0, "", "plan: 0 slices from 0 bytes on, expected 1 to 1048576 from 0 bytes or more on"),
        (
            5,
            2**20 + 1,
            "",
            "plan: 1048577 slices from 5 bytes on, expected 1 to 1048576 from 0 bytes or more on",
        ),
        (0, 1, "x" * 41, f"plan: protocol {'x' * 40!r}, expected a line of at most 40"),
        (0, 1, "a\nb", "plan: protocol 'a\\nb', expected a line of at most 40"),
    ],
)
def test_slices_within_limits(low: int, slices: int, protocol: str, text: str) -> None:
    assert said(lambda: Pipelining(low, slices, protocol)) == text
    assert Pipelining(0, 2**20, "x" * 40).protocol == "x" * 40
