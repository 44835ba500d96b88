"""What design says, line by line, of frontiers by hand, and how its options are read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle import planning
from treadle.cli.designing import design
from treadle.cli.output import Output
from treadle.errors import FormatError
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network
from treadle.options.designing import Design
from treadle.render.quantities import Rates
from treadle.schedules.collective import CollectiveKind


def row(name: str, **changes: Any) -> Any:
    """A fabric of one part, seven steps, with all its times but that of a flow."""
    option = {
        "notation": name,
        "expression": f"{name}()",
        "parts": 1,
        "candidate": SimpleNamespace(steps=7, t_b_both=Fraction(5, 2)),
        "diameter": 3,
        "mean_distance": Fraction(3, 2),
        "flow": None,
    }
    values = {
        "allreduce_s": 1e-5,
        "alltoall_s": None,
        "alltoall_bound_s": 2e-5,
        "seconds": 3e-5,
        "least_s": 2.5e-5,
        "placement": None,
        "own_order_s": None,
    }
    option["label"] = changes.pop("label", option["notation"])
    option |= {key: changes.pop(key) for key in tuple(changes) if key in option}
    return SimpleNamespace(option=SimpleNamespace(**option), **(values | changes))


def result(*rows: Any, group: int | None = None, **changes: Any) -> Any:
    limits = {
        "steps": 2,
        "t_b": Fraction(7, 8),
        "mean_distance": Fraction(5, 4),
        "allreduce_s": 5e-6,
        "alltoall_s": 6e-6,
    }
    values = {
        "rows": rows,
        "best": rows[0] if rows else None,
        "nodes": 8,
        "degree": 2,
        "is_bidirectional": False,
        "network": SimpleNamespace(alpha_s=1.55e-6, bandwidth_bytes_per_s=12_500_000_000),
        "workload": SimpleNamespace(name="work", calls=[SimpleNamespace(group_size=group)]),
        "limits": SimpleNamespace(**limits),
        "shown_bytes": 2**20,
        "efforts": (),
        "kept": (),
        "reconfiguration": None,
        "is_kept": lambda one: one.option.notation.startswith("K"),
        "is_fresh": lambda one: one.option.notation.startswith("F"),
    }
    return SimpleNamespace(**(values | changes))


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, each with single blanks."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(Output(False, False, Rates("")), *arguments)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return told


def test_a_frontier(lines: Any) -> None:
    flow = row("A", flow="rate", alltoall_s=4e-6)
    parts = row(
        "B", parts=2, diameter=None, mean_distance=None, allreduce_s=None, alltoall_bound_s=None, seconds=None
    )
    made = result(flow, parts)
    assert lines(design._print_frontier, made, flow) == [
        "fabrics 8 nodes, degree 2, one-way or bidirectional links",
        "network 1.55 us a hop, 12.5 GB/s out of and into a node",
        "workload work",
        "",
        "topology steps T_B diameter mean allreduce all-to-all workload",
        "1* A 7 1.2500 3 1.500 10.0 4.0 30.0",
        "2 B - - - - - - -",
        "no fabric can beat 2 0.8750 2 1.250 5.0 >= 6.0",
        "",
        "T_B in M/B, mean of allgather and reduce-scatter; times in us for 1MB",
        "all-to-all: of a flow within 0.1% of the optimum; >= are bounds by distances",
        "best A()",
    ]


def test_a_name_too_long_for_its_column_stands_below(lines: Any) -> None:
    made = result(row("A"), row("B" * 99, label="BB..."))
    told = lines(design._print_frontier, made, made.rows[0])
    assert any(line.startswith("2 BB... 7") for line in told)
    assert told[-2:] == [f"named row 2: {'B' * 99}", "best A()"]


def test_a_frontier_of_groups_and_placed_ranks(lines: Any) -> None:
    placed = row("A", placement=tuple(range(8)), own_order_s=5e-5)
    many = row("B", placement=tuple(range(9, 0, -1)), own_order_s=6e-5, least_s=None)
    unknown = row("C", placement=(0,), own_order_s=None)
    made = result(placed, many, unknown, group=4, is_bidirectional=True)
    assert lines(design._print_frontier, made, many) == [
        "fabrics 8 nodes, degree 2, bidirectional",
        "network 1.55 us a hop, 12.5 GB/s out of and into a node",
        "workload work",
        "",
        "topology steps T_B diameter mean allreduce all-to-all workload least",
        "1 A 7 1.2500 3 1.500 10.0 >= 20.0 30.0 25.0",
        "2* B 7 1.2500 3 1.500 10.0 >= 20.0 30.0 -",
        "3 C 7 1.2500 3 1.500 10.0 >= 20.0 30.0 25.0",
        "no fabric can beat 2 0.8750 2 1.250 5.0 >= 6.0",
        "",
        "T_B in M/B, mean of allgather and reduce-scatter; times in us for 1MB",
        "least: what no schedules of the workload take less than on that topology",
        "all-to-all: bounds by distances",
        "placed row 1: ranks on nodes 0, 1, 2, 3, 4, 5, 6, 7; in the order of its own numbers the workload "
        "takes 50.0 us",
        "placed row 2: ranks on nodes 9, 8, 7, 6, 5, 4, 3, 2, ...; in the order of its own numbers the "
        "workload takes 60.0 us",
        "picked B()",
    ]


def test_what_was_searched_and_kept(lines: Any) -> None:
    effort = SimpleNamespace(kind="rings", tried=1, unit="set")
    fresh, kept, old = row("F"), row("K"), row("A")
    assert lines(design._print_efforts, result(old)) == []
    assert lines(design._print_efforts, result(old, efforts=(effort,))) == [
        "searched rings: 1 set",
        "found nothing better",
        "",
    ]
    assert lines(design._print_efforts, result(kept, old, kept=("one",))) == [
        "kept row 1, found by an earlier search and valued anew",
        "",
    ]
    everything = result(kept, fresh, kept, fresh, kept=("one",), efforts=(effort,))
    assert lines(design._print_efforts, everything) == [
        "searched rings: 1 set",
        "kept rows 1, 3, found by an earlier search and valued anew",
        "",
        "found rows 2, 4, better than the library",
        "",
    ]


def test_fabrics_that_change(lines: Any) -> None:
    unknown = "changing not known: the fabrics are too large for the time of some collective"
    assert lines(design._print_reconfiguration, result(row("A"))) == [unknown]
    found = SimpleNamespace(seconds=1e-5, changes=1, fabrics=("a", "b", "b"))
    told = ["1 call on a", "2 calls on b"]
    assert lines(design._print_reconfiguration, result(row("A"), reconfiguration=found)) == [
        "changing 10.0 us an iteration with 1 change, 30.0 us with one topology",
        *told[::-1],
    ]
    alone = result(row("A", seconds=None), reconfiguration=found)
    assert lines(design._print_reconfiguration, alone)[0] == "changing 10.0 us an iteration with 1 change"


def test_how_options_are_read(tmp_path: Path) -> None:
    assert design._size_of_fabric(None, None, "torus(3, 4)") == (12, 4)
    assert design._size_of_fabric(5, None, "torus(3, 4)") == (5, 4)
    assert design._size_of_fabric(None, 3, "torus(3, 4)") == (12, 3)
    assert design._size_of_fabric(5, 3, None) == (5, 3)
    assert [design._limit(text) for text in ("1", "1000000000", "2s")] == [
        SearchLimit(sets=1),
        SearchLimit(sets=10**9),
        SearchLimit(seconds=2),
    ]
    for text in ("1000000000000", "²"):
        with pytest.raises(FormatError):
            design._limit(text)
    assert design._kind("ReduceScatter") is CollectiveKind.REDUCE_SCATTER
    with pytest.raises(FormatError) as caught:
        design._kind("alltoall")
    expected = "expected one of allreduce, allgather, reduce-scatter"
    assert str(caught.value) == f"--collective 'alltoall': {expected}"
    job, network = design._problem(Design({}))
    assert job.calls[0].size_bytes == 2**20
    assert network == Network(planning.reference_hop_ns() / 10**9, 12_500_000_000)
    job, network = design._problem(Design({"alpha_s": 3e-6, "bandwidth": 10**9, "size": 2048}))
    assert (job.calls[0].size_bytes, network) == (2048, Network(3e-6, 10**9))
    path = tmp_path / "job.toml"
    path.write_text(
        '[network]\nalpha = "7us"\nbandwidth = "2GB/s"\n[[collectives]]\nkind = "allgather"\nsize = "9B"\n'
    )
    assert design._problem(Design({"workload": path}))[1] == Network(7e-6, 2 * 10**9)
    assert design._problem(Design({"alpha_s": 1e-6, "bandwidth": 10**9, "workload": path}))[1] == Network(
        1e-6, 10**9
    )
    with pytest.raises(
        FormatError, match=r"^--size and --workload exclude each other; the file has the sizes$"
    ):
        design._problem(Design({"size": 2**20, "workload": path}))
