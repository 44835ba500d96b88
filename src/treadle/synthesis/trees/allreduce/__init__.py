"""The allreduce optimum: linear program by cuts, tree packing, in-network aggregation, certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.trees.allreduce.allreduce_forests import AllreduceSolution as AllreduceSolution
    from treadle.synthesis.trees.allreduce.allreduce_forests import Construction as Construction
    from treadle.synthesis.trees.allreduce.allreduce_forests import UnitLimits as UnitLimits
    from treadle.synthesis.trees.allreduce.allreduce_forests import solve_allreduce as solve_allreduce
    from treadle.synthesis.trees.allreduce.bound import AllreduceBound as AllreduceBound
    from treadle.synthesis.trees.allreduce.bound import allreduce_bound as allreduce_bound
    from treadle.synthesis.trees.allreduce.capacities import Packer as Packer
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
