"""What `solve` is asked for: values by form, keywords, and what plans record of them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from child_processes import search_path, started
from samples.table import table_restored
from treadle import scheduler
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.planning import (
    AlltoallOptions,
    Form,
    RouteOptions,
    SizeRequest,
    StepOptions,
    TreeOptions,
    repair,
    solve,
)
from treadle.schedulers.given_options import given_options
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology


@pytest.mark.parametrize(
    ("kind", "algorithm", "options", "keywords"),
    [
        ("allgather", None, TreeOptions(max_trees=2), {"max_trees": 2}),
        ("allreduce", "rs-ag", TreeOptions(trees=1, packer="growth"), {"trees": 1, "packer": "growth"}),
        ("allgather", "bfb", StepOptions(chunks=2), {"chunks": 2}),
        ("alltoall", None, AlltoallOptions(size=SizeRequest(1000)), {"size": SizeRequest(1000)}),
        ("alltoall", "routes", RouteOptions(max_routes=1, seed=2), {"max_routes": 1, "seed": 2}),
    ],
)
def test_options_as_a_value_are_those_by_keyword(
    kind: str, algorithm: str | None, options: Any, keywords: dict[str, Any]
) -> None:
    found = solve("torus:3,3", kind, algorithm=algorithm, options=options)
    assert found.plan == solve("torus:3,3", kind, algorithm=algorithm, **keywords).plan
    assert given_options(found.plan) == keywords


def test_options_of_another_form_are_refused() -> None:
    with pytest.raises(ScheduleError, match="forestcoll: options are StepOptions, expected TreeOptions"):
        solve("ring:4", "allgather", options=StepOptions())
    with pytest.raises(ScheduleError, match="bfb: --rounds is for --algorithm exact, two-round, pipelined"):
        solve("ring:4", "allgather", algorithm="bfb", options=StepOptions(rounds=(2, 2)))
    with pytest.raises(ScheduleError, match="written out; factored ones have to stay whole"):
        solve("ring:4", "allgather", multicast=True, form="factored")


def test_keywords_and_names_that_there_are_not_are_refused() -> None:
    unknown: dict[str, Any] = {"max_tree": 3}
    with pytest.raises(TreadleError, match="there is no option 'max_tree'; did you mean max_trees"):
        solve("ring:4", "allgather", **unknown)
    for option, said in ((TreeOptions(packer="gravity"), "packer"), (TreeOptions(form="round"), "form")):
        with pytest.raises(FormatError, match=f"unknown {said} "):
            solve("ring:4", "allgather", options=option)


def test_defaults_ask_for_nothing() -> None:
    """What is spelt out at its default is heeded by all."""
    plain = solve("ring:4", "allgather", algorithm="ring").plan
    spelt = solve("ring:4", "allgather", algorithm="ring", trees=None, exact=False, form=Form.AUTO).plan
    assert spelt == plain
    assert given_options(plain) == {}


def test_pruned_baselines_record_what_they_heed() -> None:
    plan = solve("dgx_h100(1, nvls=True)", "allreduce", algorithm="ring", multicast=True).plan
    assert given_options(plan) == {"multicast": True}


def test_plans_of_before_may_record_what_nobody_heeded() -> None:
    """Options that an algorithm does not heed were passed over, and recorded."""
    plan = solve("ring:5", "allgather", algorithm="ring").plan
    old = replace(plan, provenance={**plan.provenance, "asked_max_trees": 3, "asked_seed": 4})
    found = repair(old, links=["n0->n1"])
    assert found.new.algorithm == "ring"
    assert given_options(found.new) == {"seed": 4}


def test_asked_options_come_to_the_function_and_into_the_plan() -> None:
    got: list[int] = []
    with table_restored():

        @scheduler("counting", form="trees", collectives=["allgather"], options=["trees"], source="here")
        def counting(topology: Topology, collective: Collective, *, trees: int = 1) -> ForestSchedule:
            got.append(trees)
            return ring(topology, collective)

        assert given_options(solve("ring:4", "allgather", algorithm="counting", trees=2).plan) == {"trees": 2}
        again = solve("ring:4", "allgather", algorithm="counting").plan
        assert given_options(again) == {}
        with pytest.raises(ScheduleError, match="counting: --exact is for --algorithm forestcoll or rs-ag"):
            solve("ring:4", "allgather", algorithm="counting", exact=True)
    assert got == [2, 1]


def test_threads_that_come_first_at_once_find_one_table() -> None:
    """In a process of its own: in this one the table is filled."""
    code = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from treadle.planning import algorithm_names
together = Barrier(8)
def names(_):
    together.wait()
    return algorithm_names()
with ThreadPoolExecutor(8) as pool:
    assert len(set(pool.map(names, range(8)))) == 1
"""
    with started([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": search_path()}) as process:
        assert process.wait(60) == 0
