"""Graphs as papers write them: every notation of tables A.1 and A.3 of the dissertation."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.topologies import parse
from treadle.topologies.notations import notation_expression

TABLE_A1 = {
    "L(K4,4)": "line_graph(complete_bipartite(4, 4))",
    "DistReg(4,32)": "distance_regular(4, 32)",
    "Pi4,64": "generalized_kautz(4, 64)",
    "Π4,64": "generalized_kautz(4, 64)",
    "L(DBJMod(4,2))": "line_graph(modified_de_bruijn(4, 2))",
    "Diamond^2": "cartesian_power(diamond(), 2)",
    "Diamond□2": "cartesian_power(diamond(), 2)",
    "L2(K4,4)": "line_graph(complete_bipartite(4, 4), 2)",
    "BiRing(2,8) x UniRing(1,4)^2": "cartesian_product(bi_ring(2, 8), uni_ring(1, 4), uni_ring(1, 4))",
    "DBJ(4,4)": "de_bruijn(4, 4)",
    "L^2(Diamond^2)": "line_graph(cartesian_power(diamond(), 2), 2)",
    "DBJMod(2,4)^2": "cartesian_power(modified_de_bruijn(2, 4), 2)",
    "L(UniRing(1,4)□UniRing(1,2))": "line_graph(cartesian_product(uni_ring(1, 4), uni_ring(1, 2)))",
    "L3(C(16,{3,4}))": "line_graph(circulant(16, 3, 4), 3)",
    "(K2 x UniRing(1,8))^2": "cartesian_power(cartesian_product(complete(2), uni_ring(1, 8)), 2)",
    "BiRing(2,5)*2": "degree_expansion(bi_ring(2, 5), 2)",
}
TABLE_A3 = {
    "K5": "complete(5)",
    "K4,4": "complete_bipartite(4, 4)",
    "DiC(6,{1,2,3,4})": "directed_circulant(6, 1, 2, 3, 4)",
    "H(2,3)": "hamming(2, 3)",
    "Q3": "hypercube(3)",
    "Torus(3,4)": "torus(3, 4)",
    "Kautz(2,2)": "kautz(2, 2)",
    "Diamond": "diamond()",
}


@pytest.mark.parametrize(("text", "expression"), (TABLE_A1 | TABLE_A3).items())
def test_notations_are_expressions(text: str, expression: str) -> None:
    assert notation_expression(text) == expression
    if len(expression) < 60:
        assert parse(text) == parse(expression)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "L^2(",
        "Diamond^",
        "K4,4 y K3",
        "Foo(3)",
        "C(16,{3,4)",
        "(K3",
        "K3)",
        "DBJ(4)",
        "K3^0",
        "$",
        "(" * 40,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="notation"):
        notation_expression(text)


def test_expressions_win_and_mistakes_are_told_as_before() -> None:
    assert parse("torus:4x4").name == "torus(4, 4)"
    assert parse("subset(dgx_a100(1), '0-3')").n_nodes == parse('subset(dgx_a100(1), "0-3")').n_nodes
    with pytest.raises(FormatError, match="no catalogue function"):
        parse("Foo(3)")
    with pytest.raises(FormatError, match="neither a file nor a catalogue name"):
        parse("foo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("K5", "complete(5)"),
        ("K4,3", "complete_bipartite(4, 3)"),
        ("K(4,3)", "complete_bipartite(4, 3)"),
        ("BiRing(2,8)", "bi_ring(2, 8)"),
        ("C(16,{3,4})", "circulant(16, 3, 4)"),
        ("Circulant(16,3,4)", "circulant(16, 3, 4)"),
        ("DiC(6,{1,2})", "directed_circulant(6, 1, 2)"),
        ("DiCirculant(6,1,2)", "directed_circulant(6, 1, 2)"),
        ("DBJ(2,3)", "de_bruijn(2, 3)"),
        ("DBJMod(2,4)", "modified_de_bruijn(2, 4)"),
        ("DistReg(4,9)", "distance_regular(4, 9)"),
        ("H(2,3)", "hamming(2, 3)"),
        ("Hamming(2,3)", "hamming(2, 3)"),
        ("Kautz(2,3)", "kautz(2, 3)"),
        ("Pi4,64", "generalized_kautz(4, 64)"),
        ("Π(4,64)", "generalized_kautz(4, 64)"),
        ("Q3", "hypercube(3)"),
        ("Torus(3,4,5)", "torus(3, 4, 5)"),
        ("UniRing(1,4)", "uni_ring(1, 4)"),
        ("L(Diamond)", "line_graph(diamond())"),
        ("L3(Diamond)", "line_graph(diamond(), 3)"),
        ("L^3(Diamond*2)", "line_graph(degree_expansion(diamond(), 2), 3)"),
        ("Diamond^2*3", "degree_expansion(cartesian_power(diamond(), 2), 3)"),
        ("Diamond*3^2", "cartesian_power(degree_expansion(diamond(), 3), 2)"),
        ("Diamond^2^3", "cartesian_power(diamond(), 6)"),
        ("Diamond^1", "diamond()"),
        ("Diamond^32", "cartesian_power(diamond(), 32)"),
        ("Diamond□2", "cartesian_power(diamond(), 2)"),
        ("K2 □ K3^2 × (Q2)", "cartesian_product(complete(2), complete(3), complete(3), hypercube(2))"),
        ("((K2))", "complete(2)"),
    ],
)
def test_notations(text: str, expected: str) -> None:
    assert notation_expression(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("K5 ?", "' ?' is not understood"),
        ("K5 K6", "'K' is too much"),
        ("Foo(1)", "no graph is called 'Foo'"),
        ("", "a graph is missing"),
        ("K5 x", "a graph is missing"),
        ("H(2)", "H lacks a number"),
        ("K", "K lacks a number"),
        ("(K5", "')' is missing"),
        ("L(K5", "')' is missing"),
        ("L2 K5", "'(' is missing"),
        ("C(5,{1)", "'}' is missing"),
        ("K5*", "a number is missing"),
        ("K5^0", "a power of 0"),
        ("torus(3,3)", "it is an expression"),
        ('L(torus(3,"(")', "')' is missing"),
        ("K5^33", "a power of 33"),
        ("K1234567890", "a number is missing"),
        ("(" * 17 + "K5" + ")" * 17, "brackets are nested too deep"),
    ],
)
def test_notations_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError) as refused:
        notation_expression(text)
    example = "expected one as in L^2(Diamond^2), K4,4*2 or UniRing(1,4)^2 x BiRing(2,8)"
    assert str(refused.value) == f"notation {text!r}: {reason}; {example}"
    assert notation_expression("(" * 16 + "K123456789" + ")" * 16) == "complete(123456789)"


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("Jellyfish(12,3)", "jellyfish(12, 3)"),
        ("L(Xpander(4,4))", "line_graph(xpander(4, 4))"),
        ('L^2(abelian_cayley("8",3,1))', 'line_graph(abelian_cayley("8",3,1), 2)'),
        ("torus(3,4)*2", "degree_expansion(torus(3,4), 2)"),
        ("K4x(K3)", "cartesian_product(complete(4), complete(3))"),
        (
            "with_parallel_links(uni_ring(1,4),2) x K3",
            "cartesian_product(with_parallel_links(uni_ring(1,4),2), complete(3))",
        ),
        (
            'with_nodes_ordered(diamond(),"0,(,1")^2',
            'cartesian_power(with_nodes_ordered(diamond(),"0,(,1"), 2)',
        ),
    ],
)
def test_any_graph_may_be_a_call(text: str, expression: str) -> None:
    assert notation_expression(text) == expression


def test_notations_have_up_to_400_words_and_signs() -> None:
    text = "K5" + "^1" * 199
    assert notation_expression(text) == notation_expression("K5")
    with pytest.raises(FormatError, match=r"'K5[^ ]{78}': it has more than 400 words and signs; expected"):
        notation_expression(f"{text}^1")


def test_long_notations_are_cut_where_they_are_refused() -> None:
    with pytest.raises(FormatError) as refused:
        notation_expression(f"K4  {'?' * 78}")
    assert str(refused.value).startswith(f"notation 'K4 {'?' * 77}': '  {'?' * 8}' is not understood; ")
