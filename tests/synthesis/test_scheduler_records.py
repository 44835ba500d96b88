"""Records of schedulers: what is handed on, defaults, groups, homes, and the texts of refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.schedulers import schedulers
from treadle.schedulers.schedulers import algorithm_names, scheduler
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.scheduler import (
    Comparing,
    Scheduler,
    SchedulerTable,
    equal_shards,
    no_forwarders,
    no_switches,
)
from treadle.synthesis.scheduler_options import ScheduleForm
from treadle.topologies import parse
from treadle.topologies.topology import Topology

K = CollectiveKind


def idle(topology: Topology, collective: Collective, *, trees: int = 1) -> None:
    return None


def taker(topology: Topology, collective: Collective, **options: object) -> None:
    return None


def positional(topology: Topology, trees: int, /) -> None:
    return None


def some_need(_: Topology, __: Collective) -> None:
    return None


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> SchedulerTable:
    """An empty table in place of the one of all schedulers, which is filled before."""
    algorithm_names(plug_ins=False)
    empty = SchedulerTable()
    monkeypatch.setattr(schedulers, "TABLE", empty)
    return empty


def test_what_is_registered(table: SchedulerTable) -> None:
    kept = scheduler(
        "some-way",
        form="steps",
        collectives=["allgather", K.ALLREDUCE],
        requirements=[some_need],
        options=["chunks", "seed"],
        source="a paper",
        comparing=Comparing.SMALL,
        is_peer=True,
        in_groups=True,
    )(taker)
    assert kept is taker
    record = table["some-way"]
    assert "some-way" in table
    assert [one.name for one in table] == ["some-way"]
    assert (record.form, record.collectives) == (ScheduleForm.STEPS, (K.ALLGATHER, K.ALLREDUCE))
    assert (record.function, record.requirements, record.options) == (taker, (some_need,), ("chunks", "seed"))
    assert (record.source, record.origin, record.comparing) == ("a paper", __name__, Comparing.SMALL)
    assert record.is_peer is record.in_groups is True
    assert record.supported_options == ("chunks", "seed", "multicast")
    assert record.format_requirements == ("some need",)
    plain = Scheduler("idle", ScheduleForm.ROUTES, (K.ALLTOALL,), "package.module:name")
    assert (plain.requirements, plain.options, plain.source, plain.origin) == ((), (), "", "")
    assert plain.comparing is Comparing.ALWAYS
    assert plain.is_peer is plain.in_groups is False
    assert plain.supported_options == ("max_layers", "max_routes", "max_hops", "max_flows")
    scheduler("idle", form="trees", collectives=["reduce"])(idle)
    assert table["idle"].is_peer is table["idle"].in_groups is False
    assert table["idle"].comparing is Comparing.ALWAYS


@pytest.mark.parametrize(
    ("module", "origin"), [("treadle", ""), ("treadle.some.where", ""), ("treadle_more", "treadle_more")]
)
def test_own_schedulers_have_no_origin(module: str, origin: str, table: SchedulerTable) -> None:
    def own(topology: Topology, collective: Collective) -> None:
        return None

    own.__module__ = module
    scheduler("own", form="trees", collectives=["reduce"])(own)
    assert table["own"].origin == origin


def test_options_are_taken_by_keyword() -> None:
    kinds = (K.ALLGATHER,)
    Scheduler("taker", ScheduleForm.TREES, kinds, taker, options=("trees", "exact"))
    Scheduler("idle", ScheduleForm.TREES, kinds, idle, options=("trees",))
    message = (
        "scheduler p: supports 'trees', so its function must accept it: (topology, collective, *, trees=...)"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        Scheduler("p", ScheduleForm.TREES, kinds, positional, options=("trees",))
    for name in ("a-1-b2", "0", "x"):
        Scheduler(name, ScheduleForm.TREES, kinds, idle)
    for wrong in ("-a", "a-", "a--b", "A", "a b", ""):
        with pytest.raises(FormatError, match=r"expected lower-case letters, digits and hyphens$"):
            Scheduler(wrong, ScheduleForm.TREES, kinds, idle)
    for home in ("a.b:c", "_a:_b1"):
        Scheduler("home", ScheduleForm.TREES, kinds, home)
    for home in ("a.b", "1a:b", "a:b.c", ":b"):
        with pytest.raises(FormatError, match=r"expected package.module:name$"):
            Scheduler("home", ScheduleForm.TREES, kinds, home)


def test_baselines_are_what_people_have() -> None:
    def record(**values: Any) -> Scheduler:
        given = {"name": "one", "form": ScheduleForm.TREES, "collectives": (K.REDUCE,), "function": "a.b:c"}
        return Scheduler(**(given | values))

    assert not record().is_baseline
    assert record(is_peer=True).is_baseline
    assert record(comparing=Comparing.PRACTICE).is_baseline
    assert record(function="a.baselines.b:c").is_baseline
    assert not record(function=idle).is_baseline


def test_groups_of_ranks() -> None:
    """Trees can be made of each group; steps are of one, and what the network does is not modelled."""
    ring = parse("ring(4)")
    grouped = Collective(K.ALLREDUCE, (0, 1, 2, 3), groups=((0, 2), (1, 3)))

    def refusal(form: ScheduleForm, **values: Any) -> str:
        return str(Scheduler("one", form, (K.ALLREDUCE,), idle, **values).unsupported(ring, grouped))

    assert refusal(ScheduleForm.TREES) == "None"
    assert refusal(ScheduleForm.STEPS) == (
        "supports only one group of ranks, found 2 concurrent groups; leave out --algorithm"
    )
    assert refusal(ScheduleForm.STEPS, in_groups=True) == "None"
    assert refusal(ScheduleForm.TREES, comparing=Comparing.ABLE) == (
        "in-network multicast and aggregation are not modelled for concurrent groups"
    )


def test_needs_of_step_schedules() -> None:
    ring, box = parse("ring(4)"), parse("dgx_a100(1)")
    everyone = on_all_ranks(ring, K.ALLGATHER)
    assert no_switches(ring, everyone) is None
    words = "step schedules are for direct-connect fabrics, and {} comes with {}; use --algorithm forestcoll"
    assert str(no_switches(box, on_all_ranks(box, K.ALLGATHER))) == words.format(box.name, "switches")
    assert str(no_switches(box, on_all_ranks(box, K.ALLTOALL))) == (
        f"steps store and forward, which the switches of {box.name} cannot; expected a direct-connect "
        "fabric, or --algorithm routes"
    )
    assert no_forwarders(ring, everyone) is None
    some = Collective(K.ALLGATHER, (0, 1, 2), forwarders=(3,))
    assert str(no_forwarders(ring, some)) == words.format(ring.name, "compute nodes that only forward")
    assert equal_shards(ring, everyone) is None
    assert str(equal_shards(ring, on_all_ranks(ring, K.ALLGATHER, weights=(1, 1, 1, 1)))) == (
        "step schedules have shards of one size; leave out the weights or use --algorithm forestcoll"
    )
