"""ForestColl: throughput-optimal spanning-tree schedules (chapter 4 and appendix B of the dissertation)."""

from treadle.synthesis.forestcoll.optimality import Optimum, optimum
from treadle.synthesis.forestcoll.pipeline import Synthesis, TreeBudget, pack_forest, synthesise

__all__ = ["Optimum", "Synthesis", "TreeBudget", "optimum", "pack_forest", "synthesise"]
