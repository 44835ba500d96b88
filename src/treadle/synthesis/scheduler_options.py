"""What schedulers can be told, a typed value per form of schedule.

A field is what its scheduler takes by keyword. A value at its default was not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_fields
from treadle.schedules.alltoall.routes import MAX_UNITS

MAX_LAYERS = 2**8
"""Work and memory of routing in layers grow with their number."""


class ScheduleForm(StrEnum):
    """Forms of schedules, as the table of schedulers has them."""

    TREES = "trees"
    STEPS = "steps"
    ALLTOALL_STEPS = "alltoall-steps"
    ROUTES = "routes"


class Form(StrEnum):
    """How forests are held in plans, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Form]
    ['auto', 'explicit', 'factored']
    """

    AUTO = "auto"
    EXPLICIT = "explicit"
    FACTORED = "factored"


@displayed(own_fields)
@dataclass(frozen=True)
class SizeRequest:
    """The size that steps are to be fastest at.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    alpha_s : float, optional
        Seconds that a step takes besides its bytes and the latencies of its links; default what
        the dearest message of the fabric costs by its `default_cost_model`.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.StepOptions(size=planning.SizeRequest(2**20, alpha_s=5e-6)).size
    SizeRequest(size_bytes=1048576, alpha_s=5e-06)
    """

    size_bytes: int
    alpha_s: float | None = None


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    """Options of every form.

    Parameters
    ----------
    seed : int
        Of searches with chance in them; the others heed none.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.SchedulerOptions(seed=3)
    SchedulerOptions(seed=3)
    """

    seed: int = 0

    @classmethod
    def fields(cls) -> tuple[Field[Any], ...]:
        """Its fields, in order."""
        return fields(cls)

    def given(self) -> dict[str, object]:
        """Values by field of what is not at its default."""
        return {
            field.name: value
            for field in self.fields()
            if (value := getattr(self, field.name)) != field.default
        }


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class TreeOptions(SchedulerOptions):
    """Options of spanning trees.

    Parameters
    ----------
    trees, max_trees : int, optional
        Just so many trees per root; the best number up to so many (beyond 4096 only the one that attains the
        optimum is looked for). An allreduce whose roots are free may have as many in all as that makes for
        all ranks.
    exact : bool
        The optimum, however many trees per root it takes. By default: the optimum if it cuts the data into
        a power of two of chunks, at most 64 per rank, which texts for runtimes serve at sizes of a power of
        two; else, of a power of two of ranks, the fewest chunks of that kind, at most 16 per rank, that lose
        less than 1%; else the optimum if it takes at most 64 trees per rank; else the best number up to that.
    packer : Packer or str, optional
        Try this one first, then growth; default all of them in order.
    form : Form or str
        ``explicit`` writes out every tree, ``factored`` cuts the fabric into pieces that are solved once
        each; default explicit up to 256 ranks, then factored if the fabric allows it.
    trim : bool
        Where nodes are not Eulerian, leave surplus bandwidth unused.
    height : int, optional
        Of few trees: hops from rank to rank at most.
    multicast : bool
        Let switches copy and add up where that costs no throughput; of any scheduler's trees.
    factors : sequence of int, optional
        Of exchanges digit by digit: the radices, from the digit that tells neighbours apart; their product is
        the number of ranks. Of Bruck's exchange: its radix.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.TreeOptions(exact=True).exact
    True
    """

    trees: int | None = None
    max_trees: int | None = None
    exact: bool = False
    packer: str | None = None
    form: Form | str = Form.AUTO
    trim: bool = False
    height: int | None = None
    multicast: bool = False
    factors: Sequence[int] | None = None


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class StepOptions(SchedulerOptions):
    """Options of step schedules.

    Parameters
    ----------
    chunks : int, optional
        Chunks per shard: the most that breadth-first broadcast may use (default as many as it needs), or the
        number that exact synthesis (default 2), pipelined double binary trees (default 16), TACOS (4),
        TE-CCL and TACCL (default 1) are to use. Of schedules for small sizes: pieces that follow each other.
    parts : int, optional
        Of schedules for small sizes in pieces: into how many parts each step is cut, so that over every link
        what others wait for most goes first; default 1, the step as it is.
    rounds : sequence of int, optional
        Of exact synthesis: chunks a link may carry in each step. Of two-round: links of the walks of either.
    steps : int, optional
        Of exact synthesis without `rounds`.
    trees : int, optional
        Of trees in boxes: so many per root in each box.
    symmetric : bool
        Of exact synthesis: search symmetric schedules only.
    size : SizeRequest, optional
        Of breadth-first broadcast: leave out links whose latency does not pay at this size. Of TACCL: what
        its programs are for (default 1 GB).
    factors : sequence of int, optional
        Of allreduces factor by factor: the radices, from the digit that tells neighbours apart; their product
        is the number of ranks.
    exchanged : sequence of int, optional
        The places, from 1, of the factors over which whole sums are exchanged.
    multicast : bool
        Let switches copy and add up what goes through them in one step; of any scheduler's steps.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.StepOptions(chunks=2).chunks
    2
    """

    chunks: int | None = None
    parts: int | None = None
    rounds: Sequence[int] | None = None
    steps: int | None = None
    trees: int | None = None
    symmetric: bool = False
    size: SizeRequest | None = None
    factors: Sequence[int] | None = None
    exchanged: Sequence[int] | None = None
    multicast: bool = False


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class AlltoallOptions(SchedulerOptions):
    """Options of the steps of an all-to-all.

    Parameters
    ----------
    chunks : int, optional
        Most chunks per shard.
    rounds : sequence of int, optional
        One number: into how many rounds routes are cut.
    steps : int, optional
        Of a time-stepped flow.
    max_steps : int, optional
        Most steps of routes whose hops get steps.
    size : SizeRequest, optional
        Choose how finely to pipeline for this size, not for the largest.
    factors : sequence of int, optional
        Of exchanges factor by factor: the radices, from the digit that tells neighbours apart.

    Raises
    ------
    ScheduleError
        If the number of chunks is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.AlltoallOptions(steps=3).steps
    3
    """

    chunks: int | None = None
    rounds: Sequence[int] | None = None
    steps: int | None = None
    max_steps: int | None = None
    size: SizeRequest | None = None
    factors: Sequence[int] | None = None

    def __post_init__(self) -> None:
        _check_chunks(self.chunks)
        if self.max_steps is not None and self.max_steps < 1:
            raise ScheduleError(f"steps: at most {self.max_steps}, expected at least 1")


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class RouteOptions(SchedulerOptions):
    """Options of routes.

    Parameters
    ----------
    chunks : int, optional
        Most chunks per unit of demand.
    max_layers : int, optional
        Layers (virtual channels) of the adapters, 256 at most; `routes` chooses paths and layers together.
    layer_changes : bool
        The layer may rise along a path.
    max_routes : int, optional
        Most paths from a rank to another.
    max_hops : int, optional
        Most links of a path; default, of searched routes, 3 more than the longest distance of a pair.
    max_flows : int, optional
        Chunks set out in rounds, at most so many out of and into a host in each.

    Raises
    ------
    ScheduleError
        If a number is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.RouteOptions(max_layers=2).max_layers
    2
    """

    chunks: int | None = None
    max_layers: int | None = None
    layer_changes: bool = False
    max_routes: int | None = None
    max_hops: int | None = None
    max_flows: int | None = None

    def __post_init__(self) -> None:
        _check_chunks(self.chunks)
        for limit, what in (
            (self.max_layers, "layers: at most {}"),
            (self.max_routes, "routes: at most {} routes a pair"),
            (self.max_hops, "routes: at most {} hops"),
            (self.max_flows, "rounds: at most {} flows per host"),
        ):
            if limit is not None and limit < 1:
                raise ScheduleError(f"{what.format(limit)}, expected at least 1")
        if self.max_layers is not None and self.max_layers > MAX_LAYERS:
            raise ScheduleError(
                f"layers: at most {self.max_layers}, expected 1 to {MAX_LAYERS}; adapters have up to 16"
            )


def _check_chunks(chunks: int | None) -> None:
    """ScheduleError unless the chunks asked for can be those of an all-to-all's shards."""
    if chunks is not None and not 1 <= chunks <= MAX_UNITS:
        raise ScheduleError(f"chunks: {str(chunks)[:20]} per shard, expected 1 to 2**24")


