"""Exact synthesis without a search: numbers at their limits, roots, and how phases are put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact.obstruction import Obstruction
from treadle.synthesis.steps.exact.synthesise import (
    ExactStatus,
    ExactSteps,
    _explained,
    synthesise_exact,
)
from treadle.topologies.catalogue.direct import from_arcs

K = CollectiveKind


def test_reasons_in_words() -> None:
    assert _explained(Obstruction((1, 2), (0, 3), 9, 8)) == (
        "9 chunks of 2 shards must enter a set of 2 nodes, whose links can bring 8 in time"
    )


class Told:
    """A solver that gives the same answers, and keeps what it was asked and for how long."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, Any], float]] = []

    def solve(self, request: Mapping[str, Any], *, time_limit_s: float) -> dict[str, Any]:
        self.asked.append((dict(request), time_limit_s))
        return self.answers[len(self.asked) - 1]


@pytest.mark.parametrize(
    ("answer", "symmetric", "status", "reason"),
    [
        ("infeasible", False, ExactStatus.INFEASIBLE, "search exhausted"),
        ("infeasible", True, ExactStatus.UNKNOWN, "no schedule with a symmetry of order 2"),
        ("unknown", True, ExactStatus.UNKNOWN, "time limit"),
        ("unknown", False, ExactStatus.UNKNOWN, "time limit"),
    ],
)
def test_what_a_search_that_finds_nothing_says(
    answer: str, symmetric: bool, status: ExactStatus, reason: str
) -> None:
    """The second phase is not searched."""
    pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    solver = Told({"status": answer, "cpu_s": 1.25})
    found = synthesise_exact(
        pair, K.ALLREDUCE, chunks=1, rounds=[1], symmetric=symmetric, solver=solver  # type: ignore[arg-type]
    )  # fmt: skip
    assert (found.status, found.schedule, found.seconds) == (status, None, 1.25)
    assert found.phases == (ExactSteps(status, reason=reason, seconds=1.25),)
    assert solver.asked[0][0]["homes"] == ((0,) if symmetric else (0, 1))
