"""Optimum of a fabric after random failures, and the failed cables that matter most.

Every value is the optimum (`bound`) of a named fabric: ``punctured(FABRIC, links=9, seed=3)`` is the
fourth draw of nine cables, whose bound can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from hashlib import sha256
from math import floor

import numpy as np

from treadle.brief import brief
from treadle.checking import checked, unexpected
from treadle.context import Progress, TimeLimitError, context, in_context, start
from treadle.errors import FormatError, TopologyError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import make_problem, resolve_kind, resolve_topology
from treadle.notebook import displayed_by
from treadle.schedulers.bound_results import bound_problem
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies.cables import NamedCable, named_cables
from treadle.topologies.catalogue.random_graphs import failed_cables, punctured
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_bandwidths

MOST_SAMPLES = 10_000
_MOST_SUSPECTS = 24
"""Largest number of cables of the worst draw that are repaired one by one."""
Amount = int | Fraction
"""A number of cables or nodes, or a share of them."""


@dataclass(frozen=True)
class CableHarm:
    """A cable of the worst draw.

    Parameters
    ----------
    cable : str
        Its name as `with_failed_links` takes it.
    regained : float
        Fraction of the undamaged optimum regained when only this cable is repaired.
    """

    cable: str
    regained: float


@brief("collective", "cables", "nodes", "mean", "worst")
@dataclass(frozen=True)
class FailureLevel:
    """Result of random failures of one type and number.

    Parameters
    ----------
    collective : str
    cables, nodes : int
        Number of simultaneous failures; nodes are compute nodes.
    shares : tuple of float
        Of each draw: its optimum in busbw over that of the whole fabric.
    fabrics : tuple of str
        Of each draw: the expression of what is left.
    harms : tuple of CableHarm
        Of the draw that leaves least, the worst cable first.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.resilience("torus:3,3", cables=[1], samples=2, collectives=["allgather"])
    >>> level = found.levels[0]
    >>> level.cables, level.mean, level.worst_fabric
    (1, 0.75, 'punctured(torus(3, 3), links=1)')
    """

    collective: str
    cables: int
    nodes: int
    shares: tuple[float, ...]
    fabrics: tuple[str, ...]
    harms: tuple[CableHarm, ...]

    @property
    def mean(self) -> float:
        """Share of the optimum that is left on average."""
        return sum(self.shares) / len(self.shares)

    @property
    def worst(self) -> float:
        """The least share of any draw."""
        return min(self.shares)

    @property
    def worst_fabric(self) -> str:
        """Fabric of the worst draw, as an expression."""
        return self.fabrics[self.shares.index(self.worst)]


@displayed_by("treadle.render.building:resilience_rows")
@dataclass(frozen=True)
class ResilienceResult(Tabular):
    """Losses of a fabric by failures.

    Parameters
    ----------
    topology : Topology
    cables : int
        Those that join two nodes; a cabling list has those from a node to itself besides.
    whole : mapping of collective to Fraction
        Optimum of the whole fabric, busbw in bytes/s.
    levels : tuple of FailureLevel
    seconds : mapping of stage to CPU seconds

    Examples
    --------
    >>> import treadle
    >>> found = treadle.resilience("torus:3,3", cables=[1], samples=2, collectives=["allgather"])
    >>> found.cables, dict(found.whole)
    (18, {'allgather': Fraction(4, 1)})
    >>> [(row["cables"], row["worst_share"], row["worst_cable"]) for row in found.records()]
    [(1, 0.75, 'n0_0--n1_0')]
    """

    topology: Topology
    cables: int
    whole: Mapping[str, Fraction]
    levels: tuple[FailureLevel, ...]
    seconds: Mapping[str, float]

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each collective and number of failures."""
        return [
            plain_row(
                {
                    "collective": level.collective,
                    "cables": level.cables,
                    "nodes": level.nodes,
                    "samples": len(level.shares),
                    "mean_share": level.mean,
                    "worst_share": level.worst,
                    "worst_fabric": level.worst_fabric,
                    "worst_cable": level.harms[0].cable if level.harms else None,
                }
            )
            for level in self.levels
        ]


def parse_amounts(text: str, what: str) -> tuple[Amount, ...]:
    """Parse numbers and percentages with commas between.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.parse_amounts("1%,3", "--cables")
    (Fraction(1, 100), 3)
    """
    found: list[Amount] = []
    for part in text.split(",", 100):
        word = part.strip()
        digits = word.removesuffix("%")
        if not digits.isascii() or not digits.replace(".", "", 1).isdigit() or len(digits) > 12:
            raise FormatError(f"{what}: found {word[:40]!r}, expected a number, or a percentage such as 5%")
        if word.endswith("%"):
            found.append(Fraction(Decimal(digits)) / 100)
        elif "." in word:
            raise FormatError(f"{what}: found {word[:40]!r}, expected an integer, or a percentage such as 5%")
        else:
            found.append(int(digits))
    return tuple(found)


def _as_amounts(value: object, place: str) -> tuple[Amount, ...]:
    if isinstance(value, str):
        return parse_amounts(value, place)
    values = value if isinstance(value, Sequence) else (value,)
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | Fraction) or one < 0:
            raise unexpected(place, "integers, Fractions or a string such as '1%,5%'", one)
    return tuple(values)


