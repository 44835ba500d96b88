"""What lower and verify report of runtime files, of results by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import treadle
from harness.snapshots import check
from treadle.formats.selection.supported_sizes import Selector
from treadle.planning import Check, Loading, PointToPointGap, find_format
from treadle.render.files import lower_rows, lower_set_rows, lowered_values, verify_rows
from treadle.render.quantities import Rates
from treadle.render.rows import facts

GB = 10**9
RING = treadle.solve('ring(4, bandwidth="3GB/s")', "allgather").plan


LOADING = Loading(
    "RT (of them)", (("A", "1"), ("B", "x y")), "it says so", "other calls", ("make it",), ("run()",)
)


def lowered(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "counts": (("rank", 1), ("switch", 2)),
        "dialect": "",
        "checked": "played",
        "loading": LOADING,
        "group": None,
        "plan_chunks": None,
        "n_chunks": 3,
        "rounding_loss": Fraction(1, 80),
        "supported": (),
        "friendlier": None,
        "cautions": (),
        "shortfall": None,
    }
    values |= {"instances": 1, "carried_algbw": None, "n_operations": 7, "is_executed": True}
    values["verdict"] = SimpleNamespace(check=Check.EXECUTED)
    return SimpleNamespace(**(values | changes))


def served(selector: str, rule: str = "r") -> Any:
    chosen = list(Selector)[len(selector) % 2]
    return SimpleNamespace(selector=chosen, summary=f"sizes of {selector}", rule=rule, sizes=(1024,))


def test_written_files() -> None:
    """Groups, dialects, chunks, sizes by selector, cautions, instances, and thread blocks that limit."""
    target, path = find_format("msccl-xml"), Path("x/y.xml")
    group = SimpleNamespace(number=1, ranks=tuple(range(40, 57)))
    better = SimpleNamespace(loss=Fraction(1, 200), trees=1, n_supported=20)
    free = SimpleNamespace(loss=Fraction(0), trees=2, n_supported=5)
    plan: Any = SimpleNamespace(
        collective=SimpleNamespace(n_groups=3), entries=RING.entries, algbw=RING.algbw
    )
    odd = lowered(
        dialect="azure",
        group=group,
        plan_chunks=2,
        cautions=("one", "two"),
        shortfall=PointToPointGap(3, Fraction(5 * GB)),
        supported=(served("S"), served("TT", "q")),
        friendlier=better,
        instances=2,
        carried_algbw=Fraction(20 * GB),
    )
    bare = lowered(plan_chunks=3, friendlier=free, loading=Loading("RT", (), "c", "f"))
    views = []
    for results, paths in (([lowered()], [path]), ([odd, odd], [None, path]), ([bare], [path])):
        values = facts(lowered_values(results[0], paths[0], 3))
        views.append([*lower_rows(plan, results, paths, target), values])
    check("written_files", *views)


def ranged(file: str, *, low: int = 0, fills_in: bool = False, protocol: str = "", **changes: Any) -> Any:
    text = SimpleNamespace(file=file, n_chunks=2, min_bytes=low, max_bytes=None, fills_in=fills_in)
    made = lowered(supported=(served(file, f"rule of {file}"),), **changes)
    return SimpleNamespace(text=text, made=made, algorithm="ring", protocol=protocol, sizes=f"from {low}")


def test_sets_of_files() -> None:
    ranges = (
        ranged("b", low=9, protocol="LL", cautions=("x", "y"), shortfall=PointToPointGap(3, None)),
        ranged("e", low=9, fills_in=True, cautions=("x",)),
        ranged("a", cautions=("z",)),
    )
    left_out = ((0, 8, "too small"), (100, None, "too large"))
    made: Any = SimpleNamespace(
        files_by_range=[1, 2, 3], ranges=ranges, format="msccl-xml", dialect="", left_out=left_out
    )
    alone: Any = SimpleNamespace(
        files_by_range=[1], ranges=ranges[2:], format="msccl-xml", dialect="rccl", left_out=()
    )
    delivery = SimpleNamespace(loading=LOADING, files=(("load.sh", b""),))
    saved: list[Any] = [
        SimpleNamespace(texts=[1] * number, folder="f", delivery=delivery) for number in (4, 1)
    ]
    check(
        "sets_of_files", lower_set_rows(RING, [(made, saved[0])]), lower_set_rows(RING, [(alone, saved[1])])
    )


def test_plans_that_are_verified(tmp_path: Path) -> None:
    """True, against another fabric, and with a false claim."""
    path = tmp_path / "x.plan"
    path.write_bytes(b"12345")
    false = replace(RING, algbw=2 * RING.algbw)
    views = []
    for plan, fabric in ((RING, None), (RING, RING.topology), (false, None)):
        rows = verify_rows(treadle.verify(plan, fabric), plan, path, Rates())
        views.append([one for one in rows if "plan" not in one.facts])
    check("verified_plans", *views)
