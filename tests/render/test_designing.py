"""What topology and design report of odd fabrics and by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from harness.snapshots import check
from treadle import planning
from treadle.cli.designing import design, topology
from treadle.errors import FormatError
from treadle.finder.searches.fresh import SearchLimit
from treadle.finder.workload import Network
from treadle.options.designing import Design
from treadle.render.designing import design_rows, import_rows, topology_rows
from treadle.render.quantities import Rates
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology, TopologyBuilder

GB = 10**9


def uneven(*, is_connected: bool = True) -> Topology:
    """a gets 3 and sends 5 GB/s, b the other way round; c and d are even."""
    builder = TopologyBuilder("uneven")
    for name in "abcd":
        builder.compute(name)
    builder.link("a", "b", 5 * GB)
    builder.link("b", "a", 3 * GB)
    if is_connected:
        builder.duplex("b", "c", GB)
    builder.duplex("c", "d", GB)
    return builder.build()


def entry(name: str, signature: str, summary: str = "a `fabric`") -> Any:
    return SimpleNamespace(name=name, group="Some Group", signature=signature, summary=summary)


def test_the_catalogue_by_groups() -> None:
    links = 'bandwidth="1B/s", latency="0ns")'
    one, two = entry("a", f"a(n, *, {links}"), entry("b", f"b({links}")
    assert list(topology._group_lines("G", [one, two])) == [
        'G (also bandwidth="1B/s", latency="0ns"):',
        *("  a(n)", "      a fabric", "  b()", "      a fabric"),
    ]
    other = entry("c", "c(n)")
    assert list(topology._group_lines("G", [one, other])) == [
        "G:",
        *(f"  a(n, *, {links}", "      a fabric", "  c(n)", "      a fabric"),
    ]
    three = entry("slim_fly", "", "Of Diameter-2")
    for text, matches in (
        ("", True),
        ("SLIM-fly group", True),
        ("diameter 2", True),
        ("diameter 3", False),
        ("slim fat", False),
    ):
        assert topology._matches(three, text) is matches


def facts(**changes: Any) -> Any:
    values = {
        "degrees": None,
        "degree": None,
        "is_bidirectional": True,
        "n_ranks": 8,
        "diameter": None,
        "bounds": None,
        "distances": None,
        "allgather": None,
        "reduce_scatter": None,
        "is_direct": False,
        "is_moore_optimal": False,
        "is_moore_optimal_bidirectional": False,
        "is_vertex_transitive": None,
        "is_reverse_symmetric": None,
        "intersection_array": None,
        "is_distance_regular": None,
        "omissions": (),
    }
    return SimpleNamespace(**(values | changes))


def bounds(steps: int = 2, pairs: int | None = None, **changes: Any) -> Any:
    values = {
        "steps": steps,
        "steps_bidirectional": pairs,
        "mean_distance": Fraction(4, 3),
        "pair_rate": Fraction(GB, 4),
        "t_b": Fraction(7, 8),
    }
    return SimpleNamespace(**(values | changes))


def distances(**changes: Any) -> Any:
    values = {
        "mean": Fraction(5, 3),
        "per_node": (Fraction(1), Fraction(3), Fraction(7, 2)),
        "diameter": 2,
        "is_alike": True,
        "pair_rate": None,
        "pairs": (8, 24, 28),
    }
    return SimpleNamespace(**(values | changes))


def cost(steps: int, **changes: Any) -> Any:
    values = {
        "node_bandwidth": 2 * GB,
        "n_ranks": 8,
        "t_b": Fraction(9, 8),
        "is_bw_optimal": False,
        "diameter": steps,
        "seconds_per_byte": Fraction(1, 4 * GB),
    }
    return SimpleNamespace(**(values | changes))


def test_fabrics() -> None:
    """Fabrics that are not balanced or connected, switches, and facts of all kinds."""
    builder = TopologyBuilder("one way")
    for name in "ab":
        builder.compute(name)
    builder.link("b", "a", 2)
    ring = treadle.parse("ring(4, bandwidth='2GB/s')")
    far = distances(per_node=tuple(Fraction(place) for place in range(14)), diameter=13)
    near = distances(mean=Fraction(1), per_node=(Fraction(1), Fraction(7)), diameter=1, is_alike=False)
    rated = distances(mean=None, pair_rate=Fraction(GB, 2))
    array = SimpleNamespace(b=(2, 1), c=(1, 1))
    cases: list[tuple[Topology, dict[str, Any]]] = [
        (uneven(), {"distances": rated}),
        (uneven(is_connected=False), {}),
        (builder.build(), {"n_ranks": 1, "degrees": (0, 0), "degree": 0, "diameter": 3}),
        (treadle.parse("dgx_h100(2, nvls=True)"), {"omissions": ("this", "that"), "degrees": (2, 4)}),
        (ring, {"degrees": (3, 3), "degree": 3, "is_bidirectional": False, "diameter": 1}),
        (ring, {"bounds": bounds(), "distances": near}),
        (ring, {"diameter": 3, "bounds": bounds(1, 2), "distances": distances()}),
        (ring, {"diameter": 3, "bounds": bounds(), "is_moore_optimal": True, "distances": far}),
        (ring, {"diameter": 3, "bounds": bounds(pair_rate=None), "is_moore_optimal_bidirectional": True}),
        (ring, {"is_direct": True, "is_vertex_transitive": True, "intersection_array": array}),
        (ring, {"allgather": cost(1, t_b=Fraction(7, 8), is_bw_optimal=True), "reduce_scatter": cost(2)}),
        (ring, {"allgather": cost(2, node_bandwidth=None), "distances": rated, "bounds": bounds()}),
    ]
    check("fabrics", *(topology_rows(fabric, facts(**changes), Rates()) for fabric, changes in cases))


def test_what_was_read_from_a_file() -> None:
    found: Any = SimpleNamespace(
        format="nccl",
        recognised={"boxes": "2 of 4", "a long subject": "x"},
        defaulted=("one",),
        warnings=("two", "three"),
    )
    check("imports", import_rows("x.xml", found, uneven()), import_rows("x", found, uneven(), "out.json"))


def row(name: str, **changes: Any) -> Any:
    """A fabric of one part, seven steps, with all its times but that of a flow."""
    option = {
        "notation": name,
        "expression": f"{name}()",
        "parts": 1,
        "candidate": SimpleNamespace(
            steps=7,
            t_b_both=Fraction(5, 2),
            gather=SimpleNamespace(t_b=Fraction(1)),
            reduce=SimpleNamespace(t_b=Fraction(3, 2)),
        ),
        "diameter": 3,
        "mean_distance": Fraction(3, 2),
        "flow": None,
        "pair_rate": None,
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
        "pair_rate": Fraction(1, 9),
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
        "is_cached": lambda one: one.option.notation.startswith("K"),
        "is_fresh": lambda one: one.option.notation.startswith("F"),
    }
    return SimpleNamespace(**(values | changes))


def test_frontiers() -> None:
    """Flows and bounds, parts, long names, groups, placed ranks, searches, and fabrics that change."""
    flow = row("A", flow=SimpleNamespace(rate=0.5, gap=0.001), alltoall_s=4e-6)
    parts = row(
        "B",
        parts=2,
        diameter=None,
        mean_distance=None,
        allreduce_s=None,
        alltoall_bound_s=None,
        seconds=None,
        least_s=None,
    )
    placed = row("A", placement=tuple(range(8)), own_order_s=5e-5)
    many = row("B" * 99, label="BB...", placement=tuple(range(9, 0, -1)), own_order_s=6e-5, least_s=None)
    effort = SimpleNamespace(kind="rings", tried=1, unit="set", found=("x",), usual_s=0)
    kept, fresh = row("K"), row("F")
    found = SimpleNamespace(seconds=1e-5, changes=1, fabrics=("a", "b", "b"))
    results = [
        result(flow, parts),
        result(placed, many, row("C", placement=(0,)), group=4, is_bidirectional=True),
        result(row("A"), efforts=(effort,)),
        result(kept, fresh, kept, fresh, kept=("one",), efforts=(effort,)),
        result(row("A"), reconfiguration=found),
        result(row("A", seconds=None), reconfiguration=found),
    ]
    views = [design_rows(one, one.rows[-1], Rates(), with_reconfiguration=True) for one in results]
    check("frontiers", *views, design_rows(results[0], flow, Rates(), with_reconfiguration=False))


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
