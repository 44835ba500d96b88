"""What generators are told and what they return, before anybody has judged it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from treadle.planning.solving.bounds import Bound
from treadle.schedules.schedule import Schedule
from treadle.synthesis.scheduler_options import Form
from treadle.synthesis.trees import DYADIC_LOSS, Packer, PackingAttempt, TreeBudget

if TYPE_CHECKING:
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


def tree_budget(*, trees: int | None = None, max_trees: int | None = None, exact: bool = False) -> TreeBudget:
    """What was asked for; by default a power of two of chunks is preferred, which texts for runtimes need."""
    return TreeBudget(trees, max_trees, exact, dyadic_loss=DYADIC_LOSS)


@dataclass(frozen=True)
class Alternative:
    """Another number of trees that could be asked for.

    Parameters
    ----------
    option : str
        As on the command line.
    loss : Fraction
        Share of the bound that it misses.
    trees_per_root, trees : int, optional
        Per unit of shard weight, or in all; whichever is known.
    """

    option: str
    loss: Fraction
    trees_per_root: int | None
    trees: int | None


@dataclass(frozen=True)
class Candidate:
    """A schedule as its generator returned it.

    Parameters
    ----------
    algorithm : str
    schedule : Schedule
    bound : Bound, optional
        None when time ran out before it was known.
    trees_per_root, exact_trees_per_root : int, optional
        k per unit of shard weight as built, and as the optimum would need.
    exact_trees : int, optional
        Of an allreduce whose roots are free: trees in all that the optimum would need.
    seconds : mapping of stage to CPU seconds
    notes : tuple of str
        What a user should know.
    is_late : bool
        The deadline passed before the generator was through; the schedule is what it had.
    packer, packing : str and tuple of PackingAttempt, optional
        Who packed the trees, and what became of the other packers.
    height_bound : int, optional
        No spanning tree is lower.
    decomposition : str
        Which pieces tight cuts made of the fabric, or why there are none; "" where it was no question.
    alternatives : tuple of Alternative
        Other numbers of trees that the notes name.
    groups : GroupOptimum, optional
        Of several groups at once: both sides of their optimum.
    rs_ag : Fraction, optional
        Of an allreduce in groups: what reduce-scatters and then allgathers reach, bytes/s.
    """

    algorithm: str
    schedule: Schedule
    bound: Bound | None
    trees_per_root: int | None = None
    exact_trees_per_root: int | None = None
    exact_trees: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_late: bool = False
    packer: str | None = None
    packing: tuple[PackingAttempt, ...] = ()
    height_bound: int | None = None
    decomposition: str = ""
    alternatives: tuple[Alternative, ...] = ()
    groups: GroupOptimum | None = None
    rs_ag: Fraction | None = None


class Built(NamedTuple):
    """A schedule and what was learnt on the way, by a function that leaves the rest to `generate`.

    Parameters
    ----------
    schedule : Schedule
    bound : Bound, optional
        If one was found.
    notes : tuple of str
    is_late : bool
        Time ran out before it was the wanted one.
    """

    schedule: Schedule
    bound: Bound | None = None
    notes: tuple[str, ...] = ()
    is_late: bool = False


@dataclass(frozen=True)
class ForestRequest:
    """What ForestColl is told.

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
