"""Rows of a design: what each costs, which are worth telling, which fabric serves which call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from treadle.errors import ScheduleError, TopologyError
from treadle.finder.construction import expression, notation
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.design_result import DesignResult, DesignRow
from treadle.finder.measure import Option
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.planning import design
from treadle.topologies import dump_topology, parse

GATHER, SUM, EXCHANGE = Exchange.ALLGATHER, Exchange.ALLREDUCE, Exchange.ALLTOALL


@pytest.fixture(scope="module")
def torus() -> Option:
    """Two steps, 8/9 M/B; nine nodes with distances of 108 together."""
    return named_option("torus(3, 3)", 9, 4)


@pytest.fixture(scope="module")
def ring() -> Option:
    return named_option("bi_ring(4, 9)", 9, 4)


def result_of(*options: Option, best: int = 0, **fields: Any) -> DesignResult:
    rows = tuple(DesignRow(option, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0) for option in options)
    nothing = cast(Any, None)
    network = Network(1.6e-9, 22)
    return DesignResult(9, 4, True, network, nothing, 16, rows, rows[best], nothing, None, {}, **fields)


def test_rows_as_a_table(torus: Option, ring: Option) -> None:
    first, second = result_of(torus, ring, best=1).records()
    assert first == {
        "fabric": "torus(3, 3)",
        "steps": 2,
        "t_b": pytest.approx(8 / 9),
        "separate_parts": 1,
        "diameter": 2,
        "time_s": 1.0,
        "least_s": 5.0,
        "own_order_s": 6.0,
        "allreduce_s": 2.0,
        "alltoall_bound_s": 3.0,
        "alltoall_s": 4.0,
        "is_best": False,
    }
    assert (second["fabric"], second["is_best"], second["diameter"]) == ("bi_ring(4, 9)", True, 4)


@pytest.mark.parametrize(
    ("nodes", "degree", "group"), [(20, 4, None), (24, 2, None), (32, 4, None), (90, 4, None), (24, 4, 4)]
)
def test_what_a_design_calls_a_fabric_names_it(nodes: int, degree: int, group: int | None) -> None:
    """Every row and every fabric that none beats, placed ranks and copies too, by notation and expression."""
    calls = (Call(SUM, 2**20, group_size=group), Call(GATHER, 2**20, group_size=group, stride=2))
    calls = calls if group else calls[:1]
    found = design(
        nodes, degree, network=Network(1e-5, 10**10), workload=Workload("w", calls), use_cache=False
    )
    candidates = [row.option.candidate for row in found.rows]
    for one in (*candidates, *found.others):
        named = parse(notation(one.construction))
        assert named == parse(expression(one.construction))
        assert named.n_nodes == nodes


def test_a_file_is_a_design_only_where_an_expression_constructs_it(tmp_path: Path) -> None:
    torus = parse("torus(3, 3)")
    for name, fabric in (("own", replace(torus, name="mine")), ("named", torus)):
        (tmp_path / f"{name}.json").write_text(dump_topology(fabric), encoding="utf-8")
    named = named_option(str(tmp_path / "named.json"), 9, 4)
    assert named.expression == "torus(3, 3)"
    with pytest.raises(
        TopologyError, match=r"own\.json is a file, and the finder takes fabrics that an expr"
    ):
        named_option(str(tmp_path / "own.json"), 9, 4)


def test_networks_give_each_link_a_byte() -> None:
    words = (
        "^design: a bandwidth of 3 bytes/s leaves each of 4 links less than 1 byte/s; expected at least 4 "
        "bytes/s$"
    )
    with pytest.raises(ScheduleError, match=words):
        design(9, 4, network=Network(0.0, 3), workload=Workload("w", (Call(SUM, 1),)), use_cache=False)
