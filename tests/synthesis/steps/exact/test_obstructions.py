"""Problems of exact synthesis and why some have no schedule: numbers at their limits, cuts by brute force."""

from __future__ import annotations

import re

import pytest

from treadle.errors import ScheduleError
from treadle.synthesis.steps.exact.exact_problem import ExactProblem, FreeRounds, exact_problem
from treadle.topologies.topology import Topology, TopologyBuilder


def uneven() -> Topology:
    """0 to 1 of 4 B/s, 1 to 2 of 6, 2 to 0 of 2, and 0 to 2 of 2; a loop at 1 of 3."""
    builder = TopologyBuilder("uneven")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 4), ("bc", 6), ("ca", 2), ("ac", 2)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def posed(**changes: object) -> ExactProblem:
    values: dict[str, object] = {"chunks": 2, "rounds": (1, 3)}
    homes = changes.pop("homes", (0, 1, 2))
    return exact_problem(uneven(), homes, **{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"homes": ()}, "shard owners must be ranks from 0 to 2"),
        ({"homes": (0, 3)}, "shard owners must be ranks from 0 to 2"),
        ({"homes": (-1,)}, "shard owners must be ranks from 0 to 2"),
        ({"chunks": 0}, "chunks must be 1 to 65536, found 0"),
        ({"chunks": 65537}, "chunks must be 1 to 65536, found 65537"),
        ({"rounds": ()}, "rounds []; expected at least 1 for each step"),
        ({"rounds": (2, 0)}, "rounds [2, 0]; expected at least 1 for each step"),
        ({"rounds": (2**24, 1)}, "rounds [16777216, 1]; expected at least 1 for each step"),
        (
            {"rounds": FreeRounds(3, 2)},
            "2 rounds in 3 steps; expected at least one step and one round per step",
        ),
        (
            {"rounds": FreeRounds(0, 2)},
            "2 rounds in 0 steps; expected at least one step and one round per step",
        ),
        (
            {"rounds": FreeRounds(1, 2**24 + 1)},
            "16777217 rounds in 1 steps; expected at least one step and one round per step",
        ),
    ],
)
def test_numbers_out_of_range(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^exact synthesis: {re.escape(words)}$"):
        posed(**changes)
