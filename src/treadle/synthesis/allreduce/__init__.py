"""The allreduce optimum: linear program by cuts, tree packing, in-network aggregation, certificates."""

from treadle.synthesis.allreduce.bound import AllreduceBound, allreduce_bound, without_capabilities
from treadle.synthesis.allreduce.capacities import Packer
from treadle.synthesis.allreduce.solve import AllreduceSolution, Construction, solve_allreduce

__all__ = [
    "AllreduceBound",
    "AllreduceSolution",
    "Construction",
    "Packer",
    "allreduce_bound",
    "solve_allreduce",
    "without_capabilities",
]
