"""Words and hops of pictures, on small schedules by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.drawing import draw as draw_module
from treadle.drawing import tree_hops
from treadle.drawing.draw import check_drawing_name, smaller_side
from treadle.drawing.notebook_drawing import draw_inline
from treadle.drawing.tree_hops import tree_depths
from treadle.errors import FormatError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


def boxes() -> Topology:
    """Two boxes of a GPU and of three, 2 bytes/s from the first and 3 back; 7 within the second."""
    draft = TopologyBuilder("boxes")
    for name in ("a.0", "b.0", "b.1", "b.2"):
        draft.compute(name)
    draft.link("a.0", "b.0", 2)
    draft.link("b.0", "a.0", 3)
    for one, other in (("b.0", "b.1"), ("b.1", "b.2"), ("b.2", "b.0")):
        draft.duplex(one, other, 7)
    return draft.build()


def plan(kind: CollectiveKind, **fields: Any) -> Any:
    return SimpleNamespace(topology=boxes(), collective=Collective(kind, (0, 1, 2, 3), **fields))


@pytest.mark.parametrize(
    ("kind", "nodes", "fields", "words"),
    [
        (
            CollectiveKind.ALLGATHER,
            (1, 2, 3),
            {},
            "3 of 4 shards must enter a.0 through 3 B/s: at most 4 B/s",
        ),
        (CollectiveKind.ALLGATHER, (0,), {}, "1 of 4 shards must leave a.0 through 2 B/s: at most 8 B/s"),
        (
            CollectiveKind.REDUCE_SCATTER,
            (1, 2, 3),
            {},
            "3 of 4 shards must leave a.0 through 2 B/s: at most 2.67 B/s",
        ),
        (
            CollectiveKind.ALLGATHER,
            (2, 3),
            {"weights": (5, 1, 2, 4)},
            "6 of 12 shards must leave 2 ranks of b through 14 B/s: at most 28 B/s",
        ),
        (
            CollectiveKind.ALLGATHER,
            (0, 2),
            {},
            "2 of 4 shards must leave 2 ranks through 16 B/s: at most 32 B/s",
        ),
        (
            CollectiveKind.BROADCAST,
            (0,),
            {"root": 0},
            "all data must leave a.0 through 2 B/s: at most 2 B/s",
        ),
    ],
)
def test_cuts_are_told_from_the_smaller_side(
    kind: CollectiveKind, nodes: tuple[int, ...], fields: dict[str, Any], words: str
) -> None:
    found = smaller_side(plan(kind, **fields), BottleneckCut(nodes))
    assert found.words == words
    assert 2 * int(found.inside.sum()) <= 4


def test_places_of_ranks() -> None:
    fabric, ranks = boxes(), np.arange(4)

    def place(*nodes: int) -> str:
        inside = np.isin(np.arange(4), nodes)
        return draw_module._place(fabric, inside, ranks)

    assert place(2) == "b.1"
    assert place(1, 2, 3) == "b"
    assert place(1, 3) == "2 ranks of b"
    assert place(0, 1) == "2 ranks"
    ring = parse("ring(4)")
    assert draw_module._place(ring, np.array([True, True, False, False]), ranks) == "2 ranks"


def test_ranks_by_name_and_number() -> None:
    own = plan(CollectiveKind.ALLGATHER)
    assert draw_module._rank_named(own, "b.1") == 2
    assert [draw_module._rank_named(own, text) for text in ("0", "3", "03")] == [0, 3, 3]
    for text in ("4", "-1", "b", "1" * 9, "\u0661"):
        with pytest.raises(FormatError) as error:
            draw_module._rank_named(own, text)
        assert str(error.value) == (
            f"draw: no rank {text!r}; expected a number below 4 or a name such as a.0"
        )


def tree(root: int, *parent: int, multiplicity: int = 1, paths: tuple[int, ...] = ()) -> Any:
    """Each rank but the root is reached by one path, of its own number unless said otherwise."""
    ends = np.cumsum([0, *(int(rank != root) for rank in range(len(parent)))])
    own = paths or tuple(rank for rank in range(len(parent)) if rank != root)
    return SimpleNamespace(
        root=root, parent=parent, multiplicity=multiplicity, entry_offset=ends, entry_path=own
    )


@pytest.mark.parametrize(
    ("root", "parent", "depths"),
    [
        (0, (-1, 0, 1, 2), [0, 1, 2, 3]),
        (3, (1, 2, 3, -1), [3, 2, 1, 0]),
        (1, (1, -1, 1, 0, 3), [1, 0, 1, 2, 3]),
        (0, (-1,), [0]),
    ],
)
def test_depths_of_trees(root: int, parent: tuple[int, ...], depths: list[int]) -> None:
    assert tree_depths(tree(root, *parent)) == depths


class Forest:
    """Trees of rank 0, and links of paths by number."""

    def __init__(self, *trees: Any, direction: Direction = Direction.BROADCAST) -> None:
        self.given, self.direction = trees, direction

    def trees(self, root: int) -> list[Any]:
        return list(self.given) if root == 0 else []

    def path(self, number: int) -> Any:
        return np.array([number, 10 + number])


def test_hops_are_those_of_the_heaviest_tree() -> None:
    """A chain of three hops, with 3/5 of the data; a link that two hops take has the number of the first."""
    star, chain = tree(0, -1, 0, 0, 0, multiplicity=2), tree(0, -1, 0, 1, 2, multiplicity=3)
    hops, words = tree_hops._tree_hops(cast(Any, Forest(star, chain)), 0)
    assert hops == {1: 1, 11: 1, 2: 2, 12: 2, 3: 3, 13: 3}
    assert words == "one of 2 trees from it, with 60% of its data; 3 hops"
    back = tree(3, 1, 2, 3, -1, paths=(5, 5, 5))
    hops, words = tree_hops._tree_hops(cast(Any, Forest(back, direction=Direction.REDUCE)), 0)
    assert hops == {5: 1, 15: 1}
    assert words == "one of 1 tree to it, with 100% of its data; 3 hops"


@pytest.mark.parametrize("name", ["a.svg", "b.PNG", Path("c/d.pdf")])
def test_pictures_end_in_their_format(name: Path | str) -> None:
    check_drawing_name(name)
    with pytest.raises(FormatError) as error:
        check_drawing_name(f"{name}.gif")
    assert str(error.value) == f"drawing {name}.gif: expected a name that ends in .svg, .png or .pdf"
    with pytest.raises(FormatError):
        check_drawing_name("svg")


def test_titles_of_fabrics() -> None:
    assert draw_module._fabric_words(boxes()) == "boxes: 4 ranks"
    star = TopologyBuilder("star")
    star.compute("a")
    star.switch("s")
    star.duplex("a", "s", 1)
    assert draw_module._fabric_words(star.build()) == "star: 1 rank, 1 switch"


def test_notebooks_draw_fabrics_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = parse("ring(4)")
    monkeypatch.setattr("treadle.drawing.notebook_drawing._MOST_NODES", 4)
    assert draw_inline(ring).startswith(b"<svg")
    assert draw_inline(SimpleNamespace(fabric_to_draw=lambda: ring)) == draw_inline(ring)
    assert draw_inline(SimpleNamespace(fabric_to_draw=lambda: None)) == b""
    assert draw_inline(parse("ring(5)")) == b""
    assert draw_inline(3) == b""
