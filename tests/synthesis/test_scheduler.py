"""Records of schedulers and their table."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.schedulers.schedulers import scheduler
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.scheduler import Scheduler, SchedulerTable
from treadle.synthesis.scheduler_options import (
    ScheduleForm,
)
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

ALLGATHER = (CollectiveKind.ALLGATHER,)


def idle(topology: Topology, collective: Collective, *, trees: int = 1) -> None:
    return None


def six_ranks(topology: Topology, collective: Collective) -> Unsupported | None:
    return None if collective.n_ranks == 6 else Unsupported(f"expected 6 ranks, found {collective.n_ranks}")


def test_a_name_is_given_once() -> None:
    table = SchedulerTable()
    first = table.register(Scheduler("idle", ScheduleForm.TREES, ALLGATHER, idle))
    with pytest.raises(FormatError, match=f"'idle': the name is taken by {__name__}:idle; give .* another"):
        table.register(Scheduler("idle", ScheduleForm.STEPS, ALLGATHER, idle))
    with pytest.raises(FormatError, match="taken"):
        table.register(Scheduler("idle", ScheduleForm.ROUTES, ALLGATHER, "some.where:else_"))
    assert list(table) == [first]
    assert table.withdraw("idle") is first
    assert "idle" not in table


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "Idle"}, "'Idle': expected lower-case letters, digits and hyphens"),
        ({"name": "a,b"}, "lower-case"),
        ({"name": ""}, "lower-case"),
        ({"options": ("chunks",)}, "trees have no option 'chunks'; expected some of exact"),
        ({"options": ("packer",)}, r"function must accept it: \(topology, collective, \*, packer=...\)"),
        ({"requirements": (partial(six_ranks),)}, "expected functions with names"),
        ({"collectives": ()}, "at least one supported collective"),
        ({"function": "no home"}, "expected package.module:name"),
        ({"function": 3}, "3 is not a function"),
    ],
)
def test_malformed_records_are_refused(values: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {
        "name": "idle",
        "form": ScheduleForm.TREES,
        "collectives": ALLGATHER,
        "function": idle,
        "options": ("trees",),
    }
    Scheduler(**good)
    with pytest.raises(FormatError, match=said):
        Scheduler(**(good | values))


@pytest.mark.parametrize("values", [{"form": "bushes"}, {"collectives": ["allsum"]}])
def test_unknown_forms_and_collectives_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"scheduler idle: .*expected form and collectives of trees, steps"):
        scheduler("idle", **{"form": "trees", "collectives": ["allgather"], **values})
