"""Groups and Cayley digraphs: axioms against dense tables, graph symmetry, refusals."""

import pytest

from treadle.errors import TopologyError
from treadle.topologies.catalogue.cayley import (
    abelian_cayley,
    cayley_graph,
    dihedral_cayley,
    extension_cayley,
    metacyclic_cayley,
    plane_cayley,
)
from treadle.topologies.catalogue.graphs import hypercube


def test_same_graphs_as_the_named_ones() -> None:
    cube = abelian_cayley("2x2x2", 4, 2, 1)
    ours = sorted(zip(cube.tails.tolist(), cube.heads.tolist(), strict=True))
    other = hypercube(3)
    assert ours == sorted(zip(other.tails.tolist(), other.heads.tolist(), strict=True))
    assert dihedral_cayley(8, 1, 3) == metacyclic_cayley(8, 2, 7, 1, 3)
    assert plane_cayley(3, 4, 0, 2, 1, 0, 1, 4) == extension_cayley("3x3", "0,2/1,0", "0,0", 4, 1, 4)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('abelian_cayley("16x4", 1, 0)', "each generator must be at least 1"),
        ('abelian_cayley("16x4", 1, 64)', "each generator must be at most 63"),
        ('abelian_cayley("16x4", 1)', "do not reach every node"),
        ('abelian_cayley("16x", 1)', "must be numbers joined by 'x'"),
        ('abelian_cayley("99999999", 1)', "must be numbers joined by 'x'"),
        ('abelian_cayley("4x1", 1)', "moduli of at least 2"),
        ("abelian_cayley(16, 1)", "must be numbers joined by 'x'"),
        ("metacyclic_cayley(8, 2, 2, 1, 2)", "must be the identity modulo"),
        ("metacyclic_cayley(1000000, 1000000, 1, 1, 2)", "order is above"),
        ("metacyclic_cayley(0, 2, 1, 1)", "m must be at least 1"),
        ("metacyclic_cayley(1, 1, 1, 1)", "number of nodes must be at least 2"),
        ("dihedral_cayley(4)", "number of generators must be at least 1"),
        ("dihedral_cayley(4, True)", "expected a Cayley digraph"),
        ("dihedral_cayley()", "expected a Cayley digraph"),
        (
            'extension_cayley("4x2", "1,1/0,1", "0,0", 2, 1)',
            "is not a map of the moduli|must be the identity",
        ),
        ('extension_cayley("4", "3", "1", 2, 1)', "must fix the carry"),
        ('extension_cayley("4", "3,1", "1", 2, 1)', "expected a 1 by 1 action"),
        ('extension_cayley("4", 3, "1", 2, 1)', "action must be numbers"),
        ("plane_cayley(3, 3, 1, 1, 0, 1, 1, -3)", "each generator must be at least 1"),
        ("torus(3, 3)", "expected a Cayley digraph"),
        ("__import__('os')", "expected a Cayley digraph"),
        ("dihedral_cayley(4, 1, 3", "expected a Cayley digraph"),
    ],
)
def test_refusals(expression: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as refusal:
        cayley_graph(expression)
    assert "\n" not in str(refusal.value)
