"""What searches are told to do, and what is done with what they find: by hand on a few links."""

from __future__ import annotations

import numpy as np

from treadle.synthesis.alltoall.searched.layer_search import (
    _in_line,
    _places,
)


def test_links_are_put_in_line_behind_each_other() -> None:
    assert _in_line([0, 1, 2, 3, 4], [3, 1, 4]).tolist() == [0, 2, 3, 1, 4]
    assert _in_line([0, 1, 2, 3, 4], [4, 3, 0]).tolist() == [1, 2, 4, 3, 0]
    assert _in_line([2, 1, 0], [2, 0]).tolist() == [2, 1, 0]
    assert _places(np.array([[2, 0, 1], [0, 2, 1]], dtype=np.int32)).tolist() == [[1, 2, 0], [0, 2, 1]]
