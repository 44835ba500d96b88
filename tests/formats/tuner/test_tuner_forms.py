"""Which trees are NCCL's own: by the writer and by the judge, of four ranks in boxes of any size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from treadle.formats.tuner.interpreter import _meant
from treadle.formats.tuner.writer import own_algorithm
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import PlanEntry
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_transforms import reverse

Boxes = tuple[tuple[int, ...], ...]
ONE: Boxes = ((0, 1, 2, 3),)
TWO: Boxes = ((0, 1), (2, 3))
CHAIN, STAR, FORK = (-1, 0, 1, 2), (-1, 0, 0, 0), (-1, 0, 0, 1)
BRANCH = "its trees are no chains in boxes joined by binary trees"
TWICE = "its rings pass some box twice, and NCCL's pass each once"


def entry(kind: CollectiveKind, name: str, parents: tuple[int, ...]) -> PlanEntry:
    """The tree of rank 0; of the other roots, if there are some, the same with all numbers turned."""
    specs = []
    for root in range(1 if kind.is_rooted else 4):
        parent = [-1] * 4
        for rank, above in enumerate(parents):
            if above >= 0:
                parent[(rank + root) % 4] = (above + root) % 4
        specs.append(TreeSpec(root, 2, parent, {rank: [((0,), 2)] for rank in range(4) if rank != root}))
    broadcast = forest_from_trees(Direction.BROADCAST, 4, specs)
    reduce = reverse(broadcast) if kind.reduces else None
    schedule = ForestSchedule(kind, reduce=reduce, broadcast=broadcast if kind.broadcasts else None)
    return PlanEntry(0, None, schedule, algorithm=name)


@pytest.mark.parametrize(
    ("kind", "name", "parents", "boxes", "said", "meant"),
    [
        ("allreduce", "ring", CHAIN, ONE, "ring", "ring"),
        ("allreduce", "ring", CHAIN, TWO, "ring", "ring"),
        ("allgather", "ring", CHAIN, ((0, 1, 2), (3,)), "ring", "ring"),
        ("allgather", "ring", CHAIN, ((0, 2), (1, 3)), TWICE, None),
        ("broadcast", "ring", CHAIN, TWO, "ring", "ring"),
        ("broadcast", "ring", CHAIN, ((0, 2), (1, 3)), TWICE, None),
        ("broadcast", "ring", CHAIN, ((0, 2), (1,), (3,)), TWICE, None),
        ("broadcast", "ring", FORK, ONE, "its trees branch", None),
        ("reduce", "ring", CHAIN, ((0,), (1,), (2,), (3,)), "ring", "ring"),
        ("allreduce", "bfb", CHAIN, ONE, "bfb is no algorithm of NCCL's", "ring"),
        ("allgather", "double-binary-tree", FORK, ONE, "NCCL has no tree for allgather", None),
        ("allreduce", "double-binary-tree", FORK, ONE, "tree", "tree"),
        # stars are what NVLS does, and three children of a rank no binary tree
        ("allreduce", "double-binary-tree", STAR, ONE, BRANCH, "nvls"),
        ("allreduce", "nvls", STAR, ONE, "nvls", "nvls"),
        ("allreduce", "nvls", FORK, ONE, "NVLS over several boxes is another algorithm of NCCL's", "tree"),
        ("allreduce", "nvls", STAR, TWO, "NVLS over several boxes is another algorithm of NCCL's", None),
    ],
)
def test_forms_of_all_roots(
    kind: str, name: str, parents: tuple[int, ...], boxes: Boxes, said: str, meant: str | None
) -> None:
    one = entry(CollectiveKind(kind), name, parents)
    plan: Any = SimpleNamespace(
        algorithm="another", collective=SimpleNamespace(kind=CollectiveKind(kind), n_ranks=4)
    )
    assert str(own_algorithm(one, plan, boxes)) == said
    assert _meant(one, CollectiveKind(kind), boxes) == meant


@pytest.mark.parametrize(
    ("parents", "boxes", "is_tree"),
    [
        # 0 leads to its neighbour and to the other box, whose 2 leads to 3
        ((-1, 0, 0, 2), TWO, True),
        ((-1, 0, 1, 2), TWO, True),
        # two of a box lead to others
        ((-1, 0, 0, 1), ((0, 1), (2,), (3,)), False),
        ((-1, 0, 0, 0), ((0, 1), (2,), (3,)), True),
        # two children in the box, and three in others
        ((-1, 0, 0, 0), ((0, 1, 2), (3,)), False),
        ((-1, 0, 0, 0), ((0,), (1,), (2,), (3,)), False),
        ((-1, 0, 0, 1), ((0,), (1,), (2,), (3,)), True),
    ],
)
def test_double_trees_of_one_root(parents: tuple[int, ...], boxes: Boxes, is_tree: bool) -> None:
    """Of an allreduce whose data are all at rank 0 in between."""
    specs = [TreeSpec(0, 2, list(parents), {rank: [((0,), 2)] for rank in (1, 2, 3)})]
    broadcast = forest_from_trees(Direction.BROADCAST, 4, specs)
    kind = CollectiveKind.ALLREDUCE
    schedule = ForestSchedule(kind, reduce=reverse(broadcast), broadcast=broadcast)
    one = PlanEntry(0, None, schedule)
    plan: Any = SimpleNamespace(
        algorithm="double-binary-tree", collective=SimpleNamespace(kind=kind, n_ranks=4)
    )
    assert str(own_algorithm(one, plan, boxes)) == ("tree" if is_tree else BRANCH)
    if parents not in (CHAIN, STAR):
        assert (_meant(one, kind, boxes) == "tree") is is_tree
