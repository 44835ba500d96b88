"""A diagnosis as JSON and in a line, of values that are made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from treadle.planning.measuring.diagnosis_summary import MOST_LINKS, diagnosis_summary

from treadle.diagnosis.log import Log
from treadle.planning.measuring.diagnosed import Diagnosis, JudgedTable, Yardstick
from treadle.planning.measuring.yardstick_words import BindingPlace
from treadle.planning.measuring.yardsticks import Limit
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def line(number: int, text: str = "") -> Any:
    return made_up(number=number, text=text)


RING = Yardstick("ring", Limit(Fraction(7, 2), (3, 0), 5), 0.75, BindingPlace.NICS)
OPTIMUM = Yardstick("optimum", Limit(Fraction(4), (1,), is_priced=True), 0.5, BindingPlace.PRICES)
WHOLE = Yardstick("ring", Limit(Fraction(9), (2,), 9), 0.25, BindingPlace.BOX, is_whole=True)


def judged(**values: Any) -> JudgedTable:
    table = made_up(rows=[made_up(line=line(11)), made_up(line=line(12))], average=0.125)
    peak = made_up(size=64, busbw=1.5, algbw=2.5, line=line(12))
    kind = CollectiveKind.ALLREDUCE
    base: dict[str, Any] = {"table": table, "collective": kind, "n_ranks": 8, "peak": peak}
    base |= {"topology": parse("ring:4"), "yardsticks": (RING, OPTIMUM, WHOLE), "above": "", "is_low": True}
    return JudgedTable(**{**base, **values})


def diagnosis(**values: Any) -> Diagnosis:
    log: Any = Log("nccl.log", 99, tables=(made_up(), made_up()), warnings=(line(5, "w"),), n_warnings=7)
    base: dict[str, Any] = {"log": log, "topology": None, "imported": None, "assumed": (), "judgements": ()}
    base |= {"unjudged": (), "suspects": (), "used_nics": 0, "fabric_nics": 0, "late": (), "missing": ""}
    return Diagnosis(**{**base, **values})


BASE = {
    "log": "nccl.log",
    "lines": 99,
    "nccl_version": None,
    "tables": 2,
    "judgements": [],
    "unjudged": [],
    "suspects": [],
    "nccl_warnings": 7,
    "warnings": [{"line": 5, "text": "w"}],
}


def test_a_log_that_says_nothing() -> None:
    assert diagnosis_summary(diagnosis()) == BASE
    log = replace(diagnosis().log, version="2.18")
    assert diagnosis_summary(diagnosis(log=log)) == {**BASE, "nccl_version": "2.18"}


def test_a_log_that_says_everything() -> None:
    table = made_up(rows=[made_up(line=line(21))])
    suspect = made_up(
        name="pcie",
        text="slow",
        lines=(line(3, "x"), line(4, "y")),
        remedy="plug",
    )
    imported = made_up(recognised={"gpus": "8"}, defaulted=["d"], warnings=["v"])
    found = diagnosis(
        topology=parse("dgx_a100:1"),
        imported=imported,
        assumed=("one",),
        unjudged=((table, "why"),),
        suspects=(suspect,),
        used_nics=2,
        fabric_nics=4,
        late=("optimum",),
        missing="tree",
    )  # fmt: skip
    assert diagnosis_summary(found) == {
        **BASE,
        "unjudged": [{"line": 21, "reason": "why"}],
        "suspects": [
            {
                "suspect": "pcie",
                "text": "slow",
                "evidence": [{"line": 3, "text": "x"}, {"line": 4, "text": "y"}],
                "remedy": "plug",
            }
        ],
        "topology": "dgx_a100(1)",
        "ranks": 8,
        "from_log": True,
        "assumed": ["one"],
        "recognised": {"gpus": "8"},
        "defaulted": ["d"],
        "doubts": ["v"],
        "nics_used": 2,
        "nics_of_fabric": 4,
        "late": ["optimum"],
        "missing": "tree",
    }
    given = diagnosis_summary(diagnosis(topology=parse("ring:3")))
    assert (given["ranks"], given["from_log"]) == (3, False)


def test_a_judgement() -> None:
    fabric = parse("ring:4")
    (told,) = diagnosis_summary(diagnosis(judgements=(judged(),)))["judgements"]  # type: ignore[misc]
    assert told == {
        "line": 11,
        "collective": "allreduce",
        "ranks": 8,
        "peak": {
            "size_bytes": 64,
            "busbw_bytes_per_s": 1.5e9,
            "algbw_bytes_per_s": 2.5e9,
            "line": 12,
        },
        "average_busbw_bytes_per_s": 0.125e9,
        "yardsticks": [
            {
                "name": "ring",
                "nics": "in use",
                "busbw_bytes_per_s": 3.5,
                "busbw_exact": "7/2",
                "share": 0.75,
                "binds": "the NICs of a box",
                "cut_bytes_per_s": 5,
                "cut_links": [fabric.link_name(3), fabric.link_name(0)],
            },
            {
                "name": "optimum",
                "nics": "in use",
                "busbw_bytes_per_s": 4.0,
                "busbw_exact": "4/1",
                "share": 0.5,
                "binds": "link prices",
                "priced_links": [fabric.link_name(1)],
            },
            {
                "name": "ring",
                "nics": "all",
                "busbw_bytes_per_s": 9.0,
                "busbw_exact": "9/1",
                "share": 0.25,
                "binds": "the GPUs' links within a box",
            },
        ],
        "healthy": False,
    }
    table = made_up(rows=[made_up(line=line(11))], average=None)
    other = judged(table=table, above="more", is_low=False, yardsticks=())
    (told,) = diagnosis_summary(diagnosis(judgements=(other,)))["judgements"]  # type: ignore[misc]
    assert "average_busbw_bytes_per_s" not in told
    assert (told["above"], told["healthy"]) == ("more", True)


def test_the_first_links_of_a_cut() -> None:
    fabric = parse("complete(9)")
    assert MOST_LINKS == 64 < fabric.n_links
    limit = Limit(Fraction(1), tuple(range(fabric.n_links)), 3)
    table = judged(topology=fabric, yardsticks=(replace(RING, limit=limit),))
    (told,) = diagnosis_summary(diagnosis(judgements=(table,)))["judgements"]  # type: ignore[misc]
    assert told["yardsticks"][0]["cut_links"] == [fabric.link_name(link) for link in range(64)]


def test_yardsticks_by_name_are_of_the_cards_in_use() -> None:
    found = judged(yardsticks=(WHOLE, OPTIMUM, RING))
    assert found.yardstick("ring") is RING
    assert found.yardstick("optimum") is OPTIMUM
    assert found.yardstick("in-network") is None


def test_a_diagnosis_in_a_line() -> None:
    suspects = tuple(made_up(name=name) for name in ("b", "a", "b"))
    found = diagnosis(judgements=(judged(), judged()), suspects=suspects)
    assert repr(found) == (
        "<Diagnosis allreduce 1.5 GB/s busbw, 75% of ring, 50% of optimum; suspects: b, a>"
    )
    assert repr(diagnosis()) == "<Diagnosis without a figure; suspects: none>"
    many = diagnosis(suspects=tuple(made_up(name=f"suspect{number}") for number in range(99)))
    assert len(repr(many)) == 200
