"""Records of schedulers and their table."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from treadle.context import Context, under
from treadle.errors import FormatError, ScheduleError
from treadle.options.keywords import OptionKeywords
from treadle.schedulers.schedulers import scheduler
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.scheduler import Scheduler, SchedulerTable, tried_with, unsupported_reason
from treadle.synthesis.scheduler_options import (
    OPTIONS_OF,
    AlltoallOptions,
    RouteOptions,
    ScheduleForm,
    TreeOptions,
    flag_of,
    given_of,
)
from treadle.topologies import parse
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


def test_records_tell_what_they_do_not_serve() -> None:
    record = Scheduler("idle", ScheduleForm.TREES, ALLGATHER, idle, requirements=(six_ranks,))
    four, six = parse("ring:4"), parse("ring:6")
    assert record.format_requirements == ("six ranks",)
    assert record.unsupported(six, on_all_ranks(six, CollectiveKind.ALLGATHER)) is None
    assert str(record.unsupported(four, on_all_ranks(four, CollectiveKind.ALLGATHER))) == (
        "expected 6 ranks, found 4"
    )
    assert str(record.unsupported(six, on_all_ranks(six, CollectiveKind.ALLTOALL))) == (
        "alltoall is not supported; it supports allgather"
    )


def test_functions_get_what_was_asked_for_and_what_they_want_to_know() -> None:
    got: list[tuple[object, ...]] = []

    def curious(topology: Topology, collective: Collective, *, trees: int = 7, watch: object) -> None:
        got.append((trees, watch))

    record = Scheduler("curious", ScheduleForm.TREES, ALLGATHER, curious, options=("trees",))
    fabric = parse("ring:4")
    everyone = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    running = Context(None, 9.0)
    with under(running):
        record.make(fabric, everyone, {"trees": 3}, bound="not wanted")
        record.make(fabric, everyone, {})
    assert got == [(3, running), (7, running)]


def test_a_home_is_loaded_when_it_is_called() -> None:
    record = Scheduler("late", ScheduleForm.TREES, ALLGATHER, "treadle.not_there:nothing")
    with pytest.raises(ModuleNotFoundError):
        record.load()
    assert Scheduler("here", ScheduleForm.TREES, ALLGATHER, f"{parse.__module__}:parse").load() is parse


def test_checks_become_refusals() -> None:
    def check(text: str) -> None:
        if text:
            raise ScheduleError(text)

    assert unsupported_reason(check, "") is None
    assert unsupported_reason(check, "some-name: wrong: twice") == Unsupported("wrong: twice")
    assert unsupported_reason(check, "Wrong: for once") == Unsupported("Wrong: for once")


def test_options_know_what_was_asked_for() -> None:
    assert TreeOptions(trees=4, form="auto", seed=2).given() == {"seed": 2, "trees": 4}
    assert given_of({"trees": None, "trim": False, "form": "auto", "seed": 0, "chunks": 2}) == {"chunks": 2}
    for wrong in (0, 2**24 + 1):
        for options in (AlltoallOptions, RouteOptions):
            with pytest.raises(ScheduleError, match=f"chunks: {wrong} per shard, expected 1 to"):
                options(chunks=wrong)


def test_keywords_are_the_fields_of_all_forms() -> None:
    fields = {field.name for options in OPTIONS_OF.values() for field in options.fields()}
    assert fields == set(OptionKeywords.__annotations__)
    assert [flag_of(name) for name in ("max_trees", "max_layers", "size")] == [
        "--max-trees",
        "--layers",
        "--size",
    ]


def test_what_is_tried_at_sizes() -> None:
    marked = tried_with(lambda topology, collective: [{"trees": collective.n_ranks}])(
        lambda topology, collective, *, trees=1: None
    )
    record = Scheduler("few", ScheduleForm.TREES, ALLGATHER, marked, options=("trees",))
    ring = parse("ring(4)")
    assert record.trials(ring, on_all_ranks(ring, ALLGATHER[0])) == ({}, {"trees": 4})
    plain = Scheduler("idle", ScheduleForm.TREES, ALLGATHER, idle)
    assert plain.trials(ring, on_all_ranks(ring, ALLGATHER[0])) == ({},)
