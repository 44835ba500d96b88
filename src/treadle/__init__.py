"""Treadle: provably optimal, verified collective-communication schedules for any network fabric."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from treadle._version import __version__

if TYPE_CHECKING:
    from treadle.planning import bound, compare, lower, repair, run, solve, verify
    from treadle.schedules.collective import Collective, CollectiveKind
    from treadle.schedules.files import load_plan, save_plan
    from treadle.topologies import Topology, TopologyBuilder, parse

__all__ = [
    "Collective",
    "CollectiveKind",
    "Topology",
    "TopologyBuilder",
    "__version__",
    "bound",
    "compare",
    "load_plan",
    "lower",
    "parse",
    "repair",
    "run",
    "save_plan",
    "solve",
    "verify",
]

_HOMES = ("treadle.topologies", "treadle.schedules.collective", "treadle.schedules.files", "treadle.planning")


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: reading a plan need not load the solvers."""
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(home)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'treadle' has no attribute {name!r}")
