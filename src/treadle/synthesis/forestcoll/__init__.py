"""ForestColl: throughput-optimal spanning-tree schedules (chapter 4 and appendix B of the dissertation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.forestcoll.budget import DYADIC_LOSS as DYADIC_LOSS
    from treadle.synthesis.forestcoll.budget import TreeBudget as TreeBudget
    from treadle.synthesis.forestcoll.decomposition.decompose import FactoredSynthesis as FactoredSynthesis
    from treadle.synthesis.forestcoll.decomposition.decompose import decompose as decompose
    from treadle.synthesis.forestcoll.multicast import Pruning as Pruning
    from treadle.synthesis.forestcoll.multicast import prune_for_switches as prune_for_switches
    from treadle.synthesis.forestcoll.optimality import Optimum as Optimum
    from treadle.synthesis.forestcoll.optimality import optimum as optimum
    from treadle.synthesis.forestcoll.packers import Packer as Packer
    from treadle.synthesis.forestcoll.packers import PackingAttempt as PackingAttempt
    from treadle.synthesis.forestcoll.pipeline import Synthesis as Synthesis
    from treadle.synthesis.forestcoll.pipeline import pack_forest as pack_forest
    from treadle.synthesis.forestcoll.pipeline import synthesise as synthesise
    from treadle.synthesis.forestcoll.tree_units import dyadic_alternative as dyadic_alternative
    from treadle.synthesis.forestcoll.whole_capacities import best_trimming as best_trimming
    from treadle.synthesis.forestcoll.whole_capacities import capacities_within as capacities_within
else:
    __all__, __getattr__ = load_lazily(
        __name__,
        {
            "treadle.synthesis.forestcoll.budget": ("DYADIC_LOSS", "TreeBudget"),
            "treadle.synthesis.forestcoll.decomposition.decompose": ("FactoredSynthesis", "decompose"),
            "treadle.synthesis.forestcoll.multicast": ("Pruning", "prune_for_switches"),
            "treadle.synthesis.forestcoll.optimality": ("Optimum", "optimum"),
            "treadle.synthesis.forestcoll.packers": ("Packer", "PackingAttempt"),
            "treadle.synthesis.forestcoll.pipeline": ("Synthesis", "pack_forest", "synthesise"),
            "treadle.synthesis.forestcoll.tree_units": ("dyadic_alternative",),
            "treadle.synthesis.forestcoll.whole_capacities": ("best_trimming", "capacities_within"),
        },
    )
