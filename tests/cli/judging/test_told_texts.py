"""What lower and verify say of texts, line by line, of results by hand; and what lower asks for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle import planning
from treadle.cli.judging import lower, text_sets, verify
from treadle.cli.main import main
from treadle.cli.output import Output
from treadle.errors import ScheduleError
from treadle.options.judging import Lower
from treadle.planning import Check, Loading, Profile, Shortfall, find_format
from treadle.verification.violations import Report, Violation, ViolationKind

GB = 10**9
RING = treadle.solve('ring(4, bandwidth="3GB/s")', "allgather").plan


LOADING = Loading(
    "RT (of them)", (("A", "1"), ("B", "x y")), "it says so", "other calls", ("make it",), ("run()",)
)
LOADED = [
    *("load        RT (of them):", "            make it", "            A=1", "            B=x y"),
    *("            run()", "seen        it says so", "left aside  other calls"),
]


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
        "served": (),
        "friendlier": None,
        "cautions": (),
        "shortfall": None,
    }
    values |= {"instances": 1, "carried_algbw": None}
    return SimpleNamespace(**(values | changes))


PLACE: Any = SimpleNamespace(path=Path("x/y.xml"))


def test_what_was_written(lines: Any) -> None:
    target = find_format("msccl-xml")
    assert lines(lower._report, RING, lowered(), target, PLACE) == [
        "written     x/y.xml: msccl-xml for RT, 1 rank in 2 switches",
        "checked     played; never loaded by RT",
        *LOADED,
    ]
    group = SimpleNamespace(number=1, ranks=tuple(range(40, 57)))
    odd = lowered(
        dialect="azure",
        group=group,
        plan_chunks=3,
        cautions=("one", "two"),
        shortfall=Shortfall(3, Fraction(5 * GB)),
        served=(
            SimpleNamespace(selector="S", summary="all", rule="r"),
            SimpleNamespace(selector="T", summary="none", rule="q"),
        ),
    )
    plan: Any = SimpleNamespace(
        collective=SimpleNamespace(n_groups=3), entries=RING.entries, algbw=RING.algbw
    )
    first = ", ".join(map(str, range(40, 56)))
    assert lines(lower._report, plan, odd, target, None) == [
        "written     : msccl-xml for azure, 1 rank in 2 switches",
        "checked     played; never loaded by the azure runtime",
        "group       1 of 3: for a communicator of 17 ranks, the plan's "
        + first
        + " and 1 more in this order; "
        "no other loads it",
        "serves      all (r)",
        "            with T found: none (q)",
        *LOADED,
        "beware      one",
        "beware      two",
        "note        the text sends point to point where the plan leaves copies or sums to switches, so the "
        "plan's 8 GB/s do not hold for it; these trees reach 5 GB/s so, each transfer along fewest links",
    ]
    assert lines(lower._report_alike, odd, PLACE) == [
        f"written     x/y.xml: group 1, the plan's {first} and 1 more",
        "beware      one",
        "beware      two",
    ]
    assert lower._ranks(SimpleNamespace(ranks=range(16))) == ", ".join(map(str, range(16)))  # type: ignore[arg-type]


def test_chunks_and_friendlier_plans(lines: Any) -> None:
    better = SimpleNamespace(loss=Fraction(1, 200), trees=1, n_served=20)
    odd = lowered(plan_chunks=2, friendlier=better)
    assert lines(lower._tell_sizes, odd) == [
        "chunks      3 instead of 2, which serve more sizes: 1.25% slower (--chunks plan keeps them)",
        "            1 tree per root (solve --trees 1) would serve 20: 0.50% slower or more",
    ]
    free = SimpleNamespace(loss=Fraction(0), trees=2, n_served=5)
    assert lines(lower._tell_sizes, lowered(plan_chunks=3, friendlier=free)) == [
        "            2 trees per root (solve --trees 2) would serve 5: no slower by their bound"
    ]
    assert lines(lower._tell_loading, Loading("RT", (), "c", "f"))[0] == "load        RT"


def test_sizes_of_slices(capsys: pytest.CaptureFixture[str]) -> None:
    assert Lower.rows["pipeline_bytes"].read("1MB") == 2**20
    assert main(["lower", "x.plan", "--pipeline", "0B"]) == 2
    expected = "--pipeline 0B: expected slices of at least 1 byte, such as 1MB"
    assert capsys.readouterr().err == f"treadle: {expected}\n"


def test_options_of_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def answer(plan: Any, **options: Any) -> Any:
        asked.clear()
        asked.update(options)
        raise ScheduleError("enough")

    monkeypatch.setattr(planning, "lower_groups", answer)
    monkeypatch.setattr(planning, "lower", answer)
    plan, path = str(tmp_path / "ring.plan"), str(tmp_path / "x.xml")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", plan]) == 0
    assert main(["lower", plan]) == 2
    plain = {
        "to": "msccl-xml",
        "profile": None,
        "paths": [""],
        "in_own_folder": False,
    }
    assert asked == plain
    words = (
        "--profile rccl --in-place --channels 3 --instances 4 --pipeline 2KB --name me --size 4KB "
        "--consolidate --rank 2 --chunks 12 --accept-any-root --protocol LL --min-size 1KB --max-size 8KB"
    )
    assert main(["lower", plan, *words.split(), "-o", path]) == 2
    assert asked == plain | {
        "profile": Profile.RCCL,
        "paths": [path],
        "in_place": True,
        "channels": 3,
        "instances": 4,
        "pipeline_bytes": 2048,
        "name": "me",
        "size_bytes": 4096,
        "consolidate": True,
        "rank": 2,
        "chunks": 12,
        "accept_any_root": True,
        "protocol": "LL",
        "min_size_bytes": 1024,
        "max_size_bytes": 8192,
    }
    assert main(["lower", plan, "--group", "1", "-o", path]) == 2
    assert (asked["group"], asked["path"], asked["in_own_folder"]) == (1, path, False)
    assert capsys.readouterr().err == "treadle: enough\n" * 3


def ranged(file: str, *, low: int = 0, fills_in: bool = False, protocol: str = "", **changes: Any) -> Any:
    served = SimpleNamespace(summary=f"sizes of {file}", rule=f"rule of {file}")
    text = SimpleNamespace(file=file, n_chunks=2, min_bytes=low, fills_in=fills_in)
    made = lowered(served=(served,), **changes)
    return SimpleNamespace(text=text, made=made, algorithm="ring", protocol=protocol, sizes=f"from {low}")


def test_sets_of_texts(lines: Any) -> None:
    ranges = (
        ranged("b", low=9, protocol="LL", cautions=("x", "y"), shortfall=Shortfall(3, None)),
        ranged("e", low=9, fills_in=True, cautions=("x",)),
        ranged("a", cautions=("z",)),
    )
    made: Any = SimpleNamespace(
        texts=[1, 2, 3],
        ranges=ranges,
        format="msccl-xml",
        dialect="",
        left_out=((0, 8, "too small"), (100, None, "too large")),
    )
    delivery = SimpleNamespace(loading=LOADING)
    saved: Any = SimpleNamespace(texts=[1, 2, 3, 4], folder="f", delivery=delivery)
    assert lines(text_sets._report, RING, made, saved) == [
        "written     f: 3 texts of msccl-xml for RT (of them), beside 1 text of other plans",
        "checked     played; the choice followed at both ends of each range; never loaded by RT (of them)",
        *("range       from 0: ring, 2 chunks", "            a", "            sizes of a (rule of a)"),
        *("range       from 9: ring, LL, 2 chunks", "            b", "            sizes of b (rule of b)"),
        *("            else ring, 2 chunks: rule of e", "            e"),
        "left out    to 8B: too small",
        "left out    from 100B: too large",
        "load        RT (of them): sh f/load.sh COMMAND...",
        "            run()",
        "seen        it says so",
        "left aside  other calls",
        "beware      x",
        "beware      y",
        "beware      z",
        "note        some text sends point to point where the plan leaves copies or sums to switches, so the "
        "plan's 8 GB/s do not hold for it; by how much is not known",
    ]
    alone: Any = SimpleNamespace(
        texts=[1], ranges=ranges[2:], format="msccl-xml", dialect="rccl", left_out=()
    )
    saved = SimpleNamespace(texts=[1], folder="f", delivery=delivery)
    assert lines(text_sets._report, RING, alone, saved)[0] == "written     f: 1 text of msccl-xml for rccl"


def judged(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "counts": (("channel", 2), ("thread block", 1)),
        "check": Check.EXECUTED,
        "format": "msccl-xml",
        "n_ranks": 1,
        "is_part": False,
        "collective": "allreduce",
        "violations": (),
        "notes": (),
    }
    values |= {"instances": 1, "carried_algbw": None}
    return SimpleNamespace(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        (
            {},
            0,
            [
                "executed    allreduce, on integer contributions; never by the runtime itself",
                "verified    yes: no violations",
            ],
        ),
        (
            {"is_part": True},
            0,
            [
                "played      allreduce, this rank alone, as if the others did their parts",
                "verified    yes: no violations",
            ],
        ),
        (
            {"check": Check.PARSED},
            0,
            [
                "parsed      as its runtime would; it holds no program, and nothing was executed",
                "verified    yes, as far as a text alone shows: nothing is wrong with it",
            ],
        ),
        (
            {"violations": ("a",), "notes": ("b",)},
            1,
            [
                "executed    allreduce, on integer contributions; never by the runtime itself",
                "verified    NO: 1 violation",
                "            a",
                "note        b",
            ],
        ),
    ],
)
def test_texts_that_were_judged(changes: dict[str, Any], status: int, said: list[str], lines: Any) -> None:
    head = "text        x.xml: msccl-xml, 1 rank, 2 channels, 1 thread block"
    assert lines(verify._print_text, Path("x.xml"), judged(**changes)) == [head, *said]
    assert verify._print_text(Output(False, True), Path("x.xml"), judged(**changes)) == status


def test_violations_of_a_text_are_cut_short(lines: Any, capsys: pytest.CaptureFixture[str]) -> None:
    most = verify.SHOWN_VIOLATIONS
    for more in (0, 1, 3):
        faults = tuple(f"v{number}" for number in range(most + more))
        told = lines(verify._print_text, Path("x"), judged(violations=faults))
        rest = [f"            and {more} more (see --json)"] if more else []
        assert told[2:] == [
            f"verified    NO: {most + more} violations",
            *(f"            {one}" for one in faults[:most]),
            *rest,
        ]
    parsed = judged(check=Check.PARSED, collective="")
    for one, verdict in ((judged(), True), (judged(violations=("a",)), False), (parsed, None)):
        verify._print_text(Output(True, False), Path("x"), one)
        values = json.loads(capsys.readouterr().out)
        assert (values.get("verified"), values["n_violations"]) == (verdict, len(one.violations))
        assert (values["ranks"], values["channels"], values["thread_blocks"]) == (1, 2, 1)
        assert ("collective" in values) is (one is not parsed)


def test_texts_on_a_fabric(monkeypatch: pytest.MonkeyPatch, lines: Any) -> None:
    """Six GB/s of eight; two of five busy links are named."""
    fault = Report((Violation(ViolationKind.TEXT, "wrong"),), 1, None, None, None)
    placed = SimpleNamespace(
        topology=RING.topology,
        collective=RING.collective,
        form="FORM",
        notes=("n1", "n2"),
        report=Report((), 0, None, None, None),
        algbw=Fraction(6 * GB),
        optimal_algbw=Fraction(8 * GB),
        program="program",
        messages=3,
    )
    asked: list[Any] = []

    def place(path: Path, topology: Any, *, root: int) -> Any:
        asked.append((path, topology, root))
        return placed

    monkeypatch.setattr(planning, "place_file", place)
    monkeypatch.setattr(verify, "placed_summary", lambda _: {})
    busy = SimpleNamespace(links=("a->b", "b->c"), n_links=5)
    monkeypatch.setattr(planning, "congestion", lambda *_: busy)
    told = lines(verify._place_text, Path("x"), RING.topology, 2)
    assert asked == [(Path("x"), RING.topology, 2)]
    assert told[2:] == [
        "schedule    x: FORM; its ranks are the fabric's by number",
        "note        n1",
        "note        n2",
        "algbw       6 GB/s asymptotic, 75.0% of the optimum",
        "optimum     8 GB/s",
        "busiest     a->b, b->c and 3 more",
        "verified    yes: executed on integer contributions, and every message has a way",
    ]
    busy.n_links, placed.messages = 2, None
    told = lines(verify._place_text, Path("x"), RING.topology, 2)
    assert told[7:] == [
        "busiest     a->b, b->c",
        "verified    yes: trees span, paths hold, loads and claims are exact",
    ]
    placed.report = fault
    assert lines(verify._place_text, Path("x"), RING.topology, 2)[5:] == [
        "verified    NO: 1 violation",
        "            text: wrong",
    ]
    assert verify._place_text(Output(False, True), Path("x"), RING.topology, 0) == 1
