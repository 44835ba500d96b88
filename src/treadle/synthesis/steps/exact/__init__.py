"""Exact chunked synthesis with CP-SAT (extra ``exact``): schedules for given steps, rounds and chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.lazy import load_lazily

if TYPE_CHECKING:
    from treadle.synthesis.steps.exact.exact_problem import FreeRounds as FreeRounds
    from treadle.synthesis.steps.exact.obstruction import Obstruction as Obstruction
    from treadle.synthesis.steps.exact.pareto import Excluded as Excluded
    from treadle.synthesis.steps.exact.pareto import ParetoFront as ParetoFront
    from treadle.synthesis.steps.exact.pareto import ParetoPoint as ParetoPoint
    from treadle.synthesis.steps.exact.pareto import pareto_front as pareto_front
    from treadle.synthesis.steps.exact.process import SolverProcess as SolverProcess
    from treadle.synthesis.steps.exact.synthesise import ExactResult as ExactResult
    from treadle.synthesis.steps.exact.synthesise import ExactStatus as ExactStatus
    from treadle.synthesis.steps.exact.synthesise import ExactSteps as ExactSteps
    from treadle.synthesis.steps.exact.synthesise import exact_steps as exact_steps
    from treadle.synthesis.steps.exact.synthesise import synthesise_exact as synthesise_exact
else:
    __all__, __getattr__, __dir__ = load_lazily(__name__, __file__)
