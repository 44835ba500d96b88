"""Computes the figures that `treadle.finder.tables` reads.

``python -m tools.finder.base_figures PATH`` writes the file anew: for every generalized Kautz,
de Bruijn and random regular graph (one seed) of the listed degrees the steps and the exact T_B of the
breadth-first broadcast, on the graph (allgather) and on its transpose (reduce-scatter).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import lcm
from pathlib import Path

from treadle.atomic import write_bytes
from treadle.finder.measure import measure_graph
from treadle.topologies import Topology, de_bruijn, generalized_kautz, jellyfish

MAX_NODES = 2000
DEGREES = (2, 3, 4, 5, 6, 8, 16)
JELLYFISH_DEGREES = (3, 4, 6, 8)
JELLYFISH_SEED = 0


def _row(topology: Topology, n: int, d: int) -> tuple[int, int, int, int]:
    """Nodes, steps, and T_B both ways as integers over n * lcm(1..d): loads have denominators up to d."""
    steps, gather, reduce = measure_graph(topology)
    scale = n * lcm(*range(1, d + 1))
    assert (gather * scale).denominator == (reduce * scale).denominator == 1, "denominators are at most d"
    return n, steps, int(gather * scale), int(reduce * scale)


def _columns(rows: list[tuple[int, int, int, int]]) -> dict[str, list[int]]:
    keys = ("nodes", "steps", "gather", "reduce")
    return {key: [row[place] for row in rows] for place, key in enumerate(keys)}


def compute_figures(max_nodes: int = MAX_NODES, degrees: Sequence[int] = DEGREES) -> dict[str, object]:
    """What the file holds; about ten minutes of CPU time at the default size."""
    kautz: dict[str, object] = {}
    bruijn: dict[str, object] = {}
    for d in degrees:
        kautz[str(d)] = _columns([_row(generalized_kautz(d, n), n, d) for n in range(d + 1, max_nodes + 1)])
        sizes = [k for k in range(2, 12) if d**k <= max_nodes]
        bruijn[str(d)] = _columns([_row(de_bruijn(d, k), d**k, d) for k in sizes])
    return {"generalized_kautz": kautz, "de_bruijn": bruijn, "jellyfish": jellyfish_figures(max_nodes)}


def jellyfish_figures(max_nodes: int, degrees: Sequence[int] = JELLYFISH_DEGREES) -> dict[str, object]:
    """Random regular graphs: a bidirectional fabric of low diameter for every size."""
    return {
        str(d): _columns(
            [
                _row(jellyfish(n, d, seed=JELLYFISH_SEED), n, d)
                for n in range(d + 2, max_nodes + 1)
                if n * d % 2 == 0
            ]
        )
        for d in degrees
    }


def main(arguments: Sequence[str]) -> int:
    """Write the file; returns the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tools.finder.base_figures PATH\n")
        return 2
    text = json.dumps(compute_figures(), separators=(",", ":"))
    write_bytes(Path(arguments[0]), text.encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
