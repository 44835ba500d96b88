"""The kinds of schedules that plans hold."""

from __future__ import annotations

from treadle.schedules.exchange import ExchangeSchedule
from treadle.schedules.forest import ForestSchedule
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.steps import StepSchedule
from treadle.schedules.timed_routes import TimedRoutes

Schedule = ForestSchedule | StepSchedule | ExchangeSchedule | RouteSchedule | TimedRoutes
"""All have `kind` and `n_ranks`; `isinstance` tells them apart where a stage needs more."""
