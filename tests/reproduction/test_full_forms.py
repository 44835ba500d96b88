"""What full forms ask for, with all that takes long replaced: which sizes, which limits, which rows."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle import planning
from treadle.errors import FormatError
from treadle.finder.construction import Base, LineGraph
from treadle.reproduction import (
    exchange_figures,
    expansion_tables,
    generation_times,
    graph_tables,
    printed,
    simulated_curves,
    training_anchors,
)
from treadle.reproduction.curve_settings import BEST_TOPOLOGIES, Curve, CurveSetting, Panel
from treadle.reproduction.expansion_tables import TABLE_A1, AllgatherCost
from treadle.reproduction.paper_figure import ReproducedValue, Row
from treadle.reproduction.printed import published_figures
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.synthesis.steps.exact.exact_problem import FreeRounds
from treadle.topologies import parse
from treadle.topologies.moore import moore_steps


def labels(rows: Iterable[Row]) -> list[str]:
    return [row[0] for row in rows]


def values(rows: Iterable[Row]) -> dict[str, Any]:
    return {row[0]: row[1] for row in rows}


def test_sizes_and_limits_of_the_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[dict[str, str], float | None]] = []

    def schemes(cases: dict[str, str], limit: float | None) -> Iterable[Row]:
        asked.append((cases, limit))
        return ()

    monkeypatch.setattr(exchange_figures, "_schemes", schemes)
    for full in (True, False):
        list(exchange_figures.figure_8(full))
        list(exchange_figures.figure_9(full))
    kautz = {n: f"generalized_kautz(4, {n})" for n in (16, 27, 36, 50, 64, 81)}
    assert asked[0] == ({f"N={n}": text for n, text in kautz.items()}, 10.0)
    assert asked[2] == ({f"N={n}": kautz[n] for n in (16, 27, 36)}, 1.0)
    whole = "generalized_kautz(8, 81)"
    cut = {f"{k} links disabled": f"punctured({whole}, links={k}, seed=1)" for k in (16, 32, 64)}
    assert asked[1] == ({"0 links disabled": whole, **cut}, 10.0)
    first = "16 links disabled"
    assert asked[3] == ({"0 links disabled": whole, first: cut[first]}, None)


def test_topologies_of_degree_4_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ratio(expression: str) -> float:
        asked.append(expression)
        return {"g": 2.0, "x": 3.0, "j": 5.0, "t": 8.0}[expression[0]]

    monkeypatch.setattr(exchange_figures, "over_bound", ratio)
    found = list(exchange_figures.figure_10(True))
    left = (5, 12, 20, 21, 48, 80, 85, 100, 200, 320, 341, 500, 700, 1000, 1280)
    right = (16, 36, 64, 100, 144, 256, 400, 625, 1000)
    kinds = ("GenKautz", "Xpander", "Jellyfish", "2D torus")
    expected = [f"left, GenKautz N={n}" for n in left]
    for n in right:
        expected += [f"right, {kind} N={n}" for kind in kinds]
        expected += [f"{kind} / GenKautz N={n}" for kind in kinds[1:]]
    assert labels(found) == expected
    told = values(found)
    assert [told[f"{kind} / GenKautz N=400"] for kind in kinds[1:]] == [1.5, 2.5, 4.0]
    assert asked[:2] == ["generalized_kautz(4, 5)", "generalized_kautz(4, 12)"]
    assert asked[15:19] == ["generalized_kautz(4, 16)", "xpander(4, 3)", "jellyfish(16, 4)", "torus(4, 4)"]
    assert asked[-4:] == [
        "generalized_kautz(4, 1000)",
        "xpander(4, 200)",
        "jellyfish(1000, 4)",
        "torus(25, 40)",
    ]
    quick = labels(exchange_figures.figure_10(False))
    assert quick == [label for label in expected if int(label.rpartition("=")[2]) <= 100]
    assert set(published_figures()["alltoall-figure-10"].figures) <= set(expected)


def test_how_far_kautz_graphs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst is named by its size, the first of equals."""

    def value(text: str) -> SimpleNamespace:
        d, n = (int(word) for word in text[len("generalized_kautz(") : -1].split(","))
        worse = Fraction(3, 2) if n in (100, 150) else 1
        return SimpleNamespace(t_b=worse * Fraction(n - 1, n), diameter=moore_steps(n, d) + (n == 50))

    monkeypatch.setattr(graph_tables, "parse", lambda text: text)
    monkeypatch.setattr(graph_tables, "bfb_value", value)
    for full, most in ((False, 240), (True, 2000)):
        found = [ReproducedValue(*row) for row in graph_tables.figure_a_7(full)]
        assert [row.label for row in found] == [
            f"d = {d}: {what}"
            for d in (2, 4, 8, 16)
            for what in ("largest T_B/T_B*", "largest T_L - T_L*", "mean T_B/T_B*")
        ]
        assert [row.note for row in found[::3]] == [f"at N = 100, of N <= {most}"] * 4
        assert {row.value for row in found[::3]} == {Fraction(3, 2)}
        assert {row.value for row in found[1::3]} == {1}
        for d, row in zip((2, 4, 8, 16), found[2::3], strict=True):
            assert row.value == pytest.approx(1 + 1 / (most - d))


