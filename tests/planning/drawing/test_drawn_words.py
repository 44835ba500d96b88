"""Words and hops of pictures, on small schedules by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from treadle.drawing import tree_hops
from treadle.drawing.draw import check_drawing_name
from treadle.drawing.notebook_drawing import draw_inline
from treadle.errors import FormatError
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse


def tree(root: int, *parent: int, multiplicity: int = 1, paths: tuple[int, ...] = ()) -> Any:
    """Each rank but the root is reached by one path, of its own number unless said otherwise."""
    ends = np.cumsum([0, *(int(rank != root) for rank in range(len(parent)))])
    own = paths or tuple(rank for rank in range(len(parent)) if rank != root)
    return SimpleNamespace(
        root=root, parent=parent, multiplicity=multiplicity, entry_offset=ends, entry_path=own
    )


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


def test_notebooks_draw_fabrics_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = parse("ring(4)")
    monkeypatch.setattr("treadle.drawing.notebook_drawing._MOST_NODES", 4)
    assert draw_inline(ring).startswith(b"<svg")
    assert draw_inline(SimpleNamespace(fabric_to_draw=lambda: ring)) == draw_inline(ring)
    assert draw_inline(SimpleNamespace(fabric_to_draw=lambda: None)) == b""
    assert draw_inline(parse("ring(5)")) == b""
    assert draw_inline(3) == b""
