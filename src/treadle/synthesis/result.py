"""The result of a scheduler: its schedule, a bound, and what was learnt on the way."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from treadle.brief import brief

if TYPE_CHECKING:
    from treadle.schedules.certificate import Certificate
    from treadle.schedules.schedule import Schedule
    from treadle.schedules.trees.forest import ForestSchedule
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum
    from treadle.synthesis.trees.packers.packed import PackingAttempt


@brief("algbw", "certificate", "is_tight", "model")
@dataclass(frozen=True)
class Bound:
    """An upper bound on algbw and what proves it.

    Parameters
    ----------
    algbw : Fraction
        Bytes/s.
    certificate : Certificate
    is_tight : bool
        Some schedule attains it.
    model : str
        What the fabric was assumed to do where that matters (allreduce); else "".

    Examples
    --------
    >>> import treadle
    >>> found = treadle.bound("dgx_a100:2", "allgather").bound
    >>> found.algbw, found.is_tight
    (Fraction(1040000000000, 3), True)
    >>> found.certificate
    <BottleneckCut 35 nodes>
    """

    algbw: Fraction
    certificate: Certificate
    is_tight: bool = True
    model: str = ""


@dataclass(frozen=True)
class Alternative:
    """Another number of trees that the user could choose.

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
class Result:
    """A schedule and what was learnt while making it: one value from the engines to the command line.

    Parameters
    ----------
    schedule : Schedule
    bound : Bound, optional
        None if time ran out before one was known, or if `generate` has to find it.
    algorithm : str
        "" if `generate` has to complete the result: name, bound, seconds.
    algbw : Fraction
        Asymptotic algbw that the construction guarantees, bytes/s; 0 if it does not say. In the result of
        `solve` that which the verifier computed.
    trees_per_root, exact_trees_per_root : int, optional
        k per unit of shard weight as built, and as the optimum would need; where the algorithm has a k.
    exact_trees : int, optional
        Of an allreduce with unrestricted roots: trees in all that the optimum would need, if known.
    notes : tuple of str
        What a user should know, a line each.
    is_late : bool
        The time limit was reached and the schedule is the best so far, or a stopgap.
    packer, packing : str and tuple of PackingAttempt, optional
        The packer of ForestColl's trees, and the outcome of the other packers.
    height_bound : int, optional
        Lower bound on the height of spanning trees, in hops from compute node to compute node.
    decomposition : str
        The subproblems that tight cuts made of the fabric, or why there are none; "" where none were sought.
    alternatives : tuple of Alternative
        Other numbers of trees that the notes name, and what they lose.
    groups : GroupOptimum, optional
        For concurrent groups: both sides of their optimum.
    rs_ag : Fraction, optional
        Most that reduce-scatters and then allgathers reach of an allreduce (in groups), bytes/s.
    """

    schedule: Schedule
    bound: Bound | None = None
    algorithm: str = ""
    algbw: Fraction = Fraction(0)
    trees_per_root: int | None = None
    exact_trees_per_root: int | None = None
    exact_trees: int | None = None
    notes: tuple[str, ...] = ()
    is_late: bool = False
    packer: str | None = None
    packing: tuple[PackingAttempt, ...] = ()
    height_bound: int | None = None
    decomposition: str = ""
    alternatives: tuple[Alternative, ...] = ()
    groups: GroupOptimum | None = None
    rs_ag: Fraction | None = None

    @property
    def trees(self) -> ForestSchedule:
        """The schedule, which has its trees written out."""
        return cast("ForestSchedule", self.schedule)
