"""Fabrics and collectives from what a user typed."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.options.keywords import ProblemOptions
from treadle.planning import make_problem


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"mesh": "2,3"}, "mesh 2,3: the axes that groups go over are missing; .* some of 0, 1"),
        ({"mesh": "dp=2,tp=3"}, "some of dp, tp"),
        ({"axes": "dp"}, "axes dp: the mesh that has them is missing"),
        ({"mesh": "2,4", "axes": "0"}, r"it lays out 8 ranks, and ring\(6\) has 6"),
        ({"mesh": "2,2", "axes": "0", "ranks": "0-4"}, "it lays out 4 ranks, and .* has 5"),
        ({"mesh": "dp=2,tp=3", "axes": "pp"}, "no axis 'pp'; expected some of dp, tp"),
        ({"mesh": "dp=2,3", "axes": "dp"}, "mesh 'dp=2,3': no axis names for 3; name all axes"),
        ({"mesh": "2x3", "axes": "0"}, "mesh '2x3': expected NAME=SIZE"),
        ({"mesh": "0,3", "axes": "0"}, "mesh '0,3'"),
        ({"mesh": "-2,-3", "axes": "0"}, "mesh '-2,-3'"),
        ({"mesh": "", "axes": "0"}, "mesh ''"),
        ({"mesh": "dp=2,dp=3", "axes": "dp"}, "expected different names"),
        ({"mesh": "1,6", "axes": "0"}, "one rank only"),
        ({"mesh": "2,3", "axes": "0", "weights": [1] * 6}, "equal shards, found weights"),
    ],
)
def test_meshes_that_do_not_fit(words: ProblemOptions, message: str) -> None:
    with pytest.raises((ScheduleError, FormatError), match=message):
        make_problem("ring:6", "allgather", **words)
