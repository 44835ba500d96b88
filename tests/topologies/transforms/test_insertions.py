"""Nodes between links and exchanged heads: counted link by link."""

from __future__ import annotations

import pytest

from treadle.errors import TopologyError
from treadle.topologies import parse


@pytest.mark.parametrize(
    "text",
    [
        "with_inserted_nodes(torus(3, 3), 1, 2, 3)",
        "with_inserted_nodes(torus(3, 3))",
        "with_inserted_nodes(torus(3, 3), 1, 2, 3, 36)",
        "with_inserted_nodes(bi_ring(2, 4), 0, 8)",
        "with_inserted_nodes(torus(3, 3), 1, 1, 36, 2)",
        "with_inserted_nodes(star(4), 1)",
        "with_deleted_nodes(torus(3, 3))",
        "with_deleted_nodes(torus(3, 3), 9)",
        "with_deleted_nodes(torus(3, 3), 1, 1)",
        "with_deleted_nodes(complete(3), 0, 1)",
        "with_deleted_nodes(de_bruijn(2, 3), 0)",
        "with_deleted_nodes(star(4), 1)",
        "with_exchanged_heads(torus(3, 3), 1)",
        "with_exchanged_heads(torus(3, 3), 1, 99)",
        "with_exchanged_heads(dgx_a100(1), 1, 2)",
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="with_"):
        parse(text)
