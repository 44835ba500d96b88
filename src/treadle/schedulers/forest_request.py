"""Options of generators, and their results before verification."""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.synthesis.result import Bound
from treadle.synthesis.scheduler_options import Form
from treadle.synthesis.trees import DYADIC_LOSS, Packer, TreeBudget


def tree_budget(*, trees: int | None = None, max_trees: int | None = None, exact: bool = False) -> TreeBudget:
    """Given options; by default a power of two of chunks is preferred, which runtime files need."""
    return TreeBudget(trees, max_trees, exact, dyadic_loss=DYADIC_LOSS)


@dataclass(frozen=True)
class ForestRequest:
    """Options of ForestColl.

    Parameters
    ----------
    budget : TreeBudget
        Trees per root. Default: `tree_budget`.
    packer : Packer, optional
        Default the first that succeeds.
    form : Form
        How the trees are held.
    trim : bool
        Build on the fabric without its surplus bandwidth (where nodes are not Eulerian), for the whole one.
    bound : Bound, optional
        If it is known already.
    """

    budget: TreeBudget = field(default_factory=tree_budget)
    packer: Packer | None = None
    form: Form = Form.AUTO
    trim: bool = False
    bound: Bound | None = None
