"""Random failures: how many, which draws, and tables of figures that are made up."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import treadle
from harness.summaries import resilience_summary
from treadle.context import TimeLimitError
from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.finder.building.resilience import (
    CableHarm,
    FailureLevel,
    ResilienceResult,
    _count,
    resilience,
)
from treadle.inputs.problem import Problem
from treadle.planning import parse_amounts
from treadle.schedulers.bound_results import bound_problem
from treadle.topologies import TopologyBuilder, parse


@pytest.mark.parametrize(
    ("amount", "total", "count"),
    [
        (1, 10, 1),
        (9, 10, 9),
        (Fraction(1, 100), 10, 1),  # at least one
        (Fraction(24, 100), 10, 2),
        (Fraction(25, 100), 10, 3),  # a half is rounded up
        (Fraction(94, 100), 10, 9),
    ],
)
def test_how_many_fail(amount: int | Fraction, total: int, count: int) -> None:
    assert _count(amount, total, "cables") == count


@pytest.mark.parametrize("amount", [0, 10, Fraction(1)])
def test_numbers_of_failures_that_are_none(amount: int | Fraction) -> None:
    with pytest.raises(TopologyError) as caught:
        _count(amount, 10, "cables")
    count = 10 if amount else 0
    assert str(caught.value) == f"resilience: {count} cables of 10 are to fail; expected 1 to 9"


def test_amounts_as_typed() -> None:
    assert parse_amounts(" 2.5% , 07,100%", "x") == (Fraction(1, 40), 7, Fraction(1))
    assert parse_amounts("1" * 12, "x") == (111_111_111_111,)
    for text, said in (
        ("1" * 13, f"x: found '{'1' * 13}', expected a number, or a percentage such as 5%"),
        ("2.5", "x: found '2.5', expected an integer, or a percentage such as 5%"),
        ("a" * 50, f"x: found '{'a' * 40}', expected a number, or a percentage such as 5%"),
    ):
        with pytest.raises(FormatError) as caught:
            parse_amounts(text, "x")
        assert str(caught.value) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"samples": 0}, "resilience: samples: 0, expected 1 to 10000"),
        ({"samples": 10_001}, "resilience: samples: 10001, expected 1 to 10000"),
        ({"seed": -1}, "resilience: seed: -1, expected 0 to 2**31 - 1"),
        ({"seed": 2**31}, "resilience: seed: 2147483648, expected 0 to 2**31 - 1"),
    ],
)
def test_draws_that_are_none(words: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError) as caught:
        resilience("ring:4", **words)
    assert str(caught.value) == said


@pytest.mark.parametrize("cables", [True, -1, 0.5, [1, -1]])
def test_amounts_of_other_types(cables: Any) -> None:
    with pytest.raises(TreadleError, match="integers, Fractions or a string such as '1%,5%'"):
        resilience("ring:4", cables=cables)


def test_time_for_failures_is_up() -> None:
    with pytest.raises(TimeLimitError) as caught:
        resilience("ring:4", cables=1, samples=1, time_limit_s=0.0)
    assert str(caught.value) == ("resilience: time ran out; take fewer --samples or a longer --time-limit")


def test_levels_follow_each_other_from_the_seed() -> None:
    """Cables first, the same number once; each draw is a fabric by its name."""
    found = resilience("ring:5", cables="1,20%", nodes=1, samples=2, seed=7, collectives=["allgather"])
    assert [(level.cables, level.nodes) for level in found.levels] == [(1, 0), (0, 1)]
    assert found.levels[0].fabrics == tuple(f"punctured(ring(5), links=1, seed={seed})" for seed in (7, 8))
    assert found.levels[1].fabrics == tuple(f"punctured(ring(5), nodes=1, seed={seed})" for seed in (7, 8))
    # a path of five: half of the ring's rate; one of four: busbw of 1 byte/s where the ring has 2
    assert found.levels[0].shares == (0.5, 0.5)
    assert found.levels[1].shares == (0.5, 0.5)
    (harm,) = found.levels[0].harms
    assert harm.regained == 0.5
    assert found.levels[1].harms == ()
    assert dict(found.whole) == {"allgather": Fraction(2)}
    assert found.cables == 5


def test_a_cable_is_that_of_the_cabling_list() -> None:
    """Four in parallel between each two of three nodes; rates without one are those of a fabric by hand."""
    whole = "with_parallel_links(complete(3), 4)"
    found = resilience(whole, cables=1, samples=8)
    assert found.cables == len(treadle.cabling(whole).sheet.wires) == 12
    builder = TopologyBuilder("one less")
    for name in "abc":
        builder.compute(name)
    for one, other, count in (("a", "b", 4), ("b", "c", 4), ("a", "c", 3)):
        for _ in range(count):
            builder.duplex(one, other, 1)
    for level in found.levels:
        rates = [treadle.bound(one, level.collective).algbw for one in (builder.build(), parse(whole))]
        assert set(level.shares) == {float(rates[0] / rates[1])}
    assert [level.worst for level in found.levels] == [float(Fraction(11, 12)), 0.875]


def test_one_of_parallel_fibres_may_fail() -> None:
    found = resilience("uni_ring(3, 5)", cables=1, samples=2, collectives=["allgather"])
    assert found.cables == 15
    assert found.levels[0].shares == (float(Fraction(2, 3)),) * 2
    assert found.levels[0].harms[0].cable == "n0->n1#2"


def test_alike_cables_in_parallel_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(problem: Problem, *words: Any) -> Any:
        asked.append(problem.topology.name)
        return bound_problem(problem, *words)

    monkeypatch.setattr("treadle.finder.building.resilience.bound_problem", counted)
    resilience("with_parallel_links(complete(3), 4)", cables=1, samples=30, seed=1, collectives=["allgather"])
    assert len(asked) == 4  # the whole, and one for each of three pairs of nodes


@pytest.mark.parametrize(
    ("what", "fabric"), [("cable", "path(2)"), ("cable", "path(3)"), ("node", "path(1)")]
)
def test_where_nothing_can_fail(what: str, fabric: str) -> None:
    amounts: Any = {"cables": 1} if what == "cable" else {"cables": (), "nodes": 1}
    with pytest.raises(TopologyError, match=rf"no {what} (of path\(3\) )?can fail"):
        resilience(fabric, **amounts, samples=1, collectives=["allgather"])


def test_tables_of_failures() -> None:
    level = FailureLevel(
        "allgather",
        3,
        0,
        (0.75, 0.25, 0.5),
        ("x", "y", "z"),
        (CableHarm("a--b", 0.5), CableHarm("c--d", 0.125)),
    )
    other = FailureLevel("alltoall", 0, 2, (0.5,), ("w",), ())
    assert (level.mean, level.worst, level.worst_fabric) == (0.5, 0.25, "y")
    found = ResilienceResult(
        parse("ring:4"), 4, {"allgather": Fraction(7, 2)}, (level, other), {"whole": 1.0}
    )
    assert found.records() == [
        {
            "collective": "allgather",
            "cables": 3,
            "nodes": 0,
            "samples": 3,
            "mean_share": 0.5,
            "worst_share": 0.25,
            "worst_fabric": "y",
            "worst_cable": "a--b",
        },
        {
            "collective": "alltoall",
            "cables": 0,
            "nodes": 2,
            "samples": 1,
            "mean_share": 0.5,
            "worst_share": 0.5,
            "worst_fabric": "w",
            "worst_cable": None,
        },
    ]
    told = resilience_summary(found)
    assert {key: told[key] for key in ("topology", "ranks", "cables", "optima", "seconds")} == {
        "topology": "ring(4)",
        "ranks": 4,
        "cables": 4,
        "optima": [{"collective": "allgather", "busbw_bytes_per_s": 3.5, "busbw_exact": "7/2"}],
        "seconds": {"whole": 1.0},
    }
    assert told["levels"] == [
        {
            "collective": "allgather",
            "cables": 3,
            "nodes": 0,
            "mean_share": 0.5,
            "worst_share": 0.25,
            "worst_fabric": "y",
            "shares": [0.75, 0.25, 0.5],
            "fabrics_left": ["x", "y", "z"],
            "harms": [
                {"cable": "a--b", "regained_share": 0.5},
                {"cable": "c--d", "regained_share": 0.125},
            ],
        },
        {
            "collective": "alltoall",
            "cables": 0,
            "nodes": 2,
            "mean_share": 0.5,
            "worst_share": 0.5,
            "worst_fabric": "w",
            "shares": [0.5],
            "fabrics_left": ["w"],
            "harms": [],
        },
    ]
