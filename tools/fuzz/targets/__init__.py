"""What is searched for faults: where cases come from, and what each must fulfil."""

from __future__ import annotations

from .plan_files import PLAN_FILES
from .schedules import ALLTOALLS, ROUND_TRIPS, SPANNING, WIDE
from .target import Target
from .texts import READERS, TEXTS
from .words import COMMANDS, EXPRESSIONS

__all__ = ["TARGETS", "Target"]

TARGETS = {
    target.name: target
    for target in (SPANNING, ALLTOALLS, ROUND_TRIPS, WIDE, PLAN_FILES, TEXTS, READERS, EXPRESSIONS, COMMANDS)
}
"""By name, in the order in which workers take them."""
