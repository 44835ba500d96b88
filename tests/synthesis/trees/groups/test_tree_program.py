"""The linear program of trees: what stands in for a solution is one, and as large as its trees allow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.mesh import Mesh
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.group_colours import refined
from treadle.synthesis.trees.groups.representative import representatives
from treadle.synthesis.trees.groups.tree_program import TreeProgram
from treadle.synthesis.trees.groups.union import union_of
from treadle.topologies import parse

KINDS = CollectiveKind


def begun(fabric: str, kind: CollectiveKind, *, sliced: bool) -> TreeProgram:
    """With one tree of each root."""
    topology = parse(fabric)
    ranks = tuple(topology.compute_nodes.tolist())
    groups = Mesh((2, len(ranks) // 2), ("a", "b")).groups(("b",)) if sliced else None
    root = ranks[0] if kind in (KINDS.BROADCAST, KINDS.REDUCE) else None
    if root is None and groups is None:
        collective = on_all_ranks(topology, kind)
    else:
        collective = Collective(kind, ranks, root=root, groups=groups)
    union = union_of(topology, collective)
    colours = refined(union)
    alike = representatives(union, colours)
    program = TreeProgram(
        alike,
        capacity_rows(union, colours, alike),
        (False, True) if kind == KINDS.ALLREDUCE else (kind == KINDS.REDUCE,),
        is_rooted=root is not None,
        joins_twins=True,
        unit=int(topology.bandwidths.max()),
    )
    program.begin()
    return program


def matrix_of(program: TreeProgram) -> coo_array:
    rows, columns, values = program.lp.entries()
    return coo_array((values, (rows, columns)), (program.lp.n_rows, program.lp.n_columns))


@pytest.mark.parametrize(
    ("fabric", "kind", "sliced"),
    [
        ("torus:3,4", KINDS.ALLGATHER, False),
        ("mesh:3,4", KINDS.ALLGATHER, False),
        ("mesh:3,4", KINDS.ALLREDUCE, False),
        ("dgx_a100:2", KINDS.ALLREDUCE, True),
        ("mesh:4,4", KINDS.ALLREDUCE, True),
        ("mesh:3,4", KINDS.BROADCAST, False),
        ("mesh:3,4", KINDS.REDUCE, False),
    ],
)
def test_what_serves_for_want_of_a_solution(fabric: str, kind: CollectiveKind, sliced: bool) -> None:
    program = begun(fabric, kind, sliced=sliced)
    values = program.even_values()
    assert values[0] > 0
    assert (values >= 0).all()
    sums = matrix_of(program) @ values
    links = len(program.limits)
    filled = sums[:links] / (np.array(program.limits, dtype=float) / program.unit)
    assert float(filled.max()) == pytest.approx(1)
    assert sums[links:] == pytest.approx(0, abs=1e-12)
    trees = values[program.first_tree :]
    assert np.count_nonzero(trees) == len(program.root_rows)
