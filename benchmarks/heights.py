"""Heights at the best throughput beside the bound that no spanning tree goes below, on catalogue fabrics.

    python -m benchmarks.heights           # small samples of every function, and larger fabrics
    python -m benchmarks.heights --small   # small samples alone
    python -m benchmarks.heights --all     # every row, not just those above the bound

The rule is "never more than twice the bound". Rows that break it are marked, and counted in the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Forest
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees import synthesise
from treadle.topologies import parse
from treadle.unsupported import Unsupported

LARGER = (
    "dgx_a100(2)",
    "dgx_a100(4)",
    "dgx_a100(16)",
    "dgx_a100_flat(4)",
    "dgx_a100_flat(16)",
    "dgx_h100(2)",
    "dgx_h100(4)",
    "dgx_h100(16)",
    "dgx1_v100()",
    "gb200_nvl72(1)",
    "mi250(1)",
    "mi250(2)",
    "mi250(3)",
    "mi250(4)",
    "mi250(8)",
    "mi300x(2)",
    "mi300x(16)",
    "leaf_spine(4,2)",
    "leaf_spine(8,16)",
    "leaf_spine(16,4,oversubscription=2)",
    "leaf_spine(4,4,gpus_per_leaf=32,oversubscription=4)",
    "fat_tree(4)",
    "fat_tree(6)",
    "fat_tree(8)",
    "rail_optimized(4)",
    "rail_optimized(16)",
    "rail_optimized(8,spines=4)",
    "rail_optimized(8,spines=4,oversubscription=2)",
    "pods(2,4)",
    "pods(2,8)",
    "pods(4,4,oversubscription=2)",
    "torus(4,4)",
    "torus(8,16)",
    "torus(4,4,8)",
    "mesh(4,4)",
    "mesh(8,8)",
    "hypercube(5)",
    "hypercube(7)",
    "hamming(3,4)",
    "kautz(3,3)",
    "generalized_kautz(4,128)",
    "de_bruijn(2,7)",
    "circulant(64,1,8)",
    "double_binary_tree(200)",
    "double_binary_tree(1023)",
    "twisted_torus(8,16)",
    "dragonfly(4,2)",
    "dragonfly(4,8)",
    "jellyfish(32,4)",
    "jellyfish(128,4)",
    "jellyfish(128,8)",
    "slimfly(5)",
    "complete(32)",
    "ring(64)",
    "path(16)",
    "star(16)",
    "with_failed_links(dgx_a100_flat(16),'box0.gpu0--ib0','box1.gpu3--ib0','box1.gpu4--ib0')",
    "with_failed_links(mi250(4),'box0.gpu3--ib0')",
    "with_failed_links(mi250(4),'box0.gpu3--ib0','box1.gpu14--ib0','box1.gpu15--ib0')",
    "with_failed_links(torus(8,8),'n0_0--n0_1','n3_3--n3_4')",
)


def samples() -> list[str]:
    """The catalogue's small samples, which the tests use."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from samples.catalogue_samples import SAMPLES

    return sorted({fabric.name for fabrics in SAMPLES.values() for fabric in fabrics})


def row(name: str) -> tuple[str, ...] | str:
    """Ranks, trees per root, height, bound, who made the forest, distinct trees and CPU seconds."""
    start = time.process_time()
    try:
        topology = parse(name)
        result = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    except TreadleError as error:
        return str(error)
    forest = result.schedule.broadcast
    assert isinstance(forest, Forest)
    return (
        name if len(name) < 60 else f"{name[:56]}...",
        str(forest.n_ranks),
        str(result.trees_per_root),
        str(height_max(result.schedule)),
        str(result.height_bound),
        result.packer,
        str(forest.n_trees),
        f"{time.process_time() - start:.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="small samples alone")
    parser.add_argument("--all", action="store_true", help="every row")
    arguments = parser.parse_args()
    headings = ("fabric", "ranks", "k", "height", "bound", "made by", "trees", "CPU s", "")
    table, console = Table(*headings), Console(width=150)
    names = samples() if arguments.small else [*samples(), *LARGER]
    met = above = broken = 0
    for name in names:
        found = row(name)
        if isinstance(found, Unsupported):
            console.print(f"{name}: {found}")
            continue
        height, bound = int(found[3]), int(found[4])
        met, above, broken = met + (height <= bound), above + (height > bound), broken + (height > 2 * bound)
        if height > bound or arguments.all:
            table.add_row(*found, "more than twice" if height > 2 * bound else "")
    console.print(table)
    console.print(f"{met} fabrics at the bound, {above} above it, {broken} of these by more than twice")


if __name__ == "__main__":
    main()
