"""Files of models and plans from values of JSON, as tests change them."""

from __future__ import annotations

import json

from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import ComputeGraph
from treadle.parallelism.graph.graph_files import GraphTable
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.plan_json import parse_plan_json
from treadle.typed_files import read_value


def plan_from_json(data: object, *, source: str = "") -> ParallelPlan:
    return parse_plan_json(json.dumps(data), source=source)


def from_json(data: object, *, source: str = "") -> ComputeGraph:
    table = read_value(data, GraphTable, source=source)
    try:
        return table.value()
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