def test_sides_of_cubes_and_tori(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_tables, "_beside_optimum", lambda text: iter([(text, 1)]))
    cubes, tori = [f"hypercube({n})" for n in range(2, 7)], [f"torus({n}, {n})" for n in range(2, 7)]
    assert labels(graph_tables.figure_3_10(False)) == cubes + tori
    assert labels(graph_tables.figure_3_10(True)) == [*cubes, "hypercube(10)", *tori, "torus(50, 50)"]


def test_all_interleaves_of_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_anchors, "fitted", lambda call, wanted: call(wanted) / 1000)
    monkeypatch.setattr(training_anchors, "llama_tflops", lambda row, k, share: row.fsdp * k + share)
    found = values(training_anchors.llama_405b(True))
    expected = {}
    for k in (2, 4, 8):
        share = (64 * k + 430.0) / 1000
        expected[f"8192 GPUs, interleave {k}: efficiency"] = share
        expected[f"16384 GPUs, interleave {k}"] = 128 * k + share
        expected[f"16384 GPUs, CP 16, interleave {k}"] = 8 * k + share
    assert found == expected
    assert list(values(training_anchors.llama_405b(False))) == list(expected)[6:]


def stub(construction: Any) -> tuple[SimpleNamespace, AllgatherCost]:
    """Sizes by the depth of line graphs: 5 * 4^n nodes, n + 2 steps."""
    depth = 0
    while isinstance(construction, LineGraph):
        depth, construction = depth + construction.times, construction.of
    nodes = 5 * 4**depth
    return SimpleNamespace(n_nodes=nodes), AllgatherCost(nodes, 4, depth + 2, Fraction(9, 8))


def test_powers_of_line_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion_tables, "allgather_of", stub)
    names = ("K5", "C(6,{1,2,3,4})", "K4,4", "H(2,3)")
    for full, powers in ((True, 5), (False, 3)):
        found = values(expansion_tables.figure_3_3(full))
        expected = []
        for name in names:
            for n in range(powers):
                expected += [f"{name}, n = {n}: T_B/T_B*", f"{name}, n = {n}: T_L - T_L*"]
            expected.append(f"{name}: limit of T_B/T_B*")
        assert list(found) == expected
        for n in range(powers):
            nodes = 5 * 4**n
            assert found[f"K4,4, n = {n}: T_B/T_B*"] == Fraction(9, 8) / Fraction(nodes - 1, nodes)
            assert found[f"K4,4, n = {n}: T_L - T_L*"] == n + 2 - moore_steps(nodes, 4)
        assert [found[f"{name}: limit of T_B/T_B*"] for name in names] == [
            1 + Fraction(1, 3 * n) for n in (5, 6, 8, 9)
        ]


def test_rates_of_all_rows_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion_tables, "allgather_of", stub)
    monkeypatch.setattr(expansion_tables, "diameter", lambda _: 7)
    monkeypatch.setattr(expansion_tables, "all_to_all_rate", lambda _: 0.25)
    full = labels(expansion_tables.table_a_1(False))
    rates = [f"N={n} {name}: MCF" for n, rows in TABLE_A1.items() for name in rows]
    assert [label for label in full if label.endswith("MCF") and "bound" not in label] == rates
    assert set(published_figures()["table-A.1"].figures) <= set(full)
    told = values(expansion_tables.table_3_4(False))
    # 4 links of 25 Gbit/s: 2^20 bytes take 83.88608 us
    assert told["Pi(4,1024): all-to-all"] == pytest.approx(4 * 83.88608 / 1024 / 0.25)
    assert told["Pi(4,1024): 2(T_L+T_B)"] == 2 * (2 * 10 + Fraction(9, 8) * Fraction(2**20 * 8, 100_000))
    assert told["L^3(C(16,{3,4})): T_L"] == 5
    assert set(published_figures()["table-3.4"].figures) <= set(told)


