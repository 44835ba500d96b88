"""ForestColl: throughput-optimal spanning-tree schedules (chapter 4 and appendix B of the dissertation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.trees.integral_capacities import best_balancing as best_balancing
    from treadle.synthesis.trees.integral_capacities import capacities_within as capacities_within
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
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
