"""Bases by name: what each is called, what is said of it, and which of them there are."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from treadle.finder.base_formulas import bandwidth_optimal, formula_bases, least_circulant_diameter
from treadle.finder.catalogue_bases import CatalogueGraph, catalogue_bases, formula_graphs
from treadle.finder.construction import Base, LineGraph, ScheduleMethod
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.searches.abelian_table import AbelianTable
from treadle.finder.searches.cayley_library import LibraryEntry, LineGraphEntry
from treadle.finder.searches.neighbour_search import NeighbourEntry
from treadle.finder.searches.neighbour_table import NeighbourTable, candidate_of_neighbour
from treadle.finder.tables import Tables, candidate_of_cayley, candidate_of_line_graph
from treadle.topologies.catalogue.finite_field import prime_power


def bfb(expression: str, notation: str, family: str) -> Base:
    return Base(expression, notation, ScheduleMethod.BFB, family)


@pytest.mark.parametrize(
    ("nodes", "degree", "told"),
    [
        (2, 1, [("complete(2)", "K2", "complete", 1), ("uni_ring(1, 2)", "UniRing(1,2)", "ring", 1)]),
        (3, 1, [("uni_ring(1, 3)", "UniRing(1,3)", "ring", 2)]),
        (
            3,
            2,
            [("complete(3)", "K3", "complete", 1), ("bi_ring(2, 3)", "BiRing(2,3)", "ring", 1)],
        ),
        (
            4,
            2,
            [
                ("complete_bipartite(2, 2)", "K2,2", "bipartite", 2),
                ("directed_circulant(4, 1, 2)", "DiC(4,{1,2})", "directed circulant", 2),
                ("bi_ring(2, 4)", "BiRing(2,4)", "ring", 2),
            ],
        ),
        (5, 3, [("directed_circulant(5, 1, 2, 3)", "DiC(5,{1,2,3})", "directed circulant", 2)]),
        (6, 3, [("complete_bipartite(3, 3)", "K3,3", "bipartite", 2)]),
        (
            6,
            4,
            [
                ("directed_circulant(6, 1, 2, 3, 4)", "DiC(6,{1,2,3,4})", "directed circulant", 2),
                ("distance_regular(4, 6)", "DistReg(4,6)", "distance-regular", 2),
            ],
        ),
        (7, 4, [("circulant(7, 2, 3)", "C(7,{2,3})", "circulant", 2)]),
        (
            8,
            2,
            [
                ("bi_ring(2, 8)", "BiRing(2,8)", "ring", 4),
                ("diamond()", "Diamond", "exact synthesis", 3),
                ("modified_de_bruijn(2, 3)", "DBJMod(2,3)", "exact synthesis", 4),
            ],
        ),
        (9, 3, [("modified_de_bruijn(3, 2)", "DBJMod(3,2)", "exact synthesis", 3)]),
        (
            16,
            4,
            [
                ("circulant(16, 3, 4)", "C(16,{3,4})", "circulant", 3),
                ("distance_regular(4, 16)", "DistReg(4,16)", "distance-regular", 4),
                ("modified_de_bruijn(4, 2)", "DBJMod(4,2)", "exact synthesis", 3),
            ],
        ),
        (
            16,
            2,
            [
                ("bi_ring(2, 16)", "BiRing(2,16)", "ring", 8),
                ("modified_de_bruijn(2, 4)", "DBJMod(2,4)", "exact synthesis", 5),
            ],
        ),
        (2, 2, []),
        (1, 1, []),
        (2, 0, []),
    ],
)
def test_closed_forms_by_name(nodes: int, degree: int, told: list[tuple[str, str, str, int]]) -> None:
    found = list(formula_bases(nodes, degree))
    bases = [one.construction for one in found]
    assert all(isinstance(base, Base) for base in bases)
    words = [(base.expression, base.notation, base.family) for base in bases if isinstance(base, Base)]
    assert [(*word, one.steps) for word, one in zip(words, found, strict=True)] == told
    for base, one in zip(bases, found, strict=True):
        assert isinstance(base, Base)
        exact = base.family == "exact synthesis"
        assert base.scheduler is (ScheduleMethod.EXACT if exact else ScheduleMethod.BFB)
        assert one.is_reverse_symmetric is (not exact or base.expression == "modified_de_bruijn(2, 3)")
        assert one.gather is one.reduce
        two_way = one.gather.is_bidirectional
        assert one.gather.is_breadth_first is not exact
        assert one.gather.has_exact_line_graphs is (two_way and nodes > 2)
        ring = base.expression.startswith("uni_ring")
        assert one.gather.cycle == (2 if two_way else nodes if ring else None)
        assert (one.gather.diameter, one.gather.t_b) == (one.steps, Fraction(nodes - 1, nodes))
        assert not one.gather.has_loops


def test_sizes_of_table_a2_are_the_catalogues() -> None:
    sizes = (6, 9, 10, 14, 15, 16, 21, 26, 32, 35, 45, 70, 80, 189, 728)
    steps = (2, 2, 3, 3, 3, 4, 3, 3, 4, 3, 4, 7, 4, 6, 6)
    found = {}
    for nodes in (*range(2, 200), 727, 728, 729):
        for one in formula_bases(nodes, 4):
            if isinstance(one.construction, Base) and one.construction.family == "distance-regular":
                found[nodes] = one.steps
    assert found == dict(zip(sizes, steps, strict=True))


def test_the_least_diameter_of_circulants() -> None:
    """Theorem 22: the least m with (2m + 1)^2 at least 2n - 1."""
    for n in range(3, 400):
        assert least_circulant_diameter(n) == next(m for m in range(n) if (2 * m + 1) ** 2 >= 2 * n - 1)


def test_a_bandwidth_optimal_base_is_taken_for_one_way_and_simple() -> None:
    base = bfb("x()", "X", "x")
    figures = Performance(
        nodes=5,
        degree=3,
        steps=4,
        t_b=Fraction(4, 5),
        diameter=4,
        cycle=None,
        is_breadth_first=True,
        has_loops=False,
        is_simple=True,
        is_bidirectional=False,
        has_exact_line_graphs=False,
    )
    assert bandwidth_optimal(base, 5, 3, 4) == FabricCandidate(base, figures, figures, True)
    assert bandwidth_optimal(base, 5, 3, 4, cycle=3).gather.cycle == 3


def families() -> dict[str, list[CatalogueGraph]]:
    found: dict[str, list[CatalogueGraph]] = {}
    for graph in formula_graphs():
        found.setdefault(graph.family, []).append(graph)
    return found


def orders(most: int, least: int = 2) -> list[int]:
    return [q for q in range(least, most + 1) if prime_power(q) is not None]


def test_every_closed_form_of_the_catalogue_is_there() -> None:
    """At most 100,000 nodes and degree 64; the limits of q are those of the catalogue's functions."""
    found = {family: {one.expression: one for one in rows} for family, rows in families().items()}
    assert list(found) == [
        *("projective plane", "affine plane", "generalized quadrangle", "generalized hexagon", "paley"),
        *("odd graph", "doubled odd graph", "crown", "hamming", "twisted torus"),
    ]
    expected: dict[str, dict[str, tuple[int, int, int]]] = {
        # q = 129 is no prime power, 137 has degree 68
        "paley": {f"paley({q})": (q, q // 2, 2) for q in orders(135) if q % 4 == 1},
        "projective plane": {f"projective_plane({q})": (2 * (q * q + q + 1), q + 1, 3) for q in orders(32)},
        "affine plane": {f"affine_plane({q})": (2 * q * q, q, 4) for q in orders(32)},
        "generalized quadrangle": {
            f"generalized_quadrangle({q})": (2 * (q + 1) * (q * q + 1), q + 1, 4) for q in orders(9)
        },
        "generalized hexagon": {
            f"generalized_hexagon({q})": (2 * sum(q**i for i in range(6)), q + 1, 6) for q in orders(4)
        },
        "odd graph": {f"odd_graph({k})": (comb(2 * k - 1, k), k, k - 1) for k in range(2, 9)},
        "doubled odd graph": {
            f"doubled_odd_graph({k})": (2 * comb(2 * k - 1, k), k, 2 * k - 1) for k in range(2, 9)
        },
        "crown": {f"crown({n})": (2 * n, n - 1, 3) for n in range(3, 66)},
        "hamming": {
            f"hamming({n}, {q})": (q**n, n * (q - 1), n)
            for q in range(2, 66)
            for n in range(2, 20)
            if q**n <= 100_000 and n * (q - 1) <= 64
        },
    }
    for family, rows in expected.items():
        told = {name: (one.nodes, one.degree, one.steps) for name, one in found[family].items()}
        assert told == rows, family
    tori = [(k, 2 * k) for k in range(2, 100)] + [(k, k, 2 * k) for k in range(2, 100)]
    tori += [(k, 2 * k, 2 * k) for k in range(2, 100)]
    names = {}
    for dims in tori:
        nodes, k = 1, dims[0]
        for dim in dims:
            nodes *= dim
        if nodes <= 10_000:
            steps = k if len(dims) == 2 else 3 * k // 2
            names[f"twisted_torus({', '.join(map(str, dims))})"] = (nodes, 2 * len(dims), steps)
    told = {name: (one.nodes, one.degree, one.steps) for name, one in found["twisted torus"].items()}
    assert told == names


def test_a_catalogue_graph_as_a_base() -> None:
    graph = CatalogueGraph("generalized_quadrangle(2)", 30, 3, 4)
    assert graph.family == "generalized quadrangle"
    assert CatalogueGraph("twisted_torus(3, 6)", 18, 4).base == bfb(
        "twisted_torus(3, 6)", "twisted_torus(3,6)", "twisted torus"
    )
    (found,) = [one for one in catalogue_bases(30, 3) if one.construction == graph.base]
    assert found == bandwidth_optimal(graph.base, 30, 3, 4, is_bidirectional=True)


@pytest.mark.parametrize(
    ("name", "nodes", "degree", "one_way", "loops"),
    [
        ("slimfly(5)", 50, 7, False, False),
        ("dragonfly(4, 2)", 36, 5, False, False),
        ("kautz(7, 2)", 392, 7, True, False),
        ("de_bruijn(7, 2)", 49, 7, True, True),
    ],
)
def test_tabled_graphs_say_what_they_are(
    name: str, nodes: int, degree: int, one_way: bool, loops: bool
) -> None:
    (found,) = [
        one
        for one in catalogue_bases(nodes, degree)
        if isinstance(one.construction, Base) and one.construction.expression == name
    ]
    for figures in (found.gather, found.reduce):
        assert (figures.nodes, figures.degree, figures.diameter) == (nodes, degree, found.steps)
        assert figures.cycle == (None if one_way else 2)
        assert (figures.has_loops, figures.is_simple) == (loops, not loops)
        assert (figures.is_bidirectional, figures.has_exact_line_graphs) == (not one_way, not one_way)
        assert figures.is_breadth_first
        assert figures.is_exact
    assert found.is_reverse_symmetric


HALF, THIRD = Fraction(5, 2), Fraction(7, 3)


def performance(nodes: int, degree: int, steps: int, t_b: Fraction, **more: object) -> Performance:
    """One-way links, simple, breadth-first; no exact line graphs."""
    facts = {"cycle": None, "is_breadth_first": True, "has_loops": False, "is_simple": True}
    facts |= {"is_bidirectional": False, "has_exact_line_graphs": False}
    return Performance(nodes, degree, steps, t_b, steps, **(facts | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "nodes", "base", "flags"),
    [
        ("jellyfish", 10, bfb("jellyfish(10, 3)", "Jellyfish(10,3)", "random regular"), (True, False)),
        ("xpander", 12, bfb("xpander(3, 3)", "Xpander(3,3)", "random lift"), (True, False)),
        (
            "generalized_kautz",
            8,
            bfb("generalized_kautz(3, 8)", "Pi(3,8)", "generalized Kautz"),
            (False, False),
        ),
        (
            "generalized_kautz",
            9,
            bfb("generalized_kautz(3, 9)", "Pi(3,9)", "generalized Kautz"),
            (False, True),
        ),
        ("de_bruijn", 9, bfb("de_bruijn(3, 2)", "DBJ(3,2)", "de Bruijn"), (False, True)),
    ],
)
def test_figures_of_families(family: str, nodes: int, base: Base, flags: tuple[bool, bool]) -> None:
    two_way, loops = flags
    tables = Tables({family: {(nodes, 3): (2, HALF, THIRD)}, "other": {(nodes, 4): (1, HALF, HALF)}})
    found = [one for one in tables.bases(nodes, 3) if one not in formula_bases(nodes, 3)]
    facts = {"cycle": 2 if two_way else None, "has_loops": loops, "is_simple": not loops}
    gather = performance(nodes, 3, 2, HALF, is_bidirectional=two_way, **facts)
    reduce = performance(nodes, 3, 2, THIRD, is_bidirectional=two_way, **facts)
    assert found == [FabricCandidate(base, gather, reduce, two_way)]
    same = Tables({family: {(nodes, 3): (2, HALF, HALF)}}).bases(nodes, 3)
    (last,) = [one for one in same if one not in formula_bases(nodes, 3)]
    assert last.gather is last.reduce


def cayley(expression: str, t_b: Fraction, *, both: bool = False, n: int = 8, d: int = 2) -> FabricCandidate:
    return candidate_of_cayley(LibraryEntry(d, n, both, expression, 3, t_b))


def test_cayley_digraphs_of_the_library() -> None:
    """Both directions of an abelian or two-way one cost the same; of others only the optimum is known."""
    name = "metacyclic_cayley(4, 2, 3, 1, 2)"
    base = bfb(name, "metacyclic_cayley(4,2,3,1,2)", "Cayley")
    figures = performance(8, 2, 3, HALF, is_exact=False)
    assert cayley(name, HALF) == FabricCandidate(base, figures, figures, False)
    assert cayley(name, Fraction(7, 8)).gather == performance(8, 2, 3, Fraction(7, 8), is_exact=True)
    both = cayley(name, HALF, both=True)
    more = {"cycle": 2, "is_bidirectional": True, "has_exact_line_graphs": True, "is_exact": True}
    assert both == FabricCandidate(
        base, performance(8, 2, 3, HALF, **more), performance(8, 2, 3, HALF, **more), True
    )
    abelian = cayley('abelian_cayley("4x2", 1, 1)', HALF)
    assert abelian.is_reverse_symmetric
    assert abelian.gather == performance(8, 2, 3, HALF, is_simple=False)
    assert isinstance(abelian.construction, Base)
    assert abelian.construction.notation == 'abelian_cayley("4x2",1,1)'
    tiny = cayley('abelian_cayley("2", 1)', Fraction(1, 2), both=True, n=2, d=1)
    assert not tiny.gather.has_exact_line_graphs
    assert cayley('abelian_cayley("3", 1, 2)', Fraction(2, 3), both=True, n=3).gather.has_exact_line_graphs


def test_line_graphs_of_the_library() -> None:
    entry = LineGraphEntry(2, 32, 2, "dihedral_cayley(4, 1, 2)", 5, HALF, THIRD)
    base = bfb("dihedral_cayley(4, 1, 2)", "dihedral_cayley(4,1,2)", "Cayley")
    gather, reduce = performance(32, 2, 5, HALF), performance(32, 2, 5, THIRD)
    assert candidate_of_line_graph(entry) == FabricCandidate(LineGraph(base, 2), gather, reduce)
    same = candidate_of_line_graph(LineGraphEntry(2, 32, 2, "dihedral_cayley(4, 1, 2)", 5, HALF, HALF))
    assert same.gather is same.reduce


@pytest.mark.parametrize("two_way", [False, True])
def test_neighbours_as_candidates(two_way: bool) -> None:
    entry = NeighbourEntry(7, 4, two_way, 3, HALF, THIRD, "x()")
    facts = {"cycle": 2 if two_way else None, "is_simple": False, "is_bidirectional": two_way}
    gather, reduce = performance(7, 4, 3, HALF, **facts), performance(7, 4, 3, THIRD, **facts)
    base = bfb("x()", "x()", "neighbour")
    assert candidate_of_neighbour(entry) == FabricCandidate(base, gather, reduce, two_way)
    same = candidate_of_neighbour(NeighbourEntry(7, 4, two_way, 3, HALF, HALF, "x()"))
    assert same.gather is same.reduce


def test_bases_come_plainest_first() -> None:
    abelian = AbelianTable("treadle abelian table 1\n2 one-way\n9 3 40  1 2\n2 two-way\n9 4 50  1")
    neighbours = NeighbourTable("treadle neighbour table 1\n2 2 9 5 10 11 x()")
    searched = cayley("dihedral_cayley(4, 1, 2)", HALF, n=9)
    tables = Tables(
        {"generalized_kautz": {(9, 2): (3, HALF, HALF)}},
        {(9, 2): [searched]},
        abelian,
        has_catalogue=True,
        neighbours=neighbours,
    )
    words = [one.construction.expression for one in tables.bases(9, 2) if isinstance(one.construction, Base)]
    assert words == [
        "bi_ring(2, 9)",
        "dihedral_cayley(4, 1, 2)",
        'abelian_cayley("9", 1, 8)',
        'abelian_cayley("9", 1, 2)',
        "generalized_kautz(2, 9)",
        "x()",
    ]
    plain = Tables({})
    assert not plain.has_catalogue
    names = [one.construction for one in Tables({}, has_catalogue=True).bases(6, 2)]
    assert [one.expression for one in names if isinstance(one, Base)] == [
        *("bi_ring(2, 6)", "doubled_odd_graph(2)", "crown(3)", "dragonfly(2, 1)")
    ]
    assert len(list(plain.bases(6, 2))) == 1