def test_sizes_at_which_plans_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = SimpleNamespace(algbw=Fraction(10**9), trees_per_root=3)
    monkeypatch.setattr(planning, "bound", lambda *_: SimpleNamespace(algbw=Fraction(2 * 10**9)))
    monkeypatch.setattr(planning, "solve", lambda *_, **__: solved)
    places = [f"A100, {n} GPUs" for n in (16, 32, 64, 128, 256, 512, 1024)]
    places += [f"MI250, {n} GPUs" for n in (32, 64, 128, 256, 512, 1024)]
    for full in (True, False):
        found = list(generation_times.figure_4_14(full))
        told = values(found)
        assert [label.partition(":")[0] for label in told if label.endswith("optimum")] == places
        greedy = [label.partition(":")[0] for label in told if label.endswith(": multitree")]
        assert greedy == [place for place in places if full or int(place.split()[1]) <= 128]
        assert told["A100, 16 GPUs: optimum / ring"] == 2
        assert told["A100, 16 GPUs: optimum"] == 2
        assert next(row[3:] for row in found if row[0] == "MI250, 32 GPUs: ForestColl") == ("k = 3",)


def test_bases_of_the_tables_are_what_they_are_called() -> None:
    assert expansion_tables.bfb("complete(3)") == Base("complete(3)", "complete(3)", "bfb", "")  # type: ignore[arg-type]
    assert expansion_tables.exact("diamond()").scheduler.value == "exact"
    assert AllgatherCost(4, 2, 3, Fraction(3, 4)).is_bandwidth_optimal
    assert not AllgatherCost(4, 2, 3, Fraction(4, 5)).is_bandwidth_optimal


def test_machines_and_curves_are_plain_unless_something_is_said() -> None:
    """10 us a step, nothing on top, no cap of hosts; all trees, no multicast, whole messages, not exact."""
    machine = CurveSetting("m", "M", ())
    assert (machine.alpha_ns, machine.overhead_ns, machine.cap) == (10_000, 0, 0)
    curve = Curve("c", "ring(4)", "ring")
    assert (curve.trees, curve.multicast, curve.slices, curve.exact) == (0, False, 0, False)


def test_best_topologies_of_table_3_5_have_their_nodes_and_degree() -> None:
    assert list(BEST_TOPOLOGIES) == list(range(5, 13))
    for nodes, expression in BEST_TOPOLOGIES.items():
        fabric = parse(expression)
        assert fabric.n_nodes == nodes
        assert np.bincount(fabric.tails).tolist() == np.bincount(fabric.heads).tolist() == [4] * nodes


