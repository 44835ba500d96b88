"""Graphs as graph tools write them: GraphML, edge lists, CSV matrices, and networkx's own."""

from __future__ import annotations

import re

from treadle.topologies.readers.graphs import edge_list, matrix
from treadle.topologies.readers.reader import TopologyFormat

_HERE = "treadle.topologies.readers.graphs"
_GRAPHML = re.compile(r"<(?:\w+:)?graphml\b")

FORMATS = (
    TopologyFormat(
        name="graphml",
        title="GraphML",
        read=f"{_HERE}.graphml:read",
        options=frozenset({"bandwidth", "undirected"}),
        detect=_GRAPHML.search,
        extensions=(".graphml",),
        contents="nodes and edges, with attributes their kinds and speeds (Topology Zoo's too)",
        missing="--bandwidth where edges have none; --undirected for edges without arrows",
    ),
    TopologyFormat(
        name="edge-list",
        title="an edge list",
        read=f"{_HERE}.edge_list:read",
        options=frozenset({"bandwidth"}),
        detect=edge_list.is_edge_list,
        extensions=(".edgelist", ".edges"),
        max_bytes=4 * 2**20,
        contents="an edge a line, with blanks or commas between, weights or speeds",
        missing="--bandwidth where edges have none",
    ),
    TopologyFormat(
        name="csv-matrix",
        title="a CSV matrix",
        read=f"{_HERE}.matrix:read",
        options=frozenset({"bandwidth"}),
        detect=matrix.is_matrix,
        extensions=(".csv",),
        max_bytes=2 * 2**20,
        contents="row i, column j: the link from i to j",
        missing="--bandwidth where numbers have no unit",
    ),
)
