"""What judges say: of schedules on other fabrics, of nodes that are absent, of texts at their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle import planning
from treadle.planning import make_problem, program_of, route_schedule, solve
from treadle.schedulers.third_party.placed_schedules import (
    format_violations,
)


def faults(placed: planning.PlacedSchedule) -> list[str]:
    return [format_violations(one) for one in placed.report.violations]


GROUPED = "it is for one group of ranks; a plan of all groups can stand here"


@pytest.mark.parametrize(
    ("asked", "words", "said"),
    [
        ("allgather", {"mesh": "2,2", "axes": "1"}, [GROUPED]),
        ("allreduce", {}, ["it is for allgather, asked for is allreduce"]),
        ("allgather", {"weights": [1, 2, 1, 1]}, ["are of one size, the collective's differ"]),
        ("allgather", {"ranks": "0-2"}, [" has 3"]),
        ("allgather", {}, []),
    ],
)
def test_programs_and_texts_keep_their_names_where_they_are_refused(
    asked: str, words: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    plan, problem = solve("ring:4", "allgather").plan, make_problem("ring:4", asked, **words)
    path = tmp_path / "ring.xml"
    path.write_text(planning.lower(plan).text)
    placed = route_schedule(path, problem)
    assert (placed.name, placed.form, placed.problem) == ("ring.xml", "msccl-xml", problem)
    assert [one.endswith(two) for one, two in zip(faults(placed), said, strict=True)] == [True] * len(said)
    if words.get("axes") or not words:
        found = route_schedule(program_of(plan, 2**20), problem, name="own")
        assert (found.name, found.form, found.problem, faults(found)) == ("own", "Program", problem, said)
