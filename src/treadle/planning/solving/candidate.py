"""What generators are told and what they return, before anybody has judged it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.planning.solving.bounds import Bound
from treadle.planning.solving.exact_synthesis import ExactRequest
from treadle.schedules.alltoall.routes import MAX_UNITS
from treadle.schedules.schedule import Schedule
from treadle.synthesis.engine import Progress
from treadle.synthesis.trees import DYADIC_LOSS, Packer, PackingAttempt, TreeBudget
from treadle.synthesis.watch import Watch

MAX_LAYERS = 2**8
"""Work and memory of routing in layers grow with their number."""


class Form(StrEnum):
    """How forests are held in plans, spelt as on the command line."""

    AUTO = "auto"
    EXPLICIT = "explicit"
    FACTORED = "factored"


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


@dataclass(frozen=True)
class RouteRequest:
    """Limits that routes keep.

    Parameters
    ----------
    max_layers : int, optional
        Layers (virtual channels) of the adapters, 256 at most; paths and layers are then chosen together.
    max_routes : int, optional
        Most paths from a rank to another.
    max_flows : int, optional
        Chunks set out in rounds, at most so many out of and into a host in each.

    Raises
    ------
    ScheduleError
        If a limit is not positive, or too many layers are allowed.
    """

    max_layers: int | None = None
    max_routes: int | None = None
    max_flows: int | None = None

    def __post_init__(self) -> None:
        for limit, what in (
            (self.max_layers, "layers: at most {}"),
            (self.max_routes, "routes: at most {} routes a pair"),
            (self.max_flows, "rounds: at most {} flows per host"),
        ):
            if limit is not None and limit < 1:
                raise ScheduleError(f"{what.format(limit)}, expected at least 1")
        if self.max_layers is not None and self.max_layers > MAX_LAYERS:
            raise ScheduleError(
                f"layers: at most {self.max_layers}, expected 1 to {MAX_LAYERS}; adapters have up to 16"
            )


@dataclass(frozen=True)
class SizeRequest:
    """The size that steps are to be fastest at.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    alpha_s : float, optional
        Seconds that a step takes besides its bytes and the latencies of its links; default as simulations
        have it: 10 us, or none on a fabric whose links have latencies.
    """

    size_bytes: int
    alpha_s: float | None = None


@dataclass(frozen=True)
class Options:
    """What generators are told.

    Parameters
    ----------
    budget : TreeBudget
        Trees per root; ForestColl's. Default: `tree_budget`.
    packer : Packer, optional
        Of ForestColl's trees; default the first that succeeds.
    form : Form
        Of ForestColl's trees.
    trim : bool
        Build on the fabric without its surplus bandwidth (where nodes are not Eulerian), for the whole one.
    bound : Bound, optional
        If it is known already.
    chunks : int, optional
        Most chunks per shard of a breadth-first broadcast; pieces of each half in double binary trees.
    exact : ExactRequest
        For exact synthesis.
    routes : RouteRequest
        For routes.
    size : SizeRequest, optional
        For the steps of an all-to-all, and breadth-first broadcast; default as large as can be.
    progress : callable, optional
        progress(stage, done, total).
    deadline : float, optional
        Value of time.monotonic() after which to give up.
    """

    budget: TreeBudget = field(default_factory=tree_budget)
    packer: Packer | None = None
    form: Form = Form.AUTO
    trim: bool = False
    bound: Bound | None = None
    chunks: int | None = None
    exact: ExactRequest = field(default_factory=ExactRequest)
    routes: RouteRequest = field(default_factory=RouteRequest)
    size: SizeRequest | None = None
    progress: Progress | None = None
    deadline: float | None = None

    @property
    def watch(self) -> Watch:
        """Progress and deadline for work done in Python."""
        return Watch(self.progress, self.deadline)


def check_chunks(options: Options) -> None:
    """ScheduleError unless the chunks asked for can be those of an all-to-all's shards."""
    if options.chunks is not None and not 1 <= options.chunks <= MAX_UNITS:
        raise ScheduleError(f"chunks: {str(options.chunks)[:20]} per shard, expected 1 to 2**24")
