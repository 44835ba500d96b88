"""The allreduce optimum: linear program by cuts, tree packing, in-network aggregation, certificates."""

from treadle.synthesis.allreduce.capacities import Packer
from treadle.synthesis.allreduce.solve import (
    AllreduceBound,
    AllreduceSolution,
    Construction,
    allreduce_bound,
    solve_allreduce,
    without_capabilities,
)

__all__ = [
    "AllreduceBound",
    "AllreduceSolution",
    "Construction",
    "Packer",
    "allreduce_bound",
    "solve_allreduce",
    "without_capabilities",
]