OPTIONS_OF: Mapping[ScheduleForm, type[SchedulerOptions]] = MappingProxyType(
    {
        ScheduleForm.TREES: TreeOptions,
        ScheduleForm.STEPS: StepOptions,
        ScheduleForm.ALLTOALL_STEPS: AlltoallOptions,
        ScheduleForm.ROUTES: RouteOptions,
    }
)

COMMON_OPTIONS: Mapping[ScheduleForm, tuple[str, ...]] = MappingProxyType(
    {
        ScheduleForm.TREES: ("multicast",),
        ScheduleForm.STEPS: ("multicast",),
        ScheduleForm.ALLTOALL_STEPS: (),
        ScheduleForm.ROUTES: ("max_layers", "max_routes", "max_hops", "max_flows"),
    }
)
"""What planning sees to for every scheduler of a form: operations of switches, limits, rounds."""

_DEFAULTS: Mapping[str, object] = MappingProxyType(
    {field.name: field.default for options in OPTIONS_OF.values() for field in options.fields()}
)

_FLAGS: Mapping[str, str] = MappingProxyType({"max_layers": "--layers", "size": "--size"})


def flag_of(option: str) -> str:
    """The option of the command line that sets a field."""
    return _FLAGS.get(option, f"--{option.replace('_', '-')}")


def given_of(keywords: Mapping[str, object]) -> dict[str, object]:
    """The keywords that are not at their defaults."""
    return {name: value for name, value in keywords.items() if value != _DEFAULTS[name]}
