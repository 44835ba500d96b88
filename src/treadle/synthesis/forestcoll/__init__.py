"""ForestColl: throughput-optimal spanning-tree schedules (chapter 4 and appendix B of the dissertation)."""

from treadle.synthesis.forestcoll.budget import TreeBudget
from treadle.synthesis.forestcoll.decomposition.decompose import FactoredSynthesis, decompose
from treadle.synthesis.forestcoll.multicast import Pruning, prune_for_switches
from treadle.synthesis.forestcoll.optimality import Optimum, optimum
from treadle.synthesis.forestcoll.packers import Packer, PackingAttempt
from treadle.synthesis.forestcoll.pipeline import Synthesis, pack_forest, synthesise

__all__ = [
    "FactoredSynthesis",
    "Optimum",
    "Packer",
    "PackingAttempt",
    "Pruning",
    "Synthesis",
    "TreeBudget",
    "decompose",
    "optimum",
    "pack_forest",
    "prune_for_switches",
    "synthesise",
]
