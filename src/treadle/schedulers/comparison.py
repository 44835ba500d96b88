"""Schedulers side by side on one problem, as values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle.brief import brief
from treadle.notebook import displayed_by
from treadle.schedulers.shared_rates import SharedRates
from treadle.schedules.collective import Collective, busbw_factor
from treadle.simulation.congestion import Congestion
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.simulated_plans import SimulatedRow
from treadle.synthesis.result import Bound
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies.topology import Topology
from treadle.verification.violations import Report


@brief("congestion", "sizes", "refusal")
@dataclass(frozen=True)
class RowMeasures:
    """A schedule's messages on the fabric.

    Parameters
    ----------
    congestion : Congestion, optional
        Where they take longest; None if that is ambiguous.
    sizes : tuple of SimulatedRow
        Simulated, for each given size.
    refusal : str
        Why there is nothing of this, else "".
    """

    congestion: Congestion | None = None
    sizes: tuple[SimulatedRow, ...] = ()
    refusal: str = ""


@brief("algorithm", "algbw", "trees", "refusal", "seconds")
@dataclass(frozen=True)
class ComparisonRow:
    """One scheduler's result.

    Parameters
    ----------
    algorithm : str
    report : Report, optional
        From the verifier; None if the scheduler does not support the problem.
    trees : int, optional
        Unit trees in all; None for step schedules.
    seconds : float
        CPU time to generate the schedule.
    refusal : str
        Why no schedule was found, else "".
    is_late : bool
        Time ran out.
    form : str
        Of a schedule that was brought: the file's format, or "plan"; "" for those that schedulers made.
    is_peer : bool
        The scheduler is another project's.
    measured : RowMeasures, optional
        Time of its messages on the fabric, if requested.
    notes : tuple of str
    rates : tuple of Fraction
        Of a set by size that was brought: asymptotic algbw of each of its schedules, bytes/s.
    is_baseline : bool
        What people have without Treadle: a textbook's, a library's or another project's.
    always_shown : bool
        Named, brought, or what the machine's library runs: tables have it however slow it is.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.compare("hypercube:3", "allgather", algorithms=["forestcoll", "ring"])
    >>> [(row.algorithm, row.algbw) for row in found.rows]
    [('forestcoll', Fraction(24, 7)), ('ring', Fraction(16, 7))]
    """

    algorithm: str
    report: Report | None
    trees: int | None
    seconds: float
    refusal: str = ""
    is_late: bool = False
    form: str = ""
    is_peer: bool = False
    measured: RowMeasures | None = None
    notes: tuple[str, ...] = ()
    rates: tuple[Fraction, ...] = ()
    is_baseline: bool = False
    always_shown: bool = False

    @property
    def algbw(self) -> Fraction | None:
        """Value computed by the verifier, for steps in turn, bytes/s; None without a valid schedule."""
        return self.report.algbw if self.report is not None and self.report.is_ok else None

    @property
    def rate(self) -> Fraction | None:
        """Asymptotic algbw, of steps that of sliced messages, bytes/s; None without a valid schedule."""
        return self.report.rate if self.report is not None and self.report.is_ok else None


@brief("bound", "row")
@dataclass(frozen=True)
class InNetwork:
    """An allreduce on the same fabric with GPU-initiated in-network operations (NVLink SHARP).

    Parameters
    ----------
    bound : Bound
    row : ComparisonRow
        Of NCCL's way to do it (`nvls`).
    """

    bound: Bound
    row: ComparisonRow


@displayed_by("treadle.render.comparing:compare_rows")
@dataclass(frozen=True)
class Comparison(Tabular):
    """All schedulers on one problem.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    bound : Bound
    rows : tuple of ComparisonRow
        Fastest first; unsupported ones last.
    sizes : tuple of int
        Bytes at which they were simulated.
    in_network : InNetwork, optional
        Where the fabric's NVSwitches may be of those that sum, and it does not say so.
    shared : SharedRates, optional
        For concurrent groups: the rate of each alone, and of all together.
    cost_model : CostModel, optional
        What messages cost at these sizes; None: one alpha, as `simulate` has it.

    Examples
    --------
    >>> import treadle
    >>> treadle.compare("ring:4", "allgather", algorithms=["ring"]).rows[0].algorithm
    'ring'
    """

    topology: Topology
    collective: Collective
    bound: Bound
    rows: tuple[ComparisonRow, ...]
    sizes: tuple[int, ...] = ()
    in_network: InNetwork | None = None
    shared: SharedRates | None = None
    cost_model: CostModel | None = None

    @property
    def optimal_algbw(self) -> Fraction:
        """The bound, bytes/s."""
        return self.bound.algbw

    def records(self) -> list[dict[str, Cell]]:
        """A row for each scheduler, or for each of them and each size that was simulated."""
        factor = busbw_factor(self.collective.kind, self.collective.group_size)
        rows: list[dict[str, Cell]] = []
        for row in self.rows:
            own: dict[str, object] = {
                "algorithm": row.algorithm,
                "algbw_bytes_per_s": row.algbw,
                "busbw_bytes_per_s": None if row.algbw is None else row.algbw * factor,
                "pipelined_algbw_bytes_per_s": row.report and row.report.pipelined_algbw,
                "share_of_bound": None if row.rate is None else row.rate / self.bound.algbw,
                "trees": row.trees,
                "seconds": row.seconds,
                "refusal": row.refusal,
            }
            if not self.sizes:
                rows.append(plain_row(own))
                continue
            simulated = row.measured.sizes if row.measured is not None else ()
            for at in simulated or (None,):
                figures = {
                    "size_bytes": None if at is None else at.size_bytes,
                    "time_s": None if at is None else at.time,
                    "simulated_algbw_bytes_per_s": None if at is None else at.algbw_bytes_per_s,
                    "simulated_busbw_bytes_per_s": None if at is None else at.algbw_bytes_per_s * factor,
                }
                rows.append(plain_row(own | figures))
        return rows
