"""What reports of simulations and diagnoses say, line by line, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle.cli.measuring import diagnose, simulate
from treadle.cli.output import Output
from treadle.errors import FormatError
from treadle.options.measuring import Simulate
from treadle.planning import SliceLimit
from treadle.planning.measuring.diagnosed import IN_NETWORK, OPTIMUM, RING
from treadle.render.quantities import Rates

GB = 10**9
FABRIC = treadle.parse("ring:4")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, each with single blanks."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(*arguments)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return told


def test_numbers_of_slices() -> None:
    slices = Simulate.rows["slices"]
    assert [slices.read(text) for text in ("auto", "1", "007", "999999999")] == ["auto", 1, 7, 999999999]
    for text in ("", "-1", "1.5", "1000000000", "²", "٣", "Auto" + "o" * 60):
        with pytest.raises(FormatError) as caught:
            slices.read(text)
        assert str(caught.value) == f"--slices {text[:40]!r}: expected a number or auto"


def test_who_pays_for_a_message() -> None:
    options: Any = SimpleNamespace(alpha_ns=1500)
    assert simulate._alpha(treadle.solve(FABRIC, "allgather").plan, options) == "1.5us a message"
    builder = treadle.TopologyBuilder("late")
    for name in "ab":
        builder.compute(name)
    builder.link("a", "b", 1, 700)
    builder.link("b", "a", 1, 250)
    late: Any = SimpleNamespace(topology=builder.build())
    assert simulate._alpha(late, options) == "1.5us a message and up to 0.7us a link"


def simulated(size: int, **changes: Any) -> Any:
    values = {
        "size_bytes": size,
        "slices": 3,
        "time": Fraction(5, 4 * 10**6),
        "is_exact": True,
        "algbw_bytes_per_s": 2.5 * GB,
        "busbw_bytes_per_s": 3.75 * GB,
        "efficiency": 0.625,
        "alpha_beta": Fraction(1, 10**6),
        "busiest": "a->b",
        "utilisation": 0.5,
        "transfers": 12,
        "slice_limit": None,
        "protocol": "ll",
        "bound": None,
    }
    return SimpleNamespace(**(values | changes))


def test_cells_of_simulated_sizes() -> None:
    cells = simulate._cells
    assert cells(Rates(), simulated(2048), ()) == (
        *("2KB", "3", "1.25", "2.500", "3.750", "62.5%", "1.00", "50% a->b"),
    )
    bare = simulated(7, efficiency=None, alpha_beta=None, utilisation=0.126)
    assert cells(Rates("Gbit/s"), bare, ("protocol",)) == (
        *("7B", "3", "1.25", "20.000", "30.000", "-", "ll", "-", "13% a->b"),
    )


def test_simulated_sizes_in_json() -> None:
    assert simulate._row(simulated(2048, slice_limit=SliceLimit.MESSAGES)) == {
        "size_bytes": 2048,
        "slices": 3,
        "time_s": 1.25e-6,
        "time_exact": "1/800000",
        "algbw_bytes_per_s": 2.5e9,
        "busbw_bytes_per_s": 3.75e9,
        "efficiency": 0.625,
        "alpha_beta_s": 1e-6,
        "busiest_link": "a->b",
        "utilisation": 0.5,
        "transfers": 12,
        "protocol": "ll",
        "slices_limited_by": SliceLimit.MESSAGES.value,
    }
    bare = simulate._row(simulated(1, is_exact=False, efficiency=None, alpha_beta=None, protocol=""))
    assert {"time_exact", "efficiency", "alpha_beta_s", "protocol", "slices_limited_by"}.isdisjoint(bare)


def test_sizes_whose_slices_were_limited() -> None:
    free = simulated(1024)
    bound = [simulated(size, slice_limit=SliceLimit.MESSAGES) for size in (2048, 4096, 8192)]
    end = "more would be too many messages to try; --slices N takes N"
    assert simulate._limits((free,)) == []
    assert simulate._limits((free, bound[0])) == ["", f"slices      2KB: {end}"]
    assert simulate._limits((free, *bound)) == ["", f"slices      2KB to 8KB: {end}"]


def test_referees(lines: Any) -> None:
    row = SimpleNamespace(
        size_bytes=2048, referee_s=2e-6, own_s=1.5e-6, wrong=4, alpha_ns=2500, difference=-0.25
    )
    other = SimpleNamespace(
        size_bytes=4096, referee_s=4e-6, own_s=4.5e-6, wrong=0, alpha_ns=100, difference=0.125
    )
    shown = lines(simulate._print_referee, Output(), "them", (row, other))
    assert shown[:3] == [
        "",
        "referee them: alpha 2.5us a message, whole, links shared fair; elements moved and checked",
        "size them (us) ours (us) difference wrong elements",
    ]
    assert shown[-2:] == ["2KB 2.00 1.50 -25.000% 4", "4KB 4.00 4.50 +12.500% 0"]
    assert lines(simulate._print_referee, Output(), "them", ())[1].startswith("referee them: no sizes, whole")
    assert simulate._refereed(row) == {  # type: ignore[arg-type]
        "size_bytes": 2048,
        "referee_s": 2e-6,
        "own_s": 1.5e-6,
        "wrong": 4,
        "alpha_s": 2.5e-6,
    }


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


def judged(*yardsticks: Any, above: str = "") -> Any:
    return SimpleNamespace(
        collective="allreduce", n_ranks=8, peak=PEAK, topology=FABRIC, yardsticks=yardsticks, above=above
    )


def diagnosis(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "log": log(),
        "topology": None,
        "imported": None,
        "assumed": (),
        "judgements": (),
        "unjudged": (),
        "suspects": (),
        "used_nics": 0,
        "fabric_nics": 0,
    }
    return SimpleNamespace(**(values | changes))


def told(lines: Any, **changes: Any) -> list[str]:
    return lines(diagnose._Report(Output()).print, diagnosis(**changes))  # type: ignore[no-any-return]


NOTHING = "suspects none; what only a low figure brings up was not looked for"


def test_a_log_without_tables(lines: Any) -> None:
    assert told(lines, log=log(tables=(), n_lines=1, version="2.19", hosts=("a", "b"))) == [
        "log x.log: 1 line, 0 tables, NCCL 2.19, 2 hosts",
        "measured nothing: the log has no table of nccl-tests; its lines alone are",
        "judged",
        "",
        NOTHING,
    ]


def test_the_fabric_of_a_log(lines: Any) -> None:
    fabric = "fabric ring:4: 4 ranks".replace("ring:4", FABRIC.name)
    for used, whole, words in (
        (0, 0, ""),
        (2, 8, ", 2 of 8 NICs of a box used"),
        (8, 8, ", 8 NICs of a box"),
        (1, 1, ", 1 NIC of a box"),
    ):
        shown = told(lines, topology=FABRIC, used_nics=used, fabric_nics=whole, assumed=("this",))
        assert shown[1:3] == [fabric + words, "assumed: this"]
    imported = SimpleNamespace(defaulted=("one",), warnings=("two",))
    assert told(lines, topology=FABRIC, imported=imported)[1:4] == [
        "fabric from the system tree in the log: 4 ranks",
        "note: one",
        "note: two",
    ]


def test_a_table_that_is_not_judged(lines: Any) -> None:
    assert told(lines, unjudged=((SimpleNamespace(peak=PEAK), "why"),))[1:3] == [
        "measured 375.83 GB/s busbw at 1GB (line 3)",
        "not judged: why",
    ]


def test_figures_beside_yardsticks(lines: Any) -> None:
    names = diagnose.describe_links(FABRIC, (0, 3))
    shown = told(
        lines,
        judgements=(
            judged(
                yardstick(RING, 0.9396, is_whole=True),
                yardstick(OPTIMUM, 0.5, place="box1", links=(0, 3)),
                yardstick(IN_NETWORK, 0.25, place="box1", links=(1,)),  # as the cut before
                yardstick(IN_NETWORK, 0.25, place="box2", is_priced=True),
                yardstick(IN_NETWORK, 0.25, place="box3", links=()),
            ),
        ),
    )
    assert shown[1:] == [
        "",
        "collective allreduce, 8 ranks",
        "measured 375.83 GB/s busbw, 214.7 GB/s algbw at 1GB, the peak (line 3)",
        "ring 400 GB/s 94% of what rings carry, all NICs",
        "optimum 400 GB/s 50% of the optimum, exact, NICs in use",
        *["in-network 400 GB/s 25% of the optimum with sums in the switches, NICs", "in use"] * 3,
        f"binds optimum: box1, 25 GB/s: {names}",
        f"in-network: box2; scarce are {names}",
        "",
        "suspects none: no line of the log speaks against the figure",
    ]
    part = told(lines, judgements=(judged(yardstick(RING, 1.5), above="more than rings carry"),))
    assert part[4:6] == ["ring 400 GB/s 150% of what rings carry", "more than rings carry"]
    known = log(remarks={"nvls": line(9, "NVLS is on")})
    part = told(lines, log=known, judgements=(judged(yardstick(RING, 1.5), above="more"),))
    assert part[5:7] == ["more", "line 9: NVLS is on"]


def test_suspects_and_warnings(lines: Any) -> None:
    suspects = [
        SimpleNamespace(text=f"s{number}", lines=(line(number), line(number + 1)), remedy=f"r{number}")
        for number in (4, 6)
    ]
    shown = told(lines, suspects=suspects, log=log(n_warnings=2, warnings=(line(5), line(7))))
    assert shown[1:] == [
        "",
        *("suspect 1 s4", "line 4: text of 4", "line 5: text of 5", "remedy: r4"),
        *("suspect 2 s6", "line 6: text of 6", "line 7: text of 7", "remedy: r6"),
        "warnings 2 warnings of NCCL; the first, line 5: text of 5",
    ]


def test_lines_are_no_wider_than_80(capsys: pytest.CaptureFixture[str]) -> None:
    report = diagnose._Report(Output())
    report._say("label", "word " * 30 + "x" * 70)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    assert shown[0] == "label       " + " ".join(["word"] * 13)
    assert all(one.startswith(" " * 12 + "w") or one.startswith(" " * 12 + "x") for one in shown[1:])
    report._say("", "co-operation " * 8, indent=4)
    assert capsys.readouterr().out.splitlines() == [
        "    " + " ".join(["co-operation"] * 5),
        "    " + " ".join(["co-operation"] * 3),
    ]
