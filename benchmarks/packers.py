"""Packers of spanning trees side by side: CPU seconds, heights, trees; all at the exact optimum.

    python -m benchmarks.packers            # without growth where it takes more than some seconds
    python -m benchmarks.packers --growth   # everything; minutes
    python -m benchmarks.packers --small    # up to 132 nodes

"default" is the order of `treadle solve`, "local-search" is growth made lower. CPU is that of packing (with
tight cuts, height-first or local search), in one thread, without switch removal and the optimum.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Forest
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees import Packer, synthesise
from treadle.topologies import parse

A100_FAILED = (
    "with_failed_links(dgx_a100_flat(16),"
    + ",".join(f"'box{box}.gpu{3 * box % 8}--ib0'" for box in range(10))
    + ")"
)
SMALL = (
    "torus(8,16)",
    "jellyfish(128,4)",
    "hypercube(7)",
    "dragonfly(4,8)",
    "dgx_a100(2)",
    "dgx_a100(16)",
    "dgx_h100(2)",
    "mi250(1)",
    "mi250(2)",
    "mi250(4)",
    "mi250(8)",
    "leaf_spine(8,16)",
    "leaf_spine(16,4,oversubscription=2)",
    "fat_tree(8)",
    "pods(2,8)",
    A100_FAILED,
)
LARGE = (
    "torus(32,32)",
    "jellyfish(1024,4)",
    "hypercube(10)",
    "dragonfly(8,4)",
    "dragonfly(32,1)",
    "mi250(64)",
    "leaf_spine(128,4,oversubscription=2)",
    "pods(16,8)",
)
GROWTH_IS_QUICK = (*SMALL, "mi250(64)")
PACKING_STAGES = ("tight_cuts", "height_first", "local_search", "lower_forest", "tree_packing")


def cells(name: str, packer: Packer | None) -> list[str]:
    """One line: the packer that made the forest, CPU seconds, height, distinct trees."""
    topology = parse(name)
    result = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), packer=packer)
    forest = result.schedule.broadcast
    assert isinstance(forest, Forest)
    return [
        name if len(name) < 40 else f"{name[:36]}...",
        str(len(topology.compute_nodes)),
        str(result.trees_per_root),
        "default" if packer is None else packer.value,
        result.packer,
        f"{sum(result.seconds.get(stage, 0.0) for stage in PACKING_STAGES):.2f}",
        str(height_max(result.schedule)),
        str(result.height_bound),
        str(forest.n_trees),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--growth", action="store_true", help="growth on every fabric")
    parser.add_argument("--small", action="store_true", help="only fabrics of up to 132 nodes")
    arguments = parser.parse_args()
    table = Table("fabric", "ranks", "k", "asked", "made by", "CPU s", "height", "bound", "trees")
    for name in SMALL if arguments.small else (*SMALL, *LARGE):
        for packer in (Packer.GROWTH, Packer.LOCAL_SEARCH, None):
            if packer is None or arguments.growth or name in GROWTH_IS_QUICK:
                table.add_row(*cells(name, packer))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
