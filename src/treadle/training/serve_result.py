"""Results of simulated serving on fabrics: time to the first token, and per token, by batch and schedule."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief
from treadle.notebook import displayed_by
from treadle.schedules.mesh import Mesh
from treadle.tabular import Cell, Tabular, plain_row
from treadle.training.models.training_model import TrainingModel
from treadle.training.serving import ServingOutcome, ServingPhase

DEFAULT_BATCHES = (1, 8, 64)
"""Concurrent sequences of each replica."""


@brief("fabric", "schedule", "sequences", "outcome")
@dataclass(frozen=True)
class ServeRow:
    """A phase on a fabric, by one kind of schedule, for a number of concurrent sequences.

    Parameters
    ----------
    fabric, schedule, words : str
    sequences : int
        Sequences on all ranks together.
    outcome : ServingOutcome
    model_words : tuple of str
        Models of the communication times.

    Examples
    --------
    >>> from treadle import planning
    >>> box = {"mesh": "tp=8", "gpu": "h100", "schedules": "bound"}
    >>> found = planning.serve("gpt2-medium", "dgx_h100:1", phase="decode", **box)
    >>> found.rows[0].schedule, found.rows[0].sequences, found.rows[0].outcome
    ('bound', 1, <ServingOutcome 8.94e-05 s, 1.12e+04 s tokens per>)
    """

    fabric: str
    schedule: str
    words: str
    sequences: int
    outcome: ServingOutcome
    model_words: tuple[str, ...]


@displayed_by("treadle.render.training:phase_rows")
@dataclass(frozen=True)
class ServeResult(Tabular):
    """Phases with a row for each fabric, schedule and batch.

    Parameters
    ----------
    model : TrainingModel
    mesh : Mesh
    phase : ServingPhase
    rows : tuple of ServeRow
    notes : tuple of str
        Assumptions.
    seconds : float
        CPU time.

    Examples
    --------
    >>> from treadle import planning
    >>> box = {"mesh": "tp=8", "gpu": "h100", "schedules": "bound"}
    >>> found = planning.serve("gpt2-medium", "dgx_h100:1", phase="decode", **box)
    >>> [(row.sequences, f"{row.outcome.seconds * 1e3:.3f} ms") for row in found.rows]
    [(1, '0.089 ms'), (8, '0.124 ms'), (64, '0.405 ms')]
    """

    model: TrainingModel
    mesh: Mesh
    phase: ServingPhase
    rows: tuple[ServeRow, ...]
    notes: tuple[str, ...]
    seconds: float

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each fabric, schedule and batch."""
        return [
            plain_row(
                {
                    "fabric": row.fabric,
                    "schedule": row.schedule,
                    "batch": row.sequences,
                    "time_s": row.outcome.seconds,
                    "exposed_s": sum(row.outcome.device_time.exposed_s.values()),
                    "tokens_per_s": row.outcome.tokens_per_s,
                    "memory_bytes": row.outcome.memory.total_bytes,
                }
            )
            for row in self.rows
        ]
