"""Line graphs of Cayley digraphs: costs against the general routine; the library, built and verified."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from tools.finder import line_graph_library as maker
from tools.finder.library_texts import line_graph_text
from tools.finder.line_graph_library import unknown_entries

from reference.step_times import t_b
from treadle.errors import FormatError, TopologyError
from treadle.finder.construction import expression
from treadle.finder.search import Finder
from treadle.finder.searches.cayley_groups import groups_of_order
from treadle.finder.searches.cayley_library import LineGraphEntry, pareto_entries
from treadle.finder.searches.cayley_value import cayley_value
from treadle.finder.searches.line_graph_library import check_entry, load_line_graphs, read_entries
from treadle.finder.searches.line_graph_search import search_line_graphs
from treadle.finder.searches.line_graph_value import line_graph_value
from treadle.finder.tables import shipped_tables
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_schedule, bfb_value
from treadle.topologies import parse
from treadle.topologies.catalogue.cayley import CayleyGraph, cayley_graph
from treadle.topologies.moore import is_moore_optimal
from treadle.topologies.transforms.expansions import line_graph
from treadle.verification.steps.step_check import verify_steps

LIBRARY = load_line_graphs()
HEAD = '{"treadle": "line_graph_library", "version": 1, '


def random_graphs(order: int, degree: int, count: int) -> list[CayleyGraph]:
    rng = np.random.default_rng([order, degree])
    groups = groups_of_order(order, seed=0)
    graphs: list[CayleyGraph] = []
    while len(graphs) < count:
        named = groups[rng.integers(len(groups))]
        try:
            graphs.append(cayley_graph(named.expression(tuple(rng.integers(1, order, degree).tolist()))))
        except TopologyError:
            continue
    return graphs


@pytest.mark.parametrize(
    ("order", "degree", "n"),
    [
        *((order, 2, n) for order in (2, 3, 4, 6, 8, 12) for n in (1, 2, 3)),
        *((order, 3, n) for order in (4, 8, 12) for n in (1, 2)),
        (6, 3, 3),
        (16, 4, 1),
        (32, 4, 1),
        (9, 4, 2),
        (24, 5, 1),
    ],
)
def test_costs_are_those_of_the_built_line_graph(order: int, degree: int, n: int) -> None:
    for graph in random_graphs(order, degree, 6):
        value, topology = line_graph_value(graph, n), line_graph(graph.topology(), n)
        gather, reduce = bfb_value(topology), bfb_reduce_scatter_value(topology)
        assert (value.nodes, value.degree) == (topology.n_nodes, degree)
        assert value.t_l == gather.diameter == reduce.diameter
        assert (value.gather_t_b, value.reduce_t_b) == (gather.t_b, reduce.t_b), graph.expression


def test_generators_that_return_equally_late_save_bandwidth() -> None:
    """Only so L(G) is bandwidth-optimal, G being so; for L^2 products of two must return equally late too."""
    kept = {1: 0, 2: 0}
    for (a, b), n in product(combinations(range(1, 13), 2), (1, 2)):
        graph = cayley_graph(f'abelian_cayley("13", {a}, {b})')
        if cayley_value(graph).t_b != Fraction(12, 13):
            continue
        topology = graph.topology()
        home = _hops_to(topology.heads.tolist(), topology.tails.tolist(), 0)
        # In-links of x come from x + a and x + b: a link leads back by -a, two links by -2a, -a - b or -2b.
        returns = [{home[-x % 13] for x in (a, b)}, {home[-x % 13] for x in (2 * a, a + b, 2 * b)}]
        value = line_graph_value(graph, n)
        optimal = value.t_b == Fraction(value.nodes - 1, value.nodes)
        if optimal:
            assert all(len(hops) == 1 for hops in returns[:n]), graph.expression
            kept[n] += 1
    assert kept[1] > kept[2] > 0


def _hops_to(heads: list[int], tails: list[int], target: int) -> dict[int, int]:
    """Distance of every node to `target`."""
    found, hops = {target: 0}, 0
    while len(found) <= max(heads):
        hops += 1
        found |= {
            tail: hops
            for tail, head in zip(tails, heads, strict=True)
            if found.get(head, hops) < hops and tail not in found
        }
    return found


@pytest.mark.parametrize(
    ("base", "n", "t_l", "moore"),
    [
        ("metacyclic_cayley(8, 4, 3, 4, 19, 21, 30)", 128, 4, True),
        ("metacyclic_cayley(16, 4, 15, 9, 20, 58, 61)", 256, 5, False),
        ("metacyclic_cayley(16, 8, 11, 29, 50, 53, 76)", 512, 5, True),
        ("metacyclic_cayley(32, 8, 11, 45, 89, 104, 133)", 1024, 6, False),
    ],
)
def test_known_findings_and_the_finder_as_good(base: str, n: int, t_l: int, moore: bool) -> None:
    value = line_graph_value(cayley_graph(base))
    assert (value.nodes, value.t_l) == (n, t_l)
    assert value.gather_t_b == value.reduce_t_b == Fraction(n - 1, n)
    assert is_moore_optimal(n, 4, t_l) == moore
    assert any(c.steps <= t_l and c.is_bandwidth_optimal for c in finder().frontier(n, 4))


def finder(*, line_graphs: bool = True) -> Finder:
    tables = shipped_tables(line_graphs=line_graphs)
    return Finder(tables.bases)


def test_512_nodes_at_both_bounds_are_offered_as_a_line_graph() -> None:
    """Table A.1 has 16 steps at T_B = .998; without the library the prediction is T_B = 1 at best."""
    best = next(c for c in finder().frontier(512, 4) if c.is_bandwidth_optimal)
    assert expression(best.construction).startswith("line_graph(")
    assert best.is_exact
    assert best.gather.is_simple
    assert not best.gather.is_bidirectional
    assert parse(expression(best.construction)).n_links == 2048
    assert not any(
        c.steps <= 5 and c.is_bandwidth_optimal for c in finder(line_graphs=False).frontier(512, 4)
    )


def test_the_file_is_in_normal_form() -> None:
    assert pareto_entries(LIBRARY) == LIBRARY
    assert {entry.degree for entry in LIBRARY} == {2, 3, 4, 6, 8}
    assert {entry.power for entry in LIBRARY} <= {1, 2, 3}
    assert all(
        entry.command.startswith("python -m tools.finder.line_graph_library --degree ") for entry in LIBRARY
    )
    assert len(line_graph_text(LIBRARY)) < 300_000
    assert read_entries(line_graph_text(LIBRARY)) == LIBRARY


def test_many_entries_by_the_formula() -> None:
    for entry in LIBRARY[::12]:
        value = line_graph_value(cayley_graph(entry.base), entry.power)
        assert (value.nodes, value.degree, value.t_l) == (entry.nodes, entry.degree, entry.t_l)
        assert (value.gather_t_b, value.reduce_t_b) == (entry.gather_t_b, entry.reduce_t_b)


@pytest.mark.parametrize("degree", [2, 3, 4, 6, 8])
def test_sampled_entries_hold(degree: int) -> None:
    some = [entry for entry in LIBRARY if entry.degree == degree and entry.nodes <= 1024]
    for entry in [*some[::25], some[-1]]:
        check_entry(entry)


def test_false_entries_are_caught() -> None:
    entry = next(entry for entry in LIBRARY if entry.nodes < 100)
    check_entry(entry)
    for wrong in (
        replace(entry, t_l=entry.t_l - 1),
        replace(entry, gather_t_b=entry.gather_t_b - Fraction(1, 1000)),
        replace(entry, reduce_t_b=entry.reduce_t_b + Fraction(1, 1000)),
        replace(entry, nodes=entry.nodes * 2),
        replace(entry, degree=entry.degree + 1),
        replace(entry, power=entry.power + 1),
    ):
        with pytest.raises(FormatError, match="the library states"):
            check_entry(wrong)
    with pytest.raises(TopologyError):
        check_entry(replace(entry, base="torus(3, 3)"))


@pytest.mark.parametrize("degree", [2, 3, 4, 6, 8])
def test_schedules_of_entries_are_valid_both_ways(degree: int) -> None:
    some = [entry for entry in LIBRARY if entry.degree == degree and entry.nodes <= 256]
    for entry in some[:: len(some) // 3 + 1]:
        topology = parse(entry.expression)
        for kind, claimed in (
            (CollectiveKind.ALLGATHER, entry.gather_t_b),
            (CollectiveKind.REDUCE_SCATTER, entry.reduce_t_b),
        ):
            schedule = bfb_schedule(topology, kind)
            report = verify_steps(topology, on_all_ranks(topology, kind), schedule)
            assert report.is_ok, report
            assert schedule.n_steps == entry.t_l
            assert t_b(topology, schedule) == claimed


def test_512_nodes_built_and_verified_both_ways() -> None:
    best = next(c for c in finder().frontier(512, 4) if c.is_bandwidth_optimal)
    topology = parse(expression(best.construction))
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        schedule = bfb_schedule(topology, kind)
        assert (schedule.n_steps, t_b(topology, schedule)) == (5, Fraction(511, 512))
        assert verify_steps(topology, on_all_ranks(topology, kind), schedule).is_ok


def test_only_what_the_finder_lacks_is_kept() -> None:
    found = search_line_graphs(512, 4, trials=20_000).entries
    best = found[0]
    assert (best.t_l, best.t_b) == (5, Fraction(511, 512))
    worse = replace(best, nodes=32, t_l=4, base="x")  # the finder has 3 steps at T_B = 31/32
    assert unknown_entries([worse, best]) == (best,)


def test_the_search_depends_on_its_arguments_only() -> None:
    for power in (1, 2):
        one = search_line_graphs(72, 3, trials=3000, seed=5, power=power).entries
        assert one == search_line_graphs(72, 3, trials=3000, seed=5, power=power).entries
        assert one
        for entry in one:
            check_entry(entry)
        assert [entry.t_l for entry in one] == sorted({entry.t_l for entry in one})


@pytest.mark.parametrize(("degree", "power"), [(2, 1), (2, 2), (3, 1), (4, 1), (8, 1)])
def test_the_shipped_commands_find_their_entries(degree: int, power: int) -> None:
    entry = next(entry for entry in LIBRARY if (entry.degree, entry.power) == (degree, power))
    words = entry.command.split()
    options = dict(zip(words[3::2], words[4::2], strict=True))
    found = search_line_graphs(
        entry.nodes,
        int(options["--degree"]),
        trials=int(options["--trials"]),
        seed=int(options.get("--seed", 0)),
        power=int(options.get("--power", 1)),
    )
    assert entry in [replace(one, command=entry.command) for one in found.entries]


def test_equals_and_dominated_entries_are_dropped() -> None:
    one = LineGraphEntry(2, 16, 1, "a", 4, Fraction(1), Fraction(15, 16))
    assert one.t_b == 1
    slower, longer = replace(one, t_l=5), replace(one, base="aa")
    cheaper = replace(slower, gather_t_b=Fraction(15, 16))
    assert pareto_entries([longer, slower, cheaper, one]) == (one, cheaper)


def test_the_stated_command_reproduces_entries(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--degree", "2", "--sizes", "7-12,16", "--trials", "500", "--seed", "3"]
    assert maker.main(arguments) == 0
    text = capsys.readouterr().out
    found = read_entries(text)
    assert {entry.nodes for entry in found} == {8, 10, 12, 16}  # 7, 9 and 11 are no multiples of 2
    assert found[0].command == f"python -m tools.finder.line_graph_library {' '.join(arguments)}"
    assert json.loads(text)["columns"][0] == "degree"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--degree", "9", "--sizes", "36"],
        ["--degree", "1", "--sizes", "36"],
        ["--degree", "2", "--sizes", "4096"],
        ["--degree", "4", "--sizes", "a"],
        ["--degree", "4", "--sizes", "8", "--trials", "0"],
        ["--degree", "4", "--sizes", "8", "--power", "4"],
        ["--merge", f"{__file__}/absent.json"],
    ],
)
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_sizes_must_fit() -> None:
    with pytest.raises(TopologyError, match="multiple of 16"):
        search_line_graphs(40, 4, trials=1, power=2)
    with pytest.raises(TopologyError, match="5000 nodes; line graphs of at most 4096 are valued"):
        line_graph_value(cayley_graph('abelian_cayley("5000", 1, 7)'))


@pytest.mark.parametrize(
    ("graph", "n", "argument"),
    [
        ('abelian_cayley("5", 1, 2)', 0, "n"),
        ('abelian_cayley("5", 1, 2)', 4, "n"),
        ('abelian_cayley("5", 1)', 1, "degree"),
        ('abelian_cayley("11", 1, 2, 3, 4, 5, 6, 7, 8, 9)', 1, "degree"),
    ],
)
def test_only_what_the_formulas_cover_is_valued(graph: str, n: int, argument: str) -> None:
    with pytest.raises(TopologyError, match=f"line graph value: {argument}"):
        line_graph_value(cayley_graph(graph), n)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"treadle": "line_graph_library", "version": 2}',
        HEAD + '"commands": [], "entries": [[4, 64, 1, 3, "1", "1", "x", 0]]}',
        HEAD + '"commands": ["c"], "entries": [[4, 64, 1, 3, "1/0", "1", "x", 0]]}',
        HEAD + '"commands": ["c"], "entries": [[4, 64]]}',
        "[" * 100_000,
    ],
)
def test_malformed_libraries(text: str) -> None:
    with pytest.raises(FormatError) as refusal:
        read_entries(text, source="lib.json")
    assert str(refusal.value).startswith("lib.json: ")
