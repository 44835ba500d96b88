"""Comparisons and groups as JSON objects, key by key, of values that are made up."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

from treadle.planning import comparison_summary as comparisons
from treadle.planning import group_summary, pose
from treadle.planning.measuring.congestion import Congestion
from treadle.planning.solving.comparison import ComparisonRow, RowMeasures
from treadle.schedules.witness import CutWitness
from treadle.synthesis.result import Bound
from treadle.verification.violations import Report


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def report(algbw: Fraction | None = Fraction(3), *, bound: Fraction | None = None, wrong: int = 0) -> Report:
    return Report(cast(Any, ("late",) * min(wrong, 1)), wrong, algbw, bound, 7)


def test_throughputs() -> None:
    assert group_summary.rate_values("x", Fraction(5, 2)) == {"x_bytes_per_s": 2.5, "x_exact": "5/2"}


def test_rates_of_groups() -> None:
    assert group_summary.rates_of_groups(None) == {}
    alone = (
        made_up(algbw=Fraction(7, 2), groups=(1, 2), is_exact=True),
        made_up(algbw=Fraction(9, 2), groups=(0,), is_exact=False),
    )
    rates = made_up(
        lower=Fraction(3),
        upper=Fraction(4),
        is_exact=False,
        alone=alone,
        bottleneck=(5, 2),
        rs_ag=Fraction(1, 2),
    )
    assert group_summary.rates_of_groups(rates) == {
        "together_bytes_per_s": 3.0,
        "together_exact": "3/1",
        "together_upper_bytes_per_s": 4.0,
        "together_upper_exact": "4/1",
        "gap": 0.25,
        "rs_ag_bytes_per_s": 0.5,
        "rs_ag_exact": "1/2",
        "alone_bytes_per_s": 3.5,
        "alone_exact": "7/2",
        "alone_rates": [
            {"algbw_bytes_per_s": 3.5, "algbw_exact": "7/2", "groups": 2, "first_group": 1},
            {
                "algbw_bytes_per_s": 4.5,
                "algbw_exact": "9/2",
                "groups": 1,
                "first_group": 0,
                "bound_only": True,
            },
        ],
        "binding_links": [5, 2],
    }
    rates = made_up(lower=Fraction(3), upper=Fraction(3), is_exact=True, alone=(), bottleneck=(), rs_ag=None)
    assert group_summary.rates_of_groups(rates) == {
        "together_bytes_per_s": 3.0,
        "together_exact": "3/1",
        "binding_links": [],
    }


def test_a_group_that_is_cut_off() -> None:
    nothing = {
        f"{key}_{end}": value
        for key in ("optimal_algbw", "optimal_busbw", "together", "alone")
        for end, value in (("bytes_per_s", 0.0), ("exact", "0/1"))
    }
    base = {**nothing, "witness": {"kind": "cut", "nodes": ["b", "a"]}, "cut_off_group": 3}
    error = made_up(cut=("b", "a"), group=3, forwarding=None)
    assert group_summary.cut_off_values(error) == base
    error.forwarding = made_up(algbw=Fraction(5, 2))
    told = group_summary.cut_off_values(error)
    assert told == {**base, "forwarding_bytes_per_s": 2.5, "forwarding_exact": "5/2"}


def sized(**values: Any) -> Any:
    base = {
        "size_bytes": 64,
        "time": Fraction(1, 4),
        "slices": 2,
        "protocol": "",
        "algbw_bytes_per_s": 256.0,
        "busbw_bytes_per_s": 192.0,
        "efficiency": None,
        "bound": None,
        "busiest": "a->b",
        "utilisation": 0.75,
    }
    return made_up(**{**base, **values})


def test_rows_of_comparisons() -> None:
    problem = pose("ring:4", "allgather")
    tight, loose = (Bound(Fraction(4), CutWitness((1,)), one, "") for one in (True, False))

    def row(bound: Bound, one: ComparisonRow) -> dict[str, object]:
        return comparisons._row(bound, problem.collective, one)

    refused = ComparisonRow("a", None, None, 2.0, "no")
    assert row(tight, refused) == {"algorithm": "a", "seconds": {"total": 2.0}, "refusal": "no"}
    good = ComparisonRow("a", report(), 6, 2.0, notes=("n",))
    wanted = {
        "algorithm": "a",
        "seconds": {"total": 2.0},
        "algbw_bytes_per_s": 3.0,
        "algbw_exact": "3/1",
        "busbw_bytes_per_s": 2.25,
        "busbw_exact": "9/4",
        "gap": 0.25,
        "optimal": False,
        "trees": 6,
        "verified": True,
        "violations": [],
        "n_violations": 0,
        "height_max": 7,
        "height_is_exact": True,
    }
    assert row(tight, good) == wanted
    assert row(loose, good) == {**wanted, "optimal": None}
    best = ComparisonRow("a", report(Fraction(4), bound=Fraction(4)), 6, 2.0)
    assert (row(loose, best)["optimal"], row(loose, best)["gap"]) == (True, 0.0)
    wrong = row(tight, ComparisonRow("a", report(wrong=2), None, 2.0))
    assert wrong == {
        "algorithm": "a",
        "seconds": {"total": 2.0},
        "verified": False,
        "violations": ["late"],
        "n_violations": 2,
        "height_max": 7,
        "height_is_exact": True,
    }
    brought = row(tight, ComparisonRow("a", None, None, 2.0, "no", form="f", is_peer=True, notes=("n", "m")))
    assert brought == {
        "algorithm": "a",
        "seconds": {"total": 2.0},
        "form": "f",
        "peer": True,
        "notes": ["n", "m"],
        "refusal": "no",
    }


def test_what_messages_take() -> None:
    assert comparisons._measures(RowMeasures(refusal="no")) == {"not_simulated": "no"}
    bound = made_up(time=Fraction(1, 8), reason="reach")
    rows = (sized(), sized(protocol="ll", efficiency=0.5, bound=bound))
    found = RowMeasures(Congestion(("a->b", "b->a"), 5, Fraction(3, 2)), rows)
    base = {
        "size_bytes": 64,
        "time_s": 0.25,
        "slices": 2,
        "algbw_bytes_per_s": 256.0,
        "busbw_bytes_per_s": 192.0,
        "busiest_link": "a->b",
        "utilisation": 0.75,
    }
    assert comparisons._measures(found) == {
        "busiest_links": ["a->b", "b->a"],
        "n_busiest_links": 5,
        "busiest_times_optimum": "3/2",
        "sizes": [
            base,
            {**base, "protocol": "ll", "efficiency": 0.5, "bound_s": 0.125, "bound_by": "reach"},
        ],
    }
