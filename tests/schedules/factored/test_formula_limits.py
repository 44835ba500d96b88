"""Trees by formula as values: refusals word for word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from verification.factored.test_factored_mutants import outermost

MOST = 2**61 - 1
PLACES = "places of a child must be 0, 1, ..., once each"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block": 0}, "5 children on 2 planes make no such trees"),
        ({"plane_units": np.zeros((0, 5))}, "5 children on 0 planes make no such trees"),
        ({"plane_units": [[3], [1]]}, "1 children on 2 planes make no such trees"),
        ({"plane_units": [[-1] * 5] * 2}, f"plane_units: found -1, expected 0 to {MOST}"),
        (
            {"plane_units": [[2**58] * 5] * 2},
            "plane_units sum to 2**58 or more; use a smaller number of trees",
        ),
        ({"relay_count": [1] * 9}, "relay_count has 9 rows, expected 10"),
        ({"relay_plane": [0] * 9 + [2]}, "relay_plane: found 2, expected 0 to 1"),
        ({"relay_plane": [0, 1] * 5}, "rows of relays must rise by planes"),
        ({"place": [0] * 13}, "place has 13 rows, expected 14"),
        ({"place": [0, 1, 2, 2, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]}, PLACES),
        ({"place": [0, 1, 2, 4, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]}, PLACES),
        ({"relay_root": [5, 0, 0, 2, 3, 0, 1, 1, 4, 4]}, "relay_root: found 5, expected 0 to 4"),
        ({"relay_child": [1, 4, 4, 4, 5, 2, 0, 2, 2, 3]}, "relay_child: found 5, expected 0 to 4"),
        ({"out_first": [[0, 5, 10]] * 5}, "child 1 has 10 egress units, its trees take 11"),
    ],
)
def test_what_are_no_relay_planes(changes: dict[str, Any], text: str) -> None:
    """Five children on two planes, of four, three, two, three and two trees."""
    with pytest.raises(ScheduleError) as caught:
        replace(outermost("relay planes"), **changes)
    assert str(caught.value) == f"relay planes: {text}"
