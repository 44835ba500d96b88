"""Results of the topology finder: rows of the frontier, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.brief import brief
from treadle.finder.construction import Placed, expression, unplaced
from treadle.finder.designing.design_limits import DesignLimits
from treadle.finder.designing.placements import placement_sheet
from treadle.finder.measure import Option
from treadle.finder.search import FabricCandidate
from treadle.finder.searches.fresh import Effort
from treadle.finder.workload import Network, Workload
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies import with_links
from treadle.topologies.topology import Topology


@brief("seconds", "allreduce_s", "alltoall_bound_s", "alltoall_s")
@dataclass(frozen=True)
class DesignRow:
    """A fabric of the frontier.

    Parameters
    ----------
    option : Option
    seconds : float, optional
        The workload's time on it; None where some of it is not known.
    allreduce_s : float, optional
        Of the workload's largest allreduce over all nodes, or of 1 MB if it has none; None in separate parts.
    alltoall_bound_s : float, optional
        Lower bound of an all-to-all of the same size by distances, bandwidth only.
    alltoall_s : float, optional
        Time of its flow (`option.flow`), bandwidth only, where that is known.
    least_s : float, optional
        What no schedules take less than for the workload on it.
    own_order_s : float, optional
        The workload's time with ranks in the order of the fabric's own numbers, where they were placed.

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> found = treadle.design(16, 4, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    >>> row = found.best
    >>> row.option.expression, row.option.diameter, f"{row.allreduce_s * 1e6:.1f} us"
    ('circulant(16, 3, 4)', 3, '84.6 us')
    """

    option: Option
    seconds: float | None
    allreduce_s: float | None
    alltoall_bound_s: float | None
    alltoall_s: float | None
    least_s: float | None = None
    own_order_s: float | None = None

    @property
    def placement(self) -> tuple[int, ...] | None:
        """Node of each rank in the fabric's own numbers; None if ranks are in that order."""
        made = self.option.candidate.construction
        return made.nodes if isinstance(made, Placed) else None

    def placement_summary(self) -> str:
        """Format the node of each rank as CSV."""
        return placement_sheet(self.option)


@dataclass(frozen=True)
class Reconfiguration:
    """A fabric per call.

    Parameters
    ----------
    fabrics : tuple of str
        For each call of the workload; several copies side by side where the call runs in groups.
    seconds : float
        Per iteration, changes included.
    changes : int
        Per iteration.
    """

    fabrics: tuple[str, ...]
    seconds: float
    changes: int


@brief("nodes", "degree", "rows", "best", "shown_bytes", "seconds")
@dataclass(frozen=True)
class DesignResult(Tabular):
    """Result of the finder.

    Parameters
    ----------
    nodes, degree : int
    is_bidirectional : bool
    network : Network
    workload : Workload
    shown_bytes : int
        Size that the times of the rows are about, but for the workload's.
    rows : tuple of DesignRow
        By rising steps.
    best : DesignRow
        The fastest for the workload.
    limits : DesignLimits
    reconfiguration : Reconfiguration, optional
        If requested, and the time of every call is known on some fabric.
    seconds : mapping of stage to CPU seconds
    efforts : tuple of Effort
        Searches of this run, with what they found that beats the library; empty if none.
    others : tuple of FabricCandidate
        Of the same size and degree, which the rows beat or equal; figures as predicted where not exact.
    kept : tuple of str
        Expressions of the rows that earlier searches kept.

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> found = treadle.design(16, 4, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    >>> [row["fabric"] for row in found.records()]
    ['metacyclic_cayley(8, 2, 7, 4, 7, 9, 6)', 'circulant(16, 3, 4)']
    >>> found.best.option.expression, found.limits.steps
    ('circulant(16, 3, 4)', 2)
    """

    nodes: int
    degree: int
    is_bidirectional: bool
    network: Network
    workload: Workload
    shown_bytes: int
    rows: tuple[DesignRow, ...]
    best: DesignRow
    limits: DesignLimits
    reconfiguration: Reconfiguration | None
    seconds: Mapping[str, float]
    efforts: tuple[Effort, ...] = ()
    others: tuple[FabricCandidate, ...] = ()
    kept: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each fabric of the frontier."""
        return [
            plain_row(
                {
                    "fabric": row.option.expression,
                    "steps": row.option.candidate.steps,
                    "t_b": row.option.candidate.t_b_both / 2,
                    "separate_parts": row.option.parts,
                    "diameter": row.option.diameter,
                    "time_s": row.seconds,
                    "least_s": row.least_s,
                    "own_order_s": row.own_order_s,
                    "allreduce_s": row.allreduce_s,
                    "alltoall_bound_s": row.alltoall_bound_s,
                    "alltoall_s": row.alltoall_s,
                    "is_best": row is self.best,
                }
            )
            for row in self.rows
        ]

    def is_fresh(self, row: DesignRow) -> bool:
        """Whether a row's graph was found by this run's search: the library has none as good."""
        made = unplaced(row.option.candidate.construction)
        return any(made == found.construction for effort in self.efforts for found in effort.found)

    def is_cached(self, row: DesignRow) -> bool:
        """Whether a row's graph is one that an earlier search kept."""
        return expression(unplaced(row.option.candidate.construction)) in self.kept

    def topology(self, row: DesignRow | None = None) -> Topology:
        """Return a row's fabric (default the best), its links with the network's bandwidth and latency.

        A link has the whole part of B / d bytes/s.
        """
        return with_links(
            (row or self.best).option.topology,
            bandwidth=self.network.bandwidth_bytes_per_s // self.degree,
            latency=round(self.network.alpha_s * 1e9),
        )