def test_a_search_that_finds_nothing_says_why_and_when_one_finds_its_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Allgather on a ring of three: all in one step, and a search whose time is up."""
    fabric = parse("uni_ring(1, 2)")
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=bfb_allgather(fabric))
    asked: list[dict[str, object]] = []

    def exact(topology: object, kind: object, **given: object) -> object:
        asked.append(given)
        found = None if given["chunks"] == 2 else schedule
        return SimpleNamespace(schedule=found, seconds=7.0, phases=(SimpleNamespace(reason="time limit"),))

    monkeypatch.setattr(generation_times, "synthesise_exact", exact)
    solver = object()
    found, late = (
        ReproducedValue(*generation_times._exact("uni_ring(1, 2)", 1, chunks, solver))  # type: ignore[arg-type]
        for chunks in (1, 2)
    )
    assert (found.label, found.unit, found.note) == ("uni_ring(1, 2): SCCL's problem, c = 1", "s", "")
    assert found.value is not None
    assert 7 <= float(found.value) < 9
    assert (late.value, late.note) == (None, "time limit after 7 s")
    assert [one["rounds"] for one in asked] == [FreeRounds(1, 2), FreeRounds(1, 4)]
    assert all(one["solver"] is solver and not one["symmetric"] for one in asked)
    assert {one["time_limit_s"] for one in asked} == {20.0}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"figure": {}, "reason": ""}, "printed.toml: t: unknown figure, reason"),
        ({"figures": {"a": "1"}, "why": {"b": "x"}, "errata": {"c": "y"}}, "printed.toml: t: no figure b, c"),
    ],
)
def test_what_is_printed_is_spelt_right(table: dict[str, Any], words: str) -> None:
    with pytest.raises(FormatError) as caught:
        printed._exhibit("t", table)
    assert str(caught.value) == words
    right = {
        "citation": "c",
        "figures": {"a": "1", "b": "2", "c": "3"},
        "why": {"b": "x"},
        "errata": {"c": "y"},
    }
    found = printed._exhibit("t", {**right, "differs": "d"}).figures
    assert [(found[name].why, found[name].is_erratum) for name in "abc"] == [
        ("d", False), ("x", False), ("y", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "agree", "differ"),
    [
        ("~10", ["9", "11"], ["8.99", "11.01"]),
        ("up to 10", ["9", "11"], ["8.99", "11.01"]),
        ("<5", ["4.99"], ["5"]),
        ("<=5", ["5"], ["5.01"]),
        (">5", ["5.01"], ["5"]),
        ("5+", ["4.95", "99"], ["4.94"]),
        ("1.25", ["1.245", "1.25505", "1.24495"], ["1.2551", "1.2449"]),
        ("1.5e3", ["1450", "1550.5"], ["1551", "1449"]),
        ("25e-1", ["2.45", "2.55"], ["2.56", "2.44"]),
        ("120", ["120.5", "119.495"], ["120.51", "119.49"]),
    ],
)
def test_figures_agree_as_far_as_they_are_exact(text: str, agree: list[str], differ: list[str]) -> None:
    """Within a tenth of rough ones, and half of the last place, with a hundredth of that to spare."""
    figure = printed.PrintedFigure(text)
    assert [figure.agrees(Fraction(ours)) for ours in agree] == [True] * len(agree)
    assert [figure.agrees(Fraction(ours)) for ours in differ] == [False] * len(differ)
    assert figure.agrees(text)
    assert not figure.agrees("other")


def test_times_of_schemes_are_told_over_the_optimum() -> None:
    """Two nodes by three: 7 thirds of a unit on the fullest link at best, and whole units by single paths."""
    fabric = parse("complete_bipartite(2, 3)")
    best = exchange_figures.optimal_rate(fabric, exchange_figures.everyone(fabric))
    assert best.exact == Fraction(3, 7)
    found = exchange_figures.scheme_times(fabric, best, 5.0)
    single = {"ILP-shortest": 3, "ILP-disjoint": 3, "SSSP": 4}
    even = ("EwSP", "pMCF, shortest", "pMCF, disjoint", "MCF-extP")
    expected = {name: load * 3 / 7 for name, load in single.items()} | dict.fromkeys(even, 1.0)
    assert found == pytest.approx(expected)
    few = exchange_figures.scheme_times(fabric, best, None)
    assert few == {name: found[name] for name in ("SSSP", "EwSP", "MCF-extP")}


def test_rings_of_the_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def measured(setting: CurveSetting, panel: Panel, curve: Curve) -> SimpleNamespace:
        asked.append((panel.title, curve.label))
        slower = 1 + ["OurBestTopo, BFB", "ShiftedBFBRing", "ShiftedRing"].index(curve.label)
        return SimpleNamespace(
            seconds={size: slower * size for size in setting.sizes},
            whole_steps_s={size: slower**2 * size for size in setting.sizes},
        )

    monkeypatch.setattr(simulated_curves, "measure", measured)
    found = list(simulated_curves.figure_a_1(False))
    panels = [f"{kind}, N={n}" for kind in ("reduce-scatter", "allgather") for n in (5, 8, 12)]
    sizes = simulated_curves.panels_of("testbed")[0].sizes
    assert asked == [
        (title, label) for title in panels for label in ("OurBestTopo, BFB", "ShiftedBFBRing", "ShiftedRing")
    ]
    assert [row[:2] for row in found] == [
        (f"{title}: OurBestTopo, BFB / {label}, {simulated_curves.format_sizes(size)}{model}", value)
        for title in panels
        for label, times in (("ShiftedBFBRing", 2.0), ("ShiftedRing", 3.0))
        for size in sizes
        for model, value in (("", times), (", alpha-beta, unsliced", times**2))
    ]