@checked(cables=_as_amounts, nodes=_as_amounts)
@in_context()
def resilience(
    topology: FabricLike,
    *,
    cables: Sequence[Amount] | str = (Fraction(1, 100), Fraction(5, 100)),
    nodes: Sequence[Amount] | str = (),
    samples: int = 20,
    collectives: Sequence[str] = ("allreduce", "alltoall"),
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> ResilienceResult:
    """Compute the optimum of a fabric after random failures.

    Parameters
    ----------
    topology : Topology or str
        A fabric, direct or switched.
    cables, nodes : sequence of int or Fraction, or str
        Number of simultaneous failures, or fraction of all (at least one). ``"1%,5%"`` is a string for
        two levels. Cables are those of `cabling` that join two nodes.
    samples : int
        Draws of each level; each leaves all ranks that did not fail able to reach each other.
    collectives : sequence of str
    seed : int
        Of the first draw; the others follow.
    time_limit_s : float, optional
        Seconds for everything.
    progress : callable, optional

    Raises
    ------
    TimeLimitError
        If time ran out.
    TreadleError
        For malformed input, or failures that would part any fabric of these cables.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.resilience("torus:4,4", cables=[1], samples=2, collectives=["alltoall"])
    >>> found.levels[0].worst, found.levels[0].worst_fabric
    (0.875, 'punctured(torus(4, 4), links=1)')
    """
    if not 1 <= samples <= MOST_SAMPLES:
        raise FormatError(f"resilience: samples: {samples}, expected 1 to {MOST_SAMPLES}")
    if not 0 <= seed < 2**31:
        raise FormatError(f"resilience: seed: {seed}, expected 0 to 2**31 - 1")
    kinds = [resolve_kind(one) for one in collectives]
    fabric = resolve_topology(topology)
    total = len(named_cables(fabric))
    levels = [(_count(one, total, "cables"), 0) for one in _as_amounts(cables, "cables")]
    ranks = len(fabric.compute_nodes)
    levels += [(0, _count(one, ranks, "nodes")) for one in _as_amounts(nodes, "nodes")]
    known: dict[tuple[CollectiveKind, bytes], Fraction] = {}

    def optimum(left: Topology, kind: CollectiveKind) -> Fraction:
        key = kind, _content(left)  # equal parallel cables leave the same
        if key not in known:
            seconds = context().seconds_left
            if seconds == 0:
                raise TimeLimitError(
                    "resilience: time ran out; take fewer --samples or a longer --time-limit"
                )
            with start(time_limit_s=seconds):
                result = bound_problem(make_problem(left, kind))  # of an all-to-all what flows attain
            known[key] = result.algbw * busbw_factor(kind, result.collective.group_size)
        return known[key]

    with context().stage("whole"):
        whole = {kind: optimum(fabric, kind) for kind in kinds}
    found: list[FailureLevel] = []
    for links, failing in dict.fromkeys(levels):
        draws = range(seed, seed + samples)
        with context().stage("failures"):
            left = [punctured(fabric, links=links, nodes=failing, seed=draw) for draw in draws]
        for kind in kinds:
            shares = []
            with context().stage("optima"):
                for draw, one in enumerate(left):
                    if progress is not None:
                        progress(f"{kind}, {links or failing} failures", draw, samples)
                    shares.append(float(optimum(one, kind) / whole[kind]))
            harms: tuple[CableHarm, ...] = ()
            with context().stage("cables"):
                if links:
                    worst = shares.index(min(shares))
                    failed = failed_cables(fabric, links=links, seed=draws[worst])
                    harms = _harms(fabric, failed, left[worst], partial(optimum, kind=kind))
            names = tuple(one.name for one in left)
            found.append(FailureLevel(str(kind), links, failing, tuple(shares), names, harms))
    by_name = {str(kind): rate for kind, rate in whole.items()}
    return ResilienceResult(fabric, total, by_name, tuple(found), context().seconds)


def _harms(
    fabric: Topology,
    failed: Sequence[NamedCable],
    left: Topology,
    optimum: Callable[[Topology], Fraction],
) -> tuple[CableHarm, ...]:
    """Return the gain of repairing each failed cable alone, the largest first."""
    failed = sorted(failed)
    found = []
    for place, cable in enumerate(failed[:_MOST_SUSPECTS]):
        others = [link for one in (*failed[:place], *failed[place + 1 :]) for link in one.links]
        bandwidths = fabric.bandwidths.copy()
        bandwidths[others] = 0
        repaired = with_bandwidths(fabric, bandwidths, fabric.name)[0] if others else fabric
        gain = (optimum(repaired) - optimum(left)) / optimum(fabric)
        found.append(CableHarm(cable.name, float(gain)))
    return tuple(sorted(found, key=lambda harm: -harm.regained))


def _content(fabric: Topology) -> bytes:
    """Return a digest of the nodes that are left and their links, in whatever order."""
    links = np.stack([fabric.tails, fabric.heads, fabric.bandwidths, fabric.latencies_ns]).astype(np.int64)
    digest = sha256(repr(fabric.node_names).encode())
    digest.update(np.ascontiguousarray(links[:, np.lexsort(links)]).tobytes())
    return digest.digest()


def _count(amount: Amount, total: int, what: str) -> int:
    """Return the number of cables or nodes that fail; a share of all is rounded, to at least one."""
    if total < 2:
        none = "cable can fail without parting the ranks" if what == "cables" else "node can fail"
        raise TopologyError(f"resilience: no {none}; the fabric has {total}")
    count = max(1, floor(amount * total + Fraction(1, 2))) if isinstance(amount, Fraction) else amount
    if not 1 <= count < total:
        raise TopologyError(f"resilience: {count} {what} of {total} are to fail; expected 1 to {total - 1}")
    return count
