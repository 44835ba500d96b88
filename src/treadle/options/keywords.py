"""Keyword arguments of the Python API: a TypedDict for each name, made from a table when it is first used.

Type checkers read keywords.pyi instead, which ``python -m tools.keywords`` writes.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from treadle.options.rows import Options

TABLES: Mapping[str, str] = {
    "ProblemOptions": "shared:ProblemKeywords",
    "BoundOptions": "solving:BoundKeywords",
    "ComparisonOptions": "solving:CostedKeywords",
    "SizeSetOptions": "solving:CostedKeywords",
    "OptionKeywords": "solving:SchedulerKeywords",
    "SolveKeywords": "solving:SolveKeywords",
    "ForestKeywords": "solving:Trees",
    "TextKeywords": "checking:RuntimeFileOptions",
    "ImportKeywords": "shared:Imports",
    "DesignKeywords": "designing:Finder",
    "TrainKeywords": "training:Step",
    "ParallelizeKeywords": "parallelising:Sharding",
}
HOMES: Mapping[str, str] = {
    "Mapping": "collections.abc",
    "Sequence": "collections.abc",
    "Path": "pathlib",
    "Demands": "treadle.schedules.alltoall.demands",
    "Mesh": "treadle.schedules.mesh",
    "Form": "treadle.synthesis.scheduler_options",
    "SizeRequest": "treadle.synthesis.scheduler_options",
    "LinkSpeeds": "treadle.topologies.readers.imported",
    "PcieDetail": "treadle.topologies.readers.imported",
    "AlltoallRates": "treadle.finder.designing.design_flow",
    "SearchLimit": "treadle.finder.searches.fresh",
    "CostModelLike": "treadle.simulation.cost_models",
    "AxesLike": "treadle.inputs.meshes",
    "NetworkEfficiency": "treadle.training.prices.measured_network",
    "SizesLike": "treadle.inputs.fabrics_and_plans",
}
"""Modules of the types that annotations name; loaded when a call is checked, since they import tables too."""


class _Types(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        if name not in HOMES:  # a built-in type
            raise KeyError(name)
        self[name] = getattr(import_module(HOMES[name]), name)
        return self[name]


_TYPES = _Types()


def annotations_of(name: str) -> dict[str, str]:
    """Return the annotation of each keyword."""
    return {row.name: row.takes or row.type for row in _table(name).rows.values()}


def types_of(name: str) -> dict[str, Any]:
    """Return the type of each keyword."""
    return {key: eval(text, {}, _TYPES) for key, text in annotations_of(name).items()}


def _table(name: str) -> type[Options]:
    module, _, table = TABLES[name].partition(":")
    found: type[Options] = getattr(import_module(f"treadle.options.{module}"), table)
    return found


def __getattr__(name: str) -> Any:
    if name not in TABLES:
        raise AttributeError(name)
    found = typing.TypedDict(name, annotations_of(name), total=False)  # type: ignore[operator]
    found.__doc__, found.__module__ = _table(name).__doc__, __name__
    found.types = lambda: types_of(name)  # for `checked`
    globals()[name] = found
    return found
