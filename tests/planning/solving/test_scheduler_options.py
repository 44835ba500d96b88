"""What `solve` is asked for: values by form, keywords, and what plans record of them."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.planning import (
    AlltoallOptions,
    RouteOptions,
    SizeRequest,
    StepOptions,
    TreeOptions,
    solve,
)
from treadle.schedulers.given_options import given_options


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


def test_pruned_baselines_record_what_they_heed() -> None:
    plan = solve("dgx_h100(1, nvls=True)", "allreduce", algorithm="ring", multicast=True).plan
    assert given_options(plan) == {"multicast": True}
