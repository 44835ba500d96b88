"""What a plan says of collectives, parameters and operators, as tables of a page."""

from __future__ import annotations

from treadle.parallelism.evaluation.evaluation import Evaluation
from treadle.parallelism.explaining.state_words import letters_of, spelled_state
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.spelling import counted

_MOST_COLLECTIVES, _MOST_PARAMETERS, _MOST_OPERATORS = 200, 400, 600


def collectives(found: Evaluation) -> dict[str, object]:
    """Of one micro-batch, those that take longest first."""
    by_time = sorted(found.movements, key=lambda one: -one[0] * one[1].seconds)
    shown = by_time[:_MOST_COLLECTIVES]
    return {
        "panel": "table",
        "id": "collectives",
        "title": "Collectives",
        "note": "hidden or not, those that take longest first",
        "columns": [
            ["part", "text"],
            ["tensor", "text"],
            ["pass", "text"],
            ["what", "text"],
            ["for", "text"],
            ["times", "n"],
            ["bytes each", "B"],
            ["time", "s"],
        ],
        "rows": [
            [
                one.part,
                one.tensor,
                one.phase.value,
                f"{one.collective.kind.value} along {','.join(one.collective.axes)}",
                one.why,
                runs * one.count,
                one.collective.size_bytes,
                runs * one.seconds,
            ]
            for runs, one in shown
        ],
        "leftOut": _left_out(len(shown), len(by_time), "collective"),
    }


def parameters(plan: ParallelPlan, model: ModelGraph) -> dict[str, object]:
    """In which state each parameter is stored."""
    rows = []
    for part in model.parts:
        for number, one in enumerate(plan.parts[part.name]):
            for path, state in one.parameters.items():
                letters = letters_of(part, part.parameters[path])
                rows.append([_named(part, plan, number), path, spelled_state(letters, state)])
    return {
        "panel": "table",
        "id": "parameters",
        "title": "Parameters",
        "note": "by letter the axes that cut it",
        "columns": [["part", "text"], ["parameter", "text"], ["stored", "text"]],
        "rows": rows[:_MOST_PARAMETERS],
        "leftOut": _left_out(_MOST_PARAMETERS, len(rows), "parameter"),
    }


def operators(plan: ParallelPlan, model: ModelGraph) -> dict[str, object]:
    """What each operator takes and makes, and how often."""
    rows = []
    for part in model.parts:
        for number, one in enumerate(plan.parts[part.name]):
            for name, operator in one.operators.items():
                chunk = operator.chunk
                rows.append(
                    [
                        _named(part, plan, number),
                        name,
                        "; ".join(map(str, operator.inputs)),
                        "; ".join(map(str, operator.outputs)),
                        operator.parts,
                        "" if operator.keep is None else operator.keep.value,
                        "" if chunk is None else f"{chunk.n_chunks} along {chunk.letter}",
                    ]
                )
    return {
        "panel": "table",
        "id": "operators",
        "title": "Operators",
        "note": "dimensions with | between, by the axes that cut them",
        "columns": [
            ["part", "text"],
            ["operator", "text"],
            ["takes", "text"],
            ["makes", "text"],
            ["shares of the work", "n"],
            ["for the backward pass", "text"],
            ["chunks", "text"],
        ],
        "rows": rows[:_MOST_OPERATORS],
        "leftOut": _left_out(_MOST_OPERATORS, len(rows), "operator"),
    }


def _named(part: ModelPart, plan: ParallelPlan, number: int) -> str:
    return part.name if len(plan.parts[part.name]) == 1 else f"{part.name} ({number + 1})"


def _left_out(shown: int, found: int, noun: str) -> str:
    return f"{shown} of {counted(found, noun)} are shown." if shown < found else ""
