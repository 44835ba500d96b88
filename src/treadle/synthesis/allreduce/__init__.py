"""The allreduce optimum: linear program by cuts, tree packing, in-network aggregation, certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.allreduce.bound import AllreduceBound as AllreduceBound
    from treadle.synthesis.allreduce.bound import allreduce_bound as allreduce_bound
    from treadle.synthesis.allreduce.bound import without_capabilities as without_capabilities
    from treadle.synthesis.allreduce.capacities import Packer as Packer
    from treadle.synthesis.allreduce.solve import AllreduceSolution as AllreduceSolution
    from treadle.synthesis.allreduce.solve import Construction as Construction
    from treadle.synthesis.allreduce.solve import UnitLimits as UnitLimits
    from treadle.synthesis.allreduce.solve import solve_allreduce as solve_allreduce
else:
    __all__, __getattr__ = load_lazily(
        __name__,
        {
            "treadle.synthesis.allreduce.bound": (
                "AllreduceBound",
                "allreduce_bound",
                "without_capabilities",
            ),
            "treadle.synthesis.allreduce.capacities": ("Packer",),
            "treadle.synthesis.allreduce.solve": (
                "AllreduceSolution",
                "Construction",
                "UnitLimits",
                "solve_allreduce",
            ),
        },
    )
