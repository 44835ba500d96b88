"""ForestColl: throughput-optimal spanning-tree schedules (chapter 4 and appendix B of the dissertation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.trees.multicast import Pruning as Pruning
    from treadle.synthesis.trees.multicast import prune_for_switches as prune_for_switches
    from treadle.synthesis.trees.one_root.one_root_forest import (
        synthesise_box_by_box as synthesise_box_by_box,
    )
    from treadle.synthesis.trees.optimality import Optimum as Optimum
    from treadle.synthesis.trees.optimality import optimum as optimum
    from treadle.synthesis.trees.packers.packers import Packer as Packer
    from treadle.synthesis.trees.packers.packers import PackingAttempt as PackingAttempt
    from treadle.synthesis.trees.pipeline import pack_forest as pack_forest
    from treadle.synthesis.trees.pipeline import synthesise as synthesise
    from treadle.synthesis.trees.switch_removal import has_balanced_relays as has_balanced_relays
    from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis as FactoredSynthesis
    from treadle.synthesis.trees.tight_cuts.decompose import decompose as decompose
    from treadle.synthesis.trees.tight_cuts.decompose import decompose_allreduce as decompose_allreduce
    from treadle.synthesis.trees.tree_budget import DYADIC_LOSS as DYADIC_LOSS
    from treadle.synthesis.trees.tree_budget import TreeBudget as TreeBudget
    from treadle.synthesis.trees.tree_units import dyadic_alternative as dyadic_alternative
    from treadle.synthesis.trees.whole_capacities import best_trimming as best_trimming
    from treadle.synthesis.trees.whole_capacities import capacities_within as capacities_within
else:
    __all__, __getattr__, __dir__ = load_lazily(
        __name__,
        {
            "treadle.synthesis.trees.tree_budget": ("DYADIC_LOSS", "TreeBudget"),
            "treadle.synthesis.trees.tight_cuts.decompose": (
                "FactoredSynthesis",
                "decompose",
                "decompose_allreduce",
            ),
            "treadle.synthesis.trees.multicast": ("Pruning", "prune_for_switches"),
            "treadle.synthesis.trees.optimality": ("Optimum", "optimum"),
            "treadle.synthesis.trees.packers.packers": ("Packer", "PackingAttempt"),
            "treadle.synthesis.trees.one_root.one_root_forest": ("synthesise_box_by_box",),
            "treadle.synthesis.trees.pipeline": ("pack_forest", "synthesise"),
            "treadle.synthesis.trees.switch_removal": ("has_balanced_relays",),
            "treadle.synthesis.trees.tree_units": ("dyadic_alternative",),
            "treadle.synthesis.trees.whole_capacities": ("best_trimming", "capacities_within"),
        },
    )
