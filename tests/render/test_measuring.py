"""What simulations, runs and diagnoses report, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import treadle
from harness.snapshots import check
from treadle.diagnosis.diagnosed import IN_NETWORK, OPTIMUM, RING
from treadle.diagnosis.expected import Expected
from treadle.diagnosis.reference_bandwidths import Limit
from treadle.diagnosis.verdict import Curve, Explanation, Outcome, Verdict
from treadle.render.measuring import cross_check_rows, diagnosis_rows

GB = 10**9
FABRIC = treadle.parse("ring:4")


def test_cross_checks() -> None:
    sizes = {"size_bytes": 2048, "referee_s": 2e-6, "own_s": 1.5e-6, "wrong": 4, "alpha_ns": 2500}
    found: Any = SimpleNamespace(**sizes, difference=-0.25)
    name: Any = SimpleNamespace(value="them")
    check("cross_checks", cross_check_rows(name, (found,)), cross_check_rows(name, ()))


def line(number: int, text: str = "") -> Any:
    return SimpleNamespace(number=number, text=text or f"text of {number}")


def log(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "source": "x.log",
        "n_lines": 12,
        "tables": ("one",),
        "version": "",
        "hosts": (),
        "channels": (),
        "remarks": {},
        "n_warnings": 0,
        "warnings": (),
    }
    return SimpleNamespace(**(values | changes))


PEAK = SimpleNamespace(busbw=375.829, algbw=214.7, size=2**30, line=line(3))


def yardstick(name: str, share: float, **changes: Any) -> Any:
    limit = {"busbw": Fraction(400 * GB), "capacity": Fraction(25 * GB), "is_priced": False, "links": (0, 3)}
    limit |= {key: changes.pop(key) for key in tuple(changes) if key in limit}
    values = {
        "name": name,
        "share": share,
        "place": "box0",
        "is_whole": False,
        "limit": SimpleNamespace(is_upper_bound=False, **limit),
    }
    return SimpleNamespace(**(values | changes))


VERDICT = Verdict(
    Outcome.SLOW,
    "what it reaches",
    0.5,
    Expected(340, 400, 460, "a model"),
    (Explanation("nics", "one NIC", "NCCL_IB_HCA", 380.5), Explanation("tcp", "TCP", "Using network Socket")),
)
CURVE = Curve(15.25, 4096, 2**23, 2**30, ((1024, "ring/LL"), (2**21, "nvls/Simple")), False, 15.02)


def judged(*yardsticks: Any, above: str = "", **changes: Any) -> Any:
    known = {"verdict": Verdict(Outcome.CANNOT_SAY, "no model"), "curve": None, "with_nvls": None}
    return SimpleNamespace(
        collective="allreduce",
        n_ranks=8,
        peak=PEAK,
        topology=FABRIC,
        references=yardsticks,
        above=above,
        is_low=False,
        table=SimpleNamespace(rows=[SimpleNamespace(line=line(2))], average=1.5),
        reference=lambda name: next((one for one in yardsticks if one.name == name), None),
        **(known | changes),
    )


def diagnosis(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "log": log(),
        "topology": None,
        "imported": None,
        "assumed": (),
        "checked_tables": (),
        "unchecked_tables": (),
        "causes": (),
        "used_nics": 0,
        "fabric_nics": 0,
        "late": (),
        "missing": "",
    }
    return SimpleNamespace(**(values | changes))


def test_diagnoses() -> None:
    """Logs without tables, NICs in use, tables that cannot be assessed, limits, causes and warnings."""
    imported = SimpleNamespace(defaulted=("one",), warnings=("two",), recognised={"boxes": "2"})
    limits = judged(
        yardstick(RING, 0.9396, is_whole=True),
        yardstick(OPTIMUM, 0.5, place="box1", links=(0, 3)),
        yardstick(IN_NETWORK, 0.25, place="box1", links=(1,)),  # as the cut before
        yardstick(IN_NETWORK, 0.25, place="box2", is_priced=True),
        yardstick(IN_NETWORK, 0.25, place="box3", links=()),
    )
    unjudged = (SimpleNamespace(peak=PEAK, rows=[SimpleNamespace(line=line(2))]), "why")
    causes = [
        SimpleNamespace(
            name=f"c{number}", text=f"s{number}", lines=(line(number), line(number + 1)), fix=f"r{number}"
        )
        for number in (4, 6)
    ]
    known = log(remarks={"nvls": line(9, "NVLS is on")})
    cases: list[dict[str, Any]] = [
        {"log": log(tables=(), n_lines=1, version="2.19", hosts=("a", "b"))},
        {"topology": FABRIC, "used_nics": 2, "fabric_nics": 8, "assumed": ("this",)},
        {"topology": FABRIC, "used_nics": 1, "fabric_nics": 1, "imported": imported},
        {"unchecked_tables": (unjudged,), "missing": "no fabric", "late": ("ring",)},
        {"checked_tables": (limits,)},
        {"checked_tables": (judged(yardstick(RING, 1.5), above="more than rings reach"),), "log": known},
        {"checked_tables": (judged(verdict=VERDICT, curve=CURVE, with_nvls=Limit(Fraction(700 * GB))),)},
        {"causes": causes, "log": log(n_warnings=2, warnings=(line(5), line(7)))},
    ]
    check("diagnoses", *(diagnosis_rows(diagnosis(**one)) for one in cases))
