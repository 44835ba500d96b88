"""Exact chunked synthesis with CP-SAT (extra ``exact``): schedules for given steps, rounds and chunks."""

from treadle.synthesis.exact.obstruction import Obstruction
from treadle.synthesis.exact.pareto import Excluded, ParetoFront, ParetoPoint, pareto_front
from treadle.synthesis.exact.problem import FreeRounds
from treadle.synthesis.exact.process import SolverProcess
from treadle.synthesis.exact.synthesise import (
    ExactResult,
    ExactStatus,
    ExactSteps,
    exact_steps,
    synthesise_exact,
)

__all__ = [
    "ExactResult",
    "ExactStatus",
    "ExactSteps",
    "Excluded",
    "FreeRounds",
    "Obstruction",
    "ParetoFront",
    "ParetoPoint",
    "SolverProcess",
    "exact_steps",
    "pareto_front",
    "synthesise_exact",
]
