"""Results of simulated training steps on fabrics, by fabric and schedule."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief
from treadle.notebook import displayed_by
from treadle.schedules.mesh import Mesh
from treadle.tabular import Cell, Tabular, plain_row
from treadle.training.device_memory import missing_bytes
from treadle.training.fitting_settings import Alternative
from treadle.training.models.training_model import TrainingModel
from treadle.training.prices.calibrated_efficiency import CalibratedEfficiency
from treadle.training.prices.contention_presets import ContentionChoice
from treadle.training.prices.fabric_costs import PricedTraffic
from treadle.training.step import StepOutcome, TrainingSetup
from treadle.training.timeline.task import Category

DEFAULT_SCHEDULES = ("treadle", "ring", "bound")


@brief("fabric", "schedule", "outcome")
@dataclass(frozen=True)
class TrainRow:
    """A step on a fabric by one kind of schedule.

    Parameters
    ----------
    fabric : str
    schedule : str
    outcome : StepOutcome
    words : str
        Description of the schedule, with the fabric for a baseline with its own.
    is_bound : bool
        No schedule has faster communication.
    priced : tuple of PricedTraffic
        Prices of the step's communications.
    model_words : tuple of str
        Models of their times.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules="bound")
    >>> found.rows[0].schedule, found.rows[0].is_bound, found.rows[0].outcome
    ('bound', True, <StepOutcome 0.0041 s iteration, mfu 0.2014>)
    """

    fabric: str
    schedule: str
    outcome: StepOutcome
    words: str
    is_bound: bool
    priced: tuple[PricedTraffic, ...]
    model_words: tuple[str, ...]

    @property
    def exposed_s(self) -> float:
        """Seconds in which a rank communicates without computing."""
        return float(sum(self.outcome.exposed_s.values()))


@displayed_by("treadle.render.training:step_rows")
@dataclass(frozen=True)
class TrainResult(Tabular):
    """Steps with a row for each fabric and schedule.

    Parameters
    ----------
    model : TrainingModel
    mesh : Mesh
    setup : TrainingSetup
        Setup after calibration, the same for all rows.
    rows : tuple of TrainRow
    contention : ContentionChoice
    network_words : str
        Share of modelled rates that is reached; "" for all.
    calibration : CalibratedEfficiency, optional
        The fitted efficiency and its row.
    notes : tuple of str
        Assumptions.
    seconds : float
        CPU time.
    alternatives : tuple of Alternative
        If the step does not fit, the nearest settings that do, by memory alone.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.train("gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", schedules=["ring", "bound"])
    >>> [(row.schedule, f"{float(row.outcome.iteration_s) * 1e3:.2f} ms") for row in found.rows]
    [('ring', '4.13 ms'), ('bound', '4.10 ms')]
    """

    model: TrainingModel
    mesh: Mesh
    setup: TrainingSetup
    rows: tuple[TrainRow, ...]
    contention: ContentionChoice
    network_words: str
    calibration: CalibratedEfficiency | None
    notes: tuple[str, ...]
    seconds: float
    alternatives: tuple[Alternative, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the first row's step fits into the memory of each device."""
        return not missing_bytes(self.rows[0].outcome.memory, self.setup.device.memory_bytes)

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each fabric and schedule."""
        rows = []
        for row in self.rows:
            found = row.outcome
            exposed = {
                f"exposed_{category.value.replace('-', '_')}_s": found.exposed_s.get(category, 0)
                for category in self.exposed_categories
            }
            rows.append(
                plain_row(
                    {
                        "fabric": row.fabric,
                        "schedule": row.schedule,
                        "iteration_s": found.iteration_s,
                        "compute_s": found.compute_s,
                        "contention_s": found.contention_s,
                        "exposed_s": row.exposed_s,
                        **exposed,
                        "idle_s": found.idle_s,
                        "mfu": found.mfu,
                        "per_s": found.tokens_per_s,
                    }
                )
            )
        return rows

    @property
    def exposed_categories(self) -> tuple[Category, ...]:
        """Categories that are exposed in some row, in the order of `Category`."""
        found = {category for row in self.rows for category in row.outcome.exposed_s}
        return tuple(category for category in Category if category in found)
