"""Line graphs of Cayley digraphs: costs against the general routine; the library, built and verified."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from tools.finder import line_graph_library as maker
from tools.finder.line_graph_library import unknown_entries

from treadle.errors import FormatError, TopologyError
from treadle.finder.search import Finder
from treadle.finder.searches.line_graph_library import check_entry, load_line_graphs, read_entries
from treadle.finder.searches.line_graph_search import search_line_graphs
from treadle.finder.searches.line_graph_value import line_graph_value
from treadle.finder.tables import shipped_tables
from treadle.topologies.catalogue.cayley import cayley_graph
from treadle.topologies.moore import is_moore_optimal

LIBRARY = load_line_graphs()
HEAD = '{"treadle": "line_graph_library", "version": 1, '


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


@pytest.mark.parametrize("degree", [2, 3, 4, 6, 8])
def test_sampled_entries_hold(degree: int) -> None:
    some = [entry for entry in LIBRARY if entry.degree == degree and entry.nodes <= 1024]
    for entry in [*some[::25], some[-1]]:
        check_entry(entry)


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


def test_the_stated_command_reproduces_entries(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--degree", "2", "--sizes", "7-12,16", "--trials", "500", "--seed", "3"]
    assert maker.main(arguments) == 0
    text = capsys.readouterr().out
    found = read_entries(text)
    assert {entry.nodes for entry in found} == {8, 10, 12, 16}  # 7, 9 and 11 are no multiples of 2
    assert found[0].command == f"python -m tools.finder.line_graph_library {' '.join(arguments)}"
    assert json.loads(text)["columns"][0] == "degree"


def test_sizes_must_fit() -> None:
    with pytest.raises(TopologyError, match="multiple of 16"):
        search_line_graphs(40, 4, trials=1, power=2)
    with pytest.raises(TopologyError, match="5000 nodes; line graphs of at most 4096 are valued"):
        line_graph_value(cayley_graph('abelian_cayley("5000", 1, 7)'))


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
